"""Where an order is proven without ISL's dataflow, or a dataflow is plain to see, ISL finds the same."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow import direct_links
from polyloop.dataflow import value_flow as dataflow
from polyloop.dataflow.address_spaces import _Meant, place
from polyloop.dataflow.value_flow import Flow
from polyloop.errors import PolyloopError
from polyloop.library.rows import in_one_piece, softmax_program
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import forgotten, known
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms
from polyloop.program.lower import Access
from polyloop.testing.drawing.drawers import DRAWERS
from polyloop.testing.drawing.random_kernels import random_source
from polyloop.verification import distance_test as kept
from polyloop.verification import order as legality
from polyloop.verification.correspondence import Comparison
from polyloop.verification.distance_test import keeps_order
from tests.gallery import GALLERY

EXAMPLES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
REORDERING = (
    "split_iname", "reverse", "interchange", "prioritize_loops", "map_domain", "shift", "tag_inames", "tile",
    "chunk_iname", "set_temporary_address_space", "join_inames", "duplicate_inames",
)  # fmt: skip
STAGING = ("split_iname", "add_prefetch", "precompute", "tag_inames", "pipeline", "buffer_array", "interchange")


class KeptOrders:
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


class PlainFlows:
    """Computes dataflows both ways."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plain = self.others = 0
        self._original = dataflow._mostly_direct
        monkeypatch.setattr(dataflow, "_mostly_direct", self)

    def __call__(
        self, placement: Placement, array: str, reads: tuple[tuple[Placed, Access], ...], writers: Sequence[Placed]
    ) -> Flow:
        found = self._original(placement, array, reads, writers)
        plain = [dataflow._direct_among(placement, writers, reader, access) is not None for reader, access in reads]
        self.plain += sum(plain) if len(writers) > 1 else 0
        self.others += len(plain) - sum(plain)
        if len(writers) > 1 and any(plain):  # the other case is that of test_dataflow.py, and may take ISL minutes
            names = frozenset(writer.name for writer in writers)
            _same(found, dataflow._computed(placement, array, reads, writers, names), writers)
        return found


def _same(found: Flow, wanted: Flow, writers: Sequence[Placed]) -> None:
    for number in range(len(found.reads)):
        assert found.initial[number].is_equal(wanted.initial[number])
        for writer in writers:
            one, other = (_from(writer, flow.sources[number]) for flow in (found, wanted))
            if one is None or other is None:
                assert all(link is None or link.is_empty() for link in (one, other))
            else:
                assert one.is_equal(other)


def _from(writer: Placed, sources: Sequence[tuple[Placed, isl.Map]]) -> isl.Map | None:
    links = [link for source, link in sources if source is writer]
    return reduce(isl.Map.union, links) if links else None


