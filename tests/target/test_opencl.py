"""The OpenCL target: its text, what it lacks, and devices as data.  Nothing here needs a device."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.device.entries import Boxes, Entry, LookBack, Matrices, Shuffles
from polyloop.frozen import replace
from polyloop.target.opencl import OPENCL_LANGUAGE, VERSIONS
from tests.generated import flat

TARGET = pl.OpenCLTarget()
F = np.float32


def text(knl: pl.LoopKernel, target: Any = TARGET, **how: Any) -> str:
    return pl.generate_code(knl, target=target, **how).device_code


def product(dtype: Any = F) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", dtype), ...],
        name="product",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", "i_inner, k_inner")
    return pl.add_prefetch(knl, "b", "k_inner, j_inner")


def spread(statement: str, *data: Any, length: int = 64, **how: Any) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", statement, [*data, ...], assumptions="n >= 0", **how)
    return pl.split_iname(knl, "i", length, outer_tag="g.0", inner_tag="l.0")


def norms() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "s[i] = sum(j, a[i, j]*a[i, j])",
                         [pl.GlobalArg("a", F, shape="n, m"), ...], name="norms")  # fmt: skip
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", 32, inner_tag="l.0")


def vectors() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a*x[i] + y[i]",
                         [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("a", F), ...],
                         name="saxpy", assumptions="n >= 0 and n mod 4 = 0")  # fmt: skip
    knl = pl.split_iname(knl, "i", 4, inner_tag="vec")
    return pl.split_iname(knl, "i_outer", 64, outer_tag="g.0", inner_tag="l.0")


GOLDEN = {"product": product, "norms": norms, "saxpy": vectors}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_text_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"golden/opencl/{name}.cl", text(GOLDEN[name]()))


def test_a_target_says_how_it_is_made() -> None:
    assert repr(TARGET) == "pl.OpenCLTarget()"
    assert pl.OpenCLTarget() == TARGET
    device = pl.OpenCLDevice("small", max_threads=64, max_block=(64, 8, 1), shared_bytes=4096, has_doubles=False)
    other = pl.OpenCLTarget(device, version="3.0", full_blocks=False)
    assert repr(other) == (
        "pl.OpenCLTarget(pl.OpenCLDevice(name='small', max_threads=64, max_block=(64, 8, 1), shared_bytes=4096, "
        "has_doubles=False), version='3.0', full_blocks=False)"
    )
    assert eval(repr(other), {"pl": pl}) == other != TARGET


def test_a_device_of_pyopencl_is_read() -> None:
    given = SimpleNamespace(
        name="a device", extensions="cl_khr_fp64 cl_khr_int64_base_atomics", double_fp_config=63,
        max_work_group_size=256, max_work_item_sizes=[256, 128, 64], local_mem_size=65536,
    )  # fmt: skip
    expected = pl.OpenCLDevice("a device", 256, (256, 128, 64), 65536, True, False)
    assert pl.OpenCLDevice.of(given) == expected
    assert pl.OpenCLTarget(given) == pl.OpenCLTarget(expected)
    assert pl.OpenCLTarget(given).limits.max_threads_per_block == 256


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"version": "1.1"}, "version='1.1' is no version of OpenCL C [bad-opencl-target]"),
        ({"device": 3}, "device=3 is no device of PyOpenCL [bad-opencl-target]"),
    ],
)
def test_other_targets_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.CodegenError) as refused:
        pl.OpenCLTarget(**how)
    assert f"OpenCLTarget: {message}" in str(refused.value)


def test_loops_say_that_they_are_unrolled_from_version_2_on() -> None:
    knl = pl.tag_inames(product(), {"k_inner": "unr"})
    assert "unroll" not in text(knl)
    for version in VERSIONS[1:]:
        assert "    __attribute__((opencl_unroll_hint(16)))\n" in text(knl, pl.OpenCLTarget(version=version))


def test_a_device_may_take_a_pragma_in_any_version() -> None:
    knl = pl.tag_inames(product(), {"k_inner": "unr"})
    for version in ("1.2", "3.0"):
        code = text(knl, pl.OpenCLTarget(pl.OpenCLDevice(has_unroll=True), version=version))
        assert "    #pragma unroll 16\n" in code
        assert "opencl_unroll_hint" not in code


def test_every_launch_is_a_kernel_and_loops_of_the_host_are_around() -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 0 <= i < n}",
        """
        for t
            for i
                next[i] = 0.5*u[n - 1 - i] + t {id=ahead}
            end
            for i
                u[i] = next[i] {id=old, dep=ahead}
            end
        end
        """,
        [pl.GlobalArg("u, next", F, shape="n"), ...],
    )
    program = pl.generate_code(pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"), target=TARGET)
    assert program.device_code.count("__kernel void") == len(program.launches) == 2
    assert [launch.around[0].iname for launch in program.launches] == ["t", "t"]


def test_indices_of_64_bits_are_long() -> None:
    assert "const long bx = get_group_id(0);" in text(spread("y[i] = 2*x[i]", pl.GlobalArg("x, y", F, shape="n")),
                                                       index_bits=64)  # fmt: skip


def test_numbers_of_64_bits_have_the_suffix_of_long() -> None:
    found = text(spread("y[i] = x[i] + 5000000000", pl.GlobalArg("x, y", np.int64, shape="n")))
    assert "y[i] = x[i] + 5000000000ul;" in found


def test_a_bool_is_passed_as_uchar() -> None:
    assert "uchar flag" in text(spread("y[i] = if(flag, 1, 2)", pl.ValueArg("flag", np.bool_),
                                       pl.GlobalArg("y", F, shape="n")))  # fmt: skip


@pytest.mark.parametrize("name", ["global", "get_global_id", "uint", "barrier", "kernel", "as_float"])
def test_words_of_the_language_name_no_variable(name: str) -> None:
    found = text(spread(f"y[i] = {name}[i]", pl.GlobalArg(f"y, {name}", F, shape="n")))
    assert f"*restrict {name}_" in found


def test_functions_of_the_language_name_no_kernel() -> None:
    assert "dot_(__global" in flat(text(spread("y[i] = 2*y[i]", pl.GlobalArg("y", F, shape="n"), name="dot")))


@pytest.mark.parametrize(
    ("dtype", "update", "expected"),
    [
        (np.int32, "h[k[i]] + x[i]", "atomic_add(&h[k[i]], x[i]);"),
        (np.uint64, "max(h[k[i]], x[i])", "atom_max(&h[k[i]], x[i]);"),
        (F, "h[k[i]] + x[i]", "atomic_sum_float32(&h[k[i]], x[i]);"),
        (np.float64, "h[k[i]]*x[i]", "atomic_product_float64(&h[k[i]], x[i]);"),
    ],
)
def test_updates_are_atomic(dtype: Any, update: str, expected: str) -> None:
    assert expected in text(updated(dtype, update))


def test_other_updates_are_loops_around_compare_and_swap() -> None:
    assert text(updated(F)).partition("\n\n")[2].startswith(
        """\
