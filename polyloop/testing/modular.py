"""A kernel with its floating-point numbers replaced by integers modulo 2^32, and everything else as it was.

Only expressions and types change: domains, loops, tags, temporaries, rules of placement stay, so that the code
generated for the result has the barriers, guards and addresses of the code that is to be tried.  Where a kernel has no
such counterpart, :class:`NoIntegersError` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.analysis.infer import dtype_table, require_dtypes
from polyloop.expr.dtypes import DType, dtype_name
from polyloop.expr.foreign import ForeignName, choose, foreign_calls
from polyloop.expr.functions import FUNCTIONS, Domain, ResultType
from polyloop.expr.nodes import Expression, Lookup, Operation, Record, Reduction, Terms, TypeCast, function_name
from polyloop.expr.printer import show
from polyloop.expr.records import field_dtype, field_names, is_record, is_vector
from polyloop.expr.rewrite import children, expand_rules, rebuild, reductions
from polyloop.expr.typing import Weak, common_type, infer_type, settle, state_dtype
from polyloop.kernel.arrays import Table, TemporaryVariable
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.testing.integers import (
    MODULUS,
    WORD,
    hash_function,
    integer_dtype,
    integer_of,
    integers_of,
    is_real,
    name_hash,
)
from polyloop.testing.sources import steered_by

__all__ = ["NoIntegersError", "has_real_numbers", "with_integers"]

_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_MOST_POWER: Final = 64
_INT: Final = "int32"


class NoIntegersError(Exception):
    """A kernel has no counterpart with integers; the text says why."""


def has_real_numbers(kernel: LoopKernel) -> bool:
    """Return whether *kernel* computes with floating-point numbers: otherwise its counterpart is itself."""
    typed = require_dtypes(kernel)
    known = {**typed.values(), **typed.arrays()}
    return any(value.dtype is not None and integer_dtype(value.dtype) != value.dtype for value in known.values())


def with_integers(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with integers modulo 2^32 for its floating-point numbers, its reference program included.

    Raises
    ------
    NoIntegersError
        With the reason.
    """
    typed = require_dtypes(kernel)
    reference = typed.reference
    assert reference is not None, "the kernel has no reference program"
    base = require_dtypes(reference.kernel)
    name = next(
        wish for number in range(1_000_000)
        if (wish := f"hashed{number or ''}") not in typed.names() | base.names() | FUNCTIONS.keys()
    )
    function = hash_function(name)
    changed = _changed_kernel(typed, function)
    return replace(changed, made=None, reference=replace(reference, kernel=_changed_kernel(base, function)))


# {{{ kernels


def _changed_kernel(kernel: LoopKernel, function: ForeignName) -> LoopKernel:
    table = dtype_table(kernel)
    mapper = _Mapper(table, function)
    instructions = tuple(_changed_instruction(kernel, old, mapper) for old in kernel.instructions)
    changed = {name for name, dtype in table.items() if _holds_real(dtype)}
    for old, new in zip(kernel.instructions, instructions, strict=True):
        if (new.expression, new.predicates) != (old.expression, old.predicates):
            changed.update(old.writes)
    for name, what in steered_by(kernel, changed).items():
        raise NoIntegersError(f"{what} depends on '{name}', whose values come from floating-point numbers")
    expressions = [part for new in instructions for part in (new.assignee, new.expression, *new.predicates)]
    foreign = dict.fromkeys(f for expr in expressions for name in foreign_calls(expr) for f in name.overloads)
    return replace(
        kernel,
        instructions=instructions,
        arguments=tuple(replace(old, dtype=_changed_dtype(old.dtype)) for old in kernel.arguments),
        temporaries={name: _changed_temporary(old) for name, old in kernel.temporaries.items()},
        substitutions={},
        foreign=tuple(foreign),
    )


def _holds_real(dtype: DType | None) -> bool:
    return dtype is not None and integer_dtype(dtype) != dtype


def _changed_dtype(dtype: DType | None) -> DType | None:
    return None if dtype is None else integer_dtype(dtype)


def _changed_temporary(old: TemporaryVariable) -> TemporaryVariable:
    table = None if old.initializer is None else Table.of(integers_of(old.initializer.array))
    return replace(old, dtype=_changed_dtype(old.dtype), initializer=table)


