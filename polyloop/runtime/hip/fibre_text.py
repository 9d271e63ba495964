"""HIP C++ as text that fibres run: the parts of Clang's C++ that other compilers lack are replaced."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["hip_body", "hip_header", "wave_of"]

_VECTOR: Final = re.compile(r"typedef (\w+) (\w+) __attribute__\(\(ext_vector_type\((\d+)\)\)\);")
_WAVE: Final = re.compile(r"// HIP C\+\+ for \w+: waves of (\d+) lanes")
_WIDENED: Final = "(float)__builtin_bit_cast(_Float16, a.bits)"
_NARROWED: Final = "__builtin_bit_cast(unsigned short, (_Float16)a)"


def wave_of(body: str) -> int:
    """Return the lanes of a wave, as the first line of the text of a program says."""
    found = _WAVE.match(body)
    assert found is not None, "HIP C++ begins with the architecture"
    return int(found[1])


def hip_header() -> str:
    """Return the text that follows the header of fibres."""
    folder = Path(__file__).parent
    return "\n".join((folder / name).read_text() for name in ("fibres.h", "vectors.h"))


def hip_body(body: str) -> str:
    """Return the text of a program with types and conversions that any C++ compiler has."""
    body = body.replace(_WIDENED, "polyloop::widened(a.bits)").replace(_NARROWED, "polyloop::narrowed(a)")
    body = _VECTOR.sub(_vector, body)
    return body.replace("__builtin_bit_cast(_Float16, ", "__builtin_bit_cast(polyloop::Half, ")


def _vector(match: re.Match[str]) -> str:
    """Return the declaration of a vector as a structure."""
    element = {"_Float16": "polyloop::Half"}.get(match[1], match[1])
    return f"typedef polyloop::Vector<{element}, {match[3]}> {match[2]};"
