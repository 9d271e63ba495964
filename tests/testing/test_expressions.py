"""Random expressions against NumPy, on every target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyloop.codegen.tree.c_expr import INDEX_PLUS
from polyloop.testing.expressions import batches, check_expressions, main
from polyloop.testing.typed import DATA


@pytest.mark.parametrize("target", ["c", "cuda", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_targets_compute_what_numpy_computes(target: str) -> None:
    for drawn in batches(100, 7, 100):
        assert list(map(str, check_expressions(drawn, (target,)))) == []


def test_the_interpreter_computes_what_numpy_computes() -> None:
    for drawn in batches(60, 8, 60):
        assert list(map(str, check_expressions(drawn, ("interpreter",)))) == []


def test_all_types_are_drawn() -> None:
    found = {each.type for drawn in batches(400, 9, 100) for each in drawn}
    assert found >= set(DATA)


def test_a_fault_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    (drawn,) = batches(1, 3, 1)
    (each,) = drawn
    wrong = replace(each, value=~each.value if each.value.dtype.kind in "biu" else each.value + 1)
    (fault,) = check_expressions([wrong], ("interpreter",))
    assert fault.text == each.text
    assert main(["--count", "2", "--targets", "interpreter"]) == 0
    assert "2 expressions, 0 faults" in capsys.readouterr().out


def test_a_subscript_that_binds_less_than_a_sum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = INDEX_PLUS._replace(first=0, later=0, negative=0)
    monkeypatch.setattr("polyloop.codegen.tree.c_expr.INDEX_PLUS", bare)
    (drawn,) = batches(150, 4, 150)
    faults = list(check_expressions([each for each in drawn if "t_" in each.text], ("c",)))
    assert any("&" in fault.text for fault in faults)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_targets_compute_what_numpy_computes_at_length(seed: int) -> None:
    assert main(["--count", "1000", "--seed", str(seed), "--batch", "100"]) == 0
