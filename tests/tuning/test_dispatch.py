"""``pl.dispatch``: conditions, choices, calls, records and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.tuning.conditions import AlignmentCondition, DeviceCondition, SizeCondition, TypeCondition

C = pl.CTarget()
PROGRAM = pl.make_kernel(
    "{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...], name="twice"
)


def plain(program: pl.LoopKernel = PROGRAM) -> pl.LoopKernel:
    return pl.split_iname(program, "i", 256, outer_tag="g.0", inner_tag="l.0")


def wide() -> pl.LoopKernel:
    knl = pl.split_iname(pl.assume(PROGRAM, "n mod 4 = 0"), "i", 4, inner_tag="vec")
    return pl.split_iname(knl, "i_outer", 256, outer_tag="g.0", inner_tag="l.0")


def fixed(n: int) -> pl.LoopKernel:
    return pl.split_iname(pl.fix_parameters(pl.assume(PROGRAM, "n <= 100"), n=n), "i", 16)


def several(**options: Any) -> pl.Dispatcher:
    return pl.dispatch(PROGRAM, {"fixed": fixed, "wide": wide(), "plain": plain()}, **options)


@pytest.mark.parametrize(("n", "name"), [(0, "fixed"), (1, "fixed"), (100, "fixed"), (104, "wide"), (101, "plain")])
def test_sizes_choose(n: int, name: str) -> None:
    d, x = several(target=C), np.arange(n, dtype=np.float32)
    assert d.choose(n=n).name == d.choose(x=x).name == name
    for _ in range(3):
        np.testing.assert_array_equal(d(x=x).y, 2*x)
    np.testing.assert_array_equal(d(x=x, n=n).y, 2*x)


def test_calls_of_several_sizes_in_turn() -> None:
    d = several(target=C)
    arrays = [np.arange(n, dtype=np.float32) for n in (8, 104, 101, 12)]
    outputs = [np.zeros_like(x) for x in arrays]
    for _ in range(4):
        for x, y in zip(arrays, outputs, strict=True):
            y[:] = -1
            d(x=x, y=y)
            np.testing.assert_array_equal(y, 2*x)


def test_conditions_are_data() -> None:
    d = several(target=pl.CudaTarget("sm_80"), device="A100")
    found = d.valid(n=104)["wide"].conditions
    assert {type(one) for one in found} == {SizeCondition, AlignmentCondition, DeviceCondition}
    assert [str(one) for one in found] == [
        "n % 4 == 0", "n >= 0", "'x' begins at a multiple of 16 bytes", "'y' begins at a multiple of 16 bytes",
        "on sm_80 or later"]  # fmt: skip


def test_alignment_chooses() -> None:
    d = several(target=pl.CudaTarget(), device="H200")
    assert d.choose(n=104).name == "wide"
    chosen = d.choose(n=104, alignment={"x": 4})
    assert chosen.name == "plain"
    assert chosen.rejected["wide"] == ("'x' begins at a multiple of 16 bytes: this one at a multiple of 4",)


def test_types_choose() -> None:
    program = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", shape="n"), ...])
    d = pl.dispatch(program, {name: plain(program.add_dtypes({"x": name, "y": name})) for name in
                              ("float32", "float64")}, target=C)  # fmt: skip
    for dtype in (np.float32, np.float64):
        assert d(x=np.ones(5, dtype)).y.dtype == dtype
        assert d.choose(n=5, dtypes={"x": dtype}).name == np.dtype(dtype).name
    assert any(isinstance(one, TypeCondition) for one in d.valid(n=5)["float32"].conditions)


def test_devices_choose() -> None:
    made = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...],
                          name="twice", target=pl.CudaTarget("sm_90a"))  # fmt: skip
    d = pl.dispatch(PROGRAM, {"own": plain(made), "plain": plain()}, device="A100")
    assert d.choose(n=5).name == "plain"
    assert d.choose(n=5).rejected["own"] == ("on sm_90a: this is sm_80",)


def test_no_schedule_is_valid() -> None:
    d = pl.dispatch(PROGRAM, {"wide": wide()}, target=C)
    with pytest.raises(pl.ArgumentError, match="no-schedule") as caught:
        d(x=np.ones(3, np.float32))
    assert "wide: n % 4 == 0 is false for n = 3" in str(caught.value)


def test_another_program_is_refused() -> None:
    other = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 3*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    with pytest.raises(pl.TuningError, match="other-program"):
        pl.dispatch(PROGRAM, {"other": other})
    with pytest.raises(pl.TuningError, match="other-program"):
        pl.dispatch(PROGRAM, {"other": PROGRAM.rename_argument("x", "z")})


def test_another_program_that_is_vouched_for() -> None:
    """Two sums of the same numbers; arguments are compared all the same."""
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), ...]
    other = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] + x[i]", data)
    d = pl.dispatch(PROGRAM, {"other": other, "plain": PROGRAM}, target=C, vouched=True)
    assert d.choose(n=3).name == "other"
    assert d(x=np.ones(3, np.float32)).y.tolist() == [2, 2, 2]
    with pytest.raises(pl.TuningError, match="other-program"):
        pl.dispatch(PROGRAM, {"other": PROGRAM.rename_argument("x", "z")}, vouched=True)


def test_bad_schedules() -> None:
    for none in ({}, [PROGRAM], PROGRAM, {1: PROGRAM}):
        with pytest.raises(pl.TuningError, match="no-schedules"):
            pl.dispatch(PROGRAM, none)  # type: ignore[arg-type]
    with pytest.raises(pl.TuningError, match="unknown-parameter"):
        pl.dispatch(PROGRAM, {"of": lambda q: q})
    with pytest.raises(pl.TuningError, match="bad-build"):
        pl.dispatch(PROGRAM, {"of": lambda n: n}, target=C).choose(n=3)


def test_what_was_measured_decides() -> None:
    d = several(target=C)
    d.read_record(
        '[{"sizes": {"n": 80}, "dtypes": {}, "device": "this processor", "seconds": {"fixed": 2, "plain": 1}}]'
    )
    assert d.choose(n=80).name == d.choose(n=100).name == "plain"
    assert d.choose(n=4).name == "fixed", "too far away"
    assert "measured on this processor around it, nearest at n = 80" in d.choose(n=100).why
    assert d.choose(n=80).seconds["plain"] == 1
    with pytest.raises(pl.TuningError, match="bad-record"):
        d.read_record("nothing")


def test_schedules_that_were_measured_to_be_slower_are_not_made() -> None:
    made: list[str] = []

    def of(name: str, size: int) -> Callable[[], pl.LoopKernel]:
        def make() -> pl.LoopKernel:
            made.append(name)
            return pl.assume(PROGRAM, f"n mod {size} = 0")

        return make

    d = pl.dispatch(PROGRAM, {"all": of("all", 1), "eighths": of("eighths", 8), "halves": of("halves", 2)}, target=C)
    d.read_record('[{"sizes": {"n": 80}, "dtypes": {}, "device": "this processor", "seconds": '
                  '{"all": 3, "halves": 2, "eighths": 1}}]')  # fmt: skip
    assert d.ranked(n=82) == ("eighths", "halves", "all")
    chosen = d.choose(n=82)
    assert (chosen.name, list(chosen.rejected)) == ("halves", ["eighths"])
    assert list(chosen.seconds) == ["halves", "all"]
    assert made == ["eighths", "halves"]
    assert d.ranked(n=4) == ()
    assert d.choose(n=81).name == "all"
    assert sorted(d.valid(n=81)) == ["all"]


def record(seconds: dict[int, dict[str, float]]) -> str:
    return json.dumps([{"sizes": {"n": n}, "dtypes": {}, "device": "this processor", "seconds": found}
                       for n, found in seconds.items()])


def test_times_are_interpolated_between_sizes() -> None:
    d = several(target=C)
    times = {n: {"plain": 1.0 + n/100, "wide": 3.0} for n in (64, 96, 128, 192, 256, 384, 512)}
    d.read_record(record(times))
    for n in (70, 100, 140, 180, 300, 400, 500):
        assert d.choose(n=n).name == ("plain" if n < 200 else "wide"), n
    assert "around it" in d.choose(n=500).why


def test_a_schedule_that_a_record_leaves_out_is_slower_there() -> None:
    d = several(target=C)
    d.read_record(record({64: {"plain": 1.0}, 96: {"plain": 1.0}, 512: {"wide": 1.0, "plain": 1.5}}))
    assert d.choose(n=80).name == "plain"
    assert d.choose(n=480).name == "wide"
    d.read_record(record({80: {"wide": 1.0}}))
    assert d.ranked(n=80)[0] == "wide", "the latest measurement of these sizes"


def test_alignment_of_sizes_counts() -> None:
    """What is fast where 16 divides the size is not taken from a size that is nearer and odd."""
    d = several(target=C)
    d.read_record(record({n: {"plain": 1.0, "wide": 2.0} for n in (81, 83)}
                         | {n: {"wide": 1.0, "plain": 2.0} for n in (64, 112)}))
    assert d.choose(n=96).name == "wide"
    assert d.choose(n=85).name == "plain"


def test_tuned_by_measuring() -> None:
    d = several(target=C)
    found = d.tune(x=np.ones(80, np.float32), seconds=0.5)
    assert {trial.choice["schedule"] for trial in found.trials} == {"fixed", "wide", "plain"}
    assert d.choose(n=80).name == found.best["schedule"]
    again = several(target=C)
    again.read_record(d.record())
    assert again.choose(n=80).name == found.best["schedule"]


def test_the_library_is_not_loaded_with_the_package() -> None:
    code = "import sys, polyloop; assert not [m for m in sys.modules if m.startswith('polyloop.library')]"
    subprocess.run([sys.executable, "-c", code], check=True)
