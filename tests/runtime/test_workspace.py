"""Temporaries in global memory: allocated for a call, shared by all blocks, of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import run_on_fibres
from tests.generated import flat

F = np.float32


def twice_transposed(**temporary: Any) -> pl.LoopKernel:
    """Blocks of rows write 't', blocks of columns read it."""
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    if temporary:
        data.insert(1, pl.TemporaryVariable("t", F, shape="n, n", **temporary))
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        f"{'' if temporary else '<> '}t[i, j] = 2*a[i, j] {{id=write}}\nb[k, l] = t[l, k] + 1 {{dep=write}}",
        data,
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0")


def everywhere(knl: pl.LoopKernel, arguments: dict[str, Any], check: Callable[[Any], None]) -> None:
    check(pl.interpret(knl, **arguments))
    check(compile_kernel(knl, pl.CTarget())(**arguments, poison=True))
    for result in run_on_fibres(pl.generate_code(knl), arguments).values():
        check(result)


@pytest.mark.few(6)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 17])
@pytest.mark.parametrize("temporary", [{}, {"address_space": "global"}, {"address_space": "global", "padding": 3}])
def test_what_all_blocks_write_others_read_in_the_next_launch(n: int, temporary: dict[str, Any]) -> None:
    knl = twice_transposed(**temporary)
    a = np.random.default_rng(n).random((n, n), dtype=F)
    everywhere(knl, {"a": a}, lambda result: np.testing.assert_array_equal(result.b, 2 * a.T + 1))


def test_the_workspace_is_hidden_from_callers_and_seen_in_the_text() -> None:
    program = pl.generate_code(twice_transposed())
    assert [a.name for a in program.arguments] == ["a", "b", "n"]
    assert [a.name for a in program.workspace] == ["t"]
    assert [launch.arguments for launch in program.launches] == [("a", "n", "t"), ("b", "n", "t")]
    assert "loop_kernel_0(const float *__restrict__ a, int n, float *__restrict__ t)" in flat(program.device_code)
    assert "loop_kernel_1(float *__restrict__ b, int n, const float *__restrict__ t)" in flat(program.device_code)
    with pytest.raises(pl.ArgumentError, match="unknown-argument"):
        compile_kernel(twice_transposed(), pl.CTarget())(a=np.zeros((2, 2), F), t=np.zeros((2, 2), F))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("address_space", ["global", "auto"])
def test_a_temporary_is_empty_where_an_extent_is_negative(n: int, padding: int, address_space: str) -> None:
    shared = pl.TemporaryVariable("t", F, shape="n - 1, n - 2", address_space=address_space, padding=padding)
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, k < n - 1 and 0 <= j, l < n - 2}",
        "t[i, j] = a[i, j] {id=write}\nb[k, l] = t[k, l] {dep=write}",
        [pl.GlobalArg("a, b", F, shape="n, n"), shared, ...],
    )
    a = np.random.default_rng(n).random((n, n), dtype=F)
    inner = (slice(0, max(n - 1, 0)), slice(0, max(n - 2, 0)))
    everywhere(knl, {"a": a}, lambda result: np.testing.assert_array_equal(result.b[inner], a[inner]))


def test_a_buffer_of_an_array_that_is_empty() -> None:
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "y[i] = 2*i", [pl.GlobalArg("y", F, shape="n + 4"), ...])
    knl = pl.buffer_array(knl, "y", buffer_inames=["i"], temporary_address_space="global")
    for n in range(4):
        expected = np.array([2 * i if 1 <= i < n else 0 for i in range(n + 4)], F)
        y = np.zeros(n + 4, F)
        everywhere(knl, {"y": y, "n": n}, lambda result: np.testing.assert_array_equal(result.y, expected))  # noqa: B023


def test_padding_keeps_rows_apart() -> None:
    text = pl.generate_code(twice_transposed(address_space="global", padding=3)).device_code
    assert "t[i * (n + 3) + j]" in text


def test_a_temporary_of_parametric_size_needs_no_declaration() -> None:
    text = "<> t[j] = 2*a[i, j] {id=w}\nb[i, k] = t[n - 1 - k] {dep=w}"
    data = [pl.GlobalArg("a", F, shape="m, n"), ...]
    domain = "{[i, j, k]: 0 <= i < m and 0 <= j, k < n}"
    knl = pl.make_kernel(domain, f"for i\n{text}\nend", data)
    a = np.random.default_rng(1).random((3, 5), dtype=F)
    everywhere(knl, {"a": a}, lambda result: np.testing.assert_array_equal(result.b, 2 * a[:, ::-1]))
    with pytest.raises(pl.VerificationError) as err:
        pl.generate_code(pl.tag_inames(knl, {"i": "g.0"}))
    assert err.value.codes == ("temporary-not-constant",)


def test_a_temporary_that_crosses_launches_moves_to_global_memory() -> None:
    text = "<> t[i] = 2*a[i] {id=w}\nb[i] = t[i] {id=v, dep=w}\nc[j] = b[63 - j] + t[j] {dep=v}"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 64}", text, [pl.GlobalArg("a, b", F, shape="64"), ...])
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    assert len(pl.generate_code(knl).launches) == 2
    a = np.arange(64, dtype=F)
    everywhere(knl, {"a": a}, lambda result: np.testing.assert_array_equal(result.c, 2 * a[::-1] + 2 * a))


def shared_scale(space: str) -> pl.LoopKernel:
    """Both launches read 's'."""
    text = "s = 3*a[0] {id=s}\nb[i] = s*a[i] {id=v, dep=s}\nc[j] = b[63 - j] + s {dep=v}"
    data = [pl.GlobalArg("a, b", F, shape="64"), pl.TemporaryVariable("s", F, address_space=space), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 64}", text, data)
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")


def test_a_scalar_that_crosses_launches_is_written_once() -> None:
    a = np.arange(1, 65, dtype=F)
    everywhere(shared_scale("auto"), {"a": a}, lambda result: np.testing.assert_array_equal(result.c, 3 * a[::-1] + 3))


@pytest.mark.parametrize("space", ["private", "local"])
def test_what_was_asked_to_be_private_or_shared_does_not_cross_launches(space: str) -> None:
    with pytest.raises(pl.VerificationError) as err:
        pl.generate_code(shared_scale(space))
    assert str(err.value) == (
        f"schedule on kernel 'loop_kernel': 's' is {space} and would have to live from one launch to the next "
        "[private-across-launches]\n"
        "  Note: one launch ends where blocks depend on each other, or at a global barrier, and the next begins\n"
        "  Hint: let it be saved and reloaded: pl.save_and_reload_temporaries(knl), or compute 's' anew"
    )


def test_one_global_element_is_not_written_by_many_threads() -> None:
    data = [pl.GlobalArg("a", F, shape="n"), pl.TemporaryVariable("t", F, address_space="global"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "t = 2*a[i] {id=w}\nb[i] = t {dep=w}", data)
    with pytest.raises(pl.TransformError) as err:
        pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    assert err.value.codes == ("write-race",)


@pytest.mark.nvrtc
def test_workspace_compiles() -> None:
    for arch in ("sm_80", "sm_90"):
        assert pl.compile(twice_transposed(), pl.CudaTarget(arch)).cubin


@pytest.mark.gpu
def test_workspace_on_a_gpu_takes_its_turn_on_each_stream() -> None:
    driver = pytest.importorskip("pycuda.driver")
    pytest.importorskip("pycuda.autoprimaryctx")
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    run = pl.compile(twice_transposed(), pl.CudaTarget())
    rng = np.random.default_rng(0)
    hosts = [rng.random((300 + 8 * k, 300 + 8 * k), dtype=F) for k in range(8)]
    arrays = [gpuarray.to_gpu(host) for host in hosts]
    streams = [driver.Stream() for _ in hosts]
    results = [
        run(a=array, stream=stream, poison=True).b for _ in range(5)
        for array, stream in zip(arrays, streams, strict=True)
    ]  # fmt: skip
    driver.Context.synchronize()
    for result, host in zip(results, hosts * 5, strict=True):
        np.testing.assert_array_equal(result.get(), 2 * host.T + 1)
