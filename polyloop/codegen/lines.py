"""Line directives: the line of the user's that each statement of a generated text comes from."""

from __future__ import annotations

from collections.abc import Mapping

from polyloop.codegen.language import Language
from polyloop.codegen.tree.cprinter import MARK
from polyloop.errors import Place

__all__ = ["with_lines"]


def with_lines(text: str, places: Mapping[str, Place], name: str, language: Language) -> str:
    """Return a text whose statements are marked with line directives in the place of the marks.

    ::

        z[i] = s*x[i] + y[i];
        ->
        #line 3 "scaled.loops"
        z[i] = s*x[i] + y[i];
        #line 12 "scaled.cu"

    The second directive leads back to the generated text.  A statement whose place is not known stays in that.

    Parameters
    ----------
    places
        Instruction -> place.
    name
        Name of the kernel.
    """
    if not language.loops.line:
        return text
    found = list[str]()

    def directive(line: int, file: str) -> str:
        quoted = file.replace("\\", "\\\\").replace('"', '\\"')
        return language.loops.line.format(line=line, file=f'"{quoted}"')

    is_back = False
    for line in text.splitlines():
        plain, mark, rest = line.partition(MARK)
        instruction, _, behind = rest.partition(MARK)
        span = places[instruction].span if mark and instruction in places else None
        if span is None:
            found.append(plain + behind)
            is_back = False
            continue
        if is_back:  # nothing stands between two statements
            found.pop()
        is_back = True
        found += [directive(span.line, span.file or f"{name}.loops"), plain + behind]
        found.append(directive(len(found) + 2, f"{name}.{language.name[:2]}"))
    return "\n".join(found) + "\n"
