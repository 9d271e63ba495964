"""Arguments of fused kernels, unified by name and by the data flow that the user states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import affine_of

__all__ = ["Flow", "flows_of", "unified"]

_EXAMPLE = 'write data_flow=[("out", 0, 1, "x")]: kernel 1 reads as x what kernel 0 writes as out'


@dataclass(frozen=True)
class Flow:
    """Data flow: the array that kernel ``writer`` writes as ``array`` is ``other`` in kernel ``reader``."""

    array: str
    writer: int
    reader: int
    other: str


def flows_of(given: Sequence[object], kernels: Sequence[LoopKernel], name: str) -> list[Flow]:
    """Return the data flow that the user states, checked against *kernels*.

    Raises
    ------
    KernelError
        ``bad-data-flow``.
    """
    found: list[Flow] = []
    for entry in given:
        match entry:
            case (str(array), int(writer), int(reader)):
                flow = Flow(array, writer, reader, array)
            case (str(array), int(writer), int(reader), str(other)):
                flow = Flow(array, writer, reader, other)
            case _:
                _refuse(name, f"{entry!r} states no data flow", _EXAMPLE)
        _check(flow, kernels, name)
        if any((flow.reader, flow.other) == (old.reader, old.other) and flow.array != old.array for old in found):
            _refuse(name, f"'{flow.other}' of kernel {flow.reader} cannot be two arrays", "state one of the two")
        found.append(flow)
    return found


def _refuse(name: str, message: str, hint: str, code: str = "bad-data-flow", notes: tuple[str, ...] = ()) -> NoReturn:
    raise KernelError("fuse_kernels", name, [Diagnostic(code, message, notes, (hint,))])


def _check(flow: Flow, kernels: Sequence[LoopKernel], name: str) -> None:
    for number in (flow.writer, flow.reader):
        if not 0 <= number < len(kernels):
            _refuse(name, f"there is no kernel {number}", f"kernels count from 0 to {len(kernels) - 1}")
    if flow.writer >= flow.reader:
        message = f"kernel {flow.reader} runs before kernel {flow.writer}, whose '{flow.array}' it would read"
        _refuse(name, message, "list the kernels in the order in which they run")
    for number, array, verb in ((flow.writer, flow.array, "writes"), (flow.reader, flow.other, "accesses")):
        kernel = kernels[number]
        instructions = kernel.instructions
        used = {name for i in instructions for name in (i.writes if verb == "writes" else (*i.reads, *i.writes))}
        arrays = [entry.name for entry in kernel.arguments if isinstance(entry, ArrayArg) and entry.name in used]
        if array not in arrays:
            hint = f"it {verb} {', '.join(arrays)}" if arrays else f"it {verb} no array argument"
            _refuse(name, f"kernel '{kernel.name}' {verb} no array argument '{array}'", hint)
    reader = kernels[flow.reader]
    if flow.array != flow.other and flow.array in reader.names():
        message = f"kernel '{reader.name}' has another '{flow.array}' besides '{flow.other}'"
        _refuse(name, message, "give one of them another name in its kernel")


def unified(kernels: Sequence[LoopKernel], name: str) -> tuple[Argument, ...]:
    """Return the arguments of all *kernels*, one for each name.

    Raises
    ------
    KernelError
        ``fusion-conflict``.
    """
    found: dict[str, tuple[Argument, str]] = {}
    for kernel in kernels:
        for argument in kernel.arguments:
            if argument.name in found:
                known, owner = found[argument.name]
                found[argument.name] = (_both(known, argument, (owner, kernel.name), name), owner)
            else:
                found[argument.name] = (argument, kernel.name)
    return tuple(argument for argument, _ in found.values())


def _both(one: Argument, other: Argument, owners: tuple[str, str], name: str) -> Argument:
    """Return the argument that is *one* in a kernel and *other* in a later one."""
    kinds = [_kind(one), _kind(other)]
    if type(one) is not type(other):
        _conflict(name, one.name, owners, kinds, "give one of the two another name")
    if one.dtype is not None and other.dtype is not None and one.dtype != other.dtype:
        _conflict(name, one.name, owners, kinds, "state one type for both, or give one of the two another name")
    dtype = one.dtype if one.dtype is not None else other.dtype
    if isinstance(one, ValueArg) or isinstance(other, ValueArg):
        return replace(one, dtype=dtype)
    if not _alike(one.shape, other.shape) or not _alike(one.strides, other.strides) or one.offset != other.offset:
        _conflict(name, one.name, owners, kinds, "declare one shape for both: pl.GlobalArg('x', shape='n')")
    alignments = [entry.alignment for entry in (one, other) if entry.alignment is not None]
    return replace(
        one,
        dtype=dtype,
        alignment=max(alignments, default=None),
        is_constant=one.is_constant and other.is_constant,
    )


def _kind(argument: Argument) -> str:
    dtype = "" if argument.dtype is None else f"{argument.dtype.name} "
    if isinstance(argument, ValueArg):
        return f"a {dtype}scalar"
    shape, strides = (", ".join(map(show, extents or ())) for extents in (argument.shape, argument.strides))
    return f"a {dtype}array of shape ({shape}), strides ({strides})"


def _conflict(name: str, argument: str, owners: tuple[str, str], kinds: Sequence[str], hint: str) -> NoReturn:
    notes = tuple(f"in '{owner}' it is {kind}" for owner, kind in zip(owners, kinds, strict=True))
    _refuse(name, f"'{argument}' is not the same in both kernels", hint, "fusion-conflict", notes)


def _alike(one: tuple[Expression, ...] | None, other: tuple[Expression, ...] | None) -> bool:
    if one is None or other is None or len(one) != len(other):
        return one is other
    return all(_equal(x, y) for x, y in zip(one, other, strict=True))


def _equal(one: Expression, other: Expression) -> bool:
    if one == other:
        return True
    form = affine_of(one)
    return form is not None and form == affine_of(other)
