"""``add_barrier``, ``add_dependency``, ``add_nosync``: what is checked, what stands in the code, what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import bare
from tests.transform.checking import check, cuda, refused, same_after_replay

Golden = Callable[[str, str], None]
F = np.float32


def rows() -> pl.LoopKernel:
    """Each row of 32 elements is reversed, through a temporary."""
    return pl.make_kernel(
        "{[g, i, j]: 0 <= g < n and 0 <= i, j < 32}",
        """
        for g
            <> t[i] = a[g, i] {id=put}
            b[g, j] = t[31 - j] {id=get}
        end
        """,
        [pl.GlobalArg("a, b", F), ...],
        name="reversal",
    )


def reversal() -> pl.LoopKernel:
    """Blocks of 32 threads do so."""
    return pl.tag_inames(rows(), "g:g.0, i:l.0, j:l.0")


def check_reversal(knl: pl.LoopKernel) -> None:
    a = np.arange(96, dtype=F).reshape(3, 32)
    check(knl, {"a": a}, {"b": a[:, ::-1]})


def steps() -> pl.LoopKernel:
    """In each step, threads read what others wrote in it."""
    knl = pl.make_kernel(
        "{[k, i, j]: 0 <= k < n and 0 <= i, j < 64}",
        "<> t[k % 2, i] = a[k, i] {id=put}\nb[k, j] = t[k % 2, 63 - j] {id=get}",
        [pl.GlobalArg("a, b", F, shape="n, 64"), ...],
        name="steps",
    )
    return pl.tag_inames(knl, "i:l.0, j:l.0")


def counted() -> pl.LoopKernel:
    """As many steps as data says."""
    knl = pl.make_kernel(
        "{[k, i, j]: 0 <= k < m and 0 <= i, j < 64}",
        "<> m = count[0]\n<> t[k % 2, i] = a[i] {id=put}\nb[j] = t[k % 2, 63 - j] {id=get}",
        [pl.GlobalArg("a, b", F, shape="64"), pl.GlobalArg("count", np.int32, shape="1"), ...],
        name="counted",
    )
    return pl.tag_inames(knl, "i:l.0, j:l.0")


# {{{ add_barrier


def test_a_barrier_that_is_needed_stands_in_the_place_of_the_derived_one() -> None:
    base = reversal()
    knl = pl.add_barrier(base, "put", "get", "meet", synchronization_kind="local")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bare(cuda(knl)) == bare(cuda(base)).replace("__syncwarp", "__syncthreads")
    assert "... lbarrier    {id=meet}" in str(knl.reference)
    check_reversal(knl)
    earlier = pl.tag_inames(pl.add_barrier(rows(), "put", "get", synchronization_kind="local"), "g:g.0, i:l.0, j:l.0")
    assert cuda(earlier) == cuda(knl)
    same_after_replay(rows(), earlier)


def test_a_barrier_that_nothing_needs_is_reported() -> None:
    base = pl.make_kernel(
        "{[i]: 0 <= i < 32}", "b[i] = a[i] {id=one}\nc[i] = a[i] {id=two}", [pl.GlobalArg("a", F), ...], name="idle"
    )
    knl = pl.add_barrier(pl.tag_inames(base, "i:l.0"), "one", "two", synchronization_kind="local")
    with pytest.warns(pl.PolyloopWarning) as caught:
        text = cuda(knl)
    assert str(caught[0].message) == (
        "idle-barrier: schedule on kernel 'idle': no threads have to meet at barrier 'barrier'\n"
        "  ... lbarrier                                         (instruction 'barrier')\n"
        "  Note: no element is accessed by different threads before and behind it, and written by one of them\n"
        "  Hint: drop it: what barriers the program needs is found without it"
    )
    assert text.count("__syncthreads();") == 1


def test_the_report_can_be_silenced() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 32}",
        "b[i] = a[i]\n... lbarrier {id=meet}\nc[i] = a[i]",
        [pl.GlobalArg("a", F), ...],
        silenced_warnings="idle-barrier(meet)",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "__syncthreads" in cuda(pl.tag_inames(knl, "i:l.0"))


def test_a_global_barrier_divides_the_kernel_into_launches() -> None:
    base = pl.make_kernel(
        "{[i]: 0 <= i < n}", "b[i] = a[i] {id=one}\nc[i] = b[n - 1 - i] {id=two}",
        [pl.GlobalArg("a, b, c", F, shape="n")],
    )
    knl = pl.split_iname(pl.add_barrier(base, "one", "two"), "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert [launch.name for launch in pl.generate_code(knl).launches] == ["loop_kernel_0", "loop_kernel_1"]
    a = np.arange(40, dtype=F)
    check(knl, {"a": a}, {"c": a[::-1]})


@pytest.mark.parametrize("n", [1, 2, 5])
def test_it_stays_in_the_loops_that_both_sides_share(n: int) -> None:
    knl = pl.add_barrier(steps(), "put", "get", synchronization_kind="local")
    assert bare(cuda(knl)) == bare(cuda(steps()))
    assert str(knl.reference).splitlines()[0].strip() == "for k"
    assert len([line for line in str(knl.reference).splitlines() if line.strip() == "for k"]) == 1
    a = np.arange(64 * n, dtype=F).reshape(n, 64)
    check(knl, {"a": a}, {"b": a[:, ::-1]})
    check(pl.split_iname(knl, "k", 2), {"a": a}, {"b": a[:, ::-1]})


def test_a_loop_split_before_is_a_loop_around_it_too() -> None:
    split = pl.split_iname(steps(), "k", 2)
    knl = pl.add_barrier(split, "put", "get", synchronization_kind="local")
    assert bare(cuda(knl)) == bare(cuda(split))
    assert "barrier" in str(knl.reference)


def test_a_fetch_can_be_named() -> None:
    base = pl.make_kernel(
        "{[g, i]: 0 <= g < n and 0 <= i < 16}", "b[g, i] = a[g, i] + a[g, i + 1]", [pl.GlobalArg("a, b", F), ...]
    )
    base = pl.add_prefetch(pl.tag_inames(base, "g:g.0, i:l.0"), "a", ["i"], default_tag="l.auto")
    fetch = next(instruction.id for instruction in base.instructions if instruction.id != "insn")
    knl = pl.add_barrier(base, fetch, "insn", synchronization_kind="local")
    assert bare(cuda(knl)) == bare(cuda(base)).replace("__syncwarp", "__syncthreads")
    a = np.arange(34, dtype=F).reshape(2, 17)
    check(knl, {"a": a}, {"b": a[:, :-1] + a[:, 1:]})


def test_what_cannot_be_divided_is_refused() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "<> s = 0 {id=start}\nfor i\ns = s + a[i] {id=sum}\no[i] = s {id=out}\nend",
        [pl.GlobalArg("a, o", F, shape="n"), ...],
        name="prefix",
    )
    inside = pl.add_barrier(knl, "sum", "out")
    a = np.arange(5, dtype=F)
    check(inside, {"a": a}, {"o": np.cumsum(a)})
    text = refused(knl, lambda k: pl.add_barrier(k, "out", "sum"), "barrier-nowhere")
    assert "no position is after 'out' and before 'sum'" in text


# }}}
# {{{ add_dependency


def test_a_dependency_brings_instructions_into_order() -> None:
    base = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2 {id=late}\na[i] = 1 {id=soon}", [pl.GlobalArg("a, b", F), ...])
    knl = pl.add_dependency(base, "late", "soon")
    assert [instruction.id for instruction in knl.instructions] == ["soon", "late"]
    text = cuda(knl)
    assert text.index("// soon") < text.index("// late")
    assert str(knl.reference) == str(base.reference)
    check(knl, {"a": np.zeros(3, F), "b": np.zeros(3, F)}, {"a": np.full(3, 1, F), "b": np.full(3, 2, F)})
    same_after_replay(base, knl)


def test_a_match_names_many() -> None:
    base = pl.make_kernel(
        "{[i]: 0 <= i < n}", "a[i] = 1 {id=x}\nb[i] = 2 {id=y}\nc[i] = 3 {id=z}", [pl.GlobalArg("a, b, c", F), ...]
    )
    knl = pl.add_dependency(base, "not writes:c", "writes:c")
    assert [instruction.id for instruction in knl.instructions] == ["z", "x", "y"]


def flow() -> pl.LoopKernel:
    text = "<> t = a[i] {id=first}\n<> u = 2*t {id=second}\nb[i] = u {id=third}"
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, b", F), ...], name="flow")


# }}}
# {{{ add_nosync


def scatter(option: str = "") -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < 32}",
        f"a[idx[i]] = b[i] {{id=w{option}}}\nc[i] = a[idx[i]] {{id=r}}",
        [pl.GlobalArg("a, b, c", F, shape="32"), pl.GlobalArg("idx", np.int32, shape="32")],
        name="scatter",
    )


def test_a_supposed_conflict_is_denied_as_in_the_text() -> None:
    base = scatter()
    knl = pl.add_nosync(pl.add_nosync(base, "any", "w", "w"), "any", "w", "r")
    knl = pl.tag_inames(knl, "i:l.0")
    written = pl.tag_inames(pl.make_kernel(
        "{[i]: 0 <= i < 32}", "a[idx[i]] = b[i] {id=w, nosync=w}\nc[i] = a[idx[i]] {id=r, nosync=w}",
        [pl.GlobalArg("a, b, c", F, shape="32"), pl.GlobalArg("idx", np.int32, shape="32")], name="scatter",
    ), "i:l.0")  # fmt: skip
    assert cuda(knl) == cuda(written)
    assert "__sync" not in cuda(knl)
    assert "nosync=w" in str(knl)
    idx = np.random.default_rng(0).permutation(32).astype(np.int32)
    b = np.arange(32, dtype=F)
    check(knl, {"a": np.zeros(32, F), "b": b, "idx": idx}, {"c": b})
    same_after_replay(base, knl)


def test_both_directions_say_the_same() -> None:
    one = pl.add_nosync(scatter(), "global", "w", "r")
    two = pl.add_nosync(scatter(), "global", "w", "r", bidirectional=True)
    shown = [[str(sorted(map(str, i.nosync))) for i in knl.instructions] for knl in (one, two)]
    assert shown == [["[]", "['w@global']"], ["['r@global']", "['w@global']"]]


def test_no_conflict_can_be_accepted() -> None:
    knl = pl.add_nosync(flow(), "any", "third", "third", empty_ok=True)
    assert all(not instruction.nosync for instruction in knl.instructions)
    forced = pl.add_nosync(flow(), "any", "first", "third", force=True)
    assert forced.instruction("third").nosync


# }}}

Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "add_barrier_unknown": (flow, lambda k: pl.add_barrier(k, "first", "fourth"), "unknown-instruction"),
    "add_barrier_no_match": (flow, lambda k: pl.add_barrier(k, "first", "writes b"), "syntax"),
    "add_barrier_kind": (flow, lambda k: pl.add_barrier(k, "first", "third", synchronization_kind="warp"), "bad-value"),
    "add_barrier_memory": (flow, lambda k: pl.add_barrier(k, "first", "third", mem_kind="local"), "barrier-memory"),
    "add_barrier_nowhere": (flow, lambda k: pl.add_barrier(k, "third", "first"), "barrier-nowhere"),
    "add_barrier_in_a_loop": (counted, lambda k: pl.add_barrier(k, "put", "get"), "grid-barrier"),
    "add_dependency_unknown": (flow, lambda k: pl.add_dependency(k, "fifth", "first"), "unknown-instruction"),
    "add_dependency_cycle": (flow, lambda k: pl.add_dependency(k, "first", "third"), "dependency-cycle"),
    "add_dependency_itself": (flow, lambda k: pl.add_dependency(k, "first", "first"), "dependency-cycle"),
    "add_nosync_unknown": (flow, lambda k: pl.add_nosync(k, "any", "first", "fifth"), "unknown-instruction"),
    "add_nosync_scope": (flow, lambda k: pl.add_nosync(k, "warp", "first", "third"), "bad-value"),
    "add_nosync_proven": (reversal, lambda k: pl.add_nosync(k, "any", "put", "get"), "proven-conflict"),
    "add_nosync_idle": (flow, lambda k: pl.add_nosync(k, "any", "first", "third"), "idle-nosync"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/{case}.txt", refused(make(), call, code))


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_takes_it(arch: str) -> None:
    for knl in (pl.add_barrier(reversal(), "put", "get", synchronization_kind="local"), steps()):
        compile_cuda(cuda(knl), arch=arch)
