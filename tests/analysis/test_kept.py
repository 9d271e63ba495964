"""Where distances say that accesses keep their order, ISL's dataflow finds the same writes behind the same reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import polyloop as pl
from polyloop.analysis import legality
from polyloop.analysis.comparison import Comparison
from polyloop.analysis.kept import keeps_order
from polyloop.analysis.placement import Placement
from polyloop.errors import PolyloopError
from polyloop.testing.drawers import DRAWERS
from polyloop.testing.random_kernels import random_source
from tests.gallery import GALLERY

EXAMPLES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
REORDERING = (
    "split_iname", "reverse", "interchange", "prioritize_loops", "map_domain", "shift", "tag_inames", "tile",
    "chunk_iname", "set_temporary_address_space", "join_inames", "duplicate_inames",
)  # fmt: skip


class Watch:
    """Takes the place of :func:`keeps_order` where orders are proven; whatever it says yes to is asked of ISL too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[str] = []
        self.left: list[str] = []
        self._inside = False
        monkeypatch.setattr(legality, "keeps_order", self)

    def __call__(self, new: Placement, old: Placement, variable: str) -> bool:
        if self._inside:
            return False
        if not keeps_order(new, old, variable):
            self.left.append(variable)
            return False
        self._inside = True
        comparison = Comparison(new.program.kernel)
        comparison.new = new
        comparison.old = old
        found = list(legality._array_violations(comparison, variable))
        self._inside = False
        assert found == [], f"{variable}: {found[0]}"
        self.kept.append(variable)
        return True


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = Watch(monkeypatch)
    yield watch
    monkeypatch.undo()


@pytest.mark.parametrize("name", sorted(GALLERY))
def test_gallery(name: str, watch: Watch) -> None:
    pl.verify(GALLERY[name].build())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, watch: Watch) -> None:
    pl.verify(import_module(f"examples.{name}").transformed())


def draw(seed: int, watch: Watch) -> None:
    rng = random.Random(seed)
    try:
        knl = random_source(seed).make()
    except PolyloopError:
        return
    for _ in range(4):
        name = rng.choice([name for name in REORDERING if name in DRAWERS])
        try:
            knl = getattr(pl, name)(knl, **DRAWERS[name](rng, knl))
        except PolyloopError:
            continue


def test_random_kernels(watch: Watch) -> None:
    for seed in range(30):
        draw(seed, watch)
    assert len(watch.kept) > 10
    assert len(watch.left) > 10


@pytest.mark.slow
def test_more_random_kernels(watch: Watch) -> None:
    for seed in range(1000, 1200):
        draw(seed, watch)
