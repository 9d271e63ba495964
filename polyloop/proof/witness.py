"""Witnesses: instances in the inames of the reference program, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from polyloop.errors import Witness, WitnessInstance, WitnessKind
from polyloop.kernel.instruction import Copy
from polyloop.mapping.thread_mapping import Placed
from polyloop.poly.axes import is_axis
from polyloop.poly.sets import sample_pair
from polyloop.program.lower import Access

__all__ = ["element", "instance", "pair", "point_set", "sizes", "threads", "witness"]


def instance(statement: Placed, values: Mapping[str, int]) -> str:
    """Return ``(i=1, j=0)``: an instance in the inames of the reference program where it copies one."""
    return f"({', '.join(f'{name}={value}' for name, value in _named(statement, values).items())})"


def _named(statement: Placed, values: Mapping[str, int]) -> Mapping[str, int]:
    lowered = statement.lowered
    origin = lowered.instruction.origin
    named = {iname: form.evaluate(values) for iname, form in statement.forms.items()}
    named.update((name, value) for name, value in values.items() if not is_axis(name))
    if isinstance(origin, Copy):
        known = {name: form for name, form in origin.forms.items() if form.names() <= named.keys()}
        named = {name: form.evaluate(named) for name, form in known.items()}
    else:
        named = {name: named[name] for name in lowered.inames}
    return named


def sizes(statement: Placed, values: Mapping[str, int]) -> str:
    """Return `` with n=3``: the parameters of an instance, empty where there are none."""
    others = {name: value for name, value in values.items() if name not in statement.dims}
    return f" with {', '.join(f'{name}={value}' for name, value in others.items())}" if others else ""


def threads(statement: Placed, values: Mapping[str, int]) -> str:
    """Return ``g.0=0, l.0=3``: the thread that runs an instance."""
    return ", ".join(f"{axis}={values[axis]}" for axis in statement.dims if is_axis(axis))


def element(statement: Placed, access: Access, values: Mapping[str, int]) -> str:
    """Return ``a[1, 2]``: the element that *access* touches in one instance."""
    indices = _subscripts(statement, access, values)
    if not indices:
        return access.array
    return f"{access.array}[{', '.join('?' if index is None else str(index) for index in indices)}]"


def _subscripts(statement: Placed, access: Access, values: Mapping[str, int]) -> tuple[int | None, ...] | None:
    """Return the values of subscripts (None where unknown), None if *values* lack an iname of the access."""
    indices = statement.indices(access)
    if any(form is not None and not form.names() <= values.keys() for form in indices):
        return None
    return tuple(None if form is None else form.evaluate(values) for form in indices)


def witness(
    kind: WitnessKind,
    touched: tuple[Placed, Access, Mapping[str, int]],
    first: tuple[Placed, Mapping[str, int]],
    second: tuple[Placed, Mapping[str, int]] | None = None,
) -> Witness:
    """Return a witness as data; *touched* is an access to the element in question, with its instance."""
    statement, access, values = touched
    subscripts = _subscripts(statement, access, values)
    known = (None,) * len(access.indices) if subscripts is None else subscripts
    placed, at = first
    parameters = tuple((name, value) for name, value in at.items() if name not in placed.dims)
    other = None if second is None else _described(*second)
    return Witness(kind, access.array, known, parameters, _described(*first), other)


def _described(statement: Placed, values: Mapping[str, int]) -> WitnessInstance:
    point = tuple((name, values[name]) for name in statement.dims)
    origin = statement.lowered.instruction.origin
    instruction = origin.instruction if isinstance(origin, Copy) else statement.lowered.instruction.id
    return WitnessInstance(instruction, tuple(_named(statement, values).items()), statement.name, point)


def pair(
    relation: isl.Map, first: Placed, second: Placed, *, is_first: bool = True
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return a pair of instances of a nonempty *relation*, the first or any, each with the parameters' values."""
    found = sample_pair(relation, first.dims, second.dims, is_first=is_first)
    assert found is not None, "a witness was asked of an empty relation"
    parameters, left, right = found
    return {**parameters, **left}, {**parameters, **right}


def point_set(domain: isl.Set, dims: Sequence[str], values: Mapping[str, int]) -> isl.Set:
    """Return the one instance of *domain* that *values* names, parameters fixed too."""
    result = isl.Set.universe(domain.get_space())
    for position in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, position) or ""
        result = result.fix_val(isl.dim_type.param, position, values[name])
    for position, name in enumerate(dims):
        result = result.fix_val(isl.dim_type.set, position, values[name])
    return result
