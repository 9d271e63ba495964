"""Every kernel of the gallery on every target: the interpreter, C, CUDA C on fibres, NVRTC, a GPU, OpenCL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.frozen import replace
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.compilers import COMPILERS, knows_halves
from tests.gallery import GALLERY, Example

Golden = Callable[[str, str], None]
NAMES = sorted(GALLERY)
LACKED_BY_OPENCL = {
    **dict.fromkeys(("butterflies", "complex_functions", "fourier_transform", "mandelbrot"), "unsupported-dtype"),
    "complex_dots_by_warps": "unsupported-dtype",
    **dict.fromkeys(("gram_matrix", "layer_on_tensor_cores", "masked_scores"), "unsupported-device-function"),
    "derivatives_on_elements": "unsupported-device-function",
    **dict.fromkeys(("prefix_sum_by_blocks", "prefix_sum_by_blocks_of_one_thread"), "unsupported-device-function"),
    **dict.fromkeys(("segments_by_blocks", "segments_of_tiles", "tiles_in_registers"), "unsupported-device-function"),
    "compaction_by_blocks": "unsupported-device-function",
    "block_sparse_by_warps": "unbounded-loop",  # warps meet in a loop whose length data decides, and there are none
}
"""Kernels that OpenCL refuses, with the code."""
IN_OPENCL = [
    *("a_sum_of_500_terms", "best_segment_of_a_group", "exchanged_within_a_warp", "extrema_by_atomics", "forces"),
    *("histogram", "logsumexp_by_a_block", "push_particles", "ragged_sums", "saturating_bytes", "segmented_scan"),
    *("slope_limiter", "softmax_of_half", "special_functions", "structure_of_arrays", "time_skewed_stencil"),
    *("transpose_through_a_swizzled_tile", "two_tiles_in_one_pool", "vector_components"),
]
"""Kernels that always run in OpenCL; the others are slow only all together."""


def _agree(got: Any, expected: Any, what: str, rtol: float) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, must be {expected.shape}"
    if expected.dtype.names:
        for name in expected.dtype.names:
            _agree(got[name], expected[name], f"{what}.{name}", rtol)
    elif expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected, err_msg=what)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), expected.astype(wide), rtol, 1e-6, err_msg=what)


def _copies(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy("K") if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


def _check(entry: Example, run: Callable[..., Mapping[str, Any]], sizes: tuple[int, ...]) -> None:
    for n in sizes:
        arguments, expected = entry.case(n, np.random.default_rng(n))
        result = run(**_copies(arguments))
        for name, values in expected.items():
            _agree(result[name], values, f"{entry.name}, n = {n}: {name}", entry.rtol)


def _accepts(entry: Example, target: str, attempt: Callable[[], object]) -> bool:
    """Return whether *target* takes the kernel; one that must not has to say so with its code."""
    if target not in entry.refused:
        return True
    with pytest.raises(pl.PolyloopError) as refused:
        attempt()
    assert entry.refused[target] in refused.value.codes
    return False


def _run(knl: pl.LoopKernel, target: Any) -> Callable[..., dict[str, Any]]:
    compiled = pl.compile(knl, target=target)
    return lambda **arguments: dict(compiled(**arguments, poison=True).items())


@pytest.mark.few(60, shift=0)
@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    first = entry.case(entry.sizes[0], np.random.default_rng(0))[0]
    if _accepts(entry, "interpreter", lambda: pl.interpret(knl, **first)):
        _check(entry, lambda **arguments: dict(pl.interpret(knl, **arguments).items()), entry.sizes)


@pytest.mark.few(60, shift=1)
@pytest.mark.parametrize("name", NAMES)
def test_the_c_target_agrees_with_numpy(name: str) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    if _accepts(entry, "c", lambda: pl.generate_code(knl, target=pl.CTarget())):
        _check(entry, _run(knl, pl.CTarget()), entry.sizes)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", sorted(LACKED_BY_OPENCL))
def test_opencl_says_what_it_lacks(name: str) -> None:
    with pytest.raises(pl.PolyloopError) as refused:
        pl.generate_code(GALLERY[name].build(), target=pl.OpenCLTarget())
    assert LACKED_BY_OPENCL[name] in refused.value.codes


@pytest.mark.opencl
@pytest.mark.parametrize(
    "name", [name if name in IN_OPENCL else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_opencl_agrees_with_numpy(name: str) -> None:
    entry = GALLERY[name]
    if name not in LACKED_BY_OPENCL and _accepts(entry, "cuda", lambda: pl.generate_code(entry.build())):
        _check(entry, _run(entry.build(), pl.OpenCLTarget()), entry.sizes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:serial-launch")
@pytest.mark.parametrize("name", NAMES)
def test_threads_that_share_blocks_agree_with_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    entry, target = GALLERY[name], pl.CTarget(openmp=True)
    knl = entry.build()
    if not _accepts(entry, "c", lambda: pl.generate_code(knl, target=target)):
        return
    try:
        run = _run(knl, target)
    except pl.CodegenError as refused:
        assert set(refused.codes) <= {"unsupported-device-function", "unsupported-atomic"}  # noqa: PT017 - only these
        return
    _check(entry, run, entry.sizes)


def _otherwise(value: Any, kind: int) -> Any:
    """Return an array of the same elements in another layout."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    match kind % 4:
        case 0:
            return np.asfortranarray(value)
        case 1:
            return np.repeat(value, 2, -1)[..., ::2]
        case 2:
            return value[..., ::-1].copy()[..., ::-1]
    return np.pad(value, 1)[(slice(1, -1),) * value.ndim] if value.dtype.names is None else value


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_itself_takes_arrays_of_other_layouts(name: str) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    if not _accepts(entry, "c", lambda: pl.generate_code(knl, target=pl.CTarget())):
        return
    for number, n in enumerate(entry.sizes[:2]):
        arguments, expected = entry.case(n, np.random.default_rng(n))
        copies = _copies(arguments)
        given = {key: _otherwise(value, number + place) for place, (key, value) in enumerate(copies.items())}
        try:
            result = replace(knl, target=pl.CTarget())(**given)
        except pl.ArgumentError as refused:  # a layout that was chosen
            if not set(refused.codes) <= {"wrong-strides", "bad-layout"}:
                raise
            result = replace(knl, target=pl.CTarget())(**_copies(arguments))
        for output, values in expected.items():
            _agree(result[output], values, f"{name}, n = {n}: {output}", entry.rtol)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS[1:])