class NamedInstances:
    """Asks ISL, too, for the writes that subscripts name, and for the axes that sums of digits determine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.named = self.digits = 0
        self._instance, self._is_digit = direct_links._instance_link, _Meant._is_digit
        monkeypatch.setattr(direct_links, "_instance_link", self.found)

        def asked(meant: _Meant, axis: str, form: Affine) -> bool:
            return self.is_digit(meant, axis, form)

        monkeypatch.setattr(_Meant, "_is_digit", asked)

    def found(self, reader: isl.Set, *asked: Any) -> isl.Map | None:
        link = self._instance(reader, *asked)
        if link is not None:
            dims, read, writer, inames, written, same = asked
            forms = [Affine.variable(x) for x in same]
            elements = map_from_forms(writer, inames, [*forms, *written])
            assert link.is_equal(map_from_forms(reader, dims, [*forms, *read]).apply_range(elements.reverse()))
            self.named += 1
        return link

    def is_digit(self, meant: _Meant, axis: str, form: Affine) -> bool:
        found = self._is_digit(meant, axis, form)
        if found:
            pairs = meant.find()
            i, j = meant.writer.dims.index(axis), meant.reader.dims.index(axis)
            assert pairs.is_subset(pairs.equate(isl.dim_type.in_, i, isl.dim_type.out, j))
            self.digits += 1
        return found


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> NamedInstances:
    return NamedInstances(monkeypatch)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> KeptOrders:
    return KeptOrders(monkeypatch)


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> PlainFlows:
    return PlainFlows(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GALLERY))
def test_gallery(name: str, orders: KeptOrders, flows: PlainFlows) -> None:
    pl.verify(GALLERY[name].make())


@pytest.mark.few(12)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, orders: KeptOrders, flows: PlainFlows) -> None:
    pl.verify(import_module(f"examples.{name}").transformed())


def test_a_pipeline_is_plain_and_time_keeps_its_order(orders: KeptOrders, flows: PlainFlows) -> None:
    pl.verify(import_module("examples.matmul_pipelined").transformed())
    assert flows.plain > 1
    pl.verify(import_module("examples.jacobi_time_skewed").transformed())
    assert "u" in orders.kept


def draw(seed: int, steps: Sequence[str], count: int) -> None:
    rng = random.Random(seed)
    try:
        knl = random_source(seed).make()
    except PolyloopError:
        return
    for _ in range(count):
        name = rng.choice(steps)
        with suppress(PolyloopError):
            knl = getattr(pl, name)(knl, **DRAWERS[name](rng, knl))


def test_random_kernels_in_another_order(orders: KeptOrders, flows: PlainFlows) -> None:
    for seed in range(30):
        draw(seed, REORDERING, 4)
    assert min(len(orders.kept), len(orders.left)) > 10


def test_random_kernels_with_copies(orders: KeptOrders, flows: PlainFlows) -> None:
    for seed in range(60):
        draw(seed, STAGING, 3)
    assert flows.others > 5


SUBSCRIPTS = ("i, j", "i, j", "i, j", "i + 1, j", "j, i", "0, j", "i + j, 0", "2*i, 0")


def draw_runs(seed: int) -> pl.LoopKernel:
    """Return a program of which many statements, some of them neighbours, update one array or read it."""
    rng = random.Random(seed)
    home = rng.choice(SUBSCRIPTS)
    lines = []
    for number in range(rng.randint(3, 8)):
        there, from_there = (home if rng.random() < 0.8 else rng.choice(SUBSCRIPTS) for _ in range(2))
        line = f"y[{there}] = y[{from_there}] + {number}*x[i, j]"
        if rng.random() < 0.15:
            line = f"z{number}[i, j] = y[{from_there}]"
        elif rng.random() < 0.1:
            line = f"for k\n{line} + k\nend"
        lines.append(line)
    if rng.random() < 0.3:
        lines[len(lines) // 2 :] = [line.replace("j", "m") for line in lines[len(lines) // 2 :]]
    text = "\n".join(lines)
    return pl.make_kernel(
        ["{[i, j]: 0 <= i, j < n}", "[n] -> {[m]: 0 <= m < n}", "{[k]: 0 <= k < 2}"],
        text,
        [pl.GlobalArg("y", np.float32, shape="2*n + 1, 2*n + 1"), ...],
        silenced_warnings="*",
    )


class AllPairs:
    """Asks about every two statements, too, where orders are proven."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saved = 0
        self.verdicts: list[bool] = []
        self._links = kept._links
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(legality, "keeps_order", self)

    def __call__(self, new: Placement, old: Placement, variable: str) -> bool:
        found = keeps_order(new, old, variable)
        users = known(kept._users, old).get((variable,))
        if users is not None:
            links = list(self._links(old, users, variable))
            self.saved += len(users) ** 2 > len(links)
            self.verdicts.append(found)
            with self._monkeypatch.context() as patch, forgotten():
                patch.setattr(kept, "_has_same_order", lambda *_: False)
                for name in ("_users", "_distances"):
                    patch.setattr(kept, name, inspect.unwrap(getattr(kept, name)))
                patch.setattr(kept, "_links", lambda old, statements, variable: product(statements, repeat=2))
                assert keeps_order(new, old, variable) == found
        return found


def test_neighbours_in_runs_decide_as_all_pairs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = AllPairs(monkeypatch)
    steps = (*REORDERING, "fuse_loops", "distribute_loops")
    for seed in range(16):
        rng = random.Random(seed)
        with suppress(PolyloopError):
            knl = draw_runs(seed)
            for name in rng.choices(steps, k=3):
                with suppress(PolyloopError):
                    knl = getattr(pl, name)(knl, **DRAWERS[name](rng, knl))
    assert pairs.saved > 10
    assert 3 < sum(pairs.verdicts) < len(pairs.verdicts) - 3


