"""Source spans of accesses, which diagnostics underline."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pymbolic.primitives as p

from polyloop.errors import KernelError, Site
from polyloop.expr.parser import parse_expression
from polyloop.frozen import replace
from polyloop.kernel.text.logical_lines import match_bracket
from polyloop.poly.affine import affine_of
from polyloop.program.lower import Access, Lowered

__all__ = ["site_of_access"]

_ASSIGNMENT = re.compile(r"(?<![=<>!])=(?!=)")


def site_of_access(statement: Lowered, access: Access) -> Site:
    """Return the site of *statement*'s instruction with *access* underlined, where its text has it in plain sight.

    What a substitution rule, or a parameter that became a number, hides is not underlined.
    """
    site = statement.instruction.site()
    found = [span for span, fits in _occurrences(site.text, access) if fits]
    if not found:
        return site
    assignment = _ASSIGNMENT.search(site.text)
    right = assignment.end() if assignment is not None else 0
    is_read = not statement.is_write(access)
    begin, end = next((span for span in found if is_read and span[0] >= right), found[0])
    return replace(site, mark=(begin, end - begin))


def _occurrences(text: str, access: Access) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield the positions of the variable of *access* in *text*, and whether it has its subscripts there."""
    for match in re.finditer(rf"\b{re.escape(access.array)}\b\s*(\[?)", text):
        if not match.group(1):
            begin = match.start()
            yield (begin, begin + len(access.array)), not access.indices
            continue
        end = match_bracket(text, match.end() - 1) + 1
        yield (match.start(), end), _fits(text[match.start() : end], access)


def _fits(text: str, access: Access) -> bool:
    try:
        expr = parse_expression(text)
    except KernelError:
        return False
    if not isinstance(expr, p.Subscript) or len(expr.index_tuple) != len(access.indices):
        return False
    forms = [affine_of(index) for index in expr.index_tuple]
    return all(wanted is None or form == wanted for form, wanted in zip(forms, access.indices, strict=True))
