"""What the fuzzer draws, and that it finds the fault that each drawer is for, when that is put into the library."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.device.box_test import BoxTest
from polyloop.codegen.expressions.addresses import address
from polyloop.codegen.loops.rows import hull, pieces_of
from polyloop.codegen.loops.vector_access import _plan_of
from polyloop.codegen.names import Names
from polyloop.codegen.tree.c_expr import INDEX_PLUS, Code
from polyloop.frontend.expressions import _UPDATE
from polyloop.kernel.swizzle import Swizzle
from polyloop.kernel.text import domain_text
from polyloop.kernel.text.domain_text import read_domain
from polyloop.kernel.waivers import Waiver
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.affine import Affine
from polyloop.schedule.asked import _effects
from polyloop.sync.launches import Cuts, launch_cuts
from polyloop.sync.races import Need
from polyloop.target.scalars import _COMBINE, _COMPARE
from polyloop.testing.brute import Violation
from polyloop.testing.drawing.drawers import DRAWERS
from polyloop.testing.drawing.draws import AnySource, drawn_source
from polyloop.testing.drawing.numbers import Numbers, random_numbers
from polyloop.testing.drawing.random_functions import random_function
from polyloop.testing.drawing.random_kernels import random_arguments, random_source
from polyloop.testing.drawing.said_otherwise import said_otherwise
from polyloop.testing.drawing.twists import FAR, TWISTS, far, hostile
from polyloop.testing.pairs import check_pairs
from polyloop.testing.waived import is_waived

BEGIN = 500_000
DRAWN = (
    "Python", "apart", "barrier", "colliding names", "computed subscripts", *FAR, "guarded", "hostile names", "rules",
    "strided arrays", "strided domain", "union", "wide tiles", "bracketed domain", "infinite data", "mixed types",
    "boxes", "host loops", "asked by the host", "meetings", "loops in branches",
)  # fmt: skip
WIDTHS = ("8", "16", "32", "64")


@cache
def sources() -> dict[int, AnySource]:
    """Return the programs of some seeds."""
    return {seed: drawn_source(seed) for seed in range(BEGIN, BEGIN + 1600)}


def seeds(feature: str, most: int = 12) -> list[int]:
    """Return the first seeds whose programs have *feature*."""
    return [seed for seed, source in sources().items() if feature in source.features][:most]


def kinds(some: Sequence[int]) -> set[str]:
    """Return what kinds of failures the pairs of *some* seeds have, in a process that may die, as the fuzzer does."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        try:
            return {failure.kind for failure in pool.submit(check_pairs, some).result().failures}
        except BrokenProcessPool:
            return {"crash"}


def test_everything_is_drawn() -> None:
    counts = Counter(feature for source in sources().values() for feature in source.features)
    types = {f"type {sign}int{width}" for sign in ("", "u") for width in WIDTHS}
    assert counts.keys() == {*DRAWN, *types}
    assert min(counts[feature] for feature in DRAWN) >= 8
    assert min(counts[feature] for feature in types) >= 2


def test_what_was_drawn_is_counted() -> None:
    some = [seeds(feature, 1)[0] for feature in ("Python", "wide tiles")]
    tally = check_pairs(some)
    for feature in ("Python", "wide tiles"):
        assert [tally.drawn[feature, outcome] for outcome in ("drawn", "accepted", "compared")] == [1, 1, 1]
    assert tally.counts["meanings compared"] > 0
    assert not tally.failures


def test_each_twist_makes_kernels() -> None:
    for twist, _ in TWISTS:
        made = 0
        for seed in range(12):
            source = twist(random.Random(seed), random_source(seed))
            try:
                made += isinstance(source.make(), pl.LoopKernel)
            except pl.KernelError:
                continue
        assert made >= 4, twist.__name__


def test_large_inames_mean_what_small_ones_do() -> None:
    """A kernel whose inames are shifted computes what it computed, unless numbers of them are added."""
    compared = 0
    for seed in range(60):
        shifted = far(random.Random(seed), random_source(seed))
        if shifted.twin is None:
            continue
        try:
            kernel = shifted.make()
        except pl.KernelError:
            continue
        given = random_arguments(kernel, 4, seed, whole=True)
        wanted, found = shifted.expected(given), pl.interpret(kernel, **given)
        assert wanted is not None
        for name in found:
            np.testing.assert_array_equal(found[name], wanted[name], err_msg=shifted.script())
        compared += 1
    assert compared >= 8


def test_other_words_are_the_same_set() -> None:
    """What ISL reads of a drawn domain is what it reads of that of its twin."""
    compared, empty = 0, 0
    for seed in range(300):
        source = said_otherwise(random.Random(seed), random_source(seed))
        if source.twin is None:
            continue
        for other, plain in zip(source.domains, source.twin.domains, strict=True):
            if other != plain:
                assert isl.Set(other).is_equal(isl.Set(plain)), f"{other} is not {plain}"
                empty += isl.Set(plain).is_empty()
                compared += 1
    assert compared >= 150
    assert empty >= 5


