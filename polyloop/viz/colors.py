"""Colours of pictures and HTML, on light and on dark backgrounds.

Each ink is legible on each paper that it is used on: a contrast of 4.5 or more (WCAG 2.1, 1.4.3, level AA), which
``tests/viz/test_colors.py`` computes.  Nothing is told by colour alone: there is a word, a mark or a number with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["INKS", "PAPERS", "SHADES", "Theme", "rules"]

Theme = dict[str, str]

INKS: Final[dict[str, Theme]] = {
    "light": {
        "ink": "#1f2328", "quiet": "#57606a", "blue": "#0550ae", "green": "#116329", "red": "#a40e26",
        "purple": "#6639ba", "orange": "#953800",
    },
    "dark": {
        "ink": "#e6edf3", "quiet": "#a3acb6", "blue": "#79c0ff", "green": "#7ee787", "red": "#ff9d96",
        "purple": "#d2a8ff", "orange": "#ffb77c",
    },
}  # fmt: skip
"""Colours of text and lines."""

PAPERS: Final[dict[str, Theme]] = {
    "light": {
        "page": "#ffffff", "panel": "#f6f8fa", "on-blue": "#ddf4ff", "on-green": "#dafbe1", "on-red": "#ffebe9",
        "on-purple": "#fbefff", "on-orange": "#fff1e5",
    },
    "dark": {
        "page": "#0d1117", "panel": "#161b22", "on-blue": "#12273f", "on-green": "#12261e", "on-red": "#35171b",
        "on-purple": "#271f3a", "on-orange": "#2e2111",
    },
}  # fmt: skip
"""Colours behind text."""

SHADES: Final[dict[str, Theme]] = {
    "light": {"rule": "#d0d7de", "s0": "#ffffff", "s1": "#ffe6cc", "s2": "#ffc994", "s3": "#ffa95c", "s4": "#f28536"},
    "dark": {"rule": "#3d444d", "s0": "#0d1117", "s1": "#38280f", "s2": "#593505", "s3": "#784300", "s4": "#955000"},
}
"""Lines that divide, and the five steps of a heat map; its ink is legible on each step."""


def rules(theme: str, scope: str = "") -> Iterator[str]:
    """Yield rules of CSS for the classes ``f-NAME`` (fill) and ``s-NAME`` (stroke), each below *scope*."""
    for name, color in {**INKS[theme], **PAPERS[theme], **SHADES[theme]}.items():
        yield f"{scope}.f-{name}{{fill:{color}}}{scope}.s-{name}{{stroke:{color}}}"
