"""Wide loads and stores: which accesses of the lanes of a statement are one access of neighbouring, aligned elements.

The proof is by linear forms.  The address of an access is a sum of terms, each a number times a loop variable, an axis
or a parameter; one lane further it is one element further; and every term without the lane is a multiple of the
elements that are moved at once.  That the array itself begins at such a multiple is checked at launch, or declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.analysis.guards import guarded_children
from polyloop.codegen.scope import Scope
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_bool
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.printer import show
from polyloop.expr.records import VECTORS, component, is_record
from polyloop.expr.rewrite import substitute, variables
from polyloop.kernel.arrays import AddressSpace
from polyloop.poly.affine import Affine, Floor, Var, affine_of
from polyloop.schedule.plan import Statement, Storage

__all__ = ["Lanes", "Plan", "Wide", "plan_of", "vector_type"]

_BYTES: Final = 16
"""Most that one instruction moves for a thread: CUDA C++ Programming Guide, "Device Memory Accesses"."""
_BUILT_IN: Final = 4
"""Most components of the language's own vector types, x to w."""

Key: TypeAlias = tuple[str, tuple[Expression, ...]]
DType = np.dtype[np.generic]


@dataclass(frozen=True)
class Lanes:
    """The iname of the lanes, its first value, and how many there are."""

    iname: str
    low: int
    count: int


@dataclass(frozen=True)
class Wide:
    """An access to the elements of all lanes at once.

    Attributes
    ----------
    alignment
        Of the array, in bytes, which the proof needs.
    """

    access: p.Subscript
    dtype: DType
    alignment: int

    @property
    def key(self) -> Key:
        """Array and subscripts."""
        return array_name(self.access), self.access.index_tuple


@dataclass(frozen=True)
class Plan:
    """What lanes load and store at once; what is not here is accessed lane by lane."""

    lanes: Lanes
    loads: tuple[Wide, ...]
    store: Wide | None


def plan_of(scope: Scope, statement: Statement, lanes: Lanes) -> Plan:
    """Return the wide accesses of *statement*; why another access of its lanes is none is noted in *scope*."""
    loads: dict[Key, Wide] = {}
    for access, is_sure in sorted(_reads(statement.rhs), key=lambda read: not read[1]):
        if (array_name(access), access.index_tuple) not in loads:
            found = _checked(scope, statement, access, lanes, is_sure=is_sure)
            if found is not None:
                loads[found.key] = found
    store = None
    if statement.update is None and isinstance(statement.lhs, p.Subscript):
        store = _checked(scope, statement, statement.lhs, lanes)
    return Plan(lanes, tuple(loads.values()), store)


def _reads(expr: Expression, *, is_sure: bool = True) -> Iterator[tuple[p.Subscript, bool]]:
    """Yield the elements that *expr* reads, each with whether it does so under no condition."""
    for child, guards in guarded_children(expr):
        yield from _reads(child, is_sure=is_sure and not guards)
    if isinstance(expr, p.Subscript):
        yield expr, is_sure


def _checked(
    scope: Scope, statement: Statement, access: p.Subscript, lanes: Lanes, *, is_sure: bool = True
) -> Wide | None:
    """Return *access* as a wide one; None if it is the same for all lanes, in registers, or lane by lane."""
    name = array_name(access)
    if all(lanes.iname not in variables(index) for index in access.index_tuple):
        return None
    storage = scope.storage.get(name)
    if storage is not None and storage.address_space is not AddressSpace.LOCAL:
        return None
    found = _wide(scope, access, lanes) if is_sure else _Reason("a condition decides whether it is read")
    if isinstance(found, Wide):
        return found
    hints = (found.hint,) if found.hint else ()
    text = _text(scope, access)
    scope.notes[statement.instruction, text] = Diagnostic(
        "not-vectorized",
        f"'{text}' in '{statement.instruction}' is accessed lane by lane, not as a vector",
        (found.text,),
        hints,
    )
    return None


def _text(scope: Scope, expr: Expression) -> str:
    """Return *expr* as text, with the names that axes have in the program."""
    return show(substitute(expr, {x: p.Variable(str(scope.values[x])) for x in variables(expr) if "." in x}))


@dataclass(frozen=True)
class _Reason:
    text: str
    hint: str = ""


