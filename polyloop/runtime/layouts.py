"""Layouts that the arrays passed decide: strides and offsets, read from the arrays or chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from polyloop.errors import ArgumentError, Diagnostic
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.layout import packed, shared_address
from polyloop.runtime.evaluate import evaluate, names_in
from polyloop.runtime.views import ArrayView, call_error

__all__ = ["OpenLayout", "open_layouts", "refuse_shared_elements", "solve_layouts"]


@dataclass(frozen=True, slots=True)
class OpenLayout:
    """The scalar arguments that hold open strides and offset of an array.

    Attributes
    ----------
    strides
        Axis -> name of the argument that is its stride [elements].
    offset
        Name of the argument that is its offset [elements], None if that is not open.
    """

    array: ArrayArg
    strides: Mapping[int, str]
    offset: str | None


def open_layouts(arguments: Iterable[Argument]) -> tuple[OpenLayout, ...]:
    """Return the layouts that *arguments* leave open to the arrays passed."""
    listed = tuple(arguments)
    own = {a.name: a.layout_of for a in listed if isinstance(a, ValueArg) and a.layout_of is not None}
    found = []
    for array in listed:
        if not isinstance(array, ArrayArg) or array.name not in own.values():
            continue
        strides = {axis: stride.name for axis, stride in enumerate(array.strides or ())
                   if isinstance(stride, p.Variable) and own.get(stride.name) == array.name}
        offset = array.offset.name if isinstance(array.offset, p.Variable) else None
        found.append(OpenLayout(array, strides, offset if own.get(offset or "") == array.name else None))
    return tuple(found)


def solve_layouts(kernel: str, layouts: Iterable[OpenLayout], views: Mapping[str, ArrayView],
                  values: Mapping[str, int]) -> dict[str, int]:
    """Return strides and offsets that the equations of shapes and strides leave open.

    A stride along which no array has two elements is 1; an array that is to be allocated is packed.

    Raises
    ------
    ArgumentError
        ``missing-argument`` where no packed array has the strides that are fixed.
    """
    found: dict[str, int] = {}
    for layout in layouts:
        view = views.get(layout.array.name)
        if layout.offset is not None and layout.offset not in values:
            found[layout.offset] = 0 if view is None else view.offset
        unknown = {axis: name for axis, name in layout.strides.items() if name not in values}
        if view is not None:
            found.update(dict.fromkeys(unknown.values(), 1))
        elif unknown and _is_known(layout.array.shape or (), values):
            strides = _packed(kernel, layout, values)
            found.update((name, strides[axis]) for axis, name in unknown.items())
    return found


def _is_known(shape: Sequence[object], values: Mapping[str, int]) -> bool:
    return all(names_in(extent) <= values.keys() for extent in shape)


def _packed(kernel: str, layout: OpenLayout, values: Mapping[str, int]) -> list[int]:
    """Return the strides of a packed array that has the strides which are fixed."""
    array = layout.array
    assert array.shape is not None, f"the shape of '{array.name}' is unknown"
    assert array.strides is not None, f"the strides of '{array.name}' are unknown"
    shape = [evaluate(extent, values) for extent in array.shape]
    for order in ("C", "F"):
        strides = [evaluate(stride, {}) for stride in packed(shape, order)]
        if all(axis in layout.strides or not names_in(stride) <= values.keys()
               or evaluate(stride, values) == strides[axis] for axis, stride in enumerate(array.strides)):
            return strides
    raise call_error(kernel, Diagnostic(
        "missing-argument", f"the array '{array.name}' was not passed, and its strides are open",
        (f"it cannot be allocated: no packed array of shape {tuple(shape)} has its other strides",),
        (f"pass {array.name}=",)))


def refuse_shared_elements(kernel: str, array: ArrayArg, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Refuse an array that is written and has two elements at one address.

    Raises
    ------
    ArgumentError
        ``overlapping-elements``.
    """
    shared = shared_address(shape, strides)
    if shared is False:
        return
    raise _overlapping(kernel, array, shape, strides, shared)


def _overlapping(kernel: str, array: ArrayArg, shape: Sequence[int], strides: Sequence[int],
                 shared: tuple[tuple[int, ...], tuple[int, ...]] | bool) -> ArgumentError:
    name = array.name
    where = [f"{name}[{', '.join(map(str, at))}]" for at in shared] if isinstance(shared, tuple) else []
    return call_error(kernel, Diagnostic(
        "overlapping-elements",
        f"'{name}' is written, and two of its elements {'' if where else 'may '}have one address",
        (*([f"{' and '.join(where)} do"] if where else []),
         f"its shape is {tuple(shape)}, its strides are {tuple(strides)} elements"),
        (f"pass a copy of '{name}', such as np.ascontiguousarray({name})",)))
