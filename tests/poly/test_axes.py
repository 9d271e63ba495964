"""Names of hardware axes: built and taken apart in one module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polyloop.poly import axes
from polyloop.poly.axes import Level

PACKAGE = Path(axes.__file__).parent.parent
BY_HAND = re.compile(
    r"""\[0\] == "[gl]"|\[1:2\] [!=]= "\."|int\(\w*axis\w*\[2|f"[gl]\.\{|"\." (not )?in (name|x|dim|axis)\b"""
)


@pytest.mark.parametrize(("name", "level", "number"), [
    ("g.0", Level.GRID, 0), ("g.2", Level.GRID, 2), ("l.1", Level.BLOCK, 1), ("l.4.8", Level.BLOCK, 4),
    ("l.0016.2", Level.BLOCK, 16), ("l.4.", Level.BLOCK, 4),
])  # fmt: skip
def test_an_axis_is_taken_apart(name: str, level: Level, number: int) -> None:
    assert axes.is_axis(name)
    assert axes.level_of(name) is level
    assert axes.number_of(name) == number
    assert (axes.is_block_axis(name), axes.is_thread_axis(name)) == (level is Level.GRID, level is Level.BLOCK)


@pytest.mark.parametrize("name", ["i", "g", "l", "l_0", "_", "lane", "g0"])
def test_an_iname_is_none(name: str) -> None:
    assert not axes.is_axis(name)
    assert axes.level_of(name) is None
    assert axes.loops_among(["l.0", name, "g.0"]) == [name]


def test_names_are_built() -> None:
    assert axes.AXES == ("g.0", "g.1", "g.2", "c.0", "l.0", "l.1", "l.2")
    assert (axes.block_axis(1), axes.thread_axis(2), axes.digit_axis(8, 4)) == ("g.1", "l.2", "l.8.4")
    assert [axes.letter_of(axis) for axis in axes.THREAD_AXES] == ["x", "y", "z"]


def test_no_other_module_takes_names_of_axes_apart() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "axes.py" and "testing" not in path.parts
        for line in path.read_text(encoding="utf-8").splitlines()
        if BY_HAND.search(line)
    ]
    assert not found