def _changed_instruction(kernel: LoopKernel, old: Instruction, mapper: _Mapper) -> Instruction:
    if old.is_c:
        raise NoIntegersError(f"'{old.id}' is C text, which computes with floating-point numbers as it likes")
    expression = expand_rules(old.expression, kernel.substitutions)
    predicates = [expand_rules(part, kernel.substitutions) for part in old.predicates]
    kind = mapper.kind(old.assignee)
    new = mapper.stored(expression, settle(kind))
    if len(reductions(new)) != len(reductions(expression)):
        raise NoIntegersError(f"'{old.id}' takes apart the results of a function of a reduction")
    assignee = mapper.same(old.assignee)
    return replace(old, assignee=assignee, expression=new, predicates=tuple(map(mapper.same, predicates)))


# }}}
# {{{ expressions


class _Mapper:
    """Rewrites expressions whose names have the types *types*.

    ``by_sign`` is whether numbers are compared as signed integers; an operation of a reduction compares them as they
    are, so that the least and the greatest are those that it begins with.
    """

    def __init__(self, types: Mapping[str, DType | None], function: ForeignName, *, by_sign: bool = True) -> None:
        self.types = types
        self.function = function
        self.by_sign = by_sign

    def kind(self, expr: Expression) -> DType | Weak:
        found = infer_type(expr, self.types.get)
        assert found is not None, f"untyped expression {show(expr)}"
        return found

    def is_real(self, expr: Expression) -> bool:
        kind = self.kind(expr)
        return kind in (Weak.FLOAT, Weak.COMPLEX) if isinstance(kind, Weak) else is_real(kind)

    def stored(self, expr: Expression, dtype: DType) -> Expression:
        """Return *expr*, for what becomes a value of the type *dtype* of the original."""
        return self.integer(expr) if is_real(dtype) else self.same(expr)

    def integer(self, expr: Expression) -> Expression:
        """Return *expr* as a number modulo 2^32; small constants may stay what they are next to one."""
        if isinstance(expr, int | np.integer | np.bool_) or type(expr) is bool:
            value = int(expr)
            return value if 0 <= value < MODULUS // 2 else np.uint32(value % MODULUS)
        if self.is_real(expr):
            return self.real(expr)
        found = self.same(expr)
        kind = self.kind(expr)
        is_word = not isinstance(kind, Weak) and (kind == WORD or is_record(kind))
        return found if is_word else TypeCast("uint32", found)

    def same(self, expr: Expression) -> Expression:
        """Return *expr* with the type that it has, or with that of its fields; a real one as :meth:`integer`."""
        if not isinstance(expr, p.ExpressionNode):
            return self.constant(expr)
        if self.is_real(expr):
            return self.real(expr)
        method = self._EXACT.get(type(expr))
        return self.parts(expr) if method is None else method(self, expr)

    def parts(self, expr: Expression) -> Expression:
        old = children(expr)
        new = tuple(map(self.same, old))
        if type(expr) is p.Subscript and new != old:
            raise NoIntegersError(f"the subscript in {show(expr)} is computed from floating-point numbers")
        return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)

    def constant(self, value: Any) -> Any:  # noqa: ANN401 - a Python number or a NumPy scalar
        if isinstance(value, float | complex | np.inexact) or (isinstance(value, np.generic) and is_real(value.dtype)):
            number = complex(value)
            return np.uint32(integer_of(number.real if not number.imag else number))
        return value

    def hashed(self, name: str, *values: Expression) -> Expression:
        """Return what stands for the function *name* of *values*."""
        found: Expression = np.uint32(name_hash(name))
        for value in values:
            found = p.Call(self.function, (found, value))
        return found

    # {{{ of real type

    def real(self, expr: Expression) -> Expression:
        """Return *expr*, a floating-point number, as an integer."""
        if not isinstance(expr, p.ExpressionNode):
            return self.constant(expr)
        method = self._REAL.get(type(expr))
        assert method is not None, f"unexpected {type(expr).__name__} of a floating-point type"
        return method(self, expr)

    def arithmetic(self, expr: Expression) -> Expression:
        """Return a sum, product, minimum or maximum of the same operands."""
        old = children(expr)
        new = [self.integer(child) for child in old]
        if type(expr) is p.Product and type(old[0]) is int and old[0] < 0:
            positive = new[1:] if old[0] == -1 else [self.integer(-old[0]), *new[1:]]
            return p.Product((-1, positive[0] if len(positive) == 1 else p.Product(tuple(positive))))  # a difference
        return rebuild(expr, tuple(new))

    def scalar(self, expr: Expression) -> None:
        if is_vector(self.kind(expr)):
            raise NoIntegersError(f"{show(expr)} is a vector, of which only sums and products are known")

    def quotient(self, expr: Expression) -> Expression:
        self.scalar(expr)
        return self.hashed(type(expr).__name__, self.integer(expr.numerator), self.integer(expr.denominator))

    def power(self, expr: Expression) -> Expression:
        self.scalar(expr)
        exponent = expr.exponent
        if type(exponent) is int and 0 <= exponent <= _MOST_POWER:
            return p.Power(self.integer(expr.base), exponent)
        return self.hashed("pow", self.integer(expr.base), self.integer(exponent))

    def choice(self, expr: Expression) -> Expression:
        then, orelse = self.integer(expr.then), self.integer(expr.else_)
        return p.If(self.same(expr.condition), then, orelse)

    def cast(self, expr: Expression) -> Expression:
        found = self.integer(expr.child)
        return np.uint32(found) if type(found) is int else found

    def field(self, expr: Expression) -> Expression:
        inner: Expression = expr.aggregate
        if type(inner) is p.Call and not isinstance(inner.function, ForeignName):
            return self.hashed(f"{function_name(inner)}.{expr.field}", *map(self.integer, inner.parameters))
        return Lookup(self.same(inner), expr.field)

    def call(self, expr: Expression) -> Expression:
        self.scalar(expr)
        if isinstance(expr.function, ForeignName):
            return self.foreign(expr)
        name, arguments = expr.function.name, expr.parameters
        if name in ("min", "max", "fmin", "fmax"):
            kind = p.Min if name.endswith("min") else p.Max
            return kind(tuple(map(self.integer, arguments)))
        if name == "fma":
            a, b, c = map(self.integer, arguments)
            return p.Sum((p.Product((a, b)), c))
        if name == "pow":
            return self.power(p.Power(*arguments))
        return self.hashed(name, *map(self.integer, arguments))

    def foreign(self, expr: Expression) -> Expression:
        chosen = choose(expr.function, [settle(self.kind(part)) for part in expr.parameters])
        assert chosen is not None, f"untyped call {show(expr)}"
        return self.hashed(str(chosen), *map(self.integer, expr.parameters))

    def reduction(self, expr: Expression) -> Expression:
        if expr.operation.combine:
            return self.collected(expr)
        return Reduction(expr.operation, expr.inames, self.integer(expr.expr))

    # }}}
    # {{{ of another type

    def comparison(self, expr: Expression) -> Expression:
        operands = (expr.left, expr.right)
        common = settle(common_type([self.kind(part) for part in operands]))
        if not is_real(common):
            return self.parts(expr)
        operator = str(getattr(expr.operator, "value", expr.operator))
        if operator not in _ORDER or not self.by_sign:
            return p.Comparison(self.integer(expr.left), operator, self.integer(expr.right))
        left, right = (self.signed(part) for part in operands)
        return p.Comparison(left, operator, right)

    def signed(self, expr: Expression) -> Expression:
        found = self.integer(expr)
        if isinstance(found, int | np.integer):
            value = int(found)
            return value if value < MODULUS // 2 else np.int32(value - MODULUS)
        return TypeCast(_INT, found)

    def exact_call(self, expr: Expression) -> Expression:
        """Return a call whose result is no floating-point number: of a test, or of integers."""
        foreign = isinstance(expr.function, ForeignName)
        if not any(self.is_real(part) for part in expr.parameters) and not self.takes_real(expr):
            return self.parts(expr)
        if foreign:
            kind = settle(self.kind(expr))
            return TypeCast(dtype_name(kind), self.foreign(expr))
        function = FUNCTIONS[expr.function.name]
        arguments = tuple(map(self.integer, expr.parameters))
        if function.result is ResultType.RECORD:
            dtype = integer_dtype(settle(self.kind(expr)))
            return Record(dtype, tuple(self.hashed(f"{function.name}.{f}", *arguments) for f in function.fields))
        assert function.result is ResultType.BOOL, f"unexpected result of {show(expr)}"
        return p.Comparison(p.BitwiseAnd((self.hashed(function.name, *arguments), 1)), "!=", 0)

    def takes_real(self, expr: Expression) -> bool:
        """Return whether integers that a function is given become floating-point numbers."""
        if isinstance(expr.function, ForeignName):
            chosen = choose(expr.function, [settle(self.kind(part)) for part in expr.parameters])
            return chosen is not None and any(map(is_real, chosen.arguments))
        function = FUNCTIONS[expr.function.name]
        return function.domain is not Domain.INTEGER and function.result in (ResultType.BOOL, ResultType.RECORD)

    def built(self, expr: Expression) -> Expression:
        pairs = zip(expr.values, field_names(expr.dtype), strict=True)
        values = tuple(self.stored(value, field_dtype(expr.dtype, name)) for value, name in pairs)
        return Record(integer_dtype(expr.dtype), values)

    def exact_reduction(self, expr: Expression) -> Expression:
        return self.collected(expr) if expr.operation.combine else self.parts(expr)

    # }}}

    def collected(self, expr: Expression) -> Expression:
        """Return a reduction whose operation is written out."""
        terms = expr.expr.children if type(expr.expr) is Terms else (expr.expr,)
        types = tuple(settle(self.kind(term)) for term in terms)
        state = state_dtype(expr.operation, types)
        fields = [field_dtype(state, name) for name in field_names(state)] if expr.operation.fields else [state]
        new = tuple(self.exactly(term, dtype) for term, dtype in zip(terms, fields, strict=True))
        operation = _changed_operation(expr.operation, state, fields, self.function)
        return Reduction(operation, expr.inames, Terms(new) if type(expr.expr) is Terms else new[0])

    def exactly(self, expr: Expression, dtype: DType) -> Expression:
        """Return *expr* as :meth:`stored`, constants with a type of their own."""
        found = self.stored(expr, dtype)
        return np.uint32(found) if is_real(dtype) and type(found) is int else found

    _REAL: ClassVar[Mapping[type, Callable[[_Mapper, Any], Expression]]] = {
        p.Variable: lambda _, expr: expr,
        p.Subscript: parts,
        p.Sum: arithmetic,
        p.Product: arithmetic,
        p.Min: arithmetic,
        p.Max: arithmetic,
        p.Quotient: quotient,
        p.FloorDiv: quotient,
        p.Remainder: quotient,
        p.Power: power,
        p.If: choice,
        TypeCast: cast,
        Lookup: field,
        p.Call: call,
        Reduction: reduction,
        Record: built,
    }
    _EXACT: ClassVar[Mapping[type, Callable[[_Mapper, Any], Expression]]] = {
        p.Comparison: comparison,
        p.Call: exact_call,
        Record: built,
        Reduction: exact_reduction,
    }


