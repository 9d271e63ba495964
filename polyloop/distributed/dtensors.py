"""Arrays of ``torch.distributed.tensor``: a DTensor's local tensor as the part of a rank, and the other way round.

::

    u: DTensor, (Shard(0), Shard(1)) on a mesh (2, 2)      {"u": "block, block"} over mesh=(2, 2)

A local tensor is what a rank owns.  Where the part has a halo, it is a view of the part's inside.
"""
# ruff: noqa: ANN401  # tensors

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from polyloop.distributed.regions import Box, Coordinates, Regions
from polyloop.errors import ArgumentError, Diagnostic

__all__ = ["as_dtensor", "checked", "is_dtensor", "part_of"]

_MODULE: Final = "torch.distributed.tensor"
_PART: Final = "polyloop_part"


def is_dtensor(value: object) -> bool:
    """Return whether *value* is a DTensor."""
    module: Any = sys.modules.get(_MODULE)
    return module is not None and isinstance(value, module.DTensor)


def _placements(regions: Regions, array: str) -> list[str]:
    """Return the placement of an array on each axis of the mesh."""
    places = {axis: place for place, axis in enumerate(regions.axes(array)) if axis is not None}
    return [f"Shard({places[axis]})" if axis in places else "Replicate()" for axis in range(len(regions.mesh))]


def _shown(placement: Any) -> str:
    """Return a placement as it is written in a program."""
    kind = type(placement).__name__
    return f"{kind}({placement.dim})" if kind == "Shard" else "Replicate()" if kind == "Replicate" else f"{kind}(..)"


def _refused(regions: Regions, code: str, message: str, *notes: str, hint: str) -> ArgumentError:
    return ArgumentError("distribute", regions.homes.kernel.name, [Diagnostic(code, message, notes, (hint,))])


def _check_mesh(regions: Regions, array: str, device_mesh: Any) -> None:
    """Refuse a mesh of devices that is not the kernel's.

    Raises
    ------
    ArgumentError
        ``mesh-mismatch``.
    """
    ranks = getattr(device_mesh, "mesh", None)
    if ranks is None:
        raise _refused(regions, "mesh-mismatch", f"'{array}' needs a DeviceMesh, and got {device_mesh!r}",
                       hint=f'init_device_mesh("cpu", {regions.mesh})')
    if tuple(ranks.shape) != regions.mesh:
        raise _refused(regions, "mesh-mismatch", f"'{array}' is on a DeviceMesh of shape {tuple(ranks.shape)}, and the "
                       f"kernel is divided over a mesh {regions.mesh}",
                       hint=f'init_device_mesh("{device_mesh.device_type}", {regions.mesh})')
    numbers = ranks.reshape(-1).tolist()
    if numbers != [*range(len(numbers))]:
        raise _refused(regions, "mesh-mismatch", f"the DeviceMesh of '{array}' has ranks in another order", str(ranks),
                       hint="the last axis of the mesh has the nearest numbers, as init_device_mesh makes it")


def _check_blocks(regions: Regions, array: str) -> None:
    """Refuse an array whose shards would be of another length than its blocks.

    Raises
    ------
    ArgumentError
        ``wrong-placement``.
    """
    for place, (extent, axis) in enumerate(zip(regions.shape(array), regions.axes(array), strict=True)):
        if axis is not None and (shard := -(-extent // regions.mesh[axis])) != regions.blocks[axis]:
            raise _refused(
                regions, "wrong-placement", f"'{array}' has blocks of {regions.blocks[axis]} along axis {place}, and a "
                f"DTensor has shards of {shard}", f"the longest array along mesh.{axis} has {regions.extents[axis]} "
                f"elements, and '{array}' {extent}", hint="pass a part: run.scatter(..), run.empty(..)")


def checked(regions: Regions, array: str, value: Any) -> Any:
    """Return the local tensor of a DTensor, which is what this rank owns of an array.

    Raises
    ------
    ArgumentError
        ``mesh-mismatch``, ``wrong-placement``; ``wrong-part``: its shape is not that of the array.
    """
    _check_mesh(regions, array, value.device_mesh)
    wanted, found = _placements(regions, array), [*map(_shown, value.placements)]
    if found != wanted:
        raise _refused(
            regions, "wrong-placement", f"'{array}' is placed as ({', '.join(found)}), and the division has "
            f"({', '.join(wanted)})", hint=f"{array}.redistribute(placements=[{', '.join(wanted)}])")
    if tuple(value.shape) != regions.shape(array):
        raise _refused(regions, "wrong-part", f"'{array}' has the shape {regions.shape(array)}, and got a DTensor of "
                       f"shape {tuple(value.shape)}", hint="a DTensor has the shape of the whole array")
    _check_blocks(regions, array)
    return value.to_local()


def part_of(
    regions: Regions, position: Coordinates, array: str, value: Any, buffers: dict[Any, Any]
) -> tuple[Any, Callable[[], object] | None]:
    """Return a rank's part from a DTensor, and what copies it back; None where the part is the tensor's own memory.

    Copies are made where the local tensor has no room for a halo, into *buffers* that are kept.

    Raises
    ------
    ArgumentError
        As :func:`checked`.
    """
    local = checked(regions, array, value)
    stored, owned = regions.stored(position, array), regions.owned(position, array)
    if stored == owned:
        return local, None
    inside = _inside(stored, owned)
    part = getattr(value, _PART, None)
    if part is not None and _is_at(part[inside], local):
        return part, None
    key = (array, local.dtype, local.device)
    if key not in buffers:
        buffers[key] = local.new_zeros([high - low for low, high in stored])
    buffers[key][inside] = local
    return buffers[key], lambda: local.copy_(buffers[key][inside])


def _is_at(view: Any, local: Any) -> bool:
    """Return whether two tensors are the same memory."""
    return bool(view.dtype == local.dtype and (view.data_ptr(), view.shape, view.stride()) == (
        local.data_ptr(), local.shape, local.stride()))


def _inside(stored: Box, owned: Box) -> tuple[slice, ...]:
    return tuple(slice(low - first, high - first)
                 for (low, high), (first, _) in zip(owned, stored, strict=True))


def as_dtensor(regions: Regions, array: str, part: Any, device_mesh: Any, position: Coordinates) -> Any:
    """Return a DTensor whose local tensor is what a rank owns in *part*, without a copy.

    Raises
    ------
    ArgumentError
        As :func:`checked`.
    """
    _check_mesh(regions, array, device_mesh)
    _check_blocks(regions, array)
    module: Any = import_module(_MODULE)
    places = [module.Replicate() if text == "Replicate()" else module.Shard(int(text[len("Shard(") : -1]))
              for text in _placements(regions, array)]
    shape = regions.shape(array)
    local = part[_inside(regions.stored(position, array), regions.owned(position, array))]
    found = module.DTensor.from_local(local, device_mesh, places, run_check=False,
                                      shape=import_module("torch").Size(shape), stride=_row_major(shape))
    setattr(found, _PART, part)
    return found


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    steps = [1]
    for extent in reversed(shape[1:]):
        steps.insert(0, steps[0] * extent)
    return tuple(steps)
