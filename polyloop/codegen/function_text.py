"""Text of functions: parameters, definitions of axes, bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, groupby
from math import prod
from typing import Final

import numpy as np

from polyloop.codegen.arguments import held_dtype
from polyloop.codegen.asked import condition_code
from polyloop.codegen.device.arrivals import arrives_last
from polyloop.codegen.device.cluster import begun, opens
from polyloop.codegen.device.decoupled_lookback import ticket_lines
from polyloop.codegen.device.entries import Boxes, Clusters, LookBack, Roles, Threads, Together
from polyloop.codegen.device.streamed import seen_by_others, streamed
from polyloop.codegen.functions import Function, hardware_of
from polyloop.codegen.loops.digits import digit_lines, digits_of
from polyloop.codegen.loops.grid import axis_text, shifted_text
from polyloop.codegen.loops.hosts import printed
from polyloop.codegen.loops.lanes import not_on_vectors
from polyloop.codegen.pointers import may_merge_loads
from polyloop.codegen.tree.c_ast import Block, For, Group, If, Node
from polyloop.codegen.tree.cprinter import print_block
from polyloop.codegen.tree.offsets import with_named_offsets
from polyloop.codegen.tree.parallel import (
    behind_pointers,
    has_block_loop,
    has_long_loop,
    in_vectors,
    lane_by_lane,
    shared_by_threads,
)
from polyloop.codegen.tree.team import in_one_team
from polyloop.codegen.unit import Unit
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.poly.axes import AXES, Level, is_grid_axis, level_of, thread_axis
from polyloop.schedule.plan import Launch, Statement
from polyloop.schedule.serial import serial_statements

__all__ = ["device_text", "host_text", "passed_inames"]

_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def device_text(
    function: Function, arguments: Sequence[Argument], unit: Unit, behind: Function | None = None
) -> str:  # fmt: skip
    """Return the function of one launch, and of the launch *behind* it whose blocks its last ones to arrive execute."""
    launch, language = function.launch, unit.language
    axes = _axis_lines(function, unit)  # they may use inames of the host, which then are parameters
    body = print_block(_body(function, unit), named=_named([launch], unit))
    own = [] if behind is None else _joined(function, behind, unit)
    members = [launch] if behind is None else [launch, behind.launch]
    parameters, lines = _signature(arguments, members, function, unit, _words((*axes, *body, *own)))
    bounds = _launch_bounds(launch, unit)
    clusters = language.need(Clusters).head.format(launch.cluster) if launch.cluster > 1 else ""
    parts = (language.syntax.function, clusters, bounds, f"{launch.name}({parameters})")
    head = " ".join(part for part in parts if part)
    lines += [f"    {begun(function.scope)}"] if opens(launch.tree) else []
    return "\n".join([head, "{", *lines, *axes, *body, *own, "}"])


def _joined(function: Function, behind: Function, unit: Unit) -> list[str]:
    """Return the lines by which the last block of a group to arrive executes a block of the launch *behind*."""
    scope, launch, counted = function.scope, function.launch, behind.launch.turns.joins
    assert counted is not None, "the launch behind is joined to this one"
    written = {array_name(target) for s in unit.statements(launch) for target in targets_of(s.lhs)}
    if behind.launch.maps or any(described.array in written for described in launch.maps):
        why = "the copy engine stores what other blocks need, or fetches what they have stored"
        raise CodegenError("generate_code", unit.schedule.name, [Diagnostic(
            "bad-arrivals", f"blocks of '{launch.name}' cannot go on to those of '{behind.launch.name}'", (why,),
            ("let threads store and fetch these arrays, or leave out pl.join_launches",))])
    threads = scope.language.need(Threads)
    condition = arrives_last(scope, launch, counted, unit.inputs.counters[launch.name].name, threads.axes)
    axes = _axis_lines(behind, unit)
    body = print_block(_body(behind, unit), named=_named([behind.launch], unit))
    test = f"    if ({condition}) {{  // all of the group have: this block goes on to {behind.launch.name}"
    return [test, *(f"    {line}" if line else line for line in (*axes, *body)), "    }"]


def _launch_bounds(launch: Launch, unit: Unit) -> str:
    """Return the launch bounds of the function of a launch, empty if there are none."""
    sizes, crew, syntax = launch.block, launch.turns.crew, unit.language.syntax
    if not sizes:
        return ""
    x, y, z = (*sizes, 1, 1)[:3]
    if crew is not None and crew.rest.registers:  # without a number of blocks, registers are not exchanged
        return unit.language.need(Roles).launch_bounds.format(threads=prod(sizes))
    return syntax.launch_bounds.format(threads=prod(sizes), x=x, y=y, z=z)


def host_text(functions: Sequence[Function], unit: Unit) -> str:
    """Return one function that runs all launches."""
    if any(function.launch.cluster > 1 for function in functions):
        unit.language.need(Clusters)
    launches = [function.launch for function in functions]
    if unit.language.is_parallel:
        _look_at_blocks(functions, unit)
    bodies = [(function, _asked(function, _body(function, unit))) for function in functions]
    program = _program(bodies, 0, is_only=len(functions) == 1)
    team = unit.language.loops.team
    program = program if team is None else in_one_team(program, team)
    text = print_block(program, named=_named(launches, unit))
    parameters, lines = _signature(unit.inputs.arguments, launches, functions[0], unit, _words(text))
    lines += text
    head = f"{unit.language.syntax.function} {unit.schedule.name}({parameters or 'void'})"
    return "\n".join([head, "{", *lines, "}"])


def _asked(function: Function, body: Block) -> Block:
    """Return the body of a launch under the condition that the host decides."""
    asked = function.launch.asked.launch
    return (If(condition_code(asked, function.scope, function.known), body),) if asked and body else body


def _look_at_blocks(functions: Sequence[Function], unit: Unit) -> None:
    """Refuse scans over blocks, each of which waits for the one before; note launches that one thread executes."""
    for function in functions:
        statements = unit.statements(function.launch)
        if any(s.collective is not None and s.collective.chain is not None for s in statements):
            unit.language.need(LookBack)
        if has_block_loop(function.body):
            for statement in serial_statements(unit.schedule, function.launch):
                unit.findings.notes[statement.instruction, ""] = _beside_blocks(statement, function.launch)
        elif has_long_loop(function.body):
            unit.findings.notes[function.launch.name, ""] = _serial(function.launch)


def _serial(launch: Launch) -> Diagnostic:
    """Return the note that one thread executes a launch."""
    return Diagnostic(
        "serial-launch",
        f"launch '{launch.name}' has no loop over blocks: one thread executes it",
        ("threads share the iterations of loops with the tags g.0, g.1 and g.2",),
        ('divide a loop whose iterations are independent: pl.split_iname(knl, iname, length, outer_tag="g.0")',),
    )


def _beside_blocks(statement: Statement, launch: Launch) -> Diagnostic:
    """Return the note that one thread executes a nest of a launch whose other nests are shared."""
    return replace(
        _serial(launch), message=f"one thread executes the loops of '{statement.instruction}' in launch '{launch.name}'"
    )


def passed_inames(function: Function, unit: Unit) -> tuple[str, ...]:
    """Return the inames of loops of the host that are arguments of a function of a device."""
    if not unit.language.has_axes:
        return ()
    return tuple(iname for iname in function.launch.hosts if iname in function.scope.used)


def _named(launches: Sequence[Launch], unit: Unit) -> frozenset[str]:
    """Return the instructions that comments name: those whose ids are the user's, unless there is one only."""
    several = len({statement.instruction for statement in unit.statements(*launches)}) > 1
    return unit.schedule.remarks.named if several else frozenset()