def test_numbers_that_are_special_are_drawn() -> None:
    shape, rng = (40, 40), np.random.default_rng(0)
    drawn = np.stack([random_numbers(np.dtype("f4"), shape, rng, Numbers.INFINITE, ()) for _ in range(20)])
    assert np.isnan(drawn).any()
    assert {*drawn[np.isinf(drawn)]} == {np.inf, -np.inf}
    assert np.signbit(drawn[drawn == 0]).any()
    low = random_numbers(np.dtype("i2"), shape, rng, Numbers.MIXED, [np.dtype("i2"), np.dtype("f8")])
    assert {-(2**15), 2**15 - 1} <= {*low.flat}
    exact = random_numbers(np.dtype("i4"), shape, rng, Numbers.MIXED, [np.dtype("i4"), np.dtype("f4")])
    assert np.abs(exact).max() <= 3


def test_a_script_makes_the_same_kernel() -> None:
    source = hostile(random.Random(3), random_source(8))
    script: dict[str, Any] = {}
    exec(f"import numpy as np\nimport polyloop as pl\n{source.script()}", script)
    assert str(script["knl"]) == str(source.make())


def test_a_python_function_is_a_script() -> None:
    source = random_function(seeds("Python", 1)[0])
    assert source.script().startswith("@pl.kernel(assumptions=")
    assert source.script().endswith(f"knl = {source.name}")
    assert source.make().name == source.name


@pytest.mark.parametrize(
    ("claims", "found", "wanted"),
    [((), ("value",), True), ((), ("race", "out-of-bounds"), False), (("races",), ("race", "value"), True),
     (("races",), ("value",), False), (("order",), ("final",), True), (("order",), ("race",), False)],
)  # fmt: skip
def test_a_waiver_is_about_what_it_names(claims: tuple[str, ...], found: tuple[str, ...], wanted: bool) -> None:
    violations = [Violation(kind, "") for kind in found]
    assert is_waived([Waiver("known", claims)], violations) is wanted
    assert not is_waived([], violations)


def test_waivers_are_drawn() -> None:
    knl = random_source(8).make()
    drawn = [DRAWERS["unchecked"](random.Random(seed), knl) for seed in range(40)]
    assert {"claims", "arrays", "reason"} == {name for arguments in drawn for name in arguments}
    for arguments in drawn:
        assert pl.unchecked(knl, **arguments).waivers


def test_what_may_fail_is_not_run_with_a_waiver() -> None:
    found = check_pairs([320150525])  # it divides by zero ahead of the condition
    assert found.counts["accepted kernels not run: what may fail is waived"] == 1
    assert not found.failures


# {{{ faults that are put in

Plant = Callable[[pytest.MonkeyPatch], object]


def _barriers(patch: pytest.MonkeyPatch) -> None:
    """Let a barrier in a sequential loop divide it, whatever the loop hands on."""
    patch.setattr("polyloop.target.interpreter.divided_violations", lambda _: ())
    patch.setattr("polyloop.schedule.obligations.divided_violations", lambda _: ())


def _indices(patch: pytest.MonkeyPatch) -> None:
    """Let 32 bits do for all index arithmetic."""
    patch.setattr("polyloop.runtime.arguments.Binder._launch_checks", lambda *_: None)
    patch.setattr("polyloop.codegen.unit.Unit.never_fits", False)


def _names(patch: pytest.MonkeyPatch) -> None:
    """Let names stay what they are in every text."""
    patch.setattr("polyloop.codegen.names.Spelling.local", lambda _, name: name)


def _signed(patch: pytest.MonkeyPatch) -> None:
    """Write signed arithmetic where it may wrap."""
    patch.setattr("polyloop.codegen.expressions.types.Types.wraps", lambda *_: False)


def _pieces(patch: pytest.MonkeyPatch) -> None:
    """Let a loop run over everything between the pieces of its domain."""
    patch.setattr("polyloop.codegen.loops.loops.pieces_of", lambda *given: (hull(pieces_of(*given)),))


def _strides(patch: pytest.MonkeyPatch) -> None:
    """Take the elements of a row for neighbours."""

    def packed(r: Any, indices: Any, strides: Any, *more: Any) -> Code:
        return address(r, indices, (*strides[:-1], 1) if strides else strides, *more)

    patch.setattr("polyloop.codegen.expressions.elements.address", packed)


def _bare(patch: pytest.MonkeyPatch) -> None:
    """Leave out the parentheses around a subscript in a sum."""
    patch.setattr("polyloop.codegen.tree.c_expr.INDEX_PLUS", INDEX_PLUS._replace(first=0, later=0, negative=0))


def _fresh(patch: pytest.MonkeyPatch) -> None:
    """Let generated programs take the names that they wish for."""
    patch.setattr(Names, "fresh", lambda _, wish: wish)


def _augmented(patch: pytest.MonkeyPatch) -> None:
    """Take ``+=`` for ``-=``."""
    patch.setitem(_UPDATE, ast.Add, "-=")


