"""``nosync=``: it removes the conflict that was only supposed, and never one that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.fibres import run_on_fibres

pytestmark = pytest.mark.filterwarnings("ignore:unused")

F = np.float32
DATA = [
    pl.GlobalArg("a, b, c", F, shape="n"),
    pl.GlobalArg("idx", np.int32, shape="n"),
    pl.TemporaryVariable("t", F, shape="32", address_space="local"),
]
DOMAIN = "{[i]: 0 <= i < n}"


def make(text: str) -> LoopKernel:
    return pl.make_kernel(DOMAIN, text, [*DATA, ...], assumptions="n = 32")


def on_threads(text: str) -> str:
    kernel = pl.tag_inames(pl.fix_parameters(make(text), n=32), "i:l.0")
    return pl.generate_code(kernel, target=pl.CudaTarget()).device_code


def on_blocks(text: str) -> list[str]:
    kernel = pl.split_iname(make(text), "i", 8, outer_tag="g.0", inner_tag="l.0")
    program = pl.generate_code(kernel, target=pl.CudaTarget())
    return [launch.name for launch in program.launches]


SCATTER = "a[idx[i]] = b[i] {id=w}"
GATHER = "a[i] = b[i] {id=w}\nc[i] = a[idx[i]] {id=r}"


def test_a_scatter_is_refused_until_the_user_denies_its_conflict() -> None:
    with pytest.raises(pl.PolyloopError) as error:
        on_threads(SCATTER)
    assert error.value.codes == ("write-race",)
    text = on_threads(SCATTER.replace("id=w", "id=w, nosync=w"))
    assert "a[idx[tx]] = b[tx];" in text


def test_a_denied_conflict_needs_no_barrier() -> None:
    assert on_threads(GATHER).count("__syncwarp") == 1
    for option in ("nosync=w", "nosync=w@local", "nosync_query=(writes:a)", "nosync_query=writes:a@local"):
        assert "__syncwarp" not in on_threads(GATHER.replace("id=r", f"id=r, {option}"))
    assert "__syncwarp" not in on_threads(GATHER.replace("id=w", "id=w, nosync=r"))


def test_the_scope_is_kept() -> None:
    assert on_threads(GATHER.replace("id=r", "id=r, nosync=w@global")).count("__syncwarp") == 1
    assert len(on_blocks(GATHER)) == 2
    assert len(on_blocks(GATHER.replace("id=r", "id=r, nosync=w@local"))) == 2
    assert len(on_blocks(GATHER.replace("id=r", "id=r, nosync=w@global"))) == 1
    assert len(on_blocks(GATHER.replace("id=r", "id=r, nosync=w"))) == 1


def test_a_denial_without_effect_is_named() -> None:
    with pytest.warns(pl.PolyloopWarning, match="'nosync=w' of 'r' has no effect: the conflict on 'a' is a fact"):
        make("for i\n  a[i] = b[i] {id=w}\n  c[i] = a[i] {id=r, nosync=w}\nend")


def test_a_known_conflict_cannot_be_hidden() -> None:
    with pytest.raises(pl.KernelError) as error:
        make("a[i] = b[i] {id=w}\nc[i] = a[n - 1 - i] {id=r, nosync=w}")
    (found,) = error.value.found
    assert found.code == "proven-conflict"
    assert found.notes == ("instance (i=0) of 'w' and instance (i=31) of 'r' touch a[0]",)
    assert found.hints == ("drop nosync=w: where threads have to wait for each other, barriers are placed",)
    with pytest.raises(pl.KernelError) as error:
        make("a[0] = b[i] {id=w, nosync=w, inames=i}")
    assert error.value.found[0].notes == ("instance (i=0) of 'w' and instance (i=1) of 'w' touch a[0]",)


def test_a_condition_makes_a_conflict_deniable() -> None:
    text = "if b[i] > 0\n  a[0] = b[i] {id=w}\nend"
    with pytest.raises(pl.PolyloopError):
        on_threads(text)
    assert "a[0] = b[tx];" in on_threads(text.replace("id=w", "id=w, nosync=w"))


@pytest.mark.parametrize("condition", ["b[i] > 0", "i < 31 and b[i] > 0", "not (b[i] > 0 or i > 31)", "idx[i] > i"])
def test_a_condition_of_data_inside_of_an_expression_makes_a_conflict_deniable(condition: str) -> None:
    text = f"a[i] = b[i] {{id=w}}\nc[i] = if({condition}, a[n - 1 - i], 0) {{id=r}}"
    assert on_threads(text).count("__syncwarp") == 1
    assert "__syncwarp" not in on_threads(text.replace("id=r", "id=r, nosync=w"))


@pytest.mark.parametrize("condition", ["i > 3", "n > 8 and i > 3", "not i <= 3"])
def test_an_affine_condition_inside_of_an_expression_leaves_nothing_open(condition: str) -> None:
    with pytest.raises(pl.KernelError) as error:
        make(f"a[i] = b[i] {{id=w}}\nc[i] = if({condition}, a[n - 1 - i], 0) {{id=r, nosync=w}}")
    assert error.value.codes == ("proven-conflict",)
    assert error.value.found[0].notes == ("instance (i=0) of 'w' and instance (i=31) of 'r' touch a[0]",)


def test_one_thread_keeps_its_order() -> None:
    text = "for i\n  a[idx[i]] = b[i] {id=w}\n  c[i] = a[idx[n - 1 - i]] {id=r, nosync=w}\nend"
    kernel = make(text)
    rng = np.random.default_rng(3)
    idx = rng.permutation(32).astype(np.int32)
    arguments: dict[str, Any] = {"b": rng.random(32, dtype=F), "idx": idx, "a": np.zeros(32, F)}
    expected = pl.interpret(kernel, **arguments).c
    got = pl.compile(kernel, target=pl.CTarget())(**{k: v.copy() for k, v in arguments.items()}).c
    np.testing.assert_array_equal(got, expected)


def test_it_shows_in_the_text_of_the_kernel() -> None:
    shown = str(make(GATHER.replace("id=r", "id=r, nosync=w@local")))
    assert "c[i] = a[idx[i]]    {id=r, nosync=w@local}" in shown


def test_a_permutation_is_scattered_on_threads() -> None:
    kernel = pl.split_iname(make(SCATTER.replace("id=w", "id=w, nosync=w")), "i", 8, outer_tag="g.0", inner_tag="l.0")
    arguments = {"b": np.arange(32, dtype=F), "idx": np.random.default_rng(1).permutation(32).astype(np.int32)}
    arguments["a"] = np.zeros(32, F)
    expected = pl.interpret(kernel, **arguments).a
    for found in run_on_fibres(pl.generate_code(kernel, target=pl.CudaTarget()), arguments).values():
        np.testing.assert_array_equal(found["a"], expected)
