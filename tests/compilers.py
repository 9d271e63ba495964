"""The C compilers of this machine, as ``CC`` names them."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import Final

__all__ = ["COMPILERS"]

_NAMES: Final = ("cc", *(f"gcc-{k}" for k in range(9, 17)), *(f"clang-{k}" for k in range(12, 24)))
_ZIG: Final = [f"{sys.executable} -m ziglang cc"] if importlib.util.find_spec("ziglang") is not None else []

COMPILERS: Final = [*filter(shutil.which, _NAMES), *_ZIG]
"""The one that is used by itself first."""
