"""Steps that are checked together: one proof of the last kernel, and the same refusals as step by step."""

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np
import pytest

import polyloop as pl
from polyloop.proof.obligation import Obligation
from polyloop.transform.loops.rename import RenameIname
from polyloop.verification import order
from polyloop.verification.correspondence import Comparison

Schedule = Callable[[pl.LoopKernel], pl.LoopKernel]


def product() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", np.float32, shape="n, n"), ...],
        assumptions="n >= 1",
    )


def recurrence() -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 1 <= i < n}", "x[i] = 2*x[i - 1]", [pl.GlobalArg("x", np.float32, shape="n"), ...])


def tiled(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = knl.split_iname("i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 16, outer_tag="g.0", inner_tag="l.0").split_iname("k", 16)
    knl = knl.add_prefetch("a", ["i_inner", "k_inner"], default_tag="l.auto")
    return knl.add_prefetch("b", ["k_inner", "j_inner"], default_tag="l.auto")


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels whose order was proven, by the steps that made them."""
    asked: list[str] = []
    before = order.order_obligations

    def noted(comparison: Comparison) -> Iterator[Obligation]:
        asked.append(f"{len(comparison.kernel.trace)} steps")
        return before(comparison)

    monkeypatch.setattr(order, "order_obligations", noted)
    return asked


def test_the_last_kernel_alone_is_proven(proofs: list[str]) -> None:
    found = pl.together(product(), tiled)
    assert proofs
    assert {*proofs} == {"5 steps"}
    assert len(found.trace) == 5


def test_the_result_is_that_of_the_steps() -> None:
    one, other = pl.together(product(), tiled), tiled(product())
    assert one == other
    assert pl.generate_code(one, target=pl.CudaTarget()).device_code \
        == pl.generate_code(other, target=pl.CudaTarget()).device_code


def parallel(knl: pl.LoopKernel) -> pl.LoopKernel:
    """The first step is wrong: each iteration needs the one before."""
    return knl.tag_inames("i:l.0").rename_iname("i", "t")


def reversed_inside(knl: pl.LoopKernel) -> pl.LoopKernel:
    return knl.split_iname("i", 4).reverse("i_inner").rename_iname("i_inner", "ii")


def unknown(knl: pl.LoopKernel) -> pl.LoopKernel:
    return knl.split_iname("i", 4).split_iname("j", 4)


@pytest.mark.parametrize("schedule", [parallel, reversed_inside, unknown])
def test_a_step_that_is_wrong_is_named_as_ever(schedule: Schedule) -> None:
    with pytest.raises(pl.TransformError) as alone:
        schedule(recurrence())
    with pytest.raises(pl.TransformError) as chained:
        pl.together(recurrence(), schedule)
    assert str(chained.value) == str(alone.value)
    assert chained.value.before is not None


def test_steps_pass_that_are_right_together() -> None:
    def there_and_back(knl: pl.LoopKernel) -> pl.LoopKernel:
        return knl.reverse("i").reverse("i")

    with pytest.raises(pl.TransformError):
        there_and_back(recurrence())
    found = pl.together(recurrence(), there_and_back)
    pl.verify(found)
    pl.check_equivalence(found, recurrence())


def test_a_chain_that_ends_in_another_program_is_proven_before(proofs: list[str]) -> None:
    """``fix_parameters`` makes another reference program of the present one: what waited is shown of it first."""

    def fixed(knl: pl.LoopKernel) -> pl.LoopKernel:
        return knl.reverse("i").fix_parameters(n=8).reverse("i")

    with pytest.raises(pl.TransformError, match="reverse"):
        pl.together(recurrence(), fixed)
    assert "1 steps" in proofs


def test_what_a_step_tries_by_itself_is_proven_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step inside of another one does not wait: the outer one acts on the answer."""
    before = RenameIname.rewrite
    refused: list[tuple[str, ...]] = []

    def rewrite(self: RenameIname, kernel: pl.LoopKernel) -> pl.LoopKernel:
        with pytest.raises(pl.TransformError) as caught:
            kernel.tag_inames("i:l.0")
        refused.append(caught.value.codes)
        return before(self, kernel)

    monkeypatch.setattr(RenameIname, "rewrite", rewrite)
    pl.together(recurrence(), lambda knl: knl.rename_iname("i", "t"))
    assert refused == [("illegal-parallel",)]


def test_an_exception_of_the_schedule_is_its_own() -> None:
    def fails(knl: pl.LoopKernel) -> NoReturn:
        raise ZeroDivisionError(knl.name)

    with pytest.raises(ZeroDivisionError):
        pl.together(recurrence(), fails)


def test_a_schedule_that_returns_no_kernel_is_refused() -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.together(recurrence(), lambda _: None)  # type: ignore[arg-type, return-value]
    assert caught.value.codes == ("wrong-argument-type",)
