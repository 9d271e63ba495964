"""Remarks of a certificate: what is carried out by other means than the kernel asks for, or than some devices have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from polyloop.codegen.device.entries import SubGroups
from polyloop.codegen.language import Language
from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import array_name
from polyloop.kernel.tags import Vectorize
from polyloop.kernel.tree import runs
from polyloop.poly.axes import is_axis
from polyloop.schedule.plan import Launch, Schedule, Statement
from polyloop.schedule.serial import serial_statements

__all__ = ["remarks_of"]

_MOST: Final = 3
_DIVIDE: Final = 'divide a loop whose iterations are independent: pl.split_iname(knl, iname, length, outer_tag="g.0")'


def remarks_of(schedule: Schedule, language: Language, program: GeneratedProgram) -> Iterator[Diagnostic]:
    """Yield the warnings of code generation, loops of one block or thread, and what stands in for sub-groups."""
    yield from (note for _, note in program.notes)
    if language.has_axes:
        for launch in schedule.launches:
            if serial := serial_statements(schedule, launch):
                yield _of_one_block(launch, serial)
    elif not language.is_parallel and any(map(is_axis, (d for s in schedule.statements.values() for d in s.dims))):
        yield _of_one_thread(language.name)
    if not language.has_axes and not language.loops.lanes:
        yield from _of_one_lane(schedule, language.name)
    if language.has_axes and language.warp_size == 1:
        yield from _through_memory(schedule, language.find(SubGroups))


def _of_one_block(launch: Launch, serial: list[Statement]) -> Diagnostic:
    names = list(dict.fromkeys(f"'{statement.instruction}'" for statement in serial))
    listed = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if names[_MOST:] else "")
    message = f"one block of launch '{launch.name}' executes the loops of {listed}"
    return Diagnostic("serial-launch", message, ("blocks share loops with the tags g.0, g.1 and g.2",), (_DIVIDE,))


def _of_one_thread(language: str) -> Diagnostic:
    message = f"blocks and threads are loops of one thread: target '{language}' was made without threads"
    hint = "take pl.CTarget(openmp=True), by which threads share the blocks"
    return Diagnostic("serial-launch", message, (), (hint,))


def _of_one_lane(schedule: Schedule, language: str) -> Iterator[Diagnostic]:
    """Yield the remark that nothing tells the compiler which loops are lanes of vectors."""
    lanes = sorted(iname for iname, tag in schedule.loops.tags.items() if isinstance(tag, Vectorize))
    if lanes:
        message = f"lanes of {', '.join(map(repr, lanes))} are loops, in which the compiler may find vectors or not"
        reason = f"target '{language}' was made without directives"
        hint = "take pl.CTarget(openmp=True), by which the vector unit executes them"
        yield Diagnostic("not-vectorized", message, (reason,), (hint,))


def _through_memory(schedule: Schedule, groups: SubGroups | None) -> Iterator[Diagnostic]:
    """Yield the remark that threads combine values through local memory, where a device may have something better."""
    combined = [
        (statement.collective.operation.name, str({t.name: t.dtype for t in launch.temporaries}.get(target)))
        for launch in schedule.launches
        for statement in (schedule.statements[name] for name in runs(launch.whole))
        if statement.collective is not None and statement.collective.scratch is not None
        for target in [array_name(statement.lhs)]
    ]
    left = [one for one in combined if groups is None or one not in groups.reductions]
    if left:
        message = "threads of a work-group combine values through local memory, with a barrier for each step"
        reason = "the target was made without sub-groups" if groups is None else "sub-groups have no such operation"
        hint = 'for a device that has them: pl.OpenCLTarget(queue.device, version="3.0")'
        yield Diagnostic("no-sub-groups", message, (reason,), (hint,) if groups is None else ())
