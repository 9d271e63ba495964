"""Temporaries that are spread over the blocks of a cluster: CUDA C on fibres, what is refused, NVRTC, a GPU."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.testing.brute import judge
from tests.codegen.running import needs_compiler

CUDA = pl.CudaTarget("sm_90a")
Case = tuple[pl.LoopKernel, Mapping[str, Any], Mapping[str, np.ndarray[Any, Any]]]


def text_of(knl: pl.LoopKernel) -> GeneratedProgram:
    return pl.generate_code(knl, target=CUDA)


def integers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).integers(-9, 9, shape, np.int32)


# {{{ kernels


def turned(tag: str, shape: str = "4, 32", **more: Any) -> pl.LoopKernel:
    """Return a kernel whose blocks read what another block of the cluster has stored, and what other threads have."""
    domain = "{[i, c, t, c2, t2]: 0 <= i < n and 0 <= c, c2 < 4 and 0 <= t, t2 < 32}"
    text = """
    for i
        <> s[c, t] = 2*a[i, c, t]
        b[i, c2, t2] = s[3 - c2, t2] + s[c2, 31 - t2]
    end
    """
    data = [pl.GlobalArg("a, b", np.int32, shape="n, 4, 32"),
            pl.TemporaryVariable("s", np.int32, shape=shape, address_space="cluster", **more), ...]
    knl = pl.make_kernel(domain, text, data, name="turned", silenced_warnings="*")
    return pl.tag_inames(knl, f"i:{tag}, c:c.0, t:l.0, c2:c.0, t2:l.0")


def turned_case(tag: str) -> Case:
    a = integers(5, 4, 32)
    return turned(tag), {"a": a}, {"b": 2*a[:, ::-1] + 2*a[:, :, ::-1]}


def sent() -> Case:
    """Return a kernel whose blocks store into the memory of the next one, which has one element of each thread."""
    domain = "{[i, c, t, c2, t2]: 0 <= i < n and 0 <= c, c2 < 3 and 0 <= t, t2 < 64}"
    text = """
    for i
        <> s[(c + 1) % 3, t] = a[i, c, t]
        b[i, c2, t2] = s[c2, t2]
    end
    """
    data = [pl.GlobalArg("a, b", np.int32, shape="n, 3, 64"),
            pl.TemporaryVariable("s", np.int32, shape="3, 64", address_space="cluster"), ...]
    knl = pl.make_kernel(domain, text, data, name="sent", silenced_warnings="*")
    a = integers(4, 3, 64)
    knl = pl.tag_inames(knl, "i:g.0, c:c.0, t:l.0, c2:c.0, t2:l.0")
    return knl, {"a": a}, {"b": np.roll(a, 1, axis=1)}


def staged() -> Case:
    """Return sums whose parts lie in the blocks of a cluster, each of which adds up a share of them."""
    data = [pl.GlobalArg("a", np.int32, shape="n, p"), pl.GlobalArg("y", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < p}", "y[i] = sum(k, a[i, k])", data, name="staged",
                         assumptions="n >= 1 and 1 <= p <= 40")
    knl = pl.split_iname(knl, "i", 32, outer_iname="tile", inner_iname="row", outer_tag="g.0")
    knl = pl.split_iname(knl, "k", 10, outer_iname="part", inner_iname="term")
    knl = pl.stage_reduction(knl, "part", sweep_inames="row", new_inames="row_sum, block", temporary_name="sums",
                             temporary_address_space="cluster")
    knl = pl.split_iname(knl, "row", 8, outer_iname="share", inner_iname="row_in", outer_tag="c.0", inner_tag="l.0")
    knl = pl.tag_inames(knl, "block:c.0, row_sum:l.0, part:unr")
    a = integers(70, 37)
    return knl, {"a": a}, {"y": a.sum(1)}


CASES: Mapping[str, Case] = {
    "read": turned_case("g.0"), "read in a loop": turned_case("for"), "sent": sent(), "staged": staged(),
}  # fmt: skip


# }}}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_on_fibres(name: str) -> None:
    knl, arguments, wanted = CASES[name]
    outputs = run_on_fibres(text_of(knl), arguments)
    assert disagreement(outputs) is None
    for array, values in wanted.items():
        np.testing.assert_array_equal(outputs["random"][array], values)


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", CASES)
def test_with_nvrtc(name: str) -> None:
    compile_cuda(text_of(CASES[name][0]).device_code, "sm_90a")


def test_the_text() -> None:
    text = text_of(turned("g.0")).device_code
    lines = [line.strip() for line in text[text.index("{", text.index('extern "C"')):].splitlines()]
    assert lines[1] == "cluster_arrive();"
    assert lines[5:7] == ["__shared__ int s[32];", "cluster_wait();  // all blocks of the cluster have begun"]
    assert lines[8] == "cluster_barrier();  // s: reads follow writes"
    assert "((int *)in_block(s, 3 - rank))[tx]" in lines[9]
    assert "s[31 - tx]" in lines[9]
    assert lines[10] == "cluster_barrier();  // no block ends before others have used its memory"


def test_partial_results_are_those_of_blocks() -> None:
    assert CASES["staged"][0].temporaries["sums"].shape == (4, 32)


def test_the_waits_are_of_the_cluster() -> None:
    found = pl.verify(turned("for"))
    assert {wait.scope.value for wait in found.waits} == {"cluster"}
    assert {(wait.first, wait.loop) for wait in found.waits} >= {("insn", None), ("insn_1", "i")}


@needs_compiler
@pytest.mark.parametrize("number", [0, 1])
def test_each_barrier_in_the_loop_is_needed(number: int) -> None:
    knl, arguments, wanted = CASES["read in a loop"]
    program = text_of(knl)
    begin = program.device_code.index("for (int i")
    found = re.finditer(r"cluster_barrier\(\);", program.device_code)
    places = [one.span() for one in found if one.start() > begin]
    assert len(places) == 2
    first, end = places[number]
    text = program.device_code[:first] + program.device_code[end:]
    with contextlib.suppress(pl.VerificationError):  # a block has ended
        outputs = run_on_fibres(replace(program, device_code=text), arguments)
        assert any((result["b"] != wanted["b"]).any() for result in outputs.values())


@needs_compiler
def test_no_block_ends_before_others_have_read_it() -> None:
    knl, arguments, _ = CASES["read"]
    program = text_of(knl)
    end = program.device_code.rindex("    cluster_barrier();")
    body = program.device_code[:end] + "}\n"
    with pytest.raises(pl.VerificationError, match="shared memory of one that has ended"):
        run_on_fibres(replace(program, device_code=body), arguments)


def test_brute_force_agrees() -> None:
    knl = pl.fix_parameters(turned("g.0"), n=2)
    assert not list(judge(knl, {}, {}))
    assert not list(judge(CASES["staged"][0], {"n": 40, "p": 33}, {}))


# {{{ refusals


def test_the_first_axis_is_that_of_blocks() -> None:
    with pytest.raises(pl.VerificationError, match="has 5 indices, and a cluster has 4 blocks") as refused:
        text_of(turned("g.0", "5, 32"))
    assert refused.value.codes == ("bad-cluster",)


def test_blocks_of_the_grid_see_none_of_it() -> None:
    domain = "{[c, c2, t, t2]: 0 <= c, c2 < 4 and 0 <= t, t2 < 8}"
    text = "<> s[c, t] = a[c, t]\n b[c2, t2] = s[c2, 7 - t2]"
    data = [pl.GlobalArg("a, b", np.int32, shape="4, 8"),
            pl.TemporaryVariable("s", np.int32, shape="4, 8", address_space="cluster"), ...]
    knl = pl.make_kernel(domain, text, data, name="apart", silenced_warnings="*")
    with pytest.raises(pl.TransformError, match="writes s") as refused:
        pl.tag_inames(knl, "c:c.0, c2:c.0, t:g.0, t2:g.0")
    assert refused.value.codes == ("illegal-parallel",)


def test_two_threads_of_a_cluster_write_one_element() -> None:
    domain = "{[c, t, c2]: 0 <= c, c2 < 4 and 0 <= t < 8}"
    data = [pl.GlobalArg("a", np.int32, shape="4, 8"), pl.GlobalArg("b", np.int32, shape="4"),
            pl.TemporaryVariable("s", np.int32, shape="4", address_space="cluster"), ...]
    knl = pl.make_kernel(domain, "<> s[0] = a[c, t]\n b[c2] = s[0]", data, name="both", silenced_warnings="*")
    with pytest.raises(pl.TransformError, match="both would run at the same time") as refused:
        pl.tag_inames(knl, "c:c.0")
    assert refused.value.codes == ("write-race",)


# }}}
# {{{ on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name: str) -> None:
    knl, arguments, wanted = CASES[name]
    found = pl.compile(knl, target=CUDA)(**arguments)
    for array, values in wanted.items():
        np.testing.assert_array_equal(np.asarray(found[array]), values)


# }}}