def _wide(scope: Scope, access: p.Subscript, lanes: Lanes) -> Wide | _Reason:
    name = array_name(access)
    dtype = scope.dtypes.get(name)
    assert dtype is not None, f"'{name}' has no type"
    if is_record(dtype) or is_bool(dtype):
        return _Reason("vectors have numbers as elements")
    if 2 * dtype.itemsize > _BYTES:
        return _Reason(f"an element has {dtype.itemsize} bytes, and no access more than {_BYTES}")
    array = scope.arrays.get(name)
    strides: Sequence[Expression]
    if name in scope.split or name in scope.pools:
        return _Reason(f"'{name}' is passed in parts" if name in scope.split else f"'{name}' shares its memory")
    if array is not None:
        assert array.strides is not None, f"'{name}' has no strides"
        strides, offset = array.strides, array.offset
    else:
        strides, offset = _strides(scope.storage[name]), 0
    forms = [affine_of(index) for index in access.index_tuple]
    elements = min(lanes.count, _BYTES // dtype.itemsize)
    swizzle = None if array is not None else scope.storage[name].swizzle
    if swizzle is not None and not swizzle.keeps(elements):
        return _Reason(f"the {swizzle} of '{name}' moves its elements apart")
    reason = _spread(forms, strides, lanes.iname)
    reason = reason or _misplaced(scope, forms, strides, offset, lanes, elements)
    return reason or Wide(access, dtype, elements * dtype.itemsize)


def _strides(storage: Storage) -> tuple[int, ...]:
    """Return the distance between neighbours along each axis of shared memory [elements]."""
    if storage.strides is not None:
        return storage.strides
    order = storage.nesting or tuple(range(len(storage.shape)))
    found = [0] * len(order)
    step = 1
    for axis, extent in zip(reversed(order), reversed(storage.dims), strict=True):
        found[axis] = step
        step *= extent
    return tuple(found)


def _spread(
    forms: Sequence[Affine | None], strides: Sequence[Expression], iname: str
) -> _Reason | None:
    """Return why the elements of the lanes are not neighbours, None if they are."""
    total = 0
    for form, stride in zip(forms, strides, strict=True):
        if form is None:
            return _Reason("its subscripts are not affine")
        if any(isinstance(var, Floor) and iname in var_names(var) for var, _ in form.terms):
            return _Reason("a subscript divides the lane by a number")
        step = form.coefficient(iname)
        if step and not isinstance(stride, int):
            return _Reason(f"from one lane to the next it is {_times(step, stride)} elements, not one",
                           f"let '{iname}' be part of the subscript along the contiguous axis")  # fmt: skip
        total += step * stride if isinstance(stride, int) else 0
    if total == 1:
        return None
    return _Reason(f"from one lane to the next it is {total} elements, not one",
                   f"let '{iname}' be part of the subscript along the contiguous axis")  # fmt: skip


def var_names(var: Floor) -> frozenset[str]:
    """Return the names in a quotient."""
    return Affine(var.terms, 0).names()


def _times(step: int, stride: Expression) -> str:
    return show(stride) if step == 1 else f"{step}*{show(stride)}"


def _misplaced(
    scope: Scope,
    forms: Iterable[Affine | None],
    strides: Sequence[Expression],
    offset: Expression,
    lanes: Lanes,
    elements: int,
) -> _Reason | None:
    """Return why the first lane's element may not stand at a multiple of *elements*, None if it must."""
    const = 0
    for given, stride in zip(forms, strides, strict=True):
        assert given is not None, "forms were looked at"
        form = given.substitute({lanes.iname: Affine((), lanes.low)})
        factor = _factor(scope, stride)
        if isinstance(stride, int):
            const += form.const * stride
        elif form.const * factor % elements:
            return _unknown(_times(form.const, stride), stride, elements)
        for var, coefficient in form.terms:
            if coefficient * factor * _factor(scope, _expression(var)) % elements:
                shown = _product(coefficient, "(..)" if isinstance(var, Floor) else _shown(scope, var), stride)
                return _unknown(shown, stride if not isinstance(stride, int) else _expression(var), elements)
    if isinstance(offset, int):
        const += offset
    elif _factor(scope, offset) % elements:
        return _unknown(f"the offset {show(offset)}", offset, elements)
    if const % elements:
        return _Reason(
            f"its first lane is {const % elements} beyond a multiple of {elements} elements",
            "shift or pad the array, so that vectors begin where rows do",
        )
    return None


def _shown(scope: Scope, var: str) -> str:
    return var if var.isidentifier() else str(scope.values.get(var, var))


def _product(coefficient: int, name: str, stride: Expression) -> str:
    parts = [] if coefficient == 1 else [str(coefficient)]
    parts.append(name)
    if type(stride) is not int or stride != 1:
        parts.append(show(stride) if isinstance(stride, int | p.Variable) else f"({show(stride)})")
    return "*".join(parts)


def _unknown(term: str, factor: Expression, elements: int) -> _Reason:
    """Return that *term* is not known to be a multiple of *elements*, because of *factor*."""
    hint = f"split by a multiple of {elements}"
    if isinstance(factor, p.ExpressionNode) and not any("." in name for name in variables(factor)):
        hint = f'assume it, or pad the rows: pl.assume(knl, "{show(factor)} mod {elements} = 0")'
    elif isinstance(factor, int) and factor > 1:
        hint = f"pad the rows to a multiple of {elements} elements"
    return _Reason(f"{term}, a part of its address, is not known to be a multiple of {elements}", hint)


def _expression(var: Var) -> Expression:
    return 1 if isinstance(var, Floor) else p.Variable(var)


def _factor(scope: Scope, expr: Expression) -> int:
    """Return a number that *expr* is known to be a multiple of."""
    if isinstance(expr, int | np.integer):
        return abs(int(expr))
    if isinstance(expr, p.Variable):
        modulus, residue = scope.divisibility.get(expr.name, (1, 0))
        return gcd(modulus, residue)
    if isinstance(expr, p.Product):
        total = 1
        for child in expr.children:
            total *= _factor(scope, child)
        return total
    if isinstance(expr, p.Sum):
        return gcd(*(_factor(scope, child) for child in expr.children))
    return 1


# {{{ types


def vector_type(scope: Scope, dtype: DType, count: int) -> tuple[str, tuple[str, ...]]:
    """Return the C name of *count* numbers that are moved at once, and how each is called: ``.x``, or nothing.

    The language has vectors of 2 and 4 components; others are declared, as a structure with an array ``e``.
    """
    if count <= _BUILT_IN and count * dtype.itemsize <= _BYTES:
        own = next((v for v in VECTORS.values() if component(v) == dtype and len(v.names or ()) == count), None)
        if own is not None:
            return scope.ctype(own), tuple(f".{axis}" for axis in own.names or ())
    key = f"vector {dtype.name} {count}"
    name = scope.record_helpers.get(key)
    if name is None:
        name = scope.record_helpers[key] = scope.names.fresh(f"{dtype.name}x{count}")
        attribute = scope.language.aligned.format(bytes=min(_BYTES, count * dtype.itemsize))
        scope.structs[key] = f"struct {attribute} {name} {{ {scope.ctype(dtype)} e[{count}]; }};"
    return name, ()


# }}}