#ifndef POLYLOOP_ATOMIC_SUM_FLOAT32
#define POLYLOOP_ATOMIC_SUM_FLOAT32
static inline void atomic_sum_float32(__global float *at, float value)
{
    __global uint *word = (__global uint *)at;
    uint seen = *word, expected;
    do {
        expected = seen;
        float old = as_float(expected);
        seen = atomic_cmpxchg(word, expected, as_uint(old + value));
    } while (seen != expected);
}
#endif
"""
    )


# {{{ what it lacks


def code_of(knl: Callable[[], pl.LoopKernel], target: Any = TARGET) -> tuple[str, str]:
    with pytest.raises(pl.PolyloopError) as refused:
        text(knl(), target)
    return refused.value.codes[0], str(refused.value)


def complex_kernel() -> pl.LoopKernel:
    return spread("y[i] = 1j*x[i]", pl.GlobalArg("x, y", np.complex64, shape="n"))


SMALL = pl.OpenCLTarget(pl.OpenCLDevice("small", 64, (64, 64, 64), 1024, has_doubles=False, has_long_atomics=False))


def updated(dtype: Any, update: str = "h[k[i]] + x[i]") -> pl.LoopKernel:
    return spread(f"h[k[i]] = {update} {{atomic}}", pl.GlobalArg("h", dtype, shape="m"),
                  pl.GlobalArg("k", np.int32, shape="n"), pl.GlobalArg("x", dtype, shape="n"))  # fmt: skip


def test_complex_numbers_are_refused() -> None:
    code, said = code_of(complex_kernel)
    assert code == "unsupported-dtype"
    assert "target 'opencl' cannot compute with 'complex64'" in said
    assert "use one of bool, int8" in said


def test_a_device_without_doubles_refuses_them() -> None:
    code, said = code_of(lambda: spread("y[i] = 2*x[i]", pl.GlobalArg("x, y", np.float64, shape="n")), SMALL)
    assert code == "unsupported-dtype"
    assert "cannot compute with 'float64'" in said


def test_a_device_refuses_larger_blocks_and_more_local_memory() -> None:
    assert code_of(product, SMALL)[0] in ("block-too-large", "shared-too-large")
    knl = pl.OpenCLTarget(pl.OpenCLDevice("large", shared_bytes=1024))
    assert code_of(product, knl)[0] == "shared-too-large"


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_a_device_without_long_atomics_refuses_them(dtype: Any) -> None:
    code, said = code_of(lambda: updated(dtype), SMALL)
    assert code == "unsupported-atomic"
    assert "target 'opencl' has no atomic 'sum' on" in said


@pytest.mark.parametrize("dtype", [np.int16, np.float16])
def test_no_device_updates_16_bits(dtype: Any) -> None:
    assert code_of(lambda: updated(dtype))[0] == "unsupported-atomic"


def test_a_function_without_an_entry_is_refused() -> None:
    pair = pl.ForeignFunction("pair", (F, F), F, c_name={"c": "pair", "cuda": "pair"})
    code, said = code_of(lambda: spread("y[i] = pair(x[i], 2.0f)", pl.GlobalArg("x, y", F, shape="n"),
                                        functions=[pair]))  # fmt: skip
    assert code == "unsupported-function"
    assert 'give it one: c_name={"opencl": ".."}' in said


@pytest.mark.parametrize("kind", [Shuffles, LookBack, Matrices, Boxes])
def test_entries_of_cuda_are_not_filled_in(kind: type[Entry]) -> None:
    assert OPENCL_LANGUAGE.find(kind) is None
    with pytest.raises(pl.CodegenError) as refused:
        OPENCL_LANGUAGE.need(kind)
    assert f"target 'opencl' has no {kind.what} [unsupported-device-function]" in str(refused.value)
    assert kind.hint in str(refused.value)


def test_explain_says_that_its_bounds_are_those_of_another_text() -> None:
    knl = spread("y[i] = 2*x[i]", pl.GlobalArg("x, y", F, shape="n"))
    plain, own = (pl.explain(each, {"n": 1 << 20}, "H100") for each in (knl, replace(knl, target=TARGET)))
    assert own.notes == (*plain.notes, "the kernel is for pl.OpenCLTarget(): the bounds are those of its text for CUDA")
    assert own.bounds == plain.bounds


# }}}


def test_the_proof_is_that_of_any_target() -> None:
    knl = norms()
    certificate = pl.verify(knl, target=TARGET)
    assert certificate.proofs
    assert {proof.claim for proof in certificate.proofs} == {
        proof.claim for proof in pl.verify(knl, target=pl.CudaTarget()).proofs
    }


def test_barriers_fence_the_memory_through_which_threads_meet() -> None:
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in text(product())
    assert "GLOBAL" not in text(product())
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 64}", "t[i] = 2*x[i] {id=t}\ny[j] = t[63 - j] {dep=t}",
                         [pl.GlobalArg("x, y, t", F, shape="64"), ...])  # fmt: skip
    found = text(pl.tag_inames(knl, "i:l.0, j:l.0"))
    assert "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);" in found
    assert "t[i] = 2.0f * x" in found.replace("[tx]", "[i]")


def whole(operation: str, value: str = "a[i, j]", dtype: Any = F, length: int = 64) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", f"s[i] = {operation}(j, {value})",
                         [pl.GlobalArg("a", dtype, shape="n, m"), ...], name="whole", assumptions="m >= 1")  # fmt: skip
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", length, inner_tag="l.0")


GROUPS = pl.OpenCLTarget(pl.OpenCLDevice("one with sub-groups", has_sub_groups=True), version="3.0")


def test_sums_of_a_work_group_go_through_sub_groups() -> None:
    code = text(whole("sum"), GROUPS)
    for line in ("x = sub_group_reduce_add(x);", "partial[get_sub_group_id()] = x;", "x += partial[n];"):
        assert line in code
    assert "distance" not in code
    assert "sub_group_reduce_max" in text(whole("max", dtype=np.int64), GROUPS)
    assert "sub_group" not in text(whole("max"), GROUPS)  # of floats: what it does with NaN is not said
    assert "sub_group" not in text(whole("sum"), pl.OpenCLTarget(pl.OpenCLDevice(has_sub_groups=True)))  # version 1.2


def test_a_certificate_says_where_local_memory_stands_in_for_sub_groups() -> None:
    assert [r.code for r in pl.verify(whole("sum"), target=TARGET).remarks] == ["no-sub-groups"]
    assert "no-sub-groups" in str(pl.verify(whole("max"), target=GROUPS))
    assert not pl.verify(whole("sum"), target=GROUPS).remarks
    assert not pl.generate_code(whole("sum"), target=TARGET).notes  # it is no warning


@pytest.mark.parametrize("operation", ["any", "all"])
def test_no_barrier_votes(operation: str) -> None:
    code = text(whole(operation, "a[i, j] > 3"))
    assert "__local bool partial[64];" in code
    assert f"acc = whole_block_{operation}_bool(acc, partial);" in code
