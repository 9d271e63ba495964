"""Expressions in C, with the semantics of ``expr/typing.py``: promotion, division and remainder as in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions import records
from polyloop.codegen.expressions.addresses import Addresses
from polyloop.codegen.expressions.conversions import cast, converted, narrowed, widened
from polyloop.codegen.expressions.fold_conditions import decided
from polyloop.codegen.expressions.linear import is_index_arithmetic
from polyloop.codegen.expressions.literals import literal, typed_literal
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import rewrite
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.chains import CHAINS, Chain, operands, paired
from polyloop.expr.constants import constant_of, number_of
from polyloop.expr.dtypes import (
    DType,
    as_real,
    computed,
    is_bool,
    is_complex,
    is_floating,
    is_half,
    is_inexact,
    is_integer,
    is_signed,
    is_unsigned,
)
from polyloop.expr.foreign import ForeignName, choose
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.nodes import (
    Expression,
    Lookup,
    Record,
    TypeCast,
    array_name,
    element_of,
    field_path,
    opposite,
    sign_first,
    subtrahend,
)
from polyloop.expr.operator_types import BITWISE
from polyloop.expr.promotion import Weak, adapted, argument_type, common_type, constant_type
from polyloop.expr.records import field_dtype, is_record, is_vector
from polyloop.poly.affine import Affine, affine_of

__all__ = ["Expressions"]

_BIT_OPERATORS: Final = {p.BitwiseOr: c.BIT_OR, p.BitwiseXor: c.BIT_XOR, p.BitwiseAnd: c.BIT_AND}
_MAX_FACTORS: Final = 4
_POWERS: Final = {2: "square", 3: "cube", 4: "fourth"}
_INT32: Final[DType] = np.dtype("int32")
_UINT32: Final[DType] = np.dtype("uint32")
_UINT64: Final[DType] = np.dtype("uint64")
_WORD: Final = 4
_UINT16: Final[DType] = np.dtype("uint16")


class Expressions(Addresses):
    """Printer of expressions in one :class:`Scope`.

    ``used_context`` becomes true if the result depends on the context; the caller resets it.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.used_context = False

    # {{{ entry points

    def value(self, expr: Expression, context: Context, want: DType | None = None) -> Code:
        """Return *expr* in C; *want* is the type for constants that adapt."""
        self.context = context
        return self._render(expr, None if want is None else computed(want))

    def stored(self, expr: Expression, context: Context, dtype: DType) -> Code:
        """Return *expr* converted for an assignment to a variable of *dtype*."""
        self.context = context
        if is_record(dtype):
            return super().stored(expr, context, dtype)
        if is_half(dtype) and isinstance(expr, p.Variable | p.Subscript) and self._type(expr) == dtype:
            return self._leaf(expr)
        if type(expr) is int and is_integer(dtype):
            return literal(self.scope, np.asarray(expr).astype(dtype).item(), dtype)
        text = self._without_cast(self._render(expr, computed(dtype)), dtype)
        return converted(self.scope, text, self._computed(expr, dtype), dtype)

    def target(self, lhs: Expression, context: Context) -> tuple[Code, str, DType]:
        """Return code, name and type of the left-hand side of an assignment."""
        self.context = context
        name, element, path = array_name(lhs), element_of(lhs), field_path(lhs)
        indices = () if isinstance(element, p.Variable) else element.index_tuple
        code = self.made or self._place(name, indices)
        dtype = self.scope.dtypes.get(name)
        assert dtype is not None, f"'{name}' has no type"
        for field in path:
            dtype = field_dtype(dtype, field)
            code = c.Member(code, self.scope.definitions.spelling_of.field(field))
        return code, name, dtype

    def element(self, expr: p.Variable | p.Subscript, context: Context) -> Code:
        """Return a variable or an element as an lvalue, without conversion."""
        self.context = context
        return self._leaf(expr)

    def index(self, expr: Expression, context: Context) -> Code:
        """Return an integer expression with its linear part in natural order."""
        self.context = context
        return self._index(expr)

    def combine(self, operation: str, left: Code, left_type: DType, expr: Expression) -> Code:
        """Return the maximum or minimum of a printed value and an expression."""
        if is_vector(left_type):
            return self._vector_extreme(operation, left_type, [left, self._as_vector(expr, left_type)])
        dtype = computed(adapted(common_type((left_type, self._type(expr))), None))
        if left_type != dtype and not is_floating(dtype):
            left = cast(self.scope, dtype, left)
        return self._extreme(operation, dtype, left, self._exact(expr, dtype))

    def converted(self, expr: Expression, dtype: DType, context: Context) -> Code:
        """Return *expr* as a value of *dtype*."""
        self.context = context
        return self._exact(expr, dtype)

    def loaded(self, text: Code, dtype: DType) -> Code:
        """Return a printed element of *dtype* as a value for arithmetic: 16-bit floats are widened."""
        return widened(self.scope, dtype, text) if is_half(dtype) else text

    def extreme(self, operation: str, dtype: DType, left: Code, right: Code) -> Code:
        """Return the minimum or maximum of two printed values of *dtype*."""
        return self._extreme(operation, dtype, left, right)

    # }}}
    # {{{ leaves

    def _render(self, expr: Expression, want: DType | None) -> Code:
        if type(expr) in self.VECTOR_METHODS and is_vector(kind := self._type(expr)):
            return self.VECTOR_METHODS[type(expr)](self, expr, kind)
        if self.indexing and (named := self._with_named(expr)) is not expr:
            return self._index(named)
        if type(expr) is not p.Variable and (own := self._index_dtype(expr, want)) is not None:
            return self._index_value(expr, own, want)
        method = self._METHODS.get(type(expr))
        if method is not None:
            value = constant_of(expr)
            if value is not None:
                return self._constant(expr, value, want)
            if want is not None and is_inexact(want) and type(expr) in BITWISE and isinstance(self._type(expr), Weak):
                return cast(self.scope, as_real(want), method(self, expr, None))
            return method(self, expr, want)
        if isinstance(expr, np.generic):
            return typed_literal(self.scope, expr.item(), computed(expr.dtype))
        if isinstance(expr, int | float | complex):
            if want is not None and is_unsigned(want) and type(expr) is int and expr < 0:  # it is subtracted
                return literal(self.scope, expr, want)
            return literal(self.scope, expr, self._computed(expr, want))
        raise self.scope.error(
            Diagnostic(
                "unsupported-expression",
                f"cannot express '{expr}' ({type(expr).__name__}) in target '{self.scope.language.name}'",
                hints=("rewrite the instruction without it",),
            )
        )

    def _constant(self, expr: Expression, value: int, want: DType | None) -> Code:
        """Return an expression of constants as a literal of its *value*; in an unsigned type, modulo its range."""
        dtype = computed(adapted(constant_type(value), want))
        if type(expr) is p.BitwiseNot and value < 0 and is_integer(dtype) and dtype.itemsize >= 4:
            write = typed_literal if is_unsigned(dtype) else literal
            return c.Unary(c.COMPLEMENT, write(self.scope, ~value, dtype))
        if is_unsigned(dtype):
            value %= 1 << (8 * dtype.itemsize)
        return typed_literal(self.scope, value, dtype)

    def _leaf(self, expr: p.Variable | p.Subscript) -> Code:
        """Return a variable or an element as it is stored, or the variable that holds it."""
        name = array_name(expr)
        return self._reference(name, () if isinstance(expr, p.Variable) else expr.index_tuple)

    def _variable(self, expr: p.Variable, want: DType | None) -> Code:
        name = expr.name
        scope = self.scope
        if name in scope.storage or name in scope.arrays:
            return self._widened(expr, self._leaf(expr))
        value = scope.variable(name)
        if isinstance(value, int):
            return literal(scope, value, self._computed(value, None if want is None or is_inexact(want) else want))
        dtype = self._type_of(name)
        if dtype is None or dtype == scope.dtypes.get(name) or self.exact is not None or self._is_index_name(name):
            return c.Name(value)
        return cast(scope, dtype, c.Name(value))

    def lookup(self, expr: Lookup, want: DType | None) -> Code:
        """Return a field of a record."""
        return self._widened(expr, super().lookup(expr, want))

    def _widened(self, expr: Expression, text: Code) -> Code:
        dtype = self._type(expr)
        return text if isinstance(dtype, Weak) or not is_half(dtype) else widened(self.scope, dtype, text)

    def _subscript(self, expr: p.Subscript, want: DType | None) -> Code:
        assert isinstance(expr.aggregate, p.Variable), f"subscript of '{expr.aggregate}'"
        text = self._leaf(expr)
        if self.scope.is_read_once(expr.aggregate.name) and (expr.aggregate.name, expr.index_tuple) not in self.held:
            text = c.Apply(self.scope.language.load_once, (c.Unary(c.ADDRESS, text),))
        return self._widened(expr, text)

    # }}}
    # {{{ arithmetic

    def _chain(self, expr: Chain, want: DType | None) -> Code:
        """Return a chain of operations, each in the type of its own operands; index arithmetic is exact."""
        if len(expr.children) > 2 and not self.indexing and self.exact is None:
            expr = paired(expr, [self._type(part) for part in operands(expr)])
        return self._CHAINS[type(expr)](self, expr, want)

    def _sum(self, expr: p.Sum, want: DType | None) -> Code:
        dtype = self._computed(expr, want)
        taken = [None, *(self._subtracted(part, dtype) for part in expr.children[1:])]
        parts = [child if part is None else part for child, part in zip(expr.children, taken, strict=True)]
        wraps = self._wraps(dtype)
        chain = self.scope.chain()
        texts = self._wrapping_operands(parts, dtype) if wraps else self._operands(parts, dtype)
        terms: list[tuple[c.Operator, Code]] = []
        for part, text, difference in zip(parts, texts, taken, strict=True):
            opposite = None
            if terms and difference is None and self._is_signed(part) and self._has_sign_in(part, dtype):
                opposite = c.without_minus(text)
            operator = c.PLUS if opposite is None and difference is None else c.MINUS
            chain.add(operator.symbol, self._seen(part, dtype))
            terms.append((operator, text if opposite is None else opposite))
        (_, first), *rest = terms
        out = c.Binary(first, tuple(rest)) if rest else first
        return self._wrapped(dtype, out) if wraps else self._narrowed(dtype, out)

    def _subtracted(self, part: Expression, dtype: DType) -> Expression | None:
        """Return the subtrahend of a term of a sum in *dtype*, None if the term is to be added."""
        taken = subtrahend(part)
        if taken is not None or (own := opposite(part)) is None:
            return taken
        alike = self._has_sign_in(part, dtype) and self._has_sign_in(part.children[0], self._computed(part, None))
        return own if alike else None

    def _has_sign_in(self, part: Expression, dtype: DType) -> bool:
        """Return True if negation of *part* in its own type and in *dtype* agree; only integers wrap."""
        kind = self._type(part)
        return isinstance(kind, Weak) or not is_integer(kind) or self._in_index(kind) == dtype or self._is_number(part)

    def _is_number(self, part: Expression) -> bool:
        return self.indexing or self.exact is not None or self._is_index_value(part)

    def _is_signed(self, expr: Expression) -> bool:
        """Return True if a leading minus in the text negates the whole expression, unlike that of ``-u % m``."""
        if type(expr) is p.Product:
            return self._is_signed(expr.children[0])
        if not isinstance(expr, p.ExpressionNode) or constant_of(expr) is not None:
            return True
        if type(expr) is p.Quotient:
            dtype = self._type(expr.numerator)
            return not isinstance(dtype, Weak) and is_inexact(dtype) and self._is_signed(expr.numerator)
        return False

    def _product(self, expr: p.Product, want: DType | None) -> Code:
        dtype = self._common(expr.children, want)
        children = sign_first(expr)
        minus = type(children[0]) is int and children[0] == -1 and len(children) > 1
        factors = children[1:] if minus else children
        if self._wraps(dtype):
            return self._wrapping_product(factors, dtype, minus=minus)
        texts = self._operands(factors, dtype)
        if is_integer(dtype) and dtype.itemsize < 4 and len(factors) > 1 and (len(factors) > 2 or dtype == _UINT16):
            texts[0] = cast(self.scope, _UINT32, texts[0])  # int would overflow
        chain = self.scope.chain()
        for part in factors:
            chain.add("*", self._seen(part, dtype))
        first = self._seen(factors[0], dtype)
        whole = minus and len(factors) > 1 and first != dtype and is_integer(first)  # -x would wrap by itself
        if minus:
            self.scope.operator("-", None, chain.dtype)
        return self._narrowed(dtype, _product(texts, minus=minus, whole=whole))

    def _wrapping_product(self, factors: Sequence[Expression], dtype: DType, *, minus: bool = False) -> Code:
        texts = self._wrapping_operands(factors, dtype)
        return self._wrapped(dtype, _product(texts, minus=minus, one=c.NEGATIVE))

    def _quotient(self, expr: p.Quotient, want: DType | None) -> Code:
        parts = (expr.numerator, expr.denominator)
        dtype = self._computed(expr, want)
        if self.scope.fast and ("divide", dtype.name) in self.scope.language.fast_functions:
            return self._call_function("divide", dtype, [self._exact(part, dtype) for part in parts])
        numerator, denominator = self._operands(parts, dtype)
        self.scope.operator("/", *(self._seen(part, dtype) for part in parts))
        return c.binary(c.OVER, numerator, denominator)

    def _floor_division(self, expr: p.FloorDiv | p.Remainder, want: DType | None) -> Code:
        parts = (expr.numerator, expr.denominator)
        is_division = isinstance(expr, p.FloorDiv)
        dtype = self._common(parts, want)
        operation = "floordiv" if is_division else "floormod"
        if is_bool(dtype):
            dtype = _INT32
        texts = self._operands(parts, dtype)
        if is_unsigned(dtype) or (is_integer(dtype) and self._is_natural(expr.numerator, expr.denominator)):
            return c.binary(c.OVER if is_division else c.MODULO, *texts)
        if self._wraps(dtype) and not (isinstance(expr.denominator, int) and expr.denominator != -1):
            operation = "divide" if is_division else "modulo"  # there is no opposite of the least number
        return self.scope.call(operation, dtype, *texts)

    def _is_natural(self, numerator: Expression, denominator: Expression) -> bool:
        """Return True if C's division gives Python's result: both operands are known not to be negative."""
        if not isinstance(denominator, int | np.integer) or denominator <= 0:
            return False
        return self._is_known(affine_of(numerator))

    def _is_known(self, form: Affine | None) -> bool:
        """Return True if *form* is known not to be negative."""
        self.used_context = True
        return form is not None and self.context.implies(rewrite(form, self.scope.divisibility))

    def _power(self, expr: p.Power, want: DType | None) -> Code:
        base, exponent = expr.base, expr.exponent
        dtype = self._computed(expr, want)
        number = number_of(exponent)
        if number is not None:
            exponent = number
            if exponent == 0:
                return typed_literal(self.scope, complex(1) if is_complex(dtype) else 1, dtype)
            is_short = abs(exponent) <= (_MAX_FACTORS if is_inexact(dtype) or dtype.itemsize >= 4 else 1)
            if is_short and (exponent > 0 or is_inexact(dtype)):
                return self._repeated(base, exponent, dtype)
        if is_inexact(dtype):
            return self._call_function("pow", dtype, [self._exact(base, dtype), self._exact(exponent, dtype)])
        return self.scope.call("power", dtype, self._render(base, dtype), self._render(exponent, dtype))

    def _repeated(self, base: Expression, exponent: int, dtype: DType) -> Code:
        """Return a small power as a product, or its reciprocal."""
        count = abs(exponent)
        is_plain = isinstance(base, p.Variable | p.Subscript | int | float | np.generic)
        if self._wraps(dtype) and is_plain:
            return self._wrapping_product([base] * count, dtype)
        text = self._exact(base, dtype)
        self.scope.operator("*", dtype, dtype)
        if count == 1:
            product = text
        elif is_plain:
            product = c.binary(c.TIMES, *[text] * count)
        else:
            product = self.scope.call(_POWERS[count], dtype, text)
        if exponent > 0:
            return product
        self.scope.operator("/", as_real(dtype), dtype)
        return c.binary(c.OVER, literal(self.scope, 1, as_real(dtype)), product)

    def _min_max(self, expr: p.Min | p.Max, want: DType | None) -> Code:
        operation = "min" if isinstance(expr, p.Min) else "max"
        dtype = self._common(expr.children, want)
        texts = [self._exact(child, dtype) for child in expr.children]
        result = texts[0]
        for text in texts[1:]:
            result = self._extreme(operation, dtype, result, text)
        return result

    def _extreme(self, operation: str, dtype: DType, left: Code, right: Code) -> Code:
        if is_floating(dtype):
            return self._call_function("f" + operation, dtype, [left, right])
        return self.scope.call(operation, dtype, left, right)

    # }}}
    # {{{ calls, casts, choices

    def _call_function(self, name: str, dtype: DType, arguments: Sequence[Code]) -> Code:
        """Return a call of the language's function *name* on arguments of type *dtype*."""
        spelling = self.scope.spelling(name, dtype)
        if "{" not in spelling:
            return c.Apply(spelling, tuple(arguments))
        if spelling.startswith("{0}."):
            return c.Member(arguments[0], spelling.removeprefix("{0}."))
        is_call = spelling.partition("(")[0].isidentifier() and spelling.endswith(")")
        return c.Template(spelling if is_call else f"({spelling})", tuple(arguments))

    def _call(self, expr: p.Call, want: DType | None) -> Code:
        assert isinstance(expr.function, p.Variable), f"call of '{expr.function}'"
        if isinstance(expr.function, ForeignName):
            return self._foreign_call(expr.function, expr.parameters)
        name = expr.function.name
        if name in ("min", "max"):
            return self._min_max((p.Min if name == "min" else p.Max)(expr.parameters), want)
        function = FUNCTIONS[name]
        parts = expr.parameters[:-1] if function.integer_last else expr.parameters
        kind = argument_type(function, common_type([self._type(part) for part in parts]))
        dtype = computed(adapted(kind, want))
        if name in ("abs", "sign", "gcd"):
            dtype = self._in_index(dtype)
        texts = [self._exact(part, dtype) for part in parts]
        if function.integer_last:
            texts.append(self._exact(expr.parameters[-1], _INT32))
        if is_record(result := self._type(expr)):
            return records.results_function(
                self.scope, name, result, lambda field, parts: self._call_function(field, dtype, parts), texts[0]
            )
        if not is_complex(dtype) and name in ("real", "conj"):
            return texts[0]
        if not is_complex(dtype) and name == "imag":
            return typed_literal(self.scope, 0, dtype)
        if (name in ("abs", "sign") and is_bool(dtype)) or (name == "abs" and is_unsigned(dtype)):
            return texts[0]
        if name in ("sign", "gcd") or (name == "abs" and self._wraps(dtype)):
            return self._narrowed(dtype, self.scope.call(name, dtype, *texts))
        return self._narrowed(dtype if name == "abs" else _INT32, self._call_function(name, dtype, texts))

    def _foreign_call(self, function: ForeignName, parts: Sequence[Expression]) -> Code:
        chosen = choose(function, [self._type(part) for part in parts])
        assert chosen is not None, f"'{function.name}' is called with arguments of unknown types"
        given = [self._exact(part, dtype) for part, dtype in zip(parts, chosen.arguments, strict=True)]
        return c.Apply(self.scope.foreign(chosen), tuple(given))

    def _type_cast(self, expr: TypeCast, want: DType | None) -> Code:
        dtype = np.dtype(expr.dtype)
        child = expr.child
        if isinstance(child, int | float | complex) and (type(child) is int or is_inexact(dtype)):
            return typed_literal(self.scope, np.asarray(child).astype(dtype)[()].item(), computed(dtype))
        text, have = self._render(child, None), self._computed(child, None)
        if is_half(dtype):
            return widened(self.scope, dtype, narrowed(self.scope, dtype, text, have))
        if is_complex(dtype) and self.scope.language.operators:
            return converted(self.scope, text, have, dtype)
        if have == dtype and is_floating(dtype):
            return text
        return cast(self.scope, dtype, text)

    def _if(self, expr: p.If, want: DType | None) -> Code:
        parts = (expr.then, expr.else_)
        dtype = self._common(parts, want)
        self.used_context = True
        holds = decided(expr.condition, self.scope, self.context, self._type_of)
        if holds is not None:
            return self._exact(expr.then if holds else expr.else_, dtype)
        if is_complex(dtype):
            then, orelse = (self._exact(part, dtype) for part in parts)
        else:
            then, orelse = self._operands(parts, dtype)
        exact, self.exact = self.exact, None  # the condition may read data, unlike the index values
        condition = self._render(expr.condition, None)
        self.exact = exact
        return c.Choice(condition, then, orelse)

    def _comparison(self, expr: p.Comparison, want: DType | None) -> Code:
        parts = (expr.left, expr.right)
        if not self.indexing and is_index_arithmetic(parts, self.scope, self._type_of):
            self.indexing = True
            text = self._comparison(expr, want)
            self.indexing = False
            return text
        dtype = self._common(parts, None)
        operator = str(getattr(expr.operator, "value", expr.operator))
        if is_complex(dtype):
            self.scope.operator(operator, dtype, dtype)
            left, right = (self._exact(part, dtype) for part in parts)
        elif self.indexing:
            left, right = map(self._index, parts)
        elif self._is_compared_as_it_is(parts, dtype):
            left, right = (self._render(part, None) for part in parts)  # C compares them in the wider of their types
        else:
            left, right = self._operands(parts, dtype)
        return c.binary(c.OPERATORS[operator], left, right)

    def _is_compared_as_it_is(self, parts: Sequence[Expression], dtype: DType) -> bool:
        """Return True if one of *parts* is an index value, and C compares it with the other exactly, without casts."""
        others = [part for part in parts if not (type(part) is int or self._is_index_value(part))]
        if not others:
            return True
        is_narrow = is_integer(dtype) and is_signed(dtype) and dtype.itemsize <= _WORD
        return is_narrow and len(others) < len(parts) and not isinstance(self._type(others[0]), Weak)

    def _logical(self, expr: p.LogicalAnd | p.LogicalOr, want: DType | None) -> Code:
        is_and = isinstance(expr, p.LogicalAnd)
        self.used_context = True
        known = [decided(child, self.scope, self.context, self._type_of) for child in expr.children]
        left = [child for child, holds in zip(expr.children, known, strict=True) if holds is not is_and]
        if len(left) == 1 and isinstance(left[0], p.Comparison):
            return self._comparison(left[0], want)
        texts = [self._render(child, None) for child in (left if len(left) > 1 else expr.children)]
        return c.binary(c.AND if is_and else c.OR, *texts)

    def _logical_not(self, expr: p.LogicalNot, want: DType | None) -> Code:
        return c.Unary(c.NOT, self._render(expr.child, None))

    def _bitwise(self, expr: p.BitwiseOr | p.BitwiseXor | p.BitwiseAnd, want: DType | None) -> Code:
        dtype = self._common(expr.children, want)
        return c.binary(_BIT_OPERATORS[type(expr)], *self._operands(expr.children, dtype))

    def _bitwise_not(self, expr: p.BitwiseNot, want: DType | None) -> Code:
        dtype = self._common((expr.child,), want)
        text = self._render(expr.child, want)
        if is_bool(dtype):
            return c.Unary(c.NOT, text)
        return self._narrowed(dtype, c.Unary(c.COMPLEMENT, text))

    def _shift(self, expr: p.LeftShift | p.RightShift, want: DType | None) -> Code:
        dtype = self._computed(expr, want)
        left, right = self._render(expr.shiftee, dtype), self._render(expr.shift, dtype)
        if self._seen(expr.shiftee, dtype) != dtype and dtype.itemsize >= 4:
            left = cast(self.scope, dtype, left)
        is_left = isinstance(expr, p.LeftShift)
        if not self._is_shift_count(expr.shift, 8 * dtype.itemsize):
            return self.scope.call("lshift" if is_left else "rshift", dtype, left, right)
        if is_left and (self._wraps(dtype) or (is_integer(dtype) and is_signed(dtype) and dtype.itemsize < _WORD)):
            bits = cast(self.scope, _UINT32 if dtype.itemsize <= _WORD else _UINT64, left)
            text = c.binary(c.OPERATORS["<<"], bits, right)
            return self._wrapped(dtype, text) if self._wraps(dtype) else self._narrowed(dtype, text)
        return self._narrowed(dtype, c.binary(c.OPERATORS["<<" if is_left else ">>"], left, right))

    def _is_shift_count(self, count: Expression, width: int) -> bool:
        """Return True if C can shift a number of *width* bits by *count*: it is known to be in range."""
        number = number_of(count)
        if number is not None:
            return 0 <= number < width
        form = affine_of(count)
        return self._is_known(form) and form is not None and self._is_known(Affine((), width - 1).add(form, -1))

    # }}}

    _METHODS: ClassVar[Mapping[type, Callable[[Expressions, Any, DType | None], Code]]] = {
        p.Variable: _variable,
        p.Subscript: _subscript,
        **dict.fromkeys(CHAINS, _chain),
        p.Quotient: _quotient,
        p.FloorDiv: _floor_division,
        p.Remainder: _floor_division,
        p.Power: _power,
        p.Min: _min_max,
        p.Max: _min_max,
        p.Call: _call,
        TypeCast: _type_cast,
        Lookup: lookup,
        Record: Addresses.record,
        p.If: _if,
        p.Comparison: _comparison,
        p.LogicalAnd: _logical,
        p.LogicalOr: _logical,
        p.LogicalNot: _logical_not,
        p.BitwiseNot: _bitwise_not,
        p.LeftShift: _shift,
        p.RightShift: _shift,
    }
    _CHAINS: ClassVar[Mapping[type, Callable[[Expressions, Any, DType | None], Code]]] = {
        p.Sum: _sum,
        p.Product: _product,
        **dict.fromkeys(_BIT_OPERATORS, _bitwise),
    }


def _product(texts: Sequence[Code], *, minus: bool, whole: bool = False, one: c.Prefix = c.OPPOSITE) -> Code:
    """Return a product, or with *minus* its negation: of the first factor, or as a *whole*.

    *one* is the operator for the negation of a single factor.
    """
    if not minus:
        return c.binary(c.TIMES, *texts)
    first, *others = texts
    if whole or not others or (first.level >= c.NEGATIVE.level and c.is_negative(first)):
        return c.Unary(c.OPPOSITE if others else one, c.binary(c.TIMES, *texts))
    return c.binary(c.TIMES, c.Unary(c.NEGATIVE, first), *others)
