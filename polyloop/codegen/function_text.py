"""Text of functions: parameters, definitions of axes, bodies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod

from polyloop.codegen.arguments import held_dtype
from polyloop.codegen.device.decoupled_lookback import ticket_lines
from polyloop.codegen.device.entries import Boxes, LookBack, Threads
from polyloop.codegen.functions import Function, hardware_of
from polyloop.codegen.loops.blocks import bound_text
from polyloop.codegen.loops.digits import digit_lines, digits_of
from polyloop.codegen.loops.grid import GridAxis
from polyloop.codegen.pointers import may_merge_loads
from polyloop.codegen.tree.c_ast import Group
from polyloop.codegen.tree.c_expr import Literal, Name
from polyloop.codegen.tree.cprinter import print_block
from polyloop.codegen.unit import Unit
from polyloop.expr.nodes import array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg
from polyloop.poly.axes import AXES, Level, level_of, thread_axis
from polyloop.schedule.plan import Launch

__all__ = ["device_text", "host_text"]


def device_text(function: Function, arguments: Sequence[Argument], unit: Unit) -> str:
    """Return the function of one launch."""
    launch, language = function.launch, unit.language
    parameters, lines = _signature(arguments, [launch], function, unit)
    bounds = language.syntax.launch_bounds.format(threads=prod(launch.local_size)) if launch.local_size else ""
    head = " ".join(part for part in (language.syntax.function, bounds, f"{launch.name}({parameters})") if part)
    body = _body_lines(function, is_named=_has_several([launch], unit))
    return "\n".join([head, "{", *lines, *_axis_lines(function, unit), *body, "}"])


def host_text(functions: Sequence[Function], unit: Unit) -> str:
    """Return one function that runs all launches."""
    launches = [function.launch for function in functions]
    parameters, lines = _signature(unit.inputs.arguments, launches, functions[0], unit)
    is_named = _has_several(launches, unit)
    if len(functions) > 1:
        functions = [replace(function, body=(Group(function.body),)) for function in functions if function.body]
    lines += chain.from_iterable(_body_lines(function, is_named=is_named) for function in functions)
    head = f"{unit.language.syntax.function} {unit.schedule.name}({parameters or 'void'})"
    return "\n".join([head, "{", *lines, "}"])


def _has_several(launches: Sequence[Launch], unit: Unit) -> bool:
    return len({statement.instruction for statement in unit.statements(*launches)}) > 1


def _signature(
    arguments: Sequence[Argument], launches: Sequence[Launch], function: Function, unit: Unit
) -> tuple[str, list[str]]:
    """Return the parameters of a function, and lines that convert integer ones to the type of indices."""
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
        if isinstance(argument, ArrayArg):
            whole = whole_of.get(argument.name, argument.name)
            const = "" if whole in written else "const "
            # With __restrict__ the compiler may keep a loaded value in a register across a barrier, although another
            # thread has stored a new one.
            meet = whole in exchanged or whole in passed
            shared = scope.language.has_axes and (meet or (const and merged))
            restrict = "" if shared else f"{scope.language.syntax.restrict} "
            texts.append(f"{space}{const}{ctype} *{restrict}{argument.name}")
        elif argument.name in unit.schedule.contract.parameters and argument.dtype != scope.index_dtype:
            given = scope.names.fresh(f"{argument.name}_arg")
            texts.append(f"{ctype} {given}")
            lines.append(f"    const {scope.index_type} {argument.name} = ({scope.index_type}){given};")
        else:
            texts.append(f"{ctype} {argument.name}")
    maps = dict.fromkeys(described.name for launch in launches for described in launch.maps)
    texts += [scope.language.need(Boxes).parameter.format(name) for name in maps]
    return ", ".join(texts), lines


def _body_lines(function: Function, *, is_named: bool) -> list[str]:
    """Return the lines of a function's body, with variables for indices that occur often."""
    names = function.scope.names

    def fresh(name: str) -> str | None:
        return None if name in names.taken else names.fresh(name)

    return print_block(function.scope.indices.settle(function.body, fresh), name_instructions=is_named)


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
        parts = []
        for axis in AXES:
            if level_of(axis) is kind and axis in scope.used:
                own = scope.language.need(Threads).axes[hardware.get(axis, axis)]
                text = chains.ticket if chains is not None and kind is Level.GRID else own
                if axis in shifts:
                    text = f"({scope.index_type}){text} + {_first_text(shifts[axis], function, unit)}"
                parts.append(f"{scope.values[axis]} = {text}")
        if parts:
            lines.append(f"    const {scope.index_type} {', '.join(parts)};")
    return lines + digit_text


def _first_text(axis: GridAxis, function: Function, unit: Unit) -> str:
    first = bound_text(axis.lower, function.scope, unit.known.context, "min", "max")
    return first.text if isinstance(first, Name | Literal) else f"({first})"
