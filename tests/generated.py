"""Generated texts as tests compare them: without comments, and wherever lines end."""

from __future__ import annotations

import re

__all__ = ["bare", "code_of", "flat"]


def bare(text: str) -> str:
    """Return a text without comments: other lines stay as they are."""
    return re.sub(r" *//[^\n]*", "", re.sub(r"^ *//[^\n]*\n", "", text, flags=re.MULTILINE))


def code_of(text: str) -> str:
    """Return a text without the comment at its head."""
    return text.partition("\n\n")[2] if text.startswith("//") else text


def flat(text: str) -> str:
    """Return a text without comments, on one line."""
    words = " ".join(re.sub(r"//[^\n]*", "", text).split())
    return re.sub(r" ([)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", words))
