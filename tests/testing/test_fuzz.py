"""The fuzzer as its user sees it: drawers for every transform, the command, failures made small."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl
from polyloop.schedule import build
from polyloop.testing import pairs
from polyloop.testing.drawing.drawers import DRAWERS, declared
from polyloop.testing.drawing.random_chains import Step, random_step
from polyloop.testing.drawing.random_kernels import Source, random_source
from polyloop.testing.fuzz import main, report
from polyloop.testing.pairs import Failure, Pair, Tally, check_pair, draw
from polyloop.testing.reduce import reduced
from polyloop.testing.side_by_side import main as side_by_side
from polyloop.testing.unwritten import reads_unwritten
from polyloop.transform.declare import fields_of
from polyloop.transform.registry import FUNCTIONS, TRANSFORMS


def test_every_transform_is_drawn() -> None:
    assert FUNCTIONS.keys() == DRAWERS.keys()
    knl = random_source(8).make()
    rng = random.Random(0)
    names = {random_step(rng, knl).name for _ in range(1500)}
    assert names == FUNCTIONS.keys()


def test_a_transform_without_a_drawer_is_drawn_from_its_fields() -> None:
    knl = random_source(8).make()
    drawn = [DRAWERS["join_inames"](random.Random(seed), knl) for seed in range(100)]
    assert {name for arguments in drawn for name in arguments} == set(fields_of(TRANSFORMS["join_inames"]))
    assert all({*arguments["inames"]} <= {*knl.inames} for arguments in drawn)
    ids = {f"id:{instruction.id}" for instruction in knl.instructions}
    assert {arguments["within"] for arguments in drawn if "within" in arguments} <= ids
    assert any(arguments.keys() == {"inames"} for arguments in drawn)


def test_fields_that_do_not_say_enough_ask_for_a_drawer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyloop.testing.drawing.drawers.TRANSFORMS", {"peel": TRANSFORMS["shift"]})
    with pytest.raises(AssertionError, match="the fields of peel do not say enough: give it a drawer"):
        declared("peel", random.Random(0), random_source(8).make())


def test_every_transform_is_drawn_for_a_kernel_without_inames() -> None:
    """Seed 33401972: such a kernel has none to choose from."""
    for text in ("a[0] = 1", "<> s = 1.0"):
        knl = pl.make_kernel("{:}", text, silenced_warnings="*")
        for name in DRAWERS:
            for seed in range(10):
                assert isinstance(DRAWERS[name](random.Random(seed), knl), dict), name


def test_kernels_and_chains_are_the_same_each_time() -> None:
    assert random_source(5) == random_source(5)
    knl = random_source(8).make()
    assert random_step(random.Random(3), knl) == random_step(random.Random(3), knl)


def test_no_program_doubles_an_integer_in_a_loop() -> None:
    """Seed 90574 had ``s2 = s2 + s2`` in two loops, which overflows an int."""
    tally = check_pair(Pair(random_source(90574), (), (6,), 90574))
    assert tally.counts["runs compared"] == 1
    assert not tally.failures
    for seed in range(2000):
        assert not re.search(r"(s\d+) = \1 \+ \1$", "\n".join(random_source(seed).lines), re.MULTILINE)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "6", "--seed", "0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  pairs +6$", shown, re.MULTILINE)
    assert "pairs compared" in shown


def test_a_report_has_what_was_counted() -> None:
    tally = Tally()
    tally.counts["pairs"] = 2
    tally.witnesses["race", "real"] = 3
    tally.precision["race", "legal"] = 1
    other = Tally()
    other.add(tally)
    assert report(other) == (
        "counts\n  pairs        2\nwitnesses of refusals, by brute force\n  race   real 3\n"
        "refused kernels, by brute force at small sizes\n  race  legal 1"
    )


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "disagreement", lambda programs, *_: None if "x" not in str(programs.kernel) else "x!")
    source = random_source(8)
    steps = (Step("split_iname", {"split_iname": "i", "inner_length": 5}), Step("assume", {"assumptions": "n >= 1"}))
    pair = Pair(source, steps, (3, 4), 8)
    small = reduced(Failure("wrong-result", pair, ""))
    assert small.pair.steps == ()
    assert len(small.pair.source.lines) == 1
    assert small.pair.sizes == (3,)
    assert "x!" in small.text


def test_a_pair_is_tried_again() -> None:
    tally = check_pair(Pair(random_source(8), (), (4,), 8))
    assert tally.counts["runs compared"] == 1
    assert not tally.failures


def test_what_is_remembered_may_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (Step("split_iname", {"split_iname": "i", "inner_length": 5}),)
    pair = Pair(random_source(20), steps, (4,), 20)
    tally = check_pair(pair)
    assert tally.counts["pairs made without memory"] == 1
    assert not tally.failures

    @contextmanager
    def refusing() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Step, "__call__", lambda self, kernel: pl.rename_iname(kernel, "no such iname", "k"))
            yield

    monkeypatch.setattr(pairs, "forgotten", refusing)
    assert {failure.kind for failure in check_pair(pair).failures} == {"remembered"}


@pytest.mark.parametrize("refuses", [False, True])
def test_verdicts_of_two_checkouts(refuses: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The other checkout is this one, or one in which everything is refused."""
    (tmp_path / "polyloop.py").write_text(_REFUSING)
    other = tmp_path if refuses else Path(pl.__file__).parents[1]
    assert side_by_side([str(other), "--pairs", "3", "--seed", "20"]) == refuses
    shown = capsys.readouterr().out
    assert "3 pairs" in shown
    assert ("accepted here, dead-loop there: " in shown) is refuses


