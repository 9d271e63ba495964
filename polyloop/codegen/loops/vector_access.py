"""Vector accesses: loads and stores that access the contiguous, aligned elements of all lanes of a statement at once.

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

_STRUCTURE: Final = "struct {aligned} {name} {{ {body} }};"
_BUILT_IN: Final = 4
"""Greatest number of components of built-in vector types, x to w."""

Key: TypeAlias = tuple[str, tuple[Expression, ...]]
_Element: TypeAlias = tuple[str, tuple[Affine, ...]]
DType = np.dtype[np.generic]


@dataclass(frozen=True)
class Wide:
    """A vector access: to the elements of all lanes at once.

    Attributes
    ----------
    alignment
        Alignment of the array that the proof assumes [bytes].
    is_element
        True if the elements of the array are vectors, and the access is to one of them.
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
    """Vector loads and store of one statement; its other accesses are made lane by lane."""

    lanes: Lanes
    loads: tuple[Wide, ...]
    store: Wide | None

    def component(self, access: p.Subscript, number: int) -> tuple[Key, int] | None:
        """Return the vector and the component that lane *number* reads by *access*, which is no vector load itself.

        For example, neighbours in a stencil are components of the vector that is loaded for its centre.
        """
        name, indices = array_name(access), access.index_tuple
        if self.store is not None and self.store.key[0] == name:
            return None
        forms = _forms(indices, self.lanes)
        found = self._components.get((name, forms[number])) if forms is not None else None
        return next((place for place in found or () if place[0] != (name, indices)), None)

    def has_part(self, access: p.Subscript) -> bool:
        """Return True if some lane reads a component of a loaded vector by *access*."""
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
    """Return plans of the vector accesses of *statement*; other accesses of its lanes get a note in *scope*.

    There are several plans if an array is swizzled.  Each is for the lanes of one instruction then, because no longer
    vector is proven to be aligned.
    """
    width = lanes.count
    for access in (*(read for read, _ in element_reads(statement.rhs)), *targets_of(statement.lhs)):
        storage = scope.memory.storage.get(array_name(access))
        if storage is not None and storage.swizzle is not None and 2 * storage.dtype.itemsize <= MOST_BYTES:
            width = min(width, MOST_BYTES // storage.dtype.itemsize)
    starts = range(lanes.low, lanes.low + lanes.count, width)
    return tuple(_plan_of(scope, statement, Lanes(lanes.iname, low, width)) for low in starts)


def _plan_of(scope: Scope, statement: Statement, lanes: Lanes) -> Plan:
    """Return the plan of the vector accesses of some lanes of *statement*."""
    loads: dict[Key, Wide] = {}
    for access, is_sure in sorted(element_reads(statement.rhs), key=lambda read: not read[1]):
        if (array_name(access), access.index_tuple) not in loads:
            found = _checked(scope, statement, access, lanes, is_sure=is_sure)
            if found is not None:
                loads[found.key] = found
    store = None
    if statement.is_assignment and isinstance(statement.lhs, p.Subscript):
        store = _checked(scope, statement, statement.lhs, lanes)
        is_copy = isinstance(statement.rhs, p.Subscript)  # a transposed store to a tile is intended: no note
        if (loads or is_copy) and array_name(statement.lhs) in scope.memory.storage:
            scope.findings.notes.pop((statement.instruction, _text(scope, statement.lhs)), None)
    if store is not None:
        _forget_columns(scope, statement, lanes)
    for found in _between(scope, statement, lanes):
        loads.setdefault(found.key, found)
    plan = _with_registers(scope, statement, Plan(lanes, tuple(loads.values()), store))
    for access, _ in element_reads(statement.rhs):  # most of its lanes read components of loaded vectors: no note
        if plan.has_part(access):
            scope.findings.notes.pop((statement.instruction, _text(scope, access)), None)
    return plan


def _between(scope: Scope, statement: Statement, lanes: Lanes) -> Iterator[Wide]:
    """Yield vectors without an access of their own, all of whose components the lanes read by other accesses.

    For example, ``a[j-1] + a[j+1]`` loads the vector at ``a[j]``, and one element on each side of it.
    """
    sure = [access for access, is_sure in element_reads(statement.rhs) if is_sure]
    own = {array_name(statement.lhs): None} if statement.is_assignment else {}
    beside = [a for a in sure if array_name(a) not in own and lanes.iname in variables(a)]
    if len(beside) < 2:
        return
    read = {element for access in beside for element in _elements(access, lanes)}
    for access in beside:
        storage = scope.memory.storage.get(array_name(access))
        if storage is not None and storage.address_space is not AddressSpace.LOCAL:
            continue
        for moved in _moved(access, lanes):
            if read.issuperset(_elements(moved, lanes)) and isinstance(found := _wide(scope, moved, lanes), Wide):
                yield found


def _forget_columns(scope: Scope, statement: Statement, lanes: Lanes) -> None:
    """Drop the notes on tiles that are stored along rows and read along columns, which is intended."""
    for access, _ in element_reads(statement.rhs):
        if array_name(access) in scope.memory.storage:
            found = _wide(scope, access, lanes)
            if isinstance(found, Reason) and found.is_spread:
                scope.findings.notes.pop((statement.instruction, _text(scope, access)), None)


def _elements(access: p.Subscript, lanes: Lanes) -> set[_Element]:
    """Return the elements that the lanes access, empty if they are not affine."""
    return {(array_name(access), forms) for forms in _forms(access.index_tuple, lanes) or ()}


def _moved(access: p.Subscript, lanes: Lanes) -> Iterator[p.Subscript]:
    """Yield *access* shifted along the lanes by less than a vector, in both directions."""
    axes = [axis for axis, index in enumerate(access.index_tuple) if lanes.iname in variables(index)]
    form = affine_of(access.index_tuple[axes[0]]) if len(axes) == 1 else None
    if form is None or form.coefficient(lanes.iname) != 1:
        return
    for distance in chain.from_iterable((number, -number) for number in range(1, lanes.count)):
        indices = list(access.index_tuple)
        indices[axes[0]] = to_expression(form.add(Affine((), distance)))
        yield p.Subscript(access.aggregate, indices[0] if len(indices) == 1 else tuple(indices))


def _with_registers(scope: Scope, statement: Statement, plan: Plan) -> Plan:
    """Return *plan*; for a copy between memory and registers, with a vector access to the registers, too."""
    load, store = statement.rhs, statement.lhs
    if not isinstance(load, p.Subscript) or not isinstance(store, p.Subscript) or not statement.is_assignment:
        return plan
    if plan.store is not None and not plan.loads and (found := _in_registers(scope, load, plan.lanes)) is not None:
        return replace(plan, loads=(found,))
    if plan.store is None and plan.loads and (found := _in_registers(scope, store, plan.lanes)) is not None:
        return replace(plan, store=found)
    return plan


def _in_registers(scope: Scope, access: p.Subscript, lanes: Lanes) -> Wide | None:
    """Return a vector access to a private array, None if *access* is none."""
    name = array_name(access)
    storage = scope.memory.storage.get(name)
    if storage is None or storage.address_space is not AddressSpace.PRIVATE or name in scope.memory.expanded:
        return None
    found = _wide(scope, access, lanes)
    return found if isinstance(found, Wide) else None


def _checked(
    scope: Scope, statement: Statement, access: p.Subscript, lanes: Lanes, *, is_sure: bool = True
) -> Wide | None:
    """Return *access* as a vector access; None if it is uniform, to registers, or must be made lane by lane."""
    name = array_name(access)
    if all(lanes.iname not in variables(index) for index in access.index_tuple):
        return None
    storage = scope.memory.storage.get(name)
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
    """Return *expr* as text, with the C names of axes."""
    return show(substitute(expr, {x: p.Variable(str(scope.values[x])) for x in variables(expr) if is_axis(x)}))


def _wide(scope: Scope, access: p.Subscript, lanes: Lanes) -> Wide | Reason:
    """Return the vector access to the elements of all lanes, or the reason why they have to be accessed one by one."""
    name, memory = array_name(access), scope.memory
    dtype = scope.types.of_names.get(name)
    assert dtype is not None, f"'{name}' has no type"
    if is_record(dtype) or is_bool(dtype):
        return Reason("vectors have numbers as elements")
    if 2 * dtype.itemsize > MOST_BYTES:
        return Reason(f"an element has {dtype.itemsize} bytes, and no access more than {MOST_BYTES}")
    array = memory.arrays.get(name)
    strides: Sequence[Expression]
    if _is_vector_element(scope, access, lanes):
        return Wide(access, dtype, lanes.count * dtype.itemsize, is_element=True)
    if name in memory.split or name in memory.pools:
        return Reason(f"'{name}' is passed in parts" if name in memory.split else f"'{name}' shares its memory")
    if array is not None:
        assert array.strides is not None, f"'{name}' has no strides"
        strides, offset = array.strides, array.offset
    else:
        strides, offset = memory.storage[name].distances, 0
    forms = [affine_of(index) for index in access.index_tuple]
    elements = min(lanes.count, MOST_BYTES // dtype.itemsize)
    swizzle = None if array is not None else memory.storage[name].swizzle
    if swizzle is not None and not swizzle.keeps(lanes.count):
        return Reason(f"the {swizzle} of '{name}' moves its elements apart")
    reason = why_not_wide(forms, strides, offset, lanes, elements, scope.divisibility, partial(_shown, scope))
    return reason or Wide(access, dtype, elements * dtype.itemsize)


def _is_vector_element(scope: Scope, access: p.Subscript, lanes: Lanes) -> bool:
    """Return True if the lanes are all components of one element of an array of vectors."""
    split = scope.memory.split.get(array_name(access))
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
    """Yield the vector accesses of a plan for their proof; elements that are vectors themselves need none."""
    for wide in (*plan.loads, *([plan.store] if plan.store is not None else [])):
        if not wide.is_element:
            multiple = wide.alignment // wide.dtype.itemsize
            yield wide_access(scope, statement.instruction, wide.access, plan.lanes, multiple)


def wide_access(scope: Scope, instruction: str, access: p.Subscript, lanes: Lanes, multiple: int) -> WideAccess:
    """Return a vector access for its proof; *multiple* is the required alignment [elements]."""
    name = array_name(access)
    forms = tuple(form for index in access.index_tuple if (form := affine_of(index)) is not None)
    text, array = _text(scope, access), scope.memory.arrays.get(name)
    if array is not None:
        assert array.strides is not None, f"'{name}' has no strides"
        return WideAccess(instruction, text, forms, array.strides, array.offset, lanes, multiple)
    storage = scope.memory.storage[name]
    size = prod(storage.dims)
    return WideAccess(instruction, text, forms, storage.distances, 0, lanes, multiple, storage.swizzle, size)


def _shown(scope: Scope, var: str) -> str:
    return var if var.isidentifier() else str(scope.values.get(var, var))


# {{{ types


@lru_cache(maxsize=256)
def _built_in(dtype: DType, count: int) -> DType | None:
    """Return the built-in vector type of *count* numbers, None if there is none."""
    return next((v for v in VECTORS.values() if component(v) == dtype and len(v.names or ()) == count), None)


def vector_type(scope: Scope, wide: Wide, lanes: Lanes) -> tuple[str, tuple[str, ...]]:
    """Return the C type of a vector, and the names of its components: ``x`` to ``w``, or none.

    Vectors of up to 4 components have built-in types; others are declared as a structure with an array ``e``.  The
    elements of an array of vectors have built-in types even if one instruction cannot move them.
    """
    dtype, count = wide.dtype, lanes.count
    if wide.is_element or (count <= _BUILT_IN and count * dtype.itemsize <= MOST_BYTES):
        own = _built_in(dtype, count)
        if own is not None:
            return scope.ctype(own), tuple(own.names or ())
    name = f"{dtype.name}x{count}"
    if name not in scope.definitions.structs:
        attribute = scope.language.syntax.aligned.format(bytes=min(MOST_BYTES, count * dtype.itemsize))
        body, built_in = f"{scope.ctype(dtype)} e[{count}];", scope.language.vectors
        form = _STRUCTURE if built_in is None else built_in.structure
        text = form.format(aligned=attribute, name=name, body=body)
        scope.definitions.structs[name] = guarded(name, text)
    return name, ()


# }}}

