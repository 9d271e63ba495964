"""Colors pass the contrast rules of WCAG 2.1 (1.4.3, level AA) wherever text is on a background."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from polyloop.viz.colors import INKS, PAPERS, SHADES

LEAST = 4.5


def luminance(color: str) -> float:
    parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_that_of_the_rules() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("theme", "ink"), [(theme, ink) for theme in INKS for ink in INKS[theme]])
def test_text_is_legible_on_every_background(theme: str, ink: str) -> None:
    found = {paper: contrast(INKS[theme][ink], color) for paper, color in PAPERS[theme].items()}
    assert {paper: value for paper, value in found.items() if value < LEAST} == {}


@pytest.mark.parametrize("theme", [*SHADES])
def test_steps_of_a_heat_map_are_told_apart_and_carry_text(theme: str) -> None:
    steps = [SHADES[theme][f"s{n}"] for n in range(5)]
    assert all(contrast(INKS[theme]["ink"], step) >= LEAST for step in steps)
    lights = [luminance(step) for step in steps]
    assert all((a > b) if theme == "light" else (a < b) for a, b in pairwise(lights))


def test_both_themes_have_the_same_names() -> None:
    for table, theme in product((INKS, PAPERS, SHADES), ("dark",)):
        assert table[theme].keys() == table["light"].keys()