_REFUSING = """
class PolyloopError(Exception):
    codes = ("dead-loop",)

def __getattr__(name):
    raise PolyloopError
"""


def test_the_witness_of_terms_computed_ahead_is_checked() -> None:
    """A refusal named one instance, as if it had read too early what another one writes."""
    tally = Tally()
    steps = (Step("set_array_axis_names", {"ary_names": "a", "dim_names": ["axis0", "axis1"]}),
             Step("rename_inames_in_batch", {"batches": {"b1": ["i", "j"]}}),
             Step("affine_map_inames", {"old_inames": ["k", "i"], "new_inames": ["u", "v"],
                                        "equations": ["u = k + i", "v = i"]}),
             Step("prioritize_loops", {"loop_priority": ["u", "v"]}))  # fmt: skip
    assert draw(90340, tally, Pair(random_source(90340), steps, (8, 5), 90340)) is not None
    assert not tally.failures


def _source(domain: str, *lines: str) -> Source:
    data = (pl.GlobalArg("a", np.float64, shape="2*n + 8, 2*n + 8"), pl.GlobalArg("o", np.float64, shape="2*n + 8"))
    return Source("tried", (domain,), lines, data)


def test_a_tile_that_all_blocks_share_is_judged_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 33301922: the schedule put it in global memory, and brute force looked at one for each block."""
    monkeypatch.setattr(build, "_open", lambda proofs: ())
    square = "{[i, j]: 0 <= i, j < n}"
    data = (pl.GlobalArg("o0", np.float32, shape="n, n + 1"),)
    source = Source("left", (square,), ("o0[i, j] = o0[i, j + 1]",), data)
    steps = (
        Step("unchecked", {"reason": "brute force judges it"}),
        Step("split_iname", {"split_iname": "i", "inner_length": 2, "outer_tag": "g.0"}),
        Step("split_iname", {"split_iname": "j", "inner_length": 2, "outer_tag": "g.1"}),
        Step("add_prefetch", {"var_name": "o0", "sweep_inames": ["i_inner", "j_inner"]}),
    )
    tally = check_pair(Pair(source, steps, (6,), 1))
    assert tally.counts["accepted runs that are not legal, as was waived"] == 1
    assert not tally.failures


def test_what_may_be_undefined_is_not_compared_where_brute_force_cannot_say() -> None:
    """Seed 38001768: brute force knows no indices of the smallest terms, and the text printed what its stack held."""
    source = Source(
        "undefined",
        ("[n] -> {[i, k]: 0 <= i, k < n}",),
        ("t[i] = argmin(k, a[i, k], k).index {if=a[i, i] > 0}", "o[i] = t[i]"),
        (
            pl.GlobalArg("a", np.float64, shape="n, n"),
            pl.GlobalArg("o", np.float64, shape="n"),
            pl.TemporaryVariable("t", np.float64, shape="n"),
        ),
    )
    unconditional = replace(source, lines=(source.lines[0].partition("{if")[0], source.lines[1]))
    assert check_pair(Pair(unconditional, (), (3,), 1)).counts["pairs compared"] == 1
    assert check_pair(Pair(source, (), (3,), 1)).counts["pairs compared"] == 0


@pytest.mark.parametrize(("written", "compared"), [("n", 1), ("n - 1", 0)])
def test_what_data_reads_and_nothing_wrote_is_not_compared(written: str, compared: int) -> None:
    """Seed 410700653: brute force knows no records, each element was written or not, and the subscript was data."""
    source = Source(
        "unwritten",
        (f"[n] -> {{[i]: 0 <= i < {written}}}", "[n] -> {[j, k]: 0 <= j, k < n}"),
        ("t[i] = a[i]", "o[j] = argmin(k, t[idx[k] - 3], k).value"),
        (
            pl.GlobalArg("a, o", np.float64, shape="n"),
            pl.GlobalArg("idx", np.int32, shape="n"),
            pl.TemporaryVariable("t", np.float64, shape="n + 3"),
        ),
    )
    tally = check_pair(Pair(source, (), (4,), 1))
    assert tally.counts["pairs compared"] == compared
    assert not tally.failures


def test_results_that_depend_on_what_nothing_wrote() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        ["t[i] = 1 {if=a[i] > 0}", "o[i] = if(b[i] > 0, t[i], 0)"],
        [pl.GlobalArg("a, b, o", np.int32, shape="n"), pl.TemporaryVariable("t", np.int32, shape="n"), ...],
    )
    a, b = np.array([1, 0, 1, 0], np.int32), np.array([1, 0, 0, 0], np.int32)
    assert not reads_unwritten(knl, {"a": a, "b": b})
    assert not reads_unwritten(knl, {"a": a, "b": a})
    assert reads_unwritten(knl, {"a": b, "b": a})


def test_an_unused_number_can_be_renamed() -> None:
    """Seed 42802051: the judge passed it by the name that it had."""
    data = (pl.ValueArg("far", np.int64), pl.GlobalArg("o", np.float64, shape="n"), ...)
    source = Source("unused", ("[n] -> {[i]: 0 <= i < n}",), ("o[i] = i",), data)
    tally = check_pair(Pair(source, (Step("rename_argument", {"old_name": "far", "new_name": "near"}),), (3,), 1))
    assert tally.counts["runs compared"] == 1
    assert not tally.failures


def test_a_wrong_order_that_is_let_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "is_waived", lambda *_: False)  # as if the library had not been told
    source = _source("[n] -> {[i, j]: 1 <= i < n and 0 <= j < n - 1}", "a[i, j] = a[i-1, j+1] + 1")
    steps = (Step("unchecked", {"reason": "to see what happens"}), Step("prioritize_loops", {"loop_priority": "j, i"}))
    kinds = {failure.kind for failure in check_pair(Pair(source, steps, (5,), 1)).failures}
    assert kinds == {"accepted-illegal", "wrong-result"}


@pytest.mark.parametrize("waivers", [(), (Step("unchecked", {"reason": "brute force judges it"}),)], ids=["", "waived"])
def test_a_missing_barrier_is_noticed(waivers: tuple[Step, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    source = _source("[n] -> {[i, k]: 0 <= i, k < n}", "o[i] = sum(k, a[n - 1 - i, k])")
    steps = (
        *waivers,
        Step("split_iname", {"split_iname": "i", "inner_length": 4, "inner_tag": "l.0"}),
        Step("add_prefetch", {"var_name": "a", "sweep_inames": ["i_inner"]}),
    )
    pair = Pair(source, steps, (6,), 1)
    assert not check_pair(pair).failures
    monkeypatch.setattr("polyloop.schedule.synchronization.place_barriers", lambda tree, *_: tree)
    monkeypatch.setattr("polyloop.schedule.build.wait_obligations", lambda *_: ())
    (failure,) = check_pair(pair).failures
    assert failure.kind == "wrong-result"


WITNESSES = {
    "of rows whose length data decides": (
        7001780, {"illegal-order": "real"}, Step("duplicate_inames", {"inames": ["i"], "within": "id:insn_4"}),
        Source("rows", ("{[i]: 0 <= i < n}", "{[j]: begin <= j < stop}", "{[k]: 0 <= k < n}"),
               ("for i", "<> begin = rowptr[i]", "<> stop = rowptr[i + 1]", "<> s = y[i]", "for j",
                "s = s + sum(k, values[j]*x[k])", "end", "o0[i] = s", "end"),
               (pl.GlobalArg("rowptr", np.int32, shape="n + 1"), pl.GlobalArg("values", np.float64, shape="nnz"),
                pl.GlobalArg("x, y, o0", np.float64, shape="n"))),
    ),
    "of an instruction under another name": (
        7002975, {"illegal-parallel": "undecided"},
        Step("split_iname", {"split_iname": "i", "inner_length": 2, "outer_tag": "l.1"}),
        Source("renamed", ("[n] -> {[i]: 0 <= i < n}",), ("t0[i] = t0[i + 4] {if=x[i + 3] > 0}",),
               (pl.GlobalArg("x", np.float64, shape="2*n + 8"),
                pl.TemporaryVariable("t0", np.float64, shape=("2*n + 8",)))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WITNESSES)
def test_a_true_witness_is_not_called_false(what: str) -> None:
    seed, wanted, step, source = WITNESSES[what]
    before = Step("replace_instruction_ids", {"replacements": {"insn": "id40"}})
    tally = check_pair(Pair(source, (before, step), (5,), seed))
    assert not tally.failures
    assert dict(tally.witnesses.keys()) == wanted
