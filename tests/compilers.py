"""The C compilers of this machine, as ``CC`` names them."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import Final

from polyloop.errors import CompilerError
from polyloop.runtime.ccompile import build_library

__all__ = ["COMPILERS", "knows_halves"]

_NAMES: Final = ("cc", *(f"gcc-{k}" for k in range(9, 17)), *(f"clang-{k}" for k in range(12, 24)))
_ZIG: Final = [f"{sys.executable} -m ziglang cc"] if importlib.util.find_spec("ziglang") is not None else []

COMPILERS: Final = [*filter(shutil.which, _NAMES), *_ZIG]
"""The one that is used by itself first."""


def knows_halves() -> bool:
    """Return whether the compiler in ``CC`` has ``_Float16``."""
    try:
        build_library("_Float16 twice(_Float16 a) { return 2 * a; }\n")
    except CompilerError:
        return False
    return True