# }}}
# {{{ operations of reductions


def _changed_operation(
    operation: Operation, state: DType, fields: Sequence[DType], function: ForeignName
) -> Operation:
    if not any(_holds_real(dtype) for dtype in fields):
        return operation
    mapper = _Mapper({"a": state, "b": state}, function, by_sign=False)
    for expr in operation.combine:
        _require_associative(operation, expr, mapper)
    whole = [state] if len(operation.combine) == 1 else list(fields)
    combine = tuple(mapper.stored(expr, dtype) for expr, dtype in zip(operation.combine, whole, strict=True))
    neutral = tuple(
        integer_of(value) if is_real(dtype) and isinstance(value, int | float) else value
        for value, dtype in zip(operation.neutral, fields, strict=True)
    )
    return replace(operation, combine=combine, neutral=neutral)


_ADDING: Final = frozenset({p.Sum, p.Product})
_CHOOSING: Final = frozenset({p.Min, p.Max, p.Comparison})
_KEPT: Final = frozenset({p.Variable, p.If, Lookup, Record, p.LogicalAnd, p.LogicalOr, p.LogicalNot})


def _require_associative(operation: Operation, expr: Expression, mapper: _Mapper) -> None:
    """Refuse what need not be associative modulo 2^32, although it is for real numbers."""
    seen: set[type] = set()

    def visit(node: Expression) -> None:
        below = children(node)
        kind = type(node)
        if not isinstance(node, p.ExpressionNode):
            if mapper.is_real(node) and not float(abs(node)).is_integer():
                raise NoIntegersError(f"'{operation}' combines with the constant {node}")
        elif mapper.is_real(node) or any(mapper.is_real(child) for child in below):
            if kind not in _ADDING | _CHOOSING | _KEPT:
                raise NoIntegersError(f"'{operation}' combines with {show(node)}, which is no sum or product")
            seen.add(kind)
        for child in below:
            visit(child)

    visit(expr)
    if seen & _ADDING and seen & _CHOOSING:
        raise NoIntegersError(f"'{operation}' adds and compares, which do not go together modulo 2^32")


# }}}
