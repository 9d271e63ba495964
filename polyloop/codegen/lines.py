"""Lines of a generated text: none is too long, and the instruction of each is known; directives for debuggers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polyloop.codegen.language import Language
from polyloop.codegen.tree.cprinter import KEEP, MARK
from polyloop.codegen.width import fitted
from polyloop.errors import Place

__all__ = ["finished"]


def finished(text: str, places: Mapping[str, Place], name: str, language: Language) -> tuple[str, tuple[str, ...]]:
    """Return a text without marks, and the instruction of each of its lines.

    Lines that are too long are broken, unless they are the user's.  Where a target asks for it, line directives lead to
    the user's text; then a statement whose place is known stays on one line, whatever its length.

    ::

        z[i] = s*x[i] + y[i];
        ->
        #line 3 "scaled.loops"
        z[i] = s*x[i] + y[i];
        #line 12 "scaled.cu"

    The second directive leads back to the generated text.

    Parameters
    ----------
    places
        Instruction -> place.
    name
        Name of the kernel.
    """
    found: list[tuple[str, str]] = []
    is_back = False
    for line, instruction in _unmarked(text):
        place = places.get(instruction) if language.loops.line else None
        span = None if place is None else place.span
        if span is None:
            kept = line.startswith(KEEP)
            found += [(part, instruction) for part in ([line[1:]] if kept else fitted(line))]
            is_back = False
            continue
        if is_back:  # nothing stands between two statements
            found.pop()
        is_back = True
        found += [(_directive(span.line, span.file or f"{name}.loops", language), ""), (line, instruction)]
        found.append((_directive(len(found) + 2, f"{name}.{language.name[:2]}", language), ""))
    lines, instructions = zip(*found, strict=True)
    return "\n".join(lines) + "\n", instructions


def _unmarked(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its instruction, which is empty where a line has none."""
    for line in text.splitlines():
        plain, _, rest = line.partition(MARK)
        instruction, _, behind = rest.partition(MARK)
        yield plain + behind, instruction


def _directive(line: int, file: str, language: Language) -> str:
    quoted = file.replace("\\", "\\\\").replace('"', '\\"')
    return language.loops.line.format(line=line, file=f'"{quoted}"')
