"""Vector accesses: loads and stores of the lanes of a statement that are one access of contiguous, aligned elements.

The proof is in :mod:`polyloop.mapping.contiguity`.  The alignment of the array itself is checked at launch, or
declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from math import prod
from typing import Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.definitions import guarded
from polyloop.codegen.scope import Scope
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_bool
from polyloop.expr.nodes import Expression, array_name, targets_of
from polyloop.expr.printer import show
from polyloop.expr.records import VECTORS, component, is_record
from polyloop.expr.rewrite import substitute, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.mapping.contiguity import MOST_BYTES, Lanes, Reason, element_reads, why_not_wide
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.axes import is_axis
from polyloop.schedule.plan import Statement
from polyloop.verification.addresses import WideAccess

__all__ = ["Key", "Plan", "Wide", "at_once", "plans_of", "vector_type", "wide_access"]

_BUILT_IN: Final = 4
"""Most components of the language's own vector types, x to w."""

Key: TypeAlias = tuple[str, tuple[Expression, ...]]
_Element: TypeAlias = tuple[str, tuple[Affine, ...]]
DType = np.dtype[np.generic]


@dataclass(frozen=True)
class Wide:
    """An access to the elements of all lanes at once.

    Attributes
    ----------
    alignment
        Of the array, in bytes, which the proof needs.
    is_element
        Whether the array has vectors as elements, of which it is one.
    """

    access: p.Subscript
    dtype: DType
    alignment: int
    is_element: bool = False

    @property
    def key(self) -> Key:
        """Array and subscripts."""
        return array_name(self.access), self.access.index_tuple


@dataclass(frozen=True)
class Plan:
    """Vector loads and store of one statement; all other accesses are made lane by lane."""

    lanes: Lanes
    loads: tuple[Wide, ...]
    store: Wide | None

    def component(self, access: p.Subscript, number: int) -> tuple[Key, int] | None:
        """Return the vector, and the component of it, that lane *number* reads by *access*, which is no vector itself.

        So the neighbours of a stencil are components of the vector that holds its centre.
        """
        name, indices = array_name(access), access.index_tuple
        if self.store is not None and self.store.key[0] == name:
            return None
        forms = _forms(indices, self.lanes)
        found = self._components.get((name, forms[number])) if forms is not None else None
        return next((place for place in found or () if place[0] != (name, indices)), None)

    def has_part(self, access: p.Subscript) -> bool:
        """Return whether some lane reads a component of a vector by *access*."""
        return any(self.component(access, number) is not None for number in range(self.lanes.count))

    @cached_property
    def _components(self) -> dict[_Element, list[tuple[Key, int]]]:
        """Vector and component of each element that is in a vector."""
        found: dict[_Element, list[tuple[Key, int]]] = {}
        for load in self.loads:
            for number, forms in enumerate(_forms(load.access.index_tuple, self.lanes) or ()):
                found.setdefault((load.key[0], forms), []).append((load.key, number))
        return found


@lru_cache(maxsize=256)
def _forms(indices: tuple[Expression, ...], lanes: Lanes) -> tuple[tuple[Affine, ...], ...] | None:
    """Return the subscripts of an access in each lane, None if they are not affine."""
    forms = [form for index in indices if (form := affine_of(index)) is not None]
    if len(forms) < len(indices):
        return None
    numbers = [{lanes.iname: Affine((), lanes.low + number)} for number in range(lanes.count)]
    return tuple(tuple([form.substitute(lane) for form in forms]) for lane in numbers)


