from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.errors import ArgumentError, CodegenError, VerificationError
from polyloop.kernel.arrays import ValueArg
from polyloop.runtime.fibres import ORDERS, agree, disagreement, run_on_fibres
from tests.runtime.programs import F4, I4, N, array, at_most, axpy, reverse, transpose

A = np.arange(128, dtype=F4)


def fault(program: GeneratedProgram, **arguments: object) -> str:
    with pytest.raises(VerificationError) as err:
        run_on_fibres(program, arguments or {"a": A})
    return str(err.value)


@pytest.mark.parametrize("n", [1, 127, 128, 129, 300])
def test_axpy(n: int) -> None:
    x = np.arange(n, dtype=F4)
    outputs = run_on_fibres(axpy("cuda"), {"alpha": 2, "x": x, "y": x})
    assert list(outputs) == list(ORDERS)
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["random"].z, 3 * x)


@pytest.mark.parametrize("shape", [(16, 16), (1, 1), (17, 40), (33, 5)])
def test_a_tiled_transposition(shape: tuple[int, int]) -> None:
    a = np.arange(shape[0] * shape[1], dtype=F4).reshape(shape)
    outputs = run_on_fibres(transpose(), {"a": a})
    assert disagreement(outputs) is None
    np.testing.assert_array_equal(outputs["forward"].b, a.T)


def test_a_reversal_with_its_barrier_is_the_same_in_every_order() -> None:
    outputs = run_on_fibres(reverse(), {"a": A})
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["reverse"].b, A.reshape(2, 64)[:, ::-1].reshape(128))


def test_a_missing_barrier_makes_the_orders_disagree() -> None:
    outputs = run_on_fibres(reverse(barrier=""), {"a": A})
    assert not agree(outputs)
    assert disagreement(outputs) == "b[0] is nan in order 'forward' and 63.0 in 'reverse'"


def test_a_warp_barrier_is_not_a_block_barrier() -> None:
    assert not agree(run_on_fibres(reverse("__syncwarp();"), {"a": A}))


def test_the_random_order_depends_on_the_seed() -> None:
    found = {run_on_fibres(reverse(""), {"a": A}, orders=("random",), seed=seed)["random"].b.tobytes()
             for seed in range(4)}
    assert len(found) > 1
    again = {run_on_fibres(reverse(""), {"a": A}, orders=("random",), seed=3)["random"].b.tobytes() for _ in range(2)}
    assert len(again) == 1


def test_inputs_are_not_changed() -> None:
    program = reverse()
    b = np.full(128, 5, F4)
    run_on_fibres(program, {"a": A, "b": b})
    assert (b == 5).all()


def test_a_barrier_that_some_threads_miss_is_found() -> None:
    assert fault(reverse("if (t < 32) __syncthreads();")) == """\
run_on_fibres on kernel 'reverse': in 'reverse' threads wait at a barrier that others never reach [barrier-divergence]
  Note: thread (0, 0, 0) of block (0, 0, 0) is at line 7: if (t < 32) __syncthreads();
  Note: thread (32, 0, 0) has ended
  Hint: this is a fault of the code generator unless the kernel holds C text of yours"""


def test_an_early_exit_before_a_barrier_is_found() -> None:
    text = fault(reverse("if (t == 5) return; __syncthreads();"))
    assert "[barrier-divergence]" in text
    assert "thread (5, 0, 0) has ended" in text


def test_threads_at_different_barriers_are_found() -> None:
    assert fault(reverse("if (t < 32) { __syncthreads(); }\n    else { __syncthreads(); }")) == """\
run_on_fibres on kernel 'reverse': in 'reverse' threads of one block wait at different barriers [barrier-divergence]
  Note: thread (0, 0, 0) of block (0, 0, 0) is at line 7: if (t < 32) { __syncthreads(); }
  Note: thread (32, 0, 0) is at line 8: else { __syncthreads(); }
  Hint: this is a fault of the code generator unless the kernel holds C text of yours"""


def test_a_divergent_warp_barrier_is_found() -> None:
    assert "[barrier-divergence]" in fault(reverse("if (t % 2) __syncwarp();\n    __syncthreads();"))
    run_on_fibres(reverse("if (t < 32) __syncwarp();\n    __syncthreads();"), {"a": A})
    run_on_fibres(reverse("if (t % 2) __syncwarp(0xaaaaaaaau);\n    __syncthreads();"), {"a": A})