@pytest.mark.parametrize("name", NAMES)
def test_the_c_target_agrees_with_numpy_under_every_compiler(
    name: str, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    entry = GALLERY[name]
    if "c" in entry.refused:
        return
    knl = entry.build()
    if "_Float16" in pl.generate_code(knl, target=pl.CTarget()).device_code and not knows_halves():
        with pytest.raises(pl.PolyloopError, match="float16 needs GCC 12 or Clang 15"):
            _run(knl, pl.CTarget())
        return
    _check(entry, _run(knl, pl.CTarget()), entry.sizes)


@pytest.mark.few(60, shift=2)
@pytest.mark.parametrize("name", NAMES)
def test_the_cuda_text_agrees_with_numpy_on_fibres(name: str) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    if not _accepts(entry, "cuda", lambda: pl.generate_code(knl, target=pl.CudaTarget())):
        return
    program = pl.generate_code(knl, target=pl.CudaTarget())
    for n in entry.sizes[:2]:
        arguments, expected = entry.case(n, np.random.default_rng(n))
        for order, result in run_on_fibres(program, _copies(arguments)).items():
            for output, values in expected.items():
                _agree(dict(result.items())[output], values, f"{name}, n = {n}, order {order}: {output}", entry.rtol)


@pytest.mark.parametrize("name", NAMES)
def test_the_cuda_text_is_the_golden_one(name: str, golden: Golden) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    if _accepts(entry, "cuda", lambda: pl.generate_code(knl, target=pl.CudaTarget())):
        golden(f"golden/gallery/{name}.cu", pl.generate_code(knl, target=pl.CudaTarget()).device_code)


@pytest.mark.few(60)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_nvrtc_takes_it(name: str, arch: str) -> None:
    entry = GALLERY[name]
    if "cuda" not in entry.refused:
        compile_cuda(pl.generate_code(entry.build(), target=pl.CudaTarget()).device_code, arch=arch)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_agrees_with_numpy(name: str) -> None:
    entry = GALLERY[name]
    if "cuda" not in entry.refused:
        _check(entry, _run(entry.build(), pl.CudaTarget()), entry.sizes)