def plans_of(scope: Scope, statement: Statement, lanes: Lanes) -> tuple[Plan, ...]:
    """Return the wide accesses of *statement*; why another access of its lanes is none is noted in *scope*.

    Several where a swizzle takes part: what is moved at once then is what one instruction moves, because only that
    much is proven to begin at a multiple of its length.
    """
    width = lanes.count
    for access in (*(read for read, _ in element_reads(statement.rhs)), *targets_of(statement.lhs)):
        storage = scope.storage.get(array_name(access))
        if storage is not None and storage.swizzle is not None and 2 * storage.dtype.itemsize <= MOST_BYTES:
            width = min(width, MOST_BYTES // storage.dtype.itemsize)
    starts = range(lanes.low, lanes.low + lanes.count, width)
    return tuple(_plan_of(scope, statement, Lanes(lanes.iname, low, width)) for low in starts)


def _plan_of(scope: Scope, statement: Statement, lanes: Lanes) -> Plan:
    """Return the wide accesses of some lanes of *statement*."""
    loads: dict[Key, Wide] = {}
    for access, is_sure in sorted(element_reads(statement.rhs), key=lambda read: not read[1]):
        if (array_name(access), access.index_tuple) not in loads:
            found = _checked(scope, statement, access, lanes, is_sure=is_sure)
            if found is not None:
                loads[found.key] = found
    store = None
    if statement.is_assignment and isinstance(statement.lhs, p.Subscript):
        store = _checked(scope, statement, statement.lhs, lanes)
        is_copy = isinstance(statement.rhs, p.Subscript)  # to a tile that is stored transposed: as it was meant
        if (loads or is_copy) and array_name(statement.lhs) in scope.storage:
            scope.findings.notes.pop((statement.instruction, _text(scope, statement.lhs)), None)
    if store is not None:
        _forget_columns(scope, statement, lanes)
    for found in _between(scope, statement, lanes):
        loads.setdefault(found.key, found)
    plan = _with_registers(scope, statement, Plan(lanes, tuple(loads.values()), store))
    for access, _ in element_reads(statement.rhs):  # all but the first or the last are in a vector
        if plan.has_part(access):
            scope.findings.notes.pop((statement.instruction, _text(scope, access)), None)
    return plan


def _between(scope: Scope, statement: Statement, lanes: Lanes) -> Iterator[Wide]:
    """Yield the vectors that no access is, but of which the lanes read each component by accesses beside it.

    So ``a[j-1] + a[j+1]`` loads the vector at ``a[j]``, and an element on each side of it.
    """
    sure = [access for access, is_sure in element_reads(statement.rhs) if is_sure]
    own = {array_name(statement.lhs): None} if statement.is_assignment else {}
    beside = [a for a in sure if array_name(a) not in own and lanes.iname in variables(a)]
    if len(beside) < 2:
        return
    read = {element for access in beside for element in _elements(access, lanes)}
    for access in beside:
        storage = scope.storage.get(array_name(access))
        if storage is not None and storage.address_space is not AddressSpace.LOCAL:
            continue
        for moved in _moved(access, lanes):
            if read.issuperset(_elements(moved, lanes)) and isinstance(found := _wide(scope, moved, lanes), Wide):
                yield found


def _forget_columns(scope: Scope, statement: Statement, lanes: Lanes) -> None:
    """Drop the notes on tiles that were stored along rows and are read along columns: as it was meant."""
    for access, _ in element_reads(statement.rhs):
        if array_name(access) in scope.storage:
            found = _wide(scope, access, lanes)
            if isinstance(found, Reason) and found.is_spread:
                scope.findings.notes.pop((statement.instruction, _text(scope, access)), None)


def _elements(access: p.Subscript, lanes: Lanes) -> set[_Element]:
    """Return the elements that the lanes access, nothing if they are not affine."""
    return {(array_name(access), forms) for forms in _forms(access.index_tuple, lanes) or ()}


def _moved(access: p.Subscript, lanes: Lanes) -> Iterator[p.Subscript]:
    """Yield accesses to elements beside those of *access*, less than a vector away."""
    axes = [axis for axis, index in enumerate(access.index_tuple) if lanes.iname in variables(index)]
    form = affine_of(access.index_tuple[axes[0]]) if len(axes) == 1 else None
    if form is None or form.coefficient(lanes.iname) != 1:
        return
    for distance in chain.from_iterable((number, -number) for number in range(1, lanes.count)):
        indices = list(access.index_tuple)
        indices[axes[0]] = to_expression(form.add(Affine((), distance)))
        yield p.Subscript(access.aggregate, indices[0] if len(indices) == 1 else tuple(indices))


def _with_registers(scope: Scope, statement: Statement, plan: Plan) -> Plan:
    """Return *plan*, in which a copy between memory and registers moves vectors in the latter too."""
    load, store = statement.rhs, statement.lhs
    if not isinstance(load, p.Subscript) or not isinstance(store, p.Subscript) or not statement.is_assignment:
        return plan
    if plan.store is not None and not plan.loads and (found := _in_registers(scope, load, plan.lanes)) is not None:
        return replace(plan, loads=(found,))
    if plan.store is None and plan.loads and (found := _in_registers(scope, store, plan.lanes)) is not None:
        return replace(plan, store=found)
    return plan


def _in_registers(scope: Scope, access: p.Subscript, lanes: Lanes) -> Wide | None:
    """Return a wide access to a private array, None if it is none."""
    name = array_name(access)
    storage = scope.storage.get(name)
    if storage is None or storage.address_space is not AddressSpace.PRIVATE or name in scope.expanded:
        return None
    found = _wide(scope, access, lanes)
    return found if isinstance(found, Wide) else None


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
    found = _wide(scope, access, lanes) if is_sure else Reason("a condition decides whether it is read")
    if isinstance(found, Wide):
        return found
    hints = (found.hint,) if found.hint else ()
    text = _text(scope, access)
    scope.findings.notes[statement.instruction, text] = Diagnostic(
        "not-vectorized",
        f"'{text}' in '{statement.instruction}' is accessed lane by lane, not as a vector",
        (found.text,),
        hints,
    )
    return None


def _text(scope: Scope, expr: Expression) -> str:
    """Return *expr* as text, with the names that axes have in the program."""
    return show(substitute(expr, {x: p.Variable(str(scope.values[x])) for x in variables(expr) if is_axis(x)}))


def _wide(scope: Scope, access: p.Subscript, lanes: Lanes) -> Wide | Reason:
    name = array_name(access)
    dtype = scope.dtypes.get(name)
    assert dtype is not None, f"'{name}' has no type"
    if is_record(dtype) or is_bool(dtype):
        return Reason("vectors have numbers as elements")
    if 2 * dtype.itemsize > MOST_BYTES:
        return Reason(f"an element has {dtype.itemsize} bytes, and no access more than {MOST_BYTES}")
    array = scope.arrays.get(name)
    strides: Sequence[Expression]
    if _is_vector_element(scope, access, lanes):
        return Wide(access, dtype, lanes.count * dtype.itemsize, is_element=True)
    if name in scope.split or name in scope.pools:
        return Reason(f"'{name}' is passed in parts" if name in scope.split else f"'{name}' shares its memory")
    if array is not None:
        assert array.strides is not None, f"'{name}' has no strides"
        strides, offset = array.strides, array.offset
    else:
        strides, offset = scope.storage[name].distances, 0
    forms = [affine_of(index) for index in access.index_tuple]
    elements = min(lanes.count, MOST_BYTES // dtype.itemsize)
    swizzle = None if array is not None else scope.storage[name].swizzle
    if swizzle is not None and not swizzle.keeps(lanes.count):
        return Reason(f"the {swizzle} of '{name}' moves its elements apart")
    reason = why_not_wide(forms, strides, offset, lanes, elements, scope.divisibility, partial(_shown, scope))
    return reason or Wide(access, dtype, elements * dtype.itemsize)


def _is_vector_element(scope: Scope, access: p.Subscript, lanes: Lanes) -> bool:
    """Return whether the lanes are all components of one element of an array of vectors."""
    split = scope.split.get(array_name(access))
    if split is None or split.vector is None or lanes.low:
        return False
    axis, indices = split.vector, access.index_tuple
    rest = [index for number, index in enumerate(indices) if number != axis]
    is_lane = affine_of(indices[axis]) == Affine.variable(lanes.iname)
    return (
        is_lane
        and (split.array.shape or ())[axis] == lanes.count
        and all(lanes.iname not in variables(index) for index in rest)
    )


def at_once(scope: Scope, statement: Statement, plan: Plan) -> Iterator[WideAccess]:
    """Yield the wide accesses of a plan as they are to be proven; elements that are vectors need no proof."""
    for wide in (*plan.loads, *([plan.store] if plan.store is not None else [])):
        if not wide.is_element:
            multiple = wide.alignment // wide.dtype.itemsize
            yield wide_access(scope, statement.instruction, wide.access, plan.lanes, multiple)


def wide_access(scope: Scope, instruction: str, access: p.Subscript, lanes: Lanes, multiple: int) -> WideAccess:
    """Return an access of all *lanes* to neighbours, the first of which must lie at a multiple of elements."""
    name = array_name(access)
    forms = tuple(form for index in access.index_tuple if (form := affine_of(index)) is not None)
    text, array = _text(scope, access), scope.arrays.get(name)
    if array is not None:
        assert array.strides is not None, f"'{name}' has no strides"
        return WideAccess(instruction, text, forms, array.strides, array.offset, lanes, multiple)
    storage = scope.storage[name]
    size = prod(storage.dims)
    return WideAccess(instruction, text, forms, storage.distances, 0, lanes, multiple, storage.swizzle, size)


def _shown(scope: Scope, var: str) -> str:
    return var if var.isidentifier() else str(scope.values.get(var, var))


# {{{ types


@lru_cache(maxsize=256)
def _built_in(dtype: DType, count: int) -> DType | None:
    """Return the language's own type of vectors of *count* numbers, None if it has none."""
    return next((v for v in VECTORS.values() if component(v) == dtype and len(v.names or ()) == count), None)


def vector_type(scope: Scope, wide: Wide, lanes: Lanes) -> tuple[str, tuple[str, ...]]:
    """Return the C name of what an access moves, and how each component is called: ``x``, or nothing.

    The language has vectors of 2 and 4 components; others are declared, as a structure with an array ``e``.  The
    elements of an array of vectors have the language's types, which can be longer than what one instruction moves.
    """
    dtype, count = wide.dtype, lanes.count
    if wide.is_element or (count <= _BUILT_IN and count * dtype.itemsize <= MOST_BYTES):
        own = _built_in(dtype, count)
        if own is not None:
            return scope.ctype(own), tuple(own.names or ())
    name = f"{dtype.name}x{count}"
    if name not in scope.definitions.structs:
        attribute = scope.language.aligned.format(bytes=min(MOST_BYTES, count * dtype.itemsize))
        text = f"struct {attribute} {name} {{ {scope.ctype(dtype)} e[{count}]; }};"
        scope.definitions.structs[name] = guarded(name, text)
    return name, ()


# }}}

