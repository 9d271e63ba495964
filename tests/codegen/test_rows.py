"""What domains say, as rows."""

from __future__ import annotations

from pathlib import Path

from tests.codegen.running import needs_compiler
from tests.codegen.test_fuzz import check


@needs_compiler
def test_that_a_remainder_is_one_is_said(tmp_path: Path) -> None:
    """One of these domains has ``i - 2*floor(i/2) = 1``: the coefficients are those of a bound on any remainder."""
    check(107, 30, tmp_path)