def _signature(
    arguments: Sequence[Argument],
    launches: Sequence[Launch],
    function: Function,
    unit: Unit,
    used: frozenset[str],
) -> tuple[str, list[str]]:
    """Return the parameters of a function, and lines that convert *used* integer ones to the type of indices."""
    scope, statements, whole_of = function.scope, unit.statements(*launches), unit.inputs.whole
    passed = frozenset(array.name for launch in launches for array in unit.inputs.passed(launch.name))
    written = passed.union(array_name(target) for s in statements for target in targets_of(s.lhs))
    exchanged = frozenset(name for launch in launches for name in launch.exchanged) & written
    arrays = frozenset(whole_of.get(a.name, a.name) for a in arguments if isinstance(a, ArrayArg))
    merged = may_merge_loads(statements, arrays)
    threads = scope.language.find(Threads)
    space = "" if threads is None else threads.global_space
    texts, lines = [], []
    for argument in arguments:
        dtype = held_dtype(argument)
        assert dtype is not None, f"'{argument.name}' has no type"
        ctype = scope.ctype(dtype)
        if isinstance(argument, ValueArg):
            ctype = scope.language.syntax.passed.get(dtype.name, ctype)
        if isinstance(argument, ArrayArg):
            whole = whole_of.get(argument.name, argument.name)
            const = "" if whole in written else "const "
            # With __restrict__ the compiler may keep a loaded value in a register across a barrier, although another
            # thread has stored a new one.
            meet = whole in exchanged or whole in passed
            shared = scope.language.has_axes and (meet or (const and merged))
            restrict = "" if shared else f"{scope.language.syntax.restrict} "
            texts.append(f"{space}{const}{ctype} *{restrict}{argument.name}")
        elif (
            argument.name in used
            and argument.name in unit.schedule.contract.parameters
            and argument.dtype != scope.index_dtype
        ):
            given = scope.names.fresh(f"{argument.name}_arg")
            texts.append(f"{ctype} {given}")
            lines.append(f"    const {scope.index_type} {argument.name} = ({scope.index_type}){given};")
        else:
            texts.append(f"{ctype} {argument.name}")
    texts += [f"{scope.index_type} {scope.values[iname]}" for iname in passed_inames(function, unit)]
    maps = dict.fromkeys(described.name for launch in launches for described in launch.maps)
    texts += [scope.language.need(Boxes).parameter.format(name) for name in maps]
    together = scope.language.find(Together)
    texts += [] if together is None else [together.block]
    return ", ".join(texts), lines


