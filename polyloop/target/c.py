"""The C target: C11, one function, compiled by whatever C compiler there is."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.language import Language
from polyloop.kernel.limits import DeviceLimits
from polyloop.target.base import Target
from polyloop.target.mathtable import math_functions

__all__ = ["C_LANGUAGE", "CTarget"]

C_LANGUAGE: Final = Language(
    name="c",
    types={
        "bool": "bool",
        "int8": "int8_t",
        "int16": "int16_t",
        "int32": "int",
        "int64": "int64_t",
        "uint8": "uint8_t",
        "uint16": "uint16_t",
        "uint32": "unsigned int",
        "uint64": "uint64_t",
        "float32": "float",
        "float64": "double",
    },
    index_types={32: "int", 64: "int64_t"},
    header="#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>",
    function="void",
    restrict="restrict",
    launch_bounds="",
    helper="static inline",
    axes={},
    shared="",
    block_barrier="",
    warp_barrier="",
    unroll="#pragma GCC unroll {count}",
    unroll_hint="#pragma GCC unroll 4",
    infinity={"float32": "INFINITY", "float64": "(double)INFINITY"},
    not_a_number={"float32": "NAN", "float64": "(double)NAN"},
    functions={
        **math_functions(),
        ("rsqrt", "float32"): "1.0f / sqrtf({0})",
        ("rsqrt", "float64"): "1.0 / sqrt({0})",
    },
    extremes={},
)


def CTarget() -> Target:  # noqa: N802 - reads as the class that it is to users
    """Return the C target; kernels that are tagged for a GPU run on it too, as loops."""
    return Target("c", C_LANGUAGE, DeviceLimits())
