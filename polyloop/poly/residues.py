"""Parameters with a known residue: ``n mod 4 = 0``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import islpy as isl

__all__ = ["Divisibility", "residues"]

Divisibility: TypeAlias = Mapping[str, tuple[int, int]]
"""``n -> (m, r)`` where ``n mod m = r`` is known."""


def residues(assumptions: isl.Set) -> dict[str, tuple[int, int]]:
    """Return the residues of single parameters that *assumptions* fix."""
    if not any(basic.dim(isl.dim_type.div) for basic in assumptions.get_basic_sets()):
        return {}
    found: dict[str, tuple[int, int]] = {}
    for position in range(assumptions.dim(isl.dim_type.param)):
        name = str(assumptions.get_dim_name(isl.dim_type.param, position))
        as_set = isl.Set.from_params(assumptions).move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        info = as_set.get_stride_info(0)
        modulus = info.get_stride().to_python()
        offset = info.get_offset()
        if modulus > 1 and offset.is_cst():
            found[name] = (modulus, offset.get_constant_val().to_python() % modulus)
    return found
