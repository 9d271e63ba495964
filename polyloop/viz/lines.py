"""Lines of generated text and what they are about: the instruction, the loops around, the barrier, names of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from polyloop.viz.rows import Kind, Row

__all__ = ["SourceLine", "assigned", "barrier_keys", "source_lines"]

_COMMENT: Final = re.compile(r"//\s*(.*)$")
_LOOP: Final = re.compile(r"\s*for \((?:\w+ )*(\w+) = ")
_BARRIER: Final = re.compile(r"__syncthreads|__syncwarp|barrier")
_TARGET: Final = re.compile(r"([A-Za-z_]\w*)(?:\[[^=]*\])?(?:\.\w+)? *(?:[-+*/%&|^]|<<|>>)?=(?!=)")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class SourceLine:
    """A line of text.

    Attributes
    ----------
    instructions
        Ids of the instructions that the statement of the line belongs to.
    loops
        Inames of the loops around it, and of its own if it begins one.
    barrier
        The loop around a barrier with its number there, as in :func:`barrier_keys`; empty for other lines.
    target
        The array or variable that the statement assigns to; empty if it assigns to none, or is not of an instruction.
    """

    text: str
    instructions: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    barrier: str = ""
    target: str = ""

    def names(self) -> frozenset[str]:
        """Return the names in the code of the line."""
        return frozenset(_WORD.findall(_COMMENT.sub("", self.text)))


def assigned(text: str) -> str:
    """Return the name that an assignment assigns to; empty if *text* is none."""
    match = _TARGET.search(text)
    return match[1] if match is not None else ""


def source_lines(
    text: str, instructions: Sequence[str], writers: Mapping[str, str] | None = None
) -> tuple[SourceLine, ...]:
    """Return the lines of generated text.

    Parameters
    ----------
    instructions
        For each line the ids of its instructions, empty if it has none.
    writers
        The instruction of each array that one alone writes: for statements that are of no instruction.
    """
    found: list[SourceLine] = []
    around: list[tuple[int, str, int]] = []  # indentation, iname, number of barriers in it
    begun = 0  # the line with which the present statement begins
    outside = 0
    for number, (line, of) in enumerate(zip(text.splitlines(), instructions, strict=True)):
        depth = len(line) - len(line.lstrip())
        while line.strip() and around and depth <= around[-1][0]:
            around.pop()
        if match := _LOOP.match(line):
            around.append((depth, match[1], 0))
        code = _COMMENT.sub("", line).strip()
        barrier = ""
        if code.endswith(";") and _BARRIER.search(code):
            name, count = around[-1][1:] if around else ("", outside)
            barrier = f"{name}:{count}"
            if around:
                around[-1] = (around[-1][0], name, count + 1)
            else:
                outside += 1
        loops = tuple(name for _, name, _ in around)
        found.append(SourceLine(line, tuple(of.split(", ")) if of else (), loops, barrier))
        if code.endswith(";"):
            found[begun:] = _statement(found[begun:], writers or {})
        if not code or code[-1] in ";{}:" or code.startswith("#") or _LOOP.match(line) or code.startswith("if "):
            begun = number + 1
    return tuple(found)


def _statement(lines: Sequence[SourceLine], writers: Mapping[str, str]) -> list[SourceLine]:
    """Return the lines of a whole statement with its target and instructions."""
    target = assigned(" ".join(_COMMENT.sub("", line.text).strip() for line in lines))
    ids = lines[-1].instructions or tuple(filter(None, [writers.get(target)]))
    return [replace(line, instructions=ids, target=target if ids else "") for line in lines]


def barrier_keys(rows: Sequence[Row]) -> Iterator[str]:
    """Yield for each row of a loop tree the loop around a barrier with its number there; empty for other rows."""
    around: list[tuple[int, str, int]] = [(-1, "", 0)]
    for row in rows:
        while row.depth <= around[-1][0]:
            around.pop()
        if row.kind is Kind.LAUNCH:
            around.append((row.depth, "", 0))
        elif row.kind is Kind.LOOP:
            around.append((row.depth, row.name, 0))
        key = ""
        if row.kind is Kind.BARRIER:
            depth, name, count = around[-1]
            key = f"{name}:{count}"
            around[-1] = (depth, name, count + 1)
        yield key
