"""``save_and_reload_temporaries``: values in registers and shared memory across launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.verification.order import order_violations
from tests.transform.checking import check, cuda, refused, same_after_replay

Golden = Callable[[str, str], None]
F = np.float32


def on_blocks(knl: LoopKernel, *inames: str) -> LoopKernel:
    for iname in inames:
        knl = pl.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    return knl


def make(text: str, *temporaries: pl.TemporaryVariable, domain: str = "{[i]: 0 <= i < n}") -> LoopKernel:
    data = [pl.GlobalArg("a, b, c", F, shape="n"), *temporaries, ...]
    return pl.make_kernel(domain, text, data, name="twice")


def register() -> LoopKernel:
    """A value of each thread is used in both launches."""
    text = "t[i] = 2*a[i]\nb[i] = t[i] + 1\nc[i] = t[i] + b[n - 1 - i]"
    return make(text, pl.TemporaryVariable("t", F, shape="n", address_space="private"))


def test_a_register_is_saved_and_reloaded(golden: Golden) -> None:
    base = on_blocks(register(), "i")
    with pytest.raises(pl.VerificationError) as err:
        pl.generate_code(base)
    assert err.value.codes == ("private-across-launches",)
    assert "pl.save_and_reload_temporaries(knl)" in str(err.value)
    knl = pl.save_and_reload_temporaries(base)
    golden("golden/save_and_reload.cu", cuda(knl))
    for n in (0, 1, 15, 16, 17, 40):
        a = np.arange(n, dtype=F)
        check(knl, {"a": a}, {"b": 2 * a + 1, "c": 2 * a + 2 * a[::-1] + 1})
    same_after_replay(register(), knl)
    assert str(knl.trace).splitlines()[-1] == "knl = pl.save_and_reload_temporaries(knl)"


@pytest.mark.parametrize("ahead", ["prefetch", "rule"])
def test_what_is_computed_ahead_is_saved_and_reloaded(ahead: str) -> None:
    """A value that is fetched, or computed, before the first launch is used in both."""
    text = "b[i] = a[i]*2 + 1\nc[i] = a[i]*2 + b[n - 1 - i]"
    if ahead == "prefetch":
        knl = pl.add_prefetch(on_blocks(make(text), "i"), "a", temporary_address_space="private", default_tag=None)
    else:
        rule = "f(r) := 2*a[r]*r\nb[i] = f(i) + 1\nc[i] = f(i) + b[n - 1 - i]"
        knl = pl.precompute(
            on_blocks(make(rule), "i"), "f", temporary_address_space="private", default_tag=None
        )
    knl = pl.save_and_reload_temporaries(knl)
    assert any(i.id.startswith("reload") for i in knl.instructions)
    for n in (0, 1, 15, 17, 40):
        a = np.arange(n, dtype=F)
        t = 2 * a if ahead == "prefetch" else 2 * a * a
        check(knl, {"a": a}, {"b": t + 1, "c": t + t[::-1] + 1})


def test_nothing_to_save_changes_nothing() -> None:
    base = on_blocks(make("b[i] = a[i]\nc[i] = b[n - 1 - i]"), "i")
    knl = pl.save_and_reload_temporaries(base)
    assert cuda(knl) == cuda(base)
    assert "# nothing lives from one launch to the next" in str(knl.trace)
    saved = pl.save_and_reload_temporaries(on_blocks(register(), "i"))
    assert cuda(pl.save_and_reload_temporaries(saved)) == cuda(saved)


def test_temporaries_that_are_set_anew_in_each_launch_stay() -> None:
    text = "for i\ns[0] = a[i]\nb[i] = s[0] + 1\nend\nfor j\ns[0] = b[n - 1 - j]\nc[j] = 2*s[0]\nend"
    temporary = pl.TemporaryVariable("s", F, shape="1", address_space="private")
    knl = on_blocks(make(text, temporary, domain="{[i, j]: 0 <= i, j < n}"), "i", "j")
    a = np.arange(20, dtype=F)
    check(knl, {"a": a}, {"c": 2 * (a[::-1] + 1)})
    assert not any(i.id.startswith("save") for i in pl.save_and_reload_temporaries(knl).instructions)


@pytest.mark.few(3)
@pytest.mark.parametrize("space", ["private", "local"])
@pytest.mark.parametrize("n", [1, 16, 33])
def test_a_tile_of_a_block(space: str, n: int) -> None:
    text = """
        for g
            t[j] = a[g, j]
            b[g, k] = t[{read}] {{dep=*}}
        end
        for g2
            c[g2, m] = t[{again}] + b[n - 1 - g2, m]
        end
        """
    own = space == "private"
    text = text.format(read="k" if own else "15 - k", again="m" if own else "15 - m")
    knl = pl.make_kernel(
        "{[g, g2, j, k, m]: 0 <= g, g2 < n and 0 <= j, k, m < 16}",
        text.replace("t[", "t[g, ").replace("t[g, 15 - m]", "t[g2, 15 - m]").replace("t[g, m]", "t[g2, m]"),
        [pl.GlobalArg("a, b, c", F, shape="n, 16"), pl.TemporaryVariable("t", F, shape="n, 16"), ...],
    )
    knl = pl.tag_inames(knl, "g:g.0, g2:g.0, j:l.0, k:l.0, m:l.0")
    a = np.arange(16 * n, dtype=F).reshape(n, 16)
    read = a if own else a[:, ::-1]
    check(pl.save_and_reload_temporaries(knl), {"a": a}, {"c": read + read[::-1]})


def in_shared(extent: int, threads: int) -> LoopKernel:
    """One block for all, whose tile is used in two launches; a global barrier divides them."""
    knl = pl.make_kernel(
        f"{{[g, h, i, j]: 0 <= g, h < 3 and 0 <= i, j < {extent}}}",
        f"""
        t[g, i] = a[i]
        ... gbarrier
        c[h, j] = t[h, {extent - 1} - j]
        """,
        [pl.GlobalArg("a", F, shape=str(extent)), pl.GlobalArg("c", F, shape=f"3, {extent}"),
         pl.TemporaryVariable("t", F, shape=f"3, {extent}", address_space="local")],
    )  # fmt: skip
    knl = pl.tag_inames(knl, "g:g.0, h:g.0")
    return pl.split_iname(pl.split_iname(knl, "i", threads, inner_tag="l.0"), "j", threads, inner_tag="l.0")


@pytest.mark.few(2)
@pytest.mark.parametrize(("extent", "threads"), [(16, 16), (40, 16), (8, 16), (70, 64)])
def test_a_shared_tile_is_saved_once_for_each_block(extent: int, threads: int) -> None:
    knl = pl.save_and_reload_temporaries(in_shared(extent, threads))
    assert knl.temporaries["t_saved"].shape == (3, extent)
    a = np.arange(extent, dtype=F)
    check(knl, {"a": a}, {"c": np.broadcast_to(a[::-1], (3, extent))})


def test_private_arrays_in_three_launches() -> None:
    """The second launch changes one element of two; the third one reads both."""
    text = """
        v[0] = a[i] {inames=i}
        v[1] = 2*a[i] {inames=i}
        b[i] = v[0]
        ... gbarrier
        v[0] = b[n - 1 - i] {inames=i}
        c[i] = v[0]
        ... gbarrier
        d[i] = v[0] + 10*v[1] + c[n - 1 - i]
        """
    pair = pl.TemporaryVariable("v", F, shape="n, 2", address_space="private")
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        text.replace("v[", "v[i, "),
        [pl.GlobalArg("a, b, c, d", F, shape="n"), pair, ...],
    )
    saved = pl.save_and_reload_temporaries(on_blocks(knl, "i"))
    assert [i.id for i in saved.instructions if "_v" in i.id] == ["save_v", "reload_v", "save_v_1", "reload_v_2"]
    for n in (1, 16, 21):
        a = np.arange(n, dtype=F)
        check(saved, {"a": a}, {"d": a[::-1] + 20 * a + a})


def test_a_number_that_every_thread_has() -> None:
    text = "s = 3*a[0] {id=s}\nb[i] = s*a[i]\nc[j] = b[n - 1 - j] + s"
    temporary = pl.TemporaryVariable("s", F, address_space="private")
    knl = on_blocks(make(text, temporary, domain="{[i, j]: 0 <= i, j < n and n > 0}"), "i", "j")
    a = np.arange(1, 30, dtype=F)
    check(pl.save_and_reload_temporaries(knl), {"a": a}, {"c": 3 * a[::-1] + 3})


def test_a_number_of_warps_whose_lanes_no_iname_names() -> None:
    """Seed 42902666: warps make the first axis of a block 32 long; no iname says where it begins."""
    text = "s = 3*a[0] {id=s}\nb[i] = s*a[i]\nc[j] = b[n - 1 - j] + s"
    temporary = pl.TemporaryVariable("s", F, address_space="private")
    knl = make(text, temporary, domain="{[i, j]: 0 <= i, j < n and n > 0}")
    for iname in ("i", "j"):
        knl = pl.split_iname(knl, iname, 3, outer_tag="g.0", inner_tag="w")
    a = np.arange(1, 30, dtype=F)
    check(pl.save_and_reload_temporaries(knl), {"a": a}, {"c": 3 * a[::-1] + 3})


def test_a_wrong_reload_is_found() -> None:
    """The proof looks through what was saved: another element is not the value of the program."""
    knl = pl.save_and_reload_temporaries(on_blocks(register(), "i"))
    assert not list(order_violations(knl))
    reload = knl.instruction("reload_t")
    block, thread = reload.expression.index_tuple
    for wrong in (p.Sum((15, p.Product((-1, thread)))), 0):
        other = replace(reload, expression=p.Subscript(reload.expression.aggregate, (block, wrong)))
        broken = replace(knl, instructions=tuple(other if i is reload else i for i in knl.instructions))
        codes = {finding.code for finding in order_violations(broken)}
        assert codes == {"illegal-order"}
    without = replace(knl, instructions=tuple(i for i in knl.instructions if i.id != "save_t"))
    assert {finding.code for finding in order_violations(without)} == {"illegal-order"}


def test_a_launch_ends_where_the_least_lives_on() -> None:
    """A reduction is not divided, although the latest place would lie between its terms and its use."""
    knl = on_blocks(make("b[i] = a[i]\nc[i] = sum(j, a[j]) + b[n - 1 - i]", domain="{[i, j]: 0 <= i, j < n}"), "i")
    assert len(pl.generate_code(knl).launches) == 2
    a = np.arange(20, dtype=F)
    check(knl, {"a": a}, {"c": a.sum() + a[::-1]})


def by_data() -> LoopKernel:
    text = "t[i] = a[i]\nif a[i] > 0\n  t[i] = 1\nend\nb[i] = a[i]\nc[i] = t[i] + b[n - 1 - i]"
    return on_blocks(make(text, pl.TemporaryVariable("t", F, shape="n", address_space="private")), "i")


def long_rows() -> LoopKernel:
    text = "t[i, j] = a[i]\nb[i] = t[i, 0]\nc[i] = t[i, n - 1] + b[n - 1 - i]"
    temporary = pl.TemporaryVariable("t", F, shape="n, n", address_space="private")
    return on_blocks(make(text, temporary, domain="{[i, j]: 0 <= i, j < n}"), "i")


REFUSALS: dict[str, tuple[Callable[[], LoopKernel], str]] = {
    "by_data": (by_data, "not-carried"),
    "long_rows": (long_rows, "not-carried"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make_it, code = REFUSALS[case]
    golden(f"messages/save_and_reload_{case}.txt", refused(make_it(), pl.save_and_reload_temporaries, code))


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_takes_it(arch: str) -> None:
    for knl in (on_blocks(register(), "i"), in_shared(40, 16)):
        compile_cuda(cuda(pl.save_and_reload_temporaries(knl)), arch=arch)
