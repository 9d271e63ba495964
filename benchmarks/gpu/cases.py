"""What is measured, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.gpu.case import Arrays, Case
from benchmarks.gpu.elementwise import ELEMENTWISE
from benchmarks.gpu.neighbours import NEIGHBOURS
from benchmarks.gpu.precisions import PRECISIONS
from benchmarks.gpu.products import PRODUCTS
from benchmarks.gpu.rows import ROWS
from benchmarks.gpu.sparse import SPARSE

__all__ = ["CASES", "Arrays", "Case"]

_ALL: Final = (*ELEMENTWISE, *NEIGHBOURS, *ROWS, *SPARSE, *PRODUCTS, *PRECISIONS)
CASES: Final[Mapping[str, Case]] = {case.name: case for case in _ALL}
"""By name."""
