"""Temporaries with initial values: constant tables in the text, and variables that begin with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.tables import literal
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.generated import flat

F = np.float32
WEIGHTS = np.array([0.1, 0.5, -0.25, 1e-30], F)


def filtered(weights: np.ndarray[Any, Any] = WEIGHTS, **facts: Any) -> pl.LoopKernel:
    table = pl.TemporaryVariable("w", initializer=weights, **facts)
    data = [pl.GlobalArg("a", weights.dtype, shape=f"n + {len(weights) - 1}"), table, ...]
    domain = f"{{[i, k]: 0 <= i < n and 0 <= k < {len(weights)}}}"
    knl = pl.make_kernel(domain, "b[i] = sum(k, w[k]*a[i + k])", data)
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def results(knl: pl.LoopKernel, **arguments: Any) -> list[Any]:
    fibres = run_on_fibres(pl.generate_code(knl), arguments)
    return [pl.interpret(knl, **arguments), compile_kernel(knl, pl.CTarget())(**arguments), *fibres.values()]


def refusal(entry: pl.TemporaryVariable, text: str = "b[i] = w[i]") -> str:
    with pytest.raises(pl.KernelError) as err:
        pl.make_kernel("{[i]: 0 <= i < 4}", text, [entry, ...])
    return str(err.value)


def test_a_table_stands_in_the_text_exactly() -> None:
    targets = (pl.CTarget(), pl.CudaTarget())
    texts = {target.name: pl.generate_code(filtered(), target).device_code for target in targets}
    values = "{0x1.99999ap-4f, 0.5f, -0.25f, 0x1.4484cp-100f};"
    assert f"static const float loop_kernel_w[4] = {values}" in texts["c"]
    assert f"__constant__ float loop_kernel_w[4] = {values}" in texts["cuda"]
    assert "acc += loop_kernel_w[k] * a[i + k];" in texts["cuda"]
    assert "w: float32[4] (table)" in str(filtered())


def test_a_table_gives_its_values_on_every_target() -> None:
    a = np.random.default_rng(0).random(103, dtype=F)
    for result in results(filtered(read_only=True), a=a):
        np.testing.assert_allclose(result.b, np.convolve(a, WEIGHTS[::-1], "valid"), rtol=1e-6)


def test_a_large_table_is_no_constant_memory() -> None:
    text = pl.generate_code(filtered(np.ones(20000, F))).device_code
    assert "__device__ const float loop_kernel_w[20000] = {\n    1.0f, 1.0f," in text


def test_tables_of_several_axes_and_types() -> None:
    values = np.array([[[-(2**63), 2**63 - 1], [0, -1]]])
    flags = np.array([True, False])
    small = np.array([-128, 127], np.int8)
    unsigned = np.array([2**32 - 1, 0], np.uint32)
    data: list[Any] = [
        pl.TemporaryVariable("t", initializer=values),
        pl.TemporaryVariable("flag", initializer=flags),
        pl.TemporaryVariable("s", initializer=small),
        pl.TemporaryVariable("u", initializer=unsigned),
        pl.TemporaryVariable("c", np.int64, initializer=3),
        ...,
    ]
    text = "x[i, j] = if(flag[i], t[0, i, j], 5)\ny[i] = s[i] + c\nz[i] = u[i]"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 2}", text, data)
    for result in results(knl):
        np.testing.assert_array_equal(result.x, [[-(2**63), 2**63 - 1], [5, 5]])
        np.testing.assert_array_equal(result.y, [-125, 130])
        np.testing.assert_array_equal(result.z, unsigned)


@pytest.mark.parametrize("language", [C_LANGUAGE, CUDA_LANGUAGE])
def test_literals_have_exactly_their_values(language: Any) -> None:
    rng = np.random.default_rng(3)
    for bits in rng.integers(0, 2**64, 400, dtype=np.uint64):
        for value in (bits.view(np.float64), bits.astype(np.uint32).view(np.float32)):
            if np.isfinite(value):
                text = literal(value, language).removesuffix("f")
                back = float.fromhex(text) if "x" in text else float(text)
                assert back == float(value), text


def test_a_variable_begins_with_its_values_at_each_start() -> None:
    begin = np.arange(12).reshape(3, 4) - 5
    data: list[Any] = [
        pl.GlobalArg("x", np.int64, shape="n"),
        pl.TemporaryVariable("t", initializer=begin),
        pl.TemporaryVariable("s", np.int64, initializer=7),
        ...,
    ]
    text = "t[i, j] = t[i, j] + s*x[k] {inames=i:j:k, id=u}\nout[i, j] = t[i, j] {dep=u}"
    knl = pl.make_kernel("{[i, j, k]: 0 <= i < 3 and 0 <= j < 4 and 0 <= k < n}", text, data, assumptions="n >= 1")
    for result in results(knl, x=np.arange(5)):
        np.testing.assert_array_equal(result.out, begin + 70)
    run = compile_kernel(knl, pl.CTarget())
    for _ in range(2):
        np.testing.assert_array_equal(run(x=np.arange(5)).out, begin + 70)
    tagged = pl.tag_inames(knl, {"j": "l.0"})
    assert "t_init" in str(tagged)
    for result in results(tagged, x=np.arange(5)):
        np.testing.assert_array_equal(result.out, begin + 70)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (pl.TemporaryVariable("w", read_only=True), "'w' is read-only and has no initializer [bad-initializer]"),
        (
            pl.TemporaryVariable("w", np.float64, initializer=WEIGHTS),
            "'w' is float64, and its initializer is float32 [bad-initializer]",
        ),
        (
            pl.TemporaryVariable("w", shape=3, initializer=WEIGHTS),
            "'w' has another shape than its initializer, (4,) [bad-initializer]",
        ),
        (
            pl.TemporaryVariable("w", initializer=np.array(["a"])),
            "the initializer of 'w' cannot have the type <U1 [bad-initializer]",
        ),
        (
            pl.TemporaryVariable("w", initializer=WEIGHTS, address_space="local", base_storage="pool"),
            "'w' has an initializer and cannot share 'pool' [bad-storage]",
        ),
        (
            pl.TemporaryVariable("w", initializer=WEIGHTS, order="F"),
            "temporary 'w' has an initializer and a layout [bad-layout]",
        ),
    ],
)
def test_initializers_that_do_not_fit_are_refused(entry: pl.TemporaryVariable, text: str) -> None:
    assert text in refusal(entry)


def test_a_read_only_table_is_not_written() -> None:
    assert refusal(pl.TemporaryVariable("w", initializer=WEIGHTS, read_only=True), "w[i] = 1") == (
        "make_kernel: 'w' is read-only and cannot be assigned [not-assignable]\n"
        "  w[i] = 1                                             (line 1)\n"
        "  Hint: drop read_only=True, or assign another variable"
    )


def test_a_table_is_read_inside_its_bounds() -> None:
    assert "touches w[4] (axis 0)" in refusal(pl.TemporaryVariable("w", initializer=WEIGHTS), "b[i] = w[i + 1]")


@pytest.mark.nvrtc
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_holds_infinities_and_nans(dtype: Any) -> None:
    values = np.array([np.inf, -np.inf, np.nan, -0.0, 1], dtype)
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 5}", "b[i] = w[4 - i]*a[i]",
        [pl.TemporaryVariable("w", initializer=values), pl.GlobalArg("a", dtype, shape=5), ...],
    )  # fmt: skip
    knl = pl.tag_inames(knl, {"i": "l.0"})
    program = pl.generate_code(knl)
    bits = "float, 0x7f800000u" if dtype is np.float32 else "double, 0x7ff0000000000000ull"
    assert f"{{ __builtin_bit_cast({bits}), " in flat(program.device_code).replace("{__", "{ __")
    for arch in ("sm_80", "sm_90"):
        compile_cuda(program.device_code, arch)
    assert "INFINITY" in pl.generate_code(knl, pl.CTarget()).device_code
    for result in results(knl, a=np.ones(5, dtype)):
        np.testing.assert_array_equal(result.b, values[::-1])
        assert np.signbit(result.b[1])


def test_a_table_can_be_prefetched() -> None:
    knl = pl.add_prefetch(filtered(), "w", ["k"], default_tag="l.auto")
    a = np.random.default_rng(0).random(103, dtype=F)
    for result in results(knl, a=a):
        np.testing.assert_allclose(result.b, np.convolve(a, WEIGHTS[::-1], "valid"), rtol=1e-6)


@pytest.mark.nvrtc
def test_tables_compile() -> None:
    for arch in ("sm_80", "sm_90"):
        assert pl.compile(filtered(), pl.CudaTarget(arch)).cubin
        assert pl.compile(filtered(np.ones(20000, F)), pl.CudaTarget(arch)).cubin


def test_initial_values_come_before_what_stands_before_a_barrier() -> None:
    text = """
    for i
        t[i] = t[i] + a[i]
    end
    ... gbarrier
    for j
        b[j] = t[15 - j]
    end
    """
    table = pl.TemporaryVariable("t", initializer=np.arange(16, dtype=F))
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 16}", text, [pl.GlobalArg("a", F, shape="16"), table, ...])
    a = np.random.default_rng(0).random(16, dtype=F)
    for result in results(pl.tag_inames(knl, {"i": "g.0", "j": "g.0"}), a=a):
        np.testing.assert_array_equal(result.b, (np.arange(16, dtype=F) + a)[::-1])