def test_an_index_outside_shared_memory_is_found() -> None:
    assert fault(reverse(extra="s[t + 1] = 0;")) == """\
run_on_fibres on kernel 'reverse': in 'reverse' an index is outside its array [out-of-bounds]
  Note: thread (63, 0, 0) of block (0, 0, 0) is at line 9: s[t + 1] = 0;
  Note: the index is 64
  Hint: this is a fault of the code generator unless the kernel holds C text of yours"""


@pytest.mark.parametrize(("extra", "where"), [
    ("b[i + n] = 0;", "0 bytes after its last element"), ("b[i - n] = 0;", "4 bytes before its first element")])
def test_a_write_outside_an_array_is_found(extra: str, where: str) -> None:
    assert fault(reverse(extra=extra)) == f"""\
run_on_fibres on kernel 'reverse': 'reverse' wrote outside the array 'b' [out-of-bounds]
  Note: {where}
  Hint: this is a fault of the code generator unless the kernel declares the wrong shape"""


def test_a_read_outside_an_array_gives_nan() -> None:
    outputs = run_on_fibres(reverse(extra="b[i] = a[i + 1];"), {"a": A})
    assert np.isnan(outputs["forward"].b[127])


@pytest.mark.parametrize(("extra", "code"), [
    ("b[i] = n / (t - t);", "division-by-zero"),
    ("b[i] = 2147483647 * n;", "integer-overflow"),
    ("*(float4*)(b + 1) = make_float4(0, 0, 0, 0);", "misaligned-access"),
])
def test_undefined_arithmetic_and_addresses_are_found(extra: str, code: str) -> None:
    assert f"[{code}]" in fault(reverse(extra=extra))


def test_shared_memory_is_poisoned_in_every_block() -> None:
    program = reverse(barrier="if (blockIdx.x == 0) s[t] = 1; else s[t] = s[t];")
    source = program.device_code.replace("    s[t] = a[i];\n", "").replace("s[63 - t]", "s[t]")
    outputs = run_on_fibres(GeneratedProgram("k", "cuda", source, program.launches, program.arguments), {"a": A},
                            orders=("forward",))
    assert (outputs["forward"].b[:64] == 1).all()
    assert np.isnan(outputs["forward"].b[64:]).all()


def test_dynamic_shared_memory() -> None:
    program = reverse()
    source = program.device_code.replace("__shared__ float s[64];", "extern __shared__ float s[];")
    launches = (replace(program.launches[0], dynamic_shared_bytes=256),)
    outputs = run_on_fibres(GeneratedProgram("k", "cuda", source, launches, program.arguments), {"a": A})
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["forward"].b[:64], A[63::-1])


EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "min(3, t) + max(2u, 1u)": lambda t: np.minimum(3, t) + 2,
    "min(1.5f, (float)t)": lambda t: np.minimum(1.5, t),
    "rsqrtf(4.0f) + rsqrt(16.0)": lambda t: 0.75 + 0 * t,
    "__int_as_float(0x7f800000)": lambda t: np.inf + 0 * t,
    "__longlong_as_double(0x7ff0000000000000ll)": lambda t: np.inf + 0 * t,
    "fmaf(t, 2.0f, 1.0f) + fma(1.0, 2.0, 3.0)": lambda t: 2 * t + 6,
    "sqrtf(t * t) + fabsf(-1.0f) + abs(-2)": lambda t: t + 3,
    "__expf(0.0f) + __logf(1.0f) + __powf(2.0f, 3.0f) + __cosf(0.0f)": lambda t: 10 + 0 * t,
    "__ldg(a + i) - a[i]": lambda t: 0 * t,
    "make_float4(1, 2, 3, 4).w + make_int2(5, 6).y": lambda t: 10 + 0 * t,
    "__popc(7) + __clz(1) + __ffs(8)": lambda t: 38 + 0 * t,
    "__shfl_sync(0xffffffffu, t, 3)": lambda t: t // 32 * 32 + 3,
    "__shfl_up_sync(0xffffffffu, t, 1)": lambda t: np.where(t % 32 < 1, t, t - 1),
    "__shfl_down_sync(0xffffffffu, (double)t, 2)": lambda t: np.where(t % 32 > 29, t, t + 2),
    "__shfl_xor_sync(0xffffffffu, t, 5)": lambda t: t ^ 5,
    "__shfl_xor_sync(0xffffffffu, t, 1, 16)": lambda t: t ^ 1,
    "__ballot_sync(0xffffffffu, t % 2 == 0)": lambda t: 0x55555555 + 0 * t,
    "__any_sync(0xffffffffu, t == 40)": lambda t: t // 32,
    "__all_sync(0xffffffffu, t < 40)": lambda t: 1 - t // 32,
    "__syncthreads_count(t < 10) + __syncthreads_or(t == 1) + __syncthreads_and(t == 1)": lambda t: 11 + 0 * t,
    "__half2float(__float2half(0.5f))": lambda t: 0.5 + 0 * t,
    "warpSize + blockDim.x + gridDim.x": lambda t: 98 + 0 * t,
    "((int)threadIdx.x - 1 < 0) + (threadIdx.x - 1 > 0)": lambda t: np.where(t == 0, 2, np.where(t == 1, 0, 1)),
}


