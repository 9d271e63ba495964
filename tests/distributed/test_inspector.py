"""Inspectors: what data selects is what is sent, once a call; arrays of a rank's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.distributed import programs
from tests.distributed.programs import compare

D, INT = np.float64, np.int32
BLOCKS = {"x": "block", "y": "block", "val": "block, *", "col": "block, *"}


def remote(col: np.ndarray[Any, Any], ranks: int) -> int:
    """Return the number of elements that all ranks read of others, each once."""
    block = -(-len(col) // ranks)
    found = 0
    for low in range(0, len(col), block):
        read = np.unique(col[low : low + block])
        found += int(((read < low) | (read >= low + block)).sum())
    return found


def test_elements_that_no_row_reads_are_not_sent() -> None:
    case, ranks = programs.sparse(), 7
    count = remote(case.inputs()["col"], ranks)
    assert sum(compare(case, (ranks,))) == count*8 + case.sizes["most"]*count*8  # a list of indices, then values
    found = case.divided((ranks,)).explain(**case.sizes)
    assert found.bytes > case.sizes["most"]*count*8
    assert "at most" in str(found)


def test_an_inspector_runs_anew_in_each_call() -> None:
    case = programs.sparse()
    divided, sizes = case.divided((3,)), dict(case.sizes)
    given = [case.inputs(), {**case.inputs(), "col": np.full((14, 3), 13, INT)}]

    def program(engine: pl.Engine) -> list[Any]:
        run = divided.compile(engine, pl.CTarget())
        found = []
        for arrays in given:
            parts = {name: run.scatter(name, value, **sizes) for name, value in arrays.items()}
            run(**parts, **sizes)
            found.append(run.gather("x", parts["x"], **sizes))
        return found

    for results in pl.run_ranks(3, program, timeout=60):
        for arrays, result in zip(given, results, strict=True):
            whole = {name: value.copy() for name, value in arrays.items()}
            programs.undivided(case.kernel)(**whole, **sizes)
            np.testing.assert_array_equal(result, whole["x"])


def test_an_inspector_runs_in_the_first_call_alone_where_that_is_asked_for() -> None:
    """The second call sends no lists, with other values and on ranks whose own arrays have other lengths."""
    case, ranks = programs.sparse_gradients(), 3
    divided = case.divided((ranks,))

    def program(engine: pl.Engine) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
        run = divided.compile(engine, pl.CTarget(), once=True)
        sent = []
        results = []
        for _ in range(2):
            before = run.sent
            results.append(case.on_rank(run))
            sent.append(run.sent - before)
        return results[0], results[1], sent

    found = pl.run_ranks(ranks, program, timeout=60)
    for first, second, sent in found:
        for name, value in first.items():
            np.testing.assert_array_equal(second[name], value)
        assert sent[1] < sent[0]
    totals = [sum(sent[call] for _, _, sent in found) for call in range(2)]
    assert totals[0] == totals[1] + totals[1]//case.sizes["most"]  # lists have as many numbers as one iteration sends


@pytest.mark.parametrize("text", [
    "y[i] = if(val[i, 0] > 0.5, x[col[i, 0]], 0.0)",             # the subscript is good in one case alone
    "col[i, 0] = (col[i, 0] + 1) % n\ny[i] = x[col[i, 0]]",      # and written here
], ids=["condition", "written"])
def test_where_an_inspector_cannot_know_all_elements_are_sent(text: str) -> None:
    kernel = pl.make_kernel("{[i]: 0 <= i < n}", f"for i\n{text}\nend", [
        pl.GlobalArg("x, y", D, shape="n"), pl.GlobalArg("val", D, shape="n, 1"),
        pl.GlobalArg("col", INT, shape="n, 1"), ...], name="some", assumptions="n >= 1")
    case = programs.Case(kernel, {name: BLOCKS[name] for name in BLOCKS if name in kernel.arrays()}, "i:mesh.0",
                         {"n": 9}, {}, "", lambda rng, name, shape, _: rng.integers(0, 9, shape).astype(INT)
                         if name == "col" else None)
    assert sum(compare(case, (3,))) == case.divided((3,)).explain(n=9).bytes == 3*6*8


@pytest.mark.parametrize(("text", "message"), [
    ("for i\ny[i] = own[i]\nend\nfor i\nown[i] = 0.0\nend", "'own' is written, and each rank would have its own"),
    ("s[0] = own[0]\nfor i\ny[i] = s[0]*x[i]\nend", "every rank runs 'insn', and each has another 'own'"),
])
def test_arrays_of_ranks_are_read_by_them_alone(text: str, message: str) -> None:
    kernel = pl.make_kernel("{[i]: 0 <= i < n}", text, [
        pl.GlobalArg("y, own", D, shape="n"), pl.GlobalArg("x", D, shape="n"), pl.GlobalArg("s", D, shape="1"), ...],
        name="own", assumptions="n >= 1")
    with pytest.raises(pl.KernelError) as err:
        pl.distribute(kernel, {"x": "block", "y": "block", "own": "local"}, "i:mesh.0")
    assert err.value.codes == ("bad-distribution",)
    assert message in str(err.value)
