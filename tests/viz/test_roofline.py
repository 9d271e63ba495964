"""Rooflines: rates and parts are those of ``explain``, and points lie where they say."""

from __future__ import annotations

import re
from typing import Any

import pytest

import polyloop as pl
from polyloop.cli.kernels import axpy, matmul
from polyloop.kernel.devices import find_device
from polyloop.viz.roofline import _Entry, _Plot
from tests.viz.test_pictures import check, example


def test_parts_of_the_bound_are_those_of_the_times() -> None:
    found = [pl.explain(axpy(), {"n": 1 << 26}), pl.explain(matmul(), {"n": 4096})]
    picture = check(lambda: pl.draw_roofline(found, seconds=[2 * found[0].seconds, None]))
    lines = str(picture).splitlines()
    assert re.fullmatch(r"1  axpy +0\.167 +DRAM +168 us +336 us +50%", lines[2])
    assert re.fullmatch(r"2  matmul +683 +L1 and shared memory +12\.3 ms", lines[3])
    assert lines[4:] == ["memory: 4.8 TB/s", "float32: 66.9 Tflop/s, from 13.9 flop/byte on"]
    assert picture.svg().count("<circle") == 3


def test_points_lie_at_their_rates() -> None:
    found = pl.explain(axpy(), {"n": 1 << 26})
    plot = _Plot([_Entry(found, 10 * found.seconds)], find_device("H200"))
    (bound, measured) = (plot.place(found.intensity, rate) for rate, _ in _Entry(found, 10 * found.seconds).rates())
    decade = plot.place(1, 1)[1] - plot.place(1, 10)[1]
    assert bound[0] == measured[0]
    assert measured[1] - bound[1] == pytest.approx(decade)  # ten times the time is one decade below
    on_the_line = plot.place(found.intensity, found.intensity * plot.memory)
    assert bound[1] == pytest.approx(on_the_line[1])  # what memory bounds is on its line


def test_a_kernel_without_operations_is_in_the_table_alone() -> None:
    found = pl.explain(example("transpose").transformed(), {"m": 4096, "n": 4096})
    picture = check(lambda: pl.draw_roofline(found, seconds=32e-6))
    assert re.search(r"transpose  none +DRAM +28 us +32 us +87%", str(picture))
    assert "<circle" not in picture.svg()


def test_many_kernels_at_one_point_have_numbers_apart() -> None:
    found = pl.explain(axpy(), {"n": 1 << 26})
    picture = check(lambda: pl.draw_roofline([found] * 6, seconds=[found.seconds * 1.1] * 6))
    assert len([label for label in picture.labels if label.text == "6"]) == 3


def test_a_kernel_draws_itself_on_another_device() -> None:
    text = str(matmul().draw_roofline({"n": 512}, "A100"))
    assert text.startswith("roofline of NVIDIA A100")
    assert "memory: 2.04 TB/s" in text


@pytest.mark.parametrize(
    ("times", "devices", "says"),
    [
        ([1.0, 2.0], ["H200"], "1 kernels have 2 times"),
        (0.0, ["H200"], "a time is a positive number of seconds"),
        (None, ["H200", "A100"], "of several devices: NVIDIA H200, NVIDIA A100"),
        (None, [], "there is no kernel"),
    ],
)
def test_wrong_calls(times: Any, devices: list[str], says: str) -> None:
    found = [pl.explain(axpy(), {"n": 1024}, device) for device in devices]
    with pytest.raises(pl.ArgumentError) as caught:
        pl.draw_roofline(found, seconds=times)
    assert caught.value.codes == ("bad-roofline",)
    assert says in str(caught.value)
