"""Loops that one thread, or one block, executes, although their iterations might be shared: remarks on them."""

from __future__ import annotations


import islpy as isl

from polyloop.codegen.unit import Unit
from polyloop.errors import Diagnostic
from polyloop.poly.axes import is_axis, is_grid_axis
from polyloop.schedule.plan import Launch, Statement

__all__ = ["look_at_serial_loops"]

_HINT = 'divide a loop whose iterations are independent: pl.split_iname(knl, iname, length, outer_tag="g.0")'


def look_at_serial_loops(unit: Unit) -> None:
    """Note the nests of loops that no blocks share: a warning for threads of a processor, otherwise a remark."""
    means = unit.findings.means
    for launch in unit.schedule.launches:
        statements = unit.statements(launch)
        serial = [s for s in statements if _is_long(s, launch) and not _is_shared(s)]
        if unit.language.has_axes:
            if serial:
                means[f"serial-launch {launch.name}"] = _of_one_block(launch, serial)
        elif not unit.language.is_parallel:
            if any(is_axis(dim) for statement in statements for dim in statement.dims):
                means["serial-launch"] = _of_one_thread(unit.language.name)
        elif any(map(_is_shared, statements)):
            for statement in serial:
                unit.findings.notes[statement.instruction, ""] = _beside_blocks(statement, launch)


def _is_long(statement: Statement, launch: Launch) -> bool:
    """Return whether a statement is in a loop of a launch whose number of iterations is not a constant."""
    own = [n for n, dim in enumerate(statement.dims) if not is_axis(dim) and dim not in launch.hosts]
    return any(not _values(statement.domain, dim).is_bounded() for dim in own if statement.dims[dim] not in statement.bounds)


def _is_shared(statement: Statement) -> bool:
    """Return whether more than one block executes a statement."""
    axes = [n for n, dim in enumerate(statement.dims) if is_grid_axis(dim)]
    return any(not _values(statement.domain, axis).is_singleton() for axis in axes)


def _values(domain: isl.Set, dim: int) -> isl.Set:
    """Return the values that one dimension has for any sizes."""
    count = domain.dim(isl.dim_type.set)
    one = domain.project_out(isl.dim_type.set, dim + 1, count - dim - 1).project_out(isl.dim_type.set, 0, dim)
    return one.project_out(isl.dim_type.param, 0, one.dim(isl.dim_type.param))


def _of_one_block(launch: Launch, serial: list[Statement]) -> Diagnostic:
    names = ", ".join(dict.fromkeys(f"'{statement.instruction}'" for statement in serial))
    message = f"one block of launch '{launch.name}' executes the loops of {names}"
    return Diagnostic("serial-launch", message, ("blocks share loops with the tags g.0, g.1 and g.2",), (_HINT,))


def _of_one_thread(language: str) -> Diagnostic:
    message = f"blocks and threads are loops of one thread: target '{language}' was made without threads"
    return Diagnostic("serial-launch", message, (), ("take pl.CTarget(openmp=True), by which threads share the blocks",))


def _beside_blocks(statement: Statement, launch: Launch) -> Diagnostic:
    """Return the note that one thread executes a nest of a launch whose other nests are shared."""
    return Diagnostic(
        "serial-launch",
        f"one thread executes the loops of '{statement.instruction}' in launch '{launch.name}'",
        ("threads share the iterations of loops with the tags g.0, g.1 and g.2",),
        (_HINT,),
    )