def _program(bodies: Sequence[tuple[Function, Block]], depth: int, *, is_only: bool) -> Block:
    """Return the bodies of launches with the same first *depth* loops of the host around, in the others."""
    found: list[Node] = []
    for home, group in groupby(bodies, key=lambda entry: entry[0].launch.home[2 * depth : 2 * depth + 2]):
        members = [*group]
        first = members[0][0]
        if home and first.loops is not None:
            inside = _program(members, depth + 1, is_only=len(members) == 1)
            found += printed(first.around[depth], inside, first.loops)
        else:
            found += chain.from_iterable(body if is_only else _apart(body, bodies) for _, body in members if body)
    return tuple(found)


def _apart(body: Block, bodies: Sequence[tuple[Function, Block]]) -> Block:
    """Return one of several launches in a scope of its own; in a program with loops of the host, a loop has one."""
    has_loops = any(function.launch.home for function, _ in bodies)
    return body if has_loops and len(body) == 1 and isinstance(body[0], For | If) else (Group(body),)


def _body(function: Function, unit: Unit) -> Block:
    """Return a function's body, with names for what indices and addresses share, and pragmas of independent loops."""
    names, values, loops = function.scope.names, function.scope.values, function.scope.language.loops

    def fresh(name: str) -> str | None:
        return None if name in names.taken else names.fresh(name)

    body = function.scope.indices.settle(function.body, fresh)
    if not loops.lanes:  # otherwise pointers take the place of what addresses share
        sizes = frozenset(unit.inputs.index_names)
        blocks = frozenset([str(values[axis]) for axis in AXES if is_grid_axis(axis) and axis in values])
        arrays = [argument for argument in unit.inputs.arguments if isinstance(argument, ArrayArg)]
        integers = frozenset([array.name for array in arrays if _is_narrow(array)])
        body = with_named_offsets(body, function.scope.index_type, sizes, blocks, integers, names.fresh)
    if loops.lanes:
        body = in_vectors(body, loops.lanes)
        for instruction, reason in lane_by_lane(body, loops.called):
            unit.findings.notes.setdefault((instruction, ""), not_on_vectors(instruction, reason))
    body = streamed(body, function.scope, unit.statements(function.launch))
    body = shared_by_threads(body, loops.blocks) if loops.blocks else body
    body = seen_by_others(body, function.scope.language)
    return behind_pointers(body, names.fresh) if loops.lanes else body


def _words(lines: Sequence[str]) -> frozenset[str]:
    """Return the words in the lines of a body."""
    return frozenset(word for line in lines for word in _WORD.findall(line))


def _is_narrow(array: ArrayArg) -> bool:
    """Return True if the elements of an array are integers that every type of indices holds."""
    return array.dtype == np.dtype("int32")


def _axis_lines(function: Function, unit: Unit) -> list[str]:
    """Return the lines that define the axes in use, and tickets and digits."""
    scope, launch = function.scope, function.launch
    shifts = {axis.name: axis for axis in function.axes if not axis.starts_at_zero}
    hardware, chains = hardware_of(launch, unit), unit.inputs.chains.get(launch.name)
    sizes = {thread_axis(n): size for n, size in enumerate(launch.local_size)}
    digit_text = digit_lines(digits_of(unit.statements(launch)), sizes, scope)
    lines: list[str] = []
    if chains is not None:
        lines += ticket_lines(chains, launch.local_size, scope.language.need(Threads), scope.language.need(LookBack))
    if function.numbering is not None:
        lines += function.numbering.constants()
        lines += [] if launch.order.persists else [f"    {line}" for line in function.numbering.own()]
    for kind in Level:
        if kind is Level.GRID and function.numbering is not None:
            continue
        threads = scope.language.need(Threads)
        parts = []
        for axis in AXES:
            if level_of(axis) is kind and axis in scope.used:
                own = axis_text(threads, hardware.get(axis, axis), launch.cluster)
                own = "0" if axis == launch.turns.joins else own
                text = chains.ticket if chains is not None and kind is Level.GRID else own
                if axis in shifts:
                    text = shifted_text(text, shifts[axis], scope, function.known)
                parts.append(f"{scope.values[axis]} = {text}")
        if parts:
            lines.append(f"    const {scope.index_type} {', '.join(parts)};")
    return lines + digit_text
