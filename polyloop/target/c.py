"""The C target: C11, one function, for any C compiler."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.language import Constants, Functions, Language, LoopStyle, Syntax
from polyloop.kernel.limits import DeviceLimits
from polyloop.target.base import Target
from polyloop.target.mathtable import C_FUNCTIONS, bit_definitions, c_definitions

__all__ = ["C_LANGUAGE", "CTarget"]

_LIMITS: Final = DeviceLimits(shared_bytes=227 * 1024, local_bytes=4 * 1024 * 1024, has_threads=False)
"""As much shared memory as the largest GPU has, and private arrays of half the stack that Linux gives a thread."""

_TYPES: Final = {
    "bool": "bool",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "unsigned int",
    "uint64": "uint64_t",
    "float16": "_Float16",
    "bfloat16": "bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
C_LANGUAGE: Final = Language(
    name="c",
    types=_TYPES,
    syntax=Syntax(
        header="#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>",
        function="void",
        helper="static inline",
        restrict="restrict",
    ),
    functions=Functions(C_FUNCTIONS),
    loops=LoopStyle(
        unroll="#pragma GCC unroll {count}", unroll_hint="#pragma GCC unroll 4", unroll_by="#pragma GCC unroll {count}"
    ),
    constants=Constants(
        infinity={"float32": "INFINITY", "float64": "(double)INFINITY"},
        not_a_number={"float32": "NAN", "float64": "(double)NAN"},
    ),
    definitions={
        **dict(c_definitions()),
        **dict(bit_definitions("static inline", _TYPES, "__builtin_clz{long}({x})", "__builtin_ctz{long}({x})")),
    },
)


def CTarget() -> Target:  # noqa: N802 - reads as the class that it is to users
    """Return the C target; kernels that are tagged for a GPU run on it too, as loops."""
    return Target("c", C_LANGUAGE, _LIMITS)