def test_device_functions_are_those_of_cuda() -> None:
    statements = "".join(f"    o[{k} * 64 + t] = {text};\n" for k, text in enumerate(EXPRESSIONS))
    source = ('#include <cuda_fp16.h>\nextern "C" __global__ void k(const float* a, double* o, const int n)\n'
              f"{{\n    const int t = threadIdx.x, i = t;\n{statements}}}\n")
    launch = DeviceLaunch("k", (2, 1, 1), (64, 1, 1), 0, ("a", "o", "n"))
    program = GeneratedProgram("k", "cuda", source, (launch,), (
        array("a", [N]), array("o", [len(EXPRESSIONS), 64], inp=False, out=True, dtype=np.dtype(np.float64)),
        ValueArg("n", I4)))
    outputs = run_on_fibres(program, {"a": A})
    assert agree(outputs)
    t = np.arange(64)
    for row, (text, expected) in zip(outputs["random"].o, EXPRESSIONS.items(), strict=True):
        np.testing.assert_array_equal(row, expected(t), err_msg=text)


def test_atomics_and_several_launches() -> None:
    source = """\
extern "C" __global__ void zero(int* count) { *count = 0; }
extern "C" __global__ void add(const int* a, int* count, int* largest, const int n)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) { atomicAdd(count, a[i]); atomicMax(largest, a[i]); }
}
"""
    launches = (DeviceLaunch("zero", (1, 1, 1), (1, 1, 1), 0, ("count",)),
                DeviceLaunch("add", ((N + 31) // 32, 1, 1), (32, 1, 1), 0, ("a", "count", "largest", "n")))
    program = GeneratedProgram("k", "cuda", source, launches, (
        array("a", [N], dtype=I4), array("count", [1], inp=False, out=True, dtype=I4),
        array("largest", [1], out=True, dtype=I4), ValueArg("n", I4)))
    outputs = run_on_fibres(program, {"a": np.arange(100, dtype=I4), "largest": np.zeros(1, I4)})
    assert agree(outputs)
    assert (outputs["forward"].count[0], outputs["forward"].largest[0]) == (4950, 99)


def test_blocks_run_in_the_order_too() -> None:
    source = """\
extern "C" __global__ void k(int* last, const int n) { last[0] = blockIdx.x; }
"""
    launch = DeviceLaunch("k", (N, 1, 1), (1, 1, 1), 0, ("last", "n"))
    program = GeneratedProgram("k", "cuda", source, (launch,), (array("last", [1], inp=False, out=True, dtype=I4),
                                                                ValueArg("n", I4)))
    outputs = run_on_fibres(program, {"n": 9})
    assert (outputs["forward"].last[0], outputs["reverse"].last[0]) == (8, 0)


def test_arguments_are_checked_as_for_a_call() -> None:
    with pytest.raises(ArgumentError) as err:
        run_on_fibres(reverse(), {"a": A.astype(np.float64)})
    assert err.value.codes == ("wrong-dtype",)
    with pytest.raises(ArgumentError) as err:
        run_on_fibres(axpy("cuda", index_checks=(at_most("n", 5, "n is small"),)), {"alpha": 1, "x": A, "y": A})
    assert err.value.codes == ("index-overflow",)


def test_a_program_in_c_is_refused() -> None:
    with pytest.raises(CodegenError) as err:
        run_on_fibres(axpy("c"), {"alpha": 1, "x": A, "y": A})
    assert err.value.codes == ("unknown-target",)
