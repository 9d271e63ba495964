"""Comment at the head of a text: what it computes, sizes of arrays, launches, and what it takes for granted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import islpy as isl
import pymbolic.primitives as p

from polyloop.codegen.launches import host_lines, launch_text
from polyloop.codegen.program import DeviceLaunch, LaunchCheck
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import Reference
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, runs
from polyloop.poly.interval_text import interval_text
from polyloop.schedule.plan import Contract, Schedule
from polyloop.verification.computed_subscripts import Inside

__all__ = ["Described", "heading"]

_MOST_LINES: Final = 24
"""Lines of a program that are shown."""
_MOST: Final = 6
"""Names, and terms of indices, that are listed."""
_INDENT: Final = "    "
_EITHER: Final = re.compile(r"max\(\+(\w+), -\1\)")


class Described(NamedTuple):
    """A program without its text.

    Attributes
    ----------
    launches
        Launches of a device; none for a host.
    checks, index_checks
        The conditions on sizes, and those under which indices are exact.
    alignments
        Arrays with the alignment of their addresses [bytes].
    is_widened
        True if indices have 64 bits because 32 are never enough.
    """

    launches: Sequence[DeviceLaunch]
    checks: Sequence[LaunchCheck]
    index_checks: Sequence[LaunchCheck]
    alignments: Sequence[tuple[str, int]]
    is_widened: bool


def heading(schedule: Schedule, program: Described) -> Iterator[str]:
    """Yield the lines of the comment.

    ::

        axpy computes
            for i in [0, n)
                z[i] = alpha*x[i] + y[i]
        Sizes: x: n, y: n, z: n
        Launch: axpy, grid ((n + 255) / 256), block (256)
        Assumes: n >= 1; z overlaps no other array
        Indices have 32 bits: n must not exceed 2147483647
    """
    contract, written = schedule.contract, schedule.remarks.written
    if written is not None:
        yield f"{schedule.name} computes"
        lines = [*_program(written)]
        yield from (f"{_INDENT}{line}" for line in lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            yield f"{_INDENT}... and {len(lines) - _MOST_LINES} lines more"
    arrays = [argument for argument in contract.arguments if isinstance(argument, ArrayArg)]
    if sizes := [f"{a.name}: {_shape(a)}" for a in arrays if a.shape]:
        yield f"Sizes: {_listed(sizes)}"
    if any(launch.around or launch.condition for launch in program.launches):
        yield from host_lines(program.launches)
    else:
        yield from (f"Launch: {launch_text(launch)}" for launch in program.launches)
    granted = [*dict.fromkeys(map(_granted, program.checks))]  # two axes of one access are one condition to a reader
    granted += [f"{name} is aligned to {most} bytes" for name, most in program.alignments]
    granted += _apart(contract)
    if granted:
        yield f"Assumes: {'; '.join(granted)}"
    yield from _exact(program.index_checks)
    if program.is_widened:
        yield "Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these"


def _c_text(expression: Expression) -> str:
    """Return an expression in sizes as C has it; no operand of a quotient is negative."""
    text = show(expression).replace("//", "/")
    text = _EITHER.sub(r"abs(\1)", text)
    return text.replace(" and ", " && ").replace(" or ", " || ").replace("not ", "!")


def _granted(check: LaunchCheck) -> str:
    """Return the condition of a check; its message where instances have to be listed for it."""
    return check.message if isinstance(check.condition, Inside) else _c_text(check.condition)


def _listed(entries: Sequence[str]) -> str:
    more = [f"and {len(entries) - _MOST} more"] if len(entries) > _MOST + 1 else []
    return ", ".join([*entries[:_MOST], *(more or entries[_MOST:])])


def _shape(array: ArrayArg) -> str:
    return " x ".join(f"({text})" if " " in text else text for text in map(_c_text, array.shape or ()))


def _apart(contract: Contract) -> Iterator[str]:
    """Yield the arrays that share no memory with others."""
    arrays = [argument for argument in contract.arguments if isinstance(argument, ArrayArg)]
    written = [array.name for array in arrays if array.is_output or not array.is_input]
    if written and len(arrays) > 1:
        yield f"{_listed(written)} overlap{'s' * (len(written) == 1)} no other array"


def _exact(checks: Sequence[LaunchCheck]) -> Iterator[str]:
    """Yield the sizes under which indices of 32 bits are exact."""
    limits: dict[int, list[str]] = {}
    for check in checks:
        condition = check.condition
        if isinstance(condition, p.Comparison) and isinstance(condition.right, int) and condition.operator == "<=":
            limits.setdefault(condition.right, []).append(_c_text(condition.left))
    if (least := 2**31 - 1) in limits:
        yield f"Indices have 32 bits: {_listed(limits[least])} must not exceed {least}"


def _program(written: Reference) -> Iterator[str]:
    """Yield the lines of the program that the user wrote, with the bounds of its loops."""
    known = {instruction.id: instruction for instruction in written.kernel.instructions}
    assumptions = written.kernel.assumptions

    def lines(tree: Tree, indent: str) -> Iterator[str]:
        for node in tree:
            match node:
                case Loop():
                    inames, body = [node.iname], node.body
                    while len(body) == 1 and isinstance(inner := body[0], Loop):
                        inames, body = [*inames, inner.iname], inner.body
                    inside = next((known[name] for name in runs(body) if name in known), None)
                    yield f"{indent}for {', '.join(_bounds(iname, inside, assumptions) for iname in inames)}"
                    yield from lines(body, indent + _INDENT)
                case Run(name) if name in known:
                    yield indent + _statement(known[name], assumptions)
                case Run(name):
                    yield indent + written.steps.get(name, name)
                case Barrier(scope):
                    yield f"{indent}barrier of the {scope.value}"

    yield from lines(written.tree, "")


def _bounds(iname: str, inside: Instruction | None, known: isl.Set) -> str:
    if inside is None or iname not in inside.inames:
        return iname
    return interval_text(inside.domain, inside.inames, inside.inames.index(iname), known, {})


def _statement(instruction: Instruction, known: isl.Set) -> str:
    """Return an instruction with the bounds of its reductions."""
    found = {}
    for term in instruction.terms:
        for position, iname in enumerate(term.inames):
            if iname not in instruction.inames:
                found[iname] = interval_text(term.domain, term.inames, position, known, {})
    text = " ".join(str(instruction).split())
    return f"{text}, {', '.join(found.values())}" if found else text