def test_runs_of_random_programs_keep_their_order(orders: KeptOrders, flows: PlainFlows) -> None:
    for seed in range(100, 112):
        rng = random.Random(seed)
        with suppress(PolyloopError):
            knl = draw_runs(seed)
            for name in rng.choices((*REORDERING, "distribute_loops"), k=3):
                with suppress(PolyloopError):
                    knl = getattr(pl, name)(knl, **DRAWERS[name](rng, knl))
    assert min(len(orders.kept), flows.plain) > 5


def test_statements_that_all_conflict_are_proven_in_time() -> None:
    text = "\n".join(f"y[i] = y[i] + {k}*x[i]" for k in range(200))
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    with pl.time_budget(15):
        knl = pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
        pl.verify(knl, target=pl.CudaTarget())


@pytest.mark.few(12)
@pytest.mark.parametrize("name", EXAMPLES)
def test_instances_and_digits_of_examples(name: str, named: NamedInstances) -> None:
    import_module(f"examples.{name}").transformed()
    if name in {"softmax", "layer_norm_registers"}:
        assert min(named.named, named.digits) > 5


def test_instances_and_digits_of_random_kernels(named: NamedInstances) -> None:
    for seed in range(60):
        draw(seed, (*REORDERING, "split_array_axis"), 4)
        draw(seed, STAGING, 3)
    assert min(named.named, named.digits) > 5


BETWEEN = {
    "another slot": ("t[i % 2] = a[i]; t[(i + 1) % 2] = b[i]; o[i] = t[i % 2]; p[i] = t[(i + 1) % 2]", 2),
    "the same slot": ("t[i % 2] = a[i]; t[i % 2] = b[i]; o[i] = t[i % 2]", 1),
    "the same slot, sometimes": ("t[i % 2] = a[i]; for j; t[i % 2] = b[i]; end; o[i] = t[i % 2]", 0),
    "the same slot, later": ("t[i % 2] = a[i]; o[i] = t[i % 2]; t[i % 2] = b[i]; p[i] = t[i % 2]", 2),
    "a loop in between": ("t[i % 2] = a[i]; for k; t[2 + k] = b[i]; end; o[i] = t[i % 2]; p[i] = t[2]", 2),
    "a loop over what is read": ("t[i % 2] = a[i]; for k; t[k] = b[i]; end; o[i] = t[i % 2]", 1),
    "the slot of the next one": ("t[i % 2] = a[i]; o[i] = t[i % 2]; t[(i + 1) % 2] = b[i]; p[i] = t[i % 2]", 2),
    "read in a loop": ("t[i % 2] = a[i]; t[(i + 1) % 2] = b[i]; for k; q[i, k] = t[i % 2]; end", 1),
    "written in the loop of the read": ("t[i % 2] = a[i]; for k; q[i, k] = t[i % 2]; t[i % 2] = b[i]; end", 0),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_may_run_in_between(name: str, flows: PlainFlows) -> None:
    text, plain = BETWEEN[name]
    lines = "\n".join(line.strip() for line in text.split(";"))
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and i <= j < 5 and 0 <= k < 2}",
        f"for i\n{lines}\nend",
        [
            pl.GlobalArg(", ".join(x for x in "abop" if f"{x}[" in text), np.float32, shape="n"),
            *([pl.GlobalArg("q", np.float32, shape="n, 2")] if "q[" in text else []),
            pl.TemporaryVariable("t", np.float32, shape=(4,), address_space="private"),
            ...,
        ],
        silenced_warnings="*",
    )
    placement = place(knl)
    flows.plain = 0
    dataflow.flow_of(placement, "t")
    assert flows.plain == plain


@pytest.mark.slow
def test_more_random_kernels(orders: KeptOrders, flows: PlainFlows) -> None:
    for seed in range(1000, 1150):
        draw(seed, REORDERING, 4)
        draw(seed, STAGING, 4)


def written(first: str, second: str) -> frozenset[str]:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        f"for i\ng[{first}] = 1\ng[{second}] = 2\nend",
        [pl.GlobalArg("g", np.float32, shape="2, n + 1"), ...],
        silenced_warnings="*",
    )
    return legality._ordered_arrays(place(knl.reference.kernel))  # type: ignore[union-attr]