def _ordered(patch: pytest.MonkeyPatch) -> None:
    """Let NaN be greater than all numbers."""
    for name, choice in (("max", np.maximum), ("min", np.minimum)):
        patch.setitem(_COMBINE, name, choice)
    patch.setattr("polyloop.target.scalars._larger", np.maximum)
    patch.setattr("polyloop.target.scalars._smaller", np.minimum)
    patch.setitem(_COMPARE, ">", lambda a, b: not a <= b)


def _opposite(patch: pytest.MonkeyPatch) -> None:
    """Negate what is subtracted in its own type."""
    patch.setattr("polyloop.target.scalars.subtrahend", lambda _: None)


def _first(patch: pytest.MonkeyPatch) -> None:
    """Read the first piece of a domain."""

    def read(*given: Any) -> isl.Set:
        found = read_domain(*given)
        return found if found.n_basic_set() < 2 else found.get_basic_sets()[0].to_set()

    patch.setattr(domain_text, "read_domain", read)


def _unheld(patch: pytest.MonkeyPatch) -> None:
    """Evaluate terms of reductions whatever the conditions around them say."""
    patch.setattr("polyloop.program.lower_instruction.held_back", lambda kernel, _, reduction, *__: reduction.expr)


def _zeros(patch: pytest.MonkeyPatch) -> None:
    """Let the copy engine store zeros one element too early along each axis."""
    extents = BoxTest._extents

    def early(test: BoxTest) -> tuple[Affine, ...]:
        return tuple(form.add(Affine((), -1)) for form in extents(test))

    patch.setattr(BoxTest, "_extents", early)
    patch.setattr(BoxTest, "_check_edges", lambda _: None)


def _waiting(patch: pytest.MonkeyPatch) -> None:
    """Leave loops in the kernel although they carry a dependence between blocks, or have one inside."""

    def cuts(placement: Placement, found: Sequence[Need]) -> Cuts:
        places = placement.program.places
        roots = [(places[need.conflict.first.name][0], places[need.conflict.second.name][0]) for need in found]
        return launch_cuts(placement, [n for n, (first, second) in zip(found, roots, strict=True) if first != second])

    patch.setattr("polyloop.schedule.synchronization.launch_cuts", cuts)
    patch.setattr("polyloop.schedule.obligations._missing", lambda _: iter(()))


def _ended(patch: pytest.MonkeyPatch) -> None:
    """Let the host end a loop, or leave out a launch, as the first statement alone would have it."""
    patch.setattr("polyloop.schedule.asked._effects", lambda *given: _effects(*given)[:1])


def _passed(patch: pytest.MonkeyPatch) -> None:
    """Take a sum over threads for a barrier also where its condition is false."""
    patch.setattr("polyloop.schedule.synchronization._passed", lambda placement, _: placement.program.places)


PLANTS: dict[str, tuple[Plant, int, set[str]]] = {
    "Python": (_augmented, 12, {"wrong-meaning"}),
    "bracketed domain": (_first, 12, {"wrong-meaning"}),
    "infinite data": (_ordered, 40, {"wrong-result"}),
    "mixed types": (_opposite, 20, {"wrong-result"}),
    "barrier": (_barriers, 12, {"wrong-meaning"}),
    "boxes": (_zeros, 19, {"wrong-result"}),
    "colliding names": (_fresh, 20, {"crash", "wrong-result"}),
    "computed subscripts": (_bare, 12, {"wrong-result"}),
    "far": (_indices, 12, {"wrong-result", "crash"}),
    "guarded": (_unheld, 12, {"crash"}),
    "host loops": (_waiting, 12, {"accepted-illegal"}),
    "asked by the host": (_ended, 20, {"wrong-result"}),
    "hostile names": (_names, 12, {"crash"}),
    "meetings": (_passed, 20, {"wrong-result"}),
    "strided arrays": (_strides, 4, {"crash", "wrong-result"}),
    "type int32": (_signed, 12, {"wrong-result"}),
    "union": (_pieces, 12, {"wrong-result"}),
}
"""The fault that each drawer is for, the seeds that it needs, and what the fuzzer says."""


@pytest.mark.few(3)
@pytest.mark.parametrize("feature", PLANTS)
def test_a_fault_is_found(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, most, wanted = PLANTS[feature]
    assert not kinds(seeds(feature, most))
    plant(monkeypatch)
    assert kinds(seeds(feature, most)) & wanted


def test_a_swizzle_that_tears_wide_copies_apart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [500_207, 500_321]
    assert not kinds(some)
    monkeypatch.setattr("polyloop.verification.addresses._scattered", lambda *_: "")
    monkeypatch.setattr(Swizzle, "keeps", lambda *_: True)
    monkeypatch.setattr("polyloop.codegen.loops.lanes.plans_of", lambda *given: (_plan_of(*given),))
    assert kinds(some) == {"wrong-result"}


# }}}
