"""Generated texts as tests compare them: without comments, and wherever lines end."""

from __future__ import annotations

import re

__all__ = ["code_of", "flat"]


def code_of(text: str) -> str:
    """Return a text without the comment at its head."""
    return text.partition("\n\n")[2] if text.startswith("//") else text


def flat(text: str) -> str:
    """Return a text without comments, on one line."""
    words = " ".join(re.sub(r"//[^\n]*", "", text).split())
    return re.sub(r" ([)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", words))