def test_the_order_of_writes_to_elements_that_numbers_keep_apart_is_free() -> None:
    assert written("0, i", "1, i") == frozenset()
    assert written("0, i", "0, i + 1") == {"g"}
    assert written("0, i", "1, 0") == {"g"}
    assert written("0, i", "i % 2, i") == {"g"}


def test_a_write_in_fewer_loops_than_those_that_bound_the_life_of_a_value() -> None:
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i, j and i + j < n}", "[n, i] -> {[k]: i <= k < n}"],
        """
        t[i, j] = max(k, y[k])
        t[i, j] = 3 * x[i]
        """,
        [
            pl.GlobalArg("x, y", np.float32, shape="n"),
            pl.TemporaryVariable("t", np.float32, shape=("n", "n")),
            ...,
        ],
        silenced_warnings="*",
    )
    knl = pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 4, outer_tag="g.1", inner_tag="l.1")
    pl.verify(pl.reduce_atomically(knl, "k"))


def test_statements_with_other_instances_are_no_run() -> None:
    """A run of them would hide that the second one depends on itself."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 8}",
        "for i\nif i < 4\ny[1, i] = x[i]\nend\ny[0, i + 1] = 2*y[0, i]\nend",
        [pl.GlobalArg("x", np.float32, shape="8"), pl.GlobalArg("y", np.float32, shape="2, 9")],
        silenced_warnings="*",
    )
    with pytest.raises(pl.TransformError) as caught:
        pl.reverse(knl, "i")
    assert caught.value.codes == ("illegal-order",)


@pytest.mark.parametrize("turned", ["put", "get"])
@pytest.mark.parametrize("is_reversed", [True, False])
def test_threads_that_have_each_other_s_iterations_do_not_have_each_other_s_copies(
    turned: str, *, is_reversed: bool
) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 8}",
        "for i\nt[i] = x[i] {id=put}\ny[i] = t[i] {id=get}\nend",
        [pl.GlobalArg("x, y", np.float32, shape="8"), pl.TemporaryVariable("t", np.float32, shape=(8,)), ...],
        silenced_warnings="*",
    )
    knl = pl.duplicate_inames(pl.set_temporary_address_space(knl, "t", "local"), "i", f"id:{turned}", "j")
    knl = pl.tag_inames(pl.reverse(knl, "j") if is_reversed else knl, "i:l.0, j:l.0")
    knl = pl.set_temporary_address_space(knl, "t", "private")
    assert knl.reference is not None
    assert keeps_order(place(knl), place(knl.reference.kernel), "t") == (not is_reversed)


def test_writes_that_data_decides_about_keep_their_order() -> None:
    """Either of two writes may be the last one: the same ones in another order are found by no other question."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 2}",
        "for i\nt[i] = 0\nfor j\nif c[i, j] > 0\nt[i] = j\nend\nend\nb[i] = t[i]\nend",
        [
            pl.GlobalArg("c", np.int32, shape="n, 2"),
            pl.GlobalArg("b", np.float32, shape="n"),
            pl.TemporaryVariable("t", np.float32, shape=("n",)),
            ...,
        ],
        silenced_warnings="*",
    )
    with pytest.raises(pl.TransformError) as caught:
        pl.reverse(knl, "j")
    assert caught.value.codes == ("illegal-order",)


@pytest.mark.parametrize(("rows", "threads"), [(4, 4), (2, 8)])
def test_elements_of_one_piece_are_digits_of_their_place(rows: int, threads: int, named: NamedInstances) -> None:
    """A tile is written by rows, steps and threads, and read by its place in memory: ISL finds the same writers."""
    knl = in_one_piece(softmax_program(), threads, rows, n=13)
    pl.verify(knl)
    assert named.named > 4


@pytest.mark.parametrize("most", [3, 4])
def test_digits_that_overlap_are_not_determined(most: int, named: NamedInstances) -> None:
    """``4*i + j`` is an element of one instance if j is below 4, and of two of them if it is not."""
    knl = pl.make_kernel(
        f"{{[i, j, f]: 0 <= i < 5 and 0 <= j <= {most} and 0 <= f < 20}}",
        "t[4*i + j] = x[4*i + j] {id=put}\ny[f] = t[f] {id=get, dep=put}",
        [pl.GlobalArg("x, y", np.float32, shape="21"), pl.TemporaryVariable("t", np.float32, shape=(21,)), ...],
        silenced_warnings="*",
    )
    pl.verify(knl)
    assert named.named == (most == 3)
