"""Expressions as C text, with NumPy's meaning: its type promotion, division and remainder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf, isnan
from typing import Any, ClassVar, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen import records
from polyloop.codegen.context import Context
from polyloop.codegen.linear import form_order, join_terms
from polyloop.codegen.rows import rewrite
from polyloop.codegen.scope import ATOM, PRODUCT, SUM, UNARY, Scope, Text
from polyloop.codegen.vectors import OR, TERNARY, Vectors
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Lookup, Record, TypeCast, array_name, element_of, field_path
from polyloop.expr.records import field_dtype, is_record, is_vector
from polyloop.expr.typing import Weak, infer_type, promote, settle
from polyloop.poly.affine import affine_of

__all__ = ["Expressions"]

AND, BITOR, BITXOR, BITAND, EQUAL, RELATION, SHIFT = range(3, 10)
_BIT_LEVELS: Final = {p.BitwiseOr: ("|", BITOR), p.BitwiseXor: ("^", BITXOR), p.BitwiseAnd: ("&", BITAND)}
_MAX_FACTORS: Final = 4
_INT32: Final = np.dtype("int32")

DType = np.dtype[np.generic]



class Expressions(Vectors):
    """Renders expressions in one :class:`Scope`.

    ``reads`` collects the temporaries that the rendered text reads; the caller empties it.  ``used_context`` becomes
    true where the text depends on what is known; the caller sets it back.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.reads: set[str] = set()
        self.used_context = False
        self._types: dict[int, tuple[Expression, DType | Weak]] = {}

    # {{{ entry points

    def value(self, expr: Expression, context: Context, want: DType | None = None) -> Text:
        """Return *expr* as C text; *want* is the type for constants that adapt."""
        self.context = context
        return self._render(expr, want)

    def target(self, lhs: Expression, context: Context) -> tuple[str, str, DType]:
        """Return text, name and type of the left-hand side of an assignment."""
        self.context = context
        name, element, path = array_name(lhs), element_of(lhs), field_path(lhs)
        text = self._reference(name, () if isinstance(element, p.Variable) else element.index_tuple)
        dtype = self.scope.dtypes.get(name)
        assert dtype is not None, f"'{name}' has no type"
        for field in path:
            dtype = field_dtype(dtype, field)
        if path and name in self.scope.storage:
            self.reads.add(name)
        return ".".join((text, *path)), name, dtype

    def index(self, expr: Expression, context: Context) -> Text:
        """Return an integer expression with its linear part in natural order."""
        self.context = context
        return self._index(expr)

    def combine(self, operation: str, left: Text, left_type: DType, expr: Expression) -> Text:
        """Return the maximum or minimum of a rendered text and an expression."""
        if is_vector(left_type):
            return self._vector_extreme(operation, left_type, [left, self._as_vector(expr, left_type)])
        dtype = settle(promote(left_type, self._type(expr)))
        if left_type != dtype and dtype.kind != "f":
            left = self._cast(dtype, left)
        return self._extreme(operation, dtype, left.text, self._exact(expr, dtype).text)

    def converted(self, expr: Expression, dtype: DType, context: Context) -> Text:
        """Return *expr* as a value of *dtype*."""
        self.context = context
        return self._exact(expr, dtype)

    def extreme(self, operation: str, dtype: DType, left: Text, right: Text) -> Text:
        """Return the minimum or maximum of two rendered values of *dtype*."""
        return self._extreme(operation, dtype, left.text, right.text)

    # }}}
    # {{{ types

    def _type(self, expr: Expression) -> DType | Weak:
        found = self._types.get(id(expr))
        if found is None:
            kind = infer_type(expr, self.scope.dtypes.get)
            assert kind is not None, f"'{expr}' has no type: types must be inferred before code generation"
            found = self._types[id(expr)] = (expr, kind)
        return found[1]

    def _is_weak(self, expr: Expression) -> bool:
        """Return whether the type of *expr* adapts to what it is combined with."""
        return isinstance(self._type(expr), Weak)

    def _common(self, parts: Sequence[Expression], want: DType | None) -> DType | None:
        """Return the type that *parts* are computed in, None if nothing says."""
        kind = self._type(parts[0])
        for part in parts[1:]:
            kind = promote(kind, self._type(part))
        return want if isinstance(kind, Weak) else kind

    def _operands(self, parts: Sequence[Expression], dtype: DType | None) -> list[Text]:
        """Render *parts*, with a cast where C would not arrive at *dtype* by itself."""
        texts = [self._render(part, dtype) for part in parts]
        if dtype is None or dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize < 4):
            return texts
        types = [self._type(part) for part in parts]
        strong = [position for position, kind in enumerate(types) if not isinstance(kind, Weak)]
        if strong and not any(self._becomes(types[position], dtype) for position in strong):
            texts[strong[0]] = self._cast(dtype, texts[strong[0]])
        return texts

    @staticmethod
    def _becomes(kind: DType | Weak, dtype: DType) -> bool:
        """Return whether C computes with *kind* in *dtype* without a cast."""
        assert not isinstance(kind, Weak)
        return kind == dtype or (dtype == _INT32 and kind.kind in "iub" and kind.itemsize < 4)

    def _cast(self, dtype: DType, text: Text) -> Text:
        return Text(f"({self.scope.ctype(dtype)}){text.within(UNARY)}", UNARY)

    def _exact(self, expr: Expression, dtype: DType) -> Text:
        """Render an argument of an overloaded function of integers, which must have exactly type *dtype*."""
        text = self._render(expr, dtype)
        if dtype.kind == "f" or self._type(expr) == dtype:
            return text
        return self._cast(dtype, text) if dtype.itemsize == 8 or not self._is_weak(expr) else text

    def _narrowed(self, dtype: DType | None, text: Text) -> Text:
        """Return what C computes in ``int`` as the small type that NumPy gives it."""
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize < 4:
            return self._cast(dtype, text)
        return text

    # }}}
    # {{{ leaves

    def _render(self, expr: Expression, want: DType | None) -> Text:
        if type(expr) in self.VECTOR_METHODS and is_vector(kind := self._type(expr)):
            return self.VECTOR_METHODS[type(expr)](self, expr, kind)
        method = self._METHODS.get(type(expr))
        if method is not None:
            return method(self, expr, want)
        if isinstance(expr, np.generic):
            return self._constant(expr.item(), expr.dtype)
        if isinstance(expr, int | float):
            return self._constant(expr, want)
        raise self.scope.error(
            Diagnostic(
                "unsupported-expression",
                f"cannot express '{expr}' ({type(expr).__name__}) in target '{self.scope.language.name}'",
                hints=("rewrite the instruction without it",),
            )
        )

    def _constant(self, value: object, want: DType | None) -> Text:
        if isinstance(value, bool) or (want is not None and want.kind == "b" and isinstance(value, int)):
            return Text("true" if value else "false")
        if isinstance(value, int) and (want is None or want.kind != "f"):
            return self._integer(value, want)
        assert isinstance(value, int | float), f"constant {value!r} is no real number"
        return self._floating(float(value), "float32" if want is not None and want.name == "float32" else "float64")

    def _integer(self, value: int, want: DType | None) -> Text:
        suffix = "u" if want is not None and want.kind == "u" and want.itemsize >= 4 else ""
        if not -(2**31) <= value < (2**32 if suffix else 2**31):
            suffix = "ull" if suffix or value >= 2**63 else "ll"
        if value in (-(2**31), -(2**63)):
            return Text(f"({value + 1}{suffix} - 1)")
        return Text(f"{value}{suffix}", ATOM if value >= 0 else UNARY)

    def _floating(self, value: float, name: str) -> Text:
        if isnan(value):
            return Text(self.scope.language.not_a_number[name])
        if isinf(value):
            infinity = self.scope.language.infinity[name]
            return Text(infinity) if value > 0 else Text(f"-{infinity}", UNARY)
        text = str(np.float32(value)) if name == "float32" else repr(value)
        if text.lstrip("-") == "inf":
            return self._floating(float(text), name)
        if "." not in text and "e" not in text:
            text += ".0"
        return Text(f"{text}f" if name == "float32" else text, UNARY if text.startswith("-") else ATOM)

    def _variable(self, expr: p.Variable, want: DType | None) -> Text:
        name = expr.name
        scope = self.scope
        if name in scope.storage:
            self.reads.add(name)
        if name in scope.storage or name in scope.arrays:
            return Text(self._reference(name, ()))
        value = scope.variable(name)
        if isinstance(value, int):
            return self._constant(value, None if want is not None and want.kind == "f" else want)
        return Text(value)

    # }}}
    # {{{ arrays

    def _prefix(self, name: str) -> str:
        axes = self.scope.expanded.get(name, ())
        return "".join(f"[{self.scope.variable(axis)}]" for axis in axes)

    def _reference(self, name: str, indices: Sequence[Expression]) -> str:
        """Return the text of an element of an array, or of a scalar temporary."""
        array = self.scope.arrays.get(name)
        if array is None:
            own = self.scope.table_names.get(name, name)
            return own + self._prefix(name) + "".join(f"[{self._index(part).text}]" for part in indices)
        assert array.strides is not None, f"'{name}' has no strides"
        return f"{name}[{self._address(indices, array.strides, array.offset)}]"

    def _subscript(self, expr: p.Subscript, want: DType | None) -> Text:
        assert isinstance(expr.aggregate, p.Variable), f"subscript of '{expr.aggregate}'"
        name = expr.aggregate.name
        if name in self.scope.storage:
            self.reads.add(name)
        return Text(self._reference(name, expr.index_tuple))

    def _address(self, indices: Sequence[Expression], strides: Sequence[Expression], offset: Expression) -> str:
        first = self._index(offset).within(SUM)
        out = "" if first == "0" else first
        for index, stride in zip(indices, strides, strict=bool(indices)):
            text = self._index(index)
            if text.text == "0":
                continue
            if type(stride) is not int or stride != 1:
                text = Text(f"{text.within(PRODUCT)} * {self._index(stride).within(PRODUCT)}", PRODUCT)
            if not out:
                out = text.text
            elif text.text.startswith("-"):
                out += f" - {text.text[1:]}"
            else:
                out += f" + {text.text}"
        return out or "0"

    def _index(self, expr: Expression) -> Text:
        opaque: list[tuple[Expression, int]] = []
        linear: dict[str, int] = {}
        const = self._collect(expr, 1, opaque, linear)
        ordered: list[tuple[Expression, int]] = [
            *((node, c) for node, c in opaque if c),
            *sorted(((name, c) for name, c in linear.items() if c), key=form_order),
        ]
        if any(c > 0 for _, c in ordered):
            ordered.sort(key=lambda term: term[1] < 0)
        return join_terms(ordered, const, self._index_atom)

    def _index_atom(self, atom: Expression) -> Text:
        if isinstance(atom, str):
            return Text(str(self.scope.variable(atom)))
        return self._render(atom, self.scope.index_dtype)

    def _collect(
        self, expr: Expression, factor: int, opaque: list[tuple[Expression, int]], linear: dict[str, int]
    ) -> int:
        """Split *factor* times *expr* into a linear part, other nodes, and the constant that is returned."""
        if isinstance(expr, int | np.integer):
            return factor * int(expr)
        if type(expr) is p.Sum:
            return sum(self._collect(child, factor, opaque, linear) for child in expr.children)
        if type(expr) is p.Variable and expr.name in self.scope.values:
            value = self.scope.values[expr.name]
            if isinstance(value, int):
                return factor * value
            linear[expr.name] = linear.get(expr.name, 0) + factor
            return 0
        if type(expr) is p.Product:
            numbers = [c for c in expr.children if isinstance(c, int | np.integer)]
            others = [c for c in expr.children if not isinstance(c, int | np.integer)]
            if len(others) <= 1:
                for number in numbers:
                    factor *= int(number)
                return self._collect(others[0], factor, opaque, linear) if others else factor
        opaque.append((expr, factor))
        return 0

    # }}}
    # {{{ arithmetic

    def _sum(self, expr: p.Sum, want: DType | None) -> Text:
        dtype = self._common(expr.children, want)
        out = ""
        for text in self._operands(expr.children, dtype):
            if not out:
                out = text.within(SUM)
            elif text.text.startswith("-") and text.level >= PRODUCT:
                out += f" - {text.text[1:]}"
            else:
                out += f" + {text.within(PRODUCT)}"
        return self._narrowed(dtype, Text(out, SUM))

    def _product(self, expr: p.Product, want: DType | None) -> Text:
        dtype = self._common(expr.children, want)
        children = expr.children
        minus = type(children[0]) is int and children[0] == -1 and len(children) > 1
        texts = self._operands(children[1:] if minus else children, dtype)
        out = texts[0].within(UNARY if minus else PRODUCT)
        for text in texts[1:]:
            out += f" * {text.within(UNARY)}"
        if minus:
            return self._narrowed(dtype, Text(f"-{out}" if not out.startswith("-") else f"-({out})", PRODUCT))
        return self._narrowed(dtype, Text(out, PRODUCT if len(texts) > 1 else texts[0].level))

    def _quotient(self, expr: p.Quotient, want: DType | None) -> Text:
        parts = (expr.numerator, expr.denominator)
        dtype = self._common(parts, want)
        if dtype is None or dtype.kind != "f":
            dtype = np.dtype("float64")
        numerator, denominator = self._operands(parts, dtype)
        return Text(f"{numerator.within(PRODUCT)} / {denominator.within(UNARY)}", PRODUCT)

    def _floor_division(self, expr: p.FloorDiv | p.Remainder, want: DType | None) -> Text:
        parts = (expr.numerator, expr.denominator)
        is_division = isinstance(expr, p.FloorDiv)
        dtype = self._common(parts, want) or self.scope.index_dtype
        operation = "floordiv" if is_division else "floormod"
        texts = self._operands(parts, dtype)
        if dtype.kind == "u" or (dtype.kind != "f" and self._is_natural(expr.numerator, expr.denominator)):
            operator = "/" if is_division else "%"
            return Text(f"{texts[0].within(PRODUCT)} {operator} {texts[1].within(UNARY)}", PRODUCT)
        return self.scope.call(operation, dtype, texts[0].text, texts[1].text)

    def _is_natural(self, numerator: Expression, denominator: Expression) -> bool:
        """Return whether C's division gives Python's result."""
        if not isinstance(denominator, int | np.integer) or denominator <= 0:
            return False
        form = affine_of(numerator)
        self.used_context = True
        return form is not None and self.context.implies(rewrite(form, self.scope.divisibility))

    def _power(self, expr: p.Power, want: DType | None) -> Text:
        base, exponent = expr.base, expr.exponent
        dtype = self._common((base, exponent), want) or np.dtype("float64")
        if isinstance(exponent, int) and 1 <= abs(exponent) <= _MAX_FACTORS and (exponent > 0 or dtype.kind == "f"):
            (text,) = self._operands((base,), dtype)
            factors = " * ".join([text.within(UNARY)] * abs(exponent))
            if exponent > 0:
                return self._narrowed(dtype, Text(factors, PRODUCT if exponent > 1 else text.level))
            one = self._constant(1, dtype).text
            return Text(f"{one} / ({factors})", PRODUCT)
        if dtype.kind == "f":
            return self._call_function("pow", dtype, [self._render(base, dtype), self._render(exponent, dtype)])
        if isinstance(exponent, int) and exponent == 0:
            return self._constant(1, dtype)
        texts = [self._render(base, dtype).text, self._render(exponent, dtype).text]
        return self.scope.call("power", dtype, *texts)

    def _min_max(self, expr: p.Min | p.Max, want: DType | None) -> Text:
        operation = "min" if isinstance(expr, p.Min) else "max"
        dtype = self._common(expr.children, want) or self.scope.index_dtype
        texts = [self._exact(child, dtype) for child in expr.children]
        result = texts[0]
        for text in texts[1:]:
            result = self._extreme(operation, dtype, result.text, text.text)
        return result

    def _extreme(self, operation: str, dtype: DType, left: str, right: str) -> Text:
        if dtype.kind == "f":
            return self._call_function("f" + operation, dtype, [Text(left), Text(right)])
        return self.scope.call(operation, dtype, left, right)

    # }}}
    # {{{ calls, casts, choices

    def _call_function(self, name: str, dtype: DType, arguments: Sequence[Text]) -> Text:
        spelling = self.scope.language.functions.get((name, dtype.name))
        if spelling is None:
            raise self.scope.error(
                Diagnostic(
                    "unsupported-function",
                    f"target '{self.scope.language.name}' has no '{name}' for '{dtype.name}'",
                    hints=("cast the arguments to float32 or float64, or write the function out",),
                )
            )
        texts = [argument.text for argument in arguments]
        if "{" in spelling:
            return Text(f"({spelling.format(*texts)})")
        return Text(f"{spelling}({', '.join(texts)})")

    def _call(self, expr: p.Call, want: DType | None) -> Text:
        assert isinstance(expr.function, p.Variable), f"call of '{expr.function}'"
        name = expr.function.name
        dtype = self._common(expr.parameters, want)
        if name in ("min", "max"):
            return self._min_max((p.Min if name == "min" else p.Max)(expr.parameters), want)
        if name == "abs" and dtype is not None and dtype.kind in "ub":
            return self._render(expr.parameters[0], dtype)
        if dtype is None or (dtype.kind != "f" and name != "abs"):
            dtype = np.dtype("float64")
        texts = []
        result = self._type(expr)
        for part in expr.parameters:
            text = self._render(part, dtype)
            texts.append(text if self._type(part) in (Weak.INT, Weak.FLOAT, dtype) else self._cast(dtype, text))
        if is_record(result):
            kind = dtype
            return records.results_function(
                self.scope, name, result, lambda field, parts: self._call_function(field, kind, parts), texts[0]
            )
        return self._call_function(name, dtype, texts)

    def _type_cast(self, expr: TypeCast, want: DType | None) -> Text:
        dtype = np.dtype(expr.dtype)
        if type(expr.child) is int or (type(expr.child) is float and dtype.kind == "f"):
            return self._constant(expr.child, dtype)
        return self._cast(dtype, self._render(expr.child, None))

    def _if(self, expr: p.If, want: DType | None) -> Text:
        dtype = self._common((expr.then, expr.else_), want)
        then, orelse = self._operands((expr.then, expr.else_), dtype)
        condition = self._render(expr.condition, None)
        text = f"{condition.within(OR)} ? {then.within(OR)} : {orelse.within(TERNARY)}"
        return Text(text, TERNARY)

    def _comparison(self, expr: p.Comparison, want: DType | None) -> Text:
        parts = (expr.left, expr.right)
        left, right = self._operands(parts, self._common(parts, None))
        operator = str(getattr(expr.operator, "value", expr.operator))
        return Text(f"{left.within(SHIFT)} {operator} {right.within(SHIFT)}", EQUAL if "=" in operator else RELATION)

    def _logical(self, expr: p.LogicalAnd | p.LogicalOr, want: DType | None) -> Text:
        is_and = isinstance(expr, p.LogicalAnd)
        texts = [self._render(child, None).within(BITOR) for child in expr.children]
        return Text((" && " if is_and else " || ").join(texts), AND if is_and else OR)

    def _logical_not(self, expr: p.LogicalNot, want: DType | None) -> Text:
        return Text(f"!{self._render(expr.child, None).within(UNARY)}", UNARY)

    def _bitwise(self, expr: p.BitwiseOr | p.BitwiseXor | p.BitwiseAnd, want: DType | None) -> Text:
        operator, level = _BIT_LEVELS[type(expr)]
        dtype = self._common(expr.children, want)
        texts = [text.within(UNARY) for text in self._operands(expr.children, dtype)]
        return Text(f" {operator} ".join(texts), level)

    def _bitwise_not(self, expr: p.BitwiseNot, want: DType | None) -> Text:
        dtype = self._common((expr.child,), want)
        text = self._render(expr.child, want).within(UNARY)
        if dtype is not None and dtype.kind == "b":
            return Text(f"!{text}", UNARY)
        return self._narrowed(dtype, Text(f"~{text}", UNARY))

    def _shift(self, expr: p.LeftShift | p.RightShift, want: DType | None) -> Text:
        dtype = self._common((expr.shiftee, expr.shift), want)
        left, right = self._operands((expr.shiftee, expr.shift), dtype)
        operator = "<<" if isinstance(expr, p.LeftShift) else ">>"
        return self._narrowed(dtype, Text(f"{left.within(UNARY)} {operator} {right.within(UNARY)}", SHIFT))

    # }}}

    _METHODS: ClassVar[Mapping[type, Callable[[Expressions, Any, DType | None], Text]]] = {
        p.Variable: _variable,
        p.Subscript: _subscript,
        p.Sum: _sum,
        p.Product: _product,
        p.Quotient: _quotient,
        p.FloorDiv: _floor_division,
        p.Remainder: _floor_division,
        p.Power: _power,
        p.Min: _min_max,
        p.Max: _min_max,
        p.Call: _call,
        TypeCast: _type_cast,
        Lookup: Vectors.lookup,
        Record: Vectors.record,
        p.If: _if,
        p.Comparison: _comparison,
        p.LogicalAnd: _logical,
        p.LogicalOr: _logical,
        p.LogicalNot: _logical_not,
        p.BitwiseAnd: _bitwise,
        p.BitwiseOr: _bitwise,
        p.BitwiseXor: _bitwise,
        p.BitwiseNot: _bitwise_not,
        p.LeftShift: _shift,
        p.RightShift: _shift,
    }
