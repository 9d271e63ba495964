"""The HIP target: its text in waves of 32 and 64 lanes, what it refuses, matrix instructions, code objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.device.entries import Boxes, Copies, Entry, Loads, SharedMatrices, Together
from polyloop.kernel.intrinsic import INTRINSICS, MatrixIntrinsic
from polyloop.library.waves import on_waves
from polyloop.runtime.fibres import disagreement, fibre_prelude, run_on_fibres
from polyloop.runtime.hip.clang import device_libraries
from polyloop.runtime.hip.code_object import compile_text
from polyloop.target.hip import HIP_ARCHITECTURES
from tests.hiprtc import compiled, hiprtc

F = np.float32
ARCHITECTURES = tuple(HIP_ARCHITECTURES)
MATRICES = sorted(name for name, entry in INTRINSICS.items() if entry.devices)
NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
REFUSED = {
    **dict.fromkeys(("matmul_mma", "matmul_mma_any_size"), "unsupported-intrinsic"),
    **dict.fromkeys(("gated_mlp", "matmul_fp8", "matmul_float64_mma", "matmul_wgmma"), "shared-too-large"),
}
"""Examples that are written for the tensor cores of CUDA devices, with the code."""
TOO_LARGE = {"matmul_processor": ("gfx90a", "gfx942")}
"""Examples whose private arrays are more than a lane of a wave of 64 has."""


def text(knl: pl.LoopKernel, arch: str = "gfx942", **how: Any) -> str:
    return pl.generate_code(knl, target=pl.HipTarget(arch), **how).device_code


def spread(statement: str, *data: Any, length: int = 64, **how: Any) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", statement, [*data, ...], assumptions="n >= 0", **how)
    return pl.split_iname(knl, "i", length, outer_tag="g.0", inner_tag="l.0")


def sums(threads: int = 256) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "s[i] = sum(j, a[i, j])",
                         [pl.GlobalArg("a", F, shape="n, m"), ...], name="sums")  # fmt: skip
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", threads, inner_tag="l.0")


def ragged() -> pl.LoopKernel:
    """Sums in a loop whose length is another one for each half of a wave of 64 lanes."""
    knl = pl.make_kernel(
        ["{[r]: 0 <= r < n}", "[count] -> {[t]: 0 <= t < count}", "{[k]: 0 <= k < 32}"],
        """
        for r
            <> count = length[r] {id=count}
            for t
                s[r, t] = sum(k, a[r, t, k]) {dep=count}
            end
        end
        """,
        [pl.GlobalArg("length", np.int32, shape="n"), pl.GlobalArg("a", F, shape="n, 9, 32"),
         pl.GlobalArg("s", F, shape="n, 9"), ...],
        name="ragged", assumptions="n >= 1 and n mod 4 = 0",
    )  # fmt: skip
    return pl.tag_inames(pl.split_iname(knl, "r", 4, outer_tag="g.0", inner_tag="l.1"), "k:l.0")


def vectors() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a*x[i] + y[i]",
                         [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("a", F), ...],
                         name="saxpy", assumptions="n >= 0 and n mod 4 = 0")  # fmt: skip
    knl = pl.split_iname(knl, "i", 4, inner_tag="vec")
    return pl.split_iname(knl, "i_outer", 64, outer_tag="g.0", inner_tag="l.0")


def product(entry: MatrixIntrinsic) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a", entry.operands, shape="m, p"), pl.GlobalArg("b", entry.operands, shape="p, n"),
         pl.GlobalArg("c", entry.results, shape="m, n"), ...],
        name="product", assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 8 = 0 and p mod 8 = 0",
    )  # fmt: skip


def tiled(name: str) -> pl.LoopKernel:
    return on_waves(product(INTRINSICS[name]), name, terms=16 if INTRINSICS[name].is_double else 32)


def votes() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "s[i] = all(j, a[i, j] > 3)",
                         [pl.GlobalArg("a", F, shape="n, m"), ...], name="votes", assumptions="m >= 1")  # fmt: skip
    return pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", 128, inner_tag="l.0")


GOLDEN = {"sums": sums, "ragged": ragged, "saxpy": vectors}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_the_text_is_the_golden_one(name: str, arch: str, golden: Callable[[str, str], None]) -> None:
    golden(f"golden/hip/{name}_{arch}.hip", text(GOLDEN[name](), arch))


def test_the_text_of_a_matrix_product_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("golden/hip/product_mfma.hip", text(tiled("mfma_m32n32k8_bf16")))


def test_a_target_says_how_it_is_made() -> None:
    assert repr(pl.HipTarget()) == "pl.HipTarget('gfx942')"
    other = pl.HipTarget("gfx1100", full_blocks=False)
    assert repr(other) == "pl.HipTarget('gfx1100', full_blocks=False)"
    assert eval(repr(other), {"pl": pl}) == other != pl.HipTarget("gfx1100")
    assert (pl.HipTarget("gfx90a").limits.warp_size, other.limits.warp_size) == (64, 32)


@pytest.mark.parametrize("arch", ["gfx906", "sm_90", "", 942])
def test_other_architectures_are_refused(arch: Any) -> None:
    with pytest.raises(pl.PolyloopError) as refused:
        pl.HipTarget(arch)
    assert refused.value.codes[0] == ("bad-hip-target" if isinstance(arch, str) else "wrong-argument-type")


# {{{ waves


@pytest.mark.parametrize(("arch", "last", "parts"), [("gfx90a", 32, 4), ("gfx942", 32, 4), ("gfx1100", 16, 8)])
def test_a_reduction_takes_a_wave_and_then_shared_memory(arch: str, last: int, parts: int) -> None:
    found = text(sums(), arch)
    assert f"for (int step = 1; step <= {last}; step *= 2)" in found
    assert f"__shared__ float partial[{parts}];" in found


def test_a_wave_of_64_needs_no_barrier() -> None:
    assert "__syncthreads" not in text(sums(64))
    assert "__syncthreads" in text(sums(64), "gfx1100")


@pytest.mark.few(6)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("threads", [16, 32, 64, 96, 128, 256, 1024])
def test_sums_of_blocks_agree_with_numpy(arch: str, threads: int) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (3, 300)).astype(F)
    found = run_on_fibres(pl.generate_code(sums(threads), pl.HipTarget(arch)), {"a": a})
    for result in found.values():
        np.testing.assert_array_equal(result.s, a.sum(1))


def test_a_barrier_of_a_block_votes() -> None:
    a = np.random.default_rng(0).integers(3, 9, (3, 200)).astype(F)
    a[1] = 5
    program = pl.generate_code(votes(), pl.HipTarget("gfx90a"))
    assert "__syncthreads_and(x)" in program.device_code
    for result in run_on_fibres(program, {"a": a}, orders=("random",)).values():
        assert result.s.tolist() == (a > 3).all(axis=1).tolist()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_groups_of_a_wave_end_their_loops_apart(arch: str) -> None:
    rng = np.random.default_rng(0)
    length = rng.integers(0, 10, 12).astype(np.int32)
    a = rng.integers(-9, 9, (12, 9, 32)).astype(F)
    written = np.arange(9) < length[:, None]
    program = pl.generate_code(ragged(), pl.HipTarget(arch))
    for result in run_on_fibres(program, {"a": a, "length": length}).values():
        np.testing.assert_array_equal(np.asarray(result.s)[written], a.sum(2)[written])


def test_fibres_read_poison_from_lanes_that_are_elsewhere() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 64}",
        [pl.CInstruction("i", """
            float mine = x[i];
            if (i < 32)
                mine = __shfl_xor(mine, 32);
            y[i] = mine;
        """, read_variables=frozenset({"x"}), assignees="y[i]")],
        [pl.GlobalArg("x, y", F, shape="64")],
    )  # fmt: skip
    program = pl.generate_code(pl.tag_inames(knl, "i:l.0"), pl.HipTarget())
    for result in run_on_fibres(program, {"x": np.arange(64, dtype=F)}).values():
        y = np.asarray(result.y)
        assert np.isnan(y[:32]).all()
        np.testing.assert_array_equal(y[32:], np.arange(32, 64))


def test_one_library_has_waves_of_one_size() -> None:
    hip, cuda = pl.generate_code(sums(), pl.HipTarget()), pl.generate_code(sums(), pl.CudaTarget())
    assert "#define POLYLOOP_WAVE 64" in fibre_prelude(hip).header
    with pytest.raises(AssertionError, match="warps of one size"):
        fibre_prelude(hip, cuda)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_a_single_pass_scan_votes_in_whole_waves(arch: str) -> None:
    module = import_module("examples.prefix_sum_single_pass")
    program = pl.generate_code(module.transformed(), pl.HipTarget(arch))
    assert "__ballot(" in program.device_code
    for sizes in module.SIZES:
        arrays = module.inputs(np.random.default_rng(1), **sizes)
        found = run_on_fibres(program, arrays, orders=("forward",))["forward"]
        for name, wanted in module.expected(**arrays).items():
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-3)


# }}}
# {{{ what it lacks


def code_of(knl: Callable[[], pl.LoopKernel], arch: str = "gfx942") -> tuple[str, str]:
    with pytest.raises(pl.PolyloopError) as refused:
        text(knl(), arch)
    return refused.value.codes[0], str(refused.value)


@pytest.mark.parametrize("kind", [Boxes, Copies, Loads, SharedMatrices, Together])
def test_entries_of_cuda_are_not_filled_in(kind: type[Entry]) -> None:
    language = pl.HipTarget().language
    assert language.find(kind) is None
    with pytest.raises(pl.CodegenError) as refused:
        language.need(kind)
    assert f"target 'hip' has no {kind.what} [unsupported-device-function]" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "arch", "said"),
    [
        ("mfma_m16n16k16_f16", "gfx1100", "it is an instruction of gfx90a and gfx942, and the code is for gfx1100"),
        ("wmma_m16n16k16_f16", "gfx942", "it is an instruction of gfx1100, and the code is for gfx942"),
    ],
)
def test_matrix_instructions_of_other_devices_are_refused(name: str, arch: str, said: str) -> None:
    code, message = code_of(lambda: tiled(name), arch)
    assert code == "unsupported-intrinsic"
    assert said in message
    assert "HipTarget(" in message


def test_matrix_instructions_of_cuda_are_refused() -> None:
    code, message = code_of(import_module("examples.matmul_mma").transformed)
    assert code == "unsupported-intrinsic"
    assert "it is an instruction of CUDA devices" in message


def test_cuda_refuses_matrix_instructions_of_amd() -> None:
    with pytest.raises(pl.CodegenError) as refused:
        pl.generate_code(tiled("mfma_m16n16k16_f16"), pl.CudaTarget())
    assert refused.value.codes == ("unsupported-intrinsic",)
    assert 'HipTarget("gfx90a")' in str(refused.value)


def test_shared_memory_beyond_64_kib_is_refused() -> None:
    assert code_of(lambda: on_waves(product(INTRINSICS["mfma_m16n16k4_f64"]), "mfma_m16n16k4_f64", terms=64))[0] == (
        "shared-too-large"
    )


def test_private_arrays_beyond_the_scratch_memory_of_a_lane_are_refused() -> None:
    knl = pl.make_kernel("{[b, i, j]: 0 <= b < n and 0 <= i, j < 20000}",
                         "<>t[i] = a[b, i]\nc[b, j] = t[19999 - j]",
                         [pl.GlobalArg("a, c", np.float64, shape="n, 20000"), ...], name="turned")  # fmt: skip
    knl = pl.set_temporary_address_space(pl.tag_inames(knl, "b:g.0"), "t", "private")
    code, said = code_of(lambda: knl, "gfx90a")
    assert (code, "there are 131056" in said) == ("private-too-large", True)
    assert "160000" in said
    assert "double t[20000]" in text(knl, "gfx1100")


def test_what_needs_a_device_refuses_it(tmp_path: Path) -> None:
    knl = spread("y[i] = 2*x[i]", pl.GlobalArg("x, y", F, shape="n"))
    with pytest.raises(pl.CodegenError, match=r"this one is for 'hip'(.|\n)*hipModuleLoadData"):
        pl.export(knl, tmp_path, target=pl.HipTarget())
    with pytest.raises(pl.CompilerError, match=r"no way to run a program for 'hip' \[unknown-target\]"):
        pl.compile(knl, target=pl.HipTarget())
    with pytest.raises(pl.PolyloopError, match="unknown-device"):
        pl.dispatch(knl, {"plain": knl}, target=pl.CudaTarget(), device="MI300X")
    with pytest.raises(pl.CodegenError, match=r"a program for 'cuda' is no HIP C\+\+ \[unknown-target\]"):
        pl.compile_hip(pl.generate_code(knl, pl.CudaTarget()))


# }}}
# {{{ matrix instructions


@pytest.mark.parametrize("name", MATRICES)
def test_layouts_are_one_element_a_place(name: str) -> None:
    entry = INTRINSICS[name]
    wave = HIP_ARCHITECTURES[entry.devices[0]].wave
    assert entry.lanes == wave
    m, n, p = entry.shape
    for operand, count in (("a", m * p), ("b", p * n), ("d", m * n)):
        assert entry.lanes_of(operand) * entry.registers(operand) == count
    assert entry.lanes_of("a") == (16 if name.startswith("wmma") else wave)


@pytest.mark.parametrize("name", MATRICES)
def test_products_agree_with_numpy_on_fibres(name: str) -> None:
    entry = INTRINSICS[name]
    program = pl.generate_code(tiled(name), pl.HipTarget(entry.devices[-1]))
    for m, n, p in ((1, 8, 8), (70, 48, 40), (64, 64, 64)):
        rng = np.random.default_rng(m)
        a, b = ((rng.random(shape) - 0.5).astype(entry.operands) for shape in ((m, p), (p, n)))
        found = run_on_fibres(program, {"a": a, "b": b})
        assert disagreement(found) is None
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(found["random"].c, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.few(3)
@pytest.mark.hip
@pytest.mark.parametrize("name", MATRICES)
def test_products_are_matrix_instructions(name: str) -> None:
    entry = INTRINSICS[name]
    m, n, p = entry.shape
    for arch in entry.devices:
        found = pl.compile_hip(tiled(name), pl.HipTarget(arch))
        terms = 16 if entry.is_double else 32
        steps = 32 // m * (32 // n) * (terms // p)
        kind = "v_wmma" if arch == "gfx1100" else "v_mfma"
        assert found.count(kind) >= steps, f"{arch}: {found.count(kind)} of {steps}"
        assert found.count(kind) % steps == 0
        own = found.resources["product"]
        assert (own.wave, own.spilled, own.local_bytes) == (HIP_ARCHITECTURES[arch].wave, 0, 0)


# }}}
# {{{ code objects


@pytest.mark.hip
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_code_object_says_what_it_takes(arch: str) -> None:
    found = pl.compile_hip(sums(), pl.HipTarget(arch))
    own = found.resources["sums"]
    assert found.binary.startswith(b"\x7fELF")
    assert (own.wave, own.shared_bytes) == (HIP_ARCHITECTURES[arch].wave, 4 * 256 // HIP_ARCHITECTURES[arch].wave)
    assert 4 < own.registers < 64
    assert own.occupancy is not None
    assert own.occupancy.fraction == 1
    assert str(found).splitlines()[0] == arch
    assert str(found).splitlines()[2].startswith("sums ")
    assert found.unresolved == ()


@pytest.mark.hip
def test_wide_accesses_are_wide() -> None:
    assert pl.compile_hip(vectors(), pl.HipTarget("gfx942")).count("global_load_dwordx4") >= 2
    assert pl.compile_hip(vectors(), pl.HipTarget("gfx1100")).count("global_load_b128") >= 2


@pytest.mark.few(6)
@pytest.mark.hip
@pytest.mark.parametrize("registers", [24, 64, 100, 128, 200, 256])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_occupancy_of_registers_is_that_of_the_compiler(arch: str, registers: int) -> None:
    """LLVM writes how many waves a SIMD unit holds; a block of one wave is limited by registers alone."""
    wave = HIP_ARCHITECTURES[arch].wave
    lines = "".join(f"    float v{n} = x[{n} * 64 + threadIdx.x];\n" for n in range(registers - 8))
    used = "".join(f"    asm volatile(\"\" :: \"v\"(v{n}));\n" for n in range(registers - 8))
    barrier = '    asm volatile("" ::: "memory");\n'
    source = (f'extern "C" __global__ void __launch_bounds__({wave}) many(const float *x)\n'
              f"{{\n{lines}{barrier}{used}}}\n")  # fmt: skip
    found = compile_text(source, arch, blocks={"many": wave * 4})
    (said,) = (int(line.rpartition(":")[2]) for line in found.assembly.splitlines() if line.startswith("; Occupancy:"))
    own = found.resources["many"]
    assert own.occupancy is not None
    assert own.occupancy.warps == 4 * said, f"{own.registers} registers"


@pytest.mark.hip
def test_functions_are_linked_or_named() -> None:
    knl = spread("y[i] = tgamma(x[i])", pl.GlobalArg("x, y", np.float64, shape="n"))
    found = pl.compile_hip(knl, pl.HipTarget("gfx90a"))
    if device_libraries() is None:
        assert found.unresolved == ("__ocml_tgamma_f64",)
        assert not found.is_linked
        assert "not linked: __ocml_tgamma_f64" in str(found)
    else:
        assert found.unresolved == ()


@pytest.mark.hip
def test_what_clang_refuses_is_shown() -> None:
    with pytest.raises(pl.CompilerError) as refused:
        compile_text("// HIP C++ for gfx942: waves of 64 lanes\nthis is no program\n", "gfx942")
    assert refused.value.codes == ("hip-failed",)
    assert "this is no program" in str(refused.value)


@pytest.mark.hip
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    "name",
    [name if number % 8 == 0 else pytest.param(name, marks=pytest.mark.slow) for number, name in enumerate(NAMES)],
)
def test_examples_compile(name: str, arch: str) -> None:
    knl = import_module(f"examples.{name}").transformed()
    if name in REFUSED:
        assert code_of(lambda: knl, arch)[0] == REFUSED[name]
        return
    if arch in TOO_LARGE.get(name, ()):
        assert code_of(lambda: knl, arch)[0] == "private-too-large"
        return
    found = pl.compile_hip(knl, pl.HipTarget(arch))
    assert found.resources
    assert all(own.registers > 0 and own.occupancy is not None for own in found.resources.values())


@pytest.mark.few(4)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(
    "name",
    [name if number % 10 == 3 else pytest.param(name, marks=pytest.mark.slow) for number, name in enumerate(NAMES)],
)
def test_examples_agree_with_numpy_on_fibres(name: str, arch: str) -> None:
    module = import_module(f"examples.{name}")
    if name in REFUSED or arch in TOO_LARGE.get(name, ()):
        return
    program = pl.generate_code(module.transformed(), pl.HipTarget(arch))
    for sizes in module.SIZES:
        arrays = module.inputs(np.random.default_rng(1), **sizes)
        copies = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arrays.items()}
        outputs = run_on_fibres(program, copies)
        assert disagreement(outputs, rtol=1e-6, atol=1e-6) is None
        rtol = getattr(module, "RTOL", 1e-5)
        for output, wanted in module.expected(**arrays).items():
            got, want = np.asarray(outputs["random"][output]), np.asarray(wanted)
            assert got.shape == want.shape
            if want.dtype.names or want.dtype.kind in "biu":
                continue_with = [(got[f], want[f]) for f in want.dtype.names] if want.dtype.names else [(got, want)]
                for one, other in continue_with:
                    np.testing.assert_allclose(one, other, rtol, rtol * np.max(np.abs(other), initial=0))
            else:
                np.testing.assert_allclose(got, want, rtol, rtol * np.max(np.abs(want), initial=0.0))


# }}}


@pytest.mark.skipif(hiprtc() is None, reason="no library of HIP is installed")
@pytest.mark.parametrize("build", [*GOLDEN.values(), votes, partial(tiled, "mfma_m32n32k8_bf16")])
def test_hiprtc_takes_the_text(build: Callable[[], pl.LoopKernel]) -> None:
    code, said = compiled(text(build(), "gfx90a"), "gfx90a")
    assert code.startswith(b"\x7fELF"), said
