"""Fast paths of the proofs: the general ones find the same, with the same instances."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

import polyloop as pl
from polyloop.dataflow import direct_links, last_writes, value_flow
from polyloop.dataflow.last_writes import seen_by_definition
from polyloop.errors import Witness
from polyloop.memo import forgotten
from polyloop.proof.obligation import findings
from polyloop.testing.drawing.breaks import broken
from polyloop.verification import accumulators, order, values
from polyloop.verification.correspondence import Comparison
from polyloop.verification.order import order_obligations
from polyloop.verification.origins import Use
from polyloop.verification.provenance import expression_obligations
from polyloop.verification.values import value_obligations
from tests.gallery import GALLERY

NAMES = sorted(name for name, entry in GALLERY.items() if not entry.refused)


def no(*_: object) -> bool:
    return False


def yes(*_: object) -> bool:
    return True


def nothing(*_: object) -> None:
    return None


FAST: dict[str, tuple[tuple[object, str, Callable[..., object]], ...]] = {
    "distances between accesses": ((order, "keeps_order", no),),
    "arrays whose order cannot matter": ((order, "_needs_order", yes),),
    "one writer that overwrites nothing": ((order, "_overwrites", yes),),
    "a write in the same iteration": ((value_flow, "_direct", nothing),),
    "one instance for each read": ((direct_links, "_instance_link", nothing),),
    "reads before all writes": ((value_flow, "_is_first", no),),
    "writes by the loops around them": ((value_flow, "seen", seen_by_definition),),
    "elements that nothing writes": ((last_writes, "_may_be_written", yes),),
    "numbers that are digits": tuple((where, "separates", no) for where in (values, value_flow, direct_links)),
    "copies of one instance each": ((values, "_is_once", no),),
    "forms that are the same at sight": ((Use, "is_same", no),),
    "sums inside of one iteration": ((accumulators, "is_nested", no),),
}
"""Fast paths, each with what to put in the place of functions so that it is not taken."""


def found(knl: pl.LoopKernel) -> list[tuple[str, Witness | None]]:
    """Return the codes and instances of what is wrong with *knl*, if its expressions are the program's."""
    try:
        comparison = Comparison(knl)
        for obligations in (expression_obligations, value_obligations, order_obligations):
            if wrong := [(finding.code, finding.witness) for finding in findings(knl, obligations(comparison))]:
                return wrong
    except pl.PolyloopError as error:
        return [(code, None) for code in error.codes]
    return []


def programs(path: str, *, every: int) -> Iterator[tuple[str, pl.LoopKernel]]:
    """Yield programs of the gallery, others for each path, and some of them broken."""
    begin = list(FAST).index(path)
    for name in NAMES[begin % every :: every]:
        knl = GALLERY[name].build()
        yield name, knl
        variants = [*broken(knl)]
        for label, other in random.Random(name + path).sample(variants, min(3, len(variants))):
            yield f"{name} with {label}", other


@pytest.mark.parametrize("path", FAST)
def test_the_general_path_finds_the_same(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, knl in programs(path, every=12):
        with forgotten():
            fast = found(knl)
            with monkeypatch.context() as patch:
                for owner, function, instead in FAST[path]:
                    patch.setattr(owner, function, instead)
                general = found(knl)
        assert general == fast, name
