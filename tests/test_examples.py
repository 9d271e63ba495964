"""Every program of ``examples/`` on every target: the interpreter, C, CUDA C on fibres, NVRTC, a GPU, OpenCL."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

FOLDER = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
UNROLLED = {
    "gated_mlp", "matmul_float64", "matmul_float64_mma", "matmul_fp8", "matmul_large_tiles", "matmul_mma",
    "matmul_mma_any_size", "matmul_pipelined", "matmul_vectors", "matmul_wgmma", "prefix_sum_single_pass",
}  # fmt: skip
"""Programs whose C text is so long that compilers take seconds for it; the CUDA C of each runs on fibres."""
IN_C = [pytest.param(name, marks=pytest.mark.slow) if name in UNROLLED else name for name in NAMES]
LACKED_BY_OPENCL = {
    **dict.fromkeys(("matmul_mma", "matmul_mma_any_size", "prefix_sum_single_pass"), "unsupported-device-function"),
    **dict.fromkeys(("gated_mlp", "matmul_float64_mma", "matmul_fp8", "matmul_wgmma"), "shared-too-large"),
}
"""Programs that OpenCL refuses on a device of 48 KiB of local memory, with the code."""
ALWAYS_IN_OPENCL = {"layer_norm_registers", "prefix_sum", "dot_two_launches", "nbody", "matmul_pipelined"}
ON_A_GPU = [name for name in NAMES if not name.endswith("_processor")]
"""The panels of the others are for caches: as local memory of all threads that a GPU may run they are 60 GB."""

IN_OPENCL = [name if name in ALWAYS_IN_OPENCL else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
LONGEST = 600
"""Characters of the longest line of C that an example may have; domains that fall apart have lines of thousands."""
Run = Callable[..., Mapping[str, Any]]


def example(name: str) -> Any:
    """Return the module, which has what ``examples/README.md`` says."""
    return import_module(f"examples.{name}")


@cache
def transformed(name: str) -> pl.LoopKernel:
    """Return the kernel, which is made once: what is proven and generated of it is kept with it."""
    knl: pl.LoopKernel = example(name).transformed()
    return knl


def target_of(name: str) -> pl.Target:
    """Return the CUDA target, for the architecture that an example asks for."""
    return pl.CudaTarget(getattr(example(name), "ARCH", "sm_90"))


def check(name: str, run: Run, which: str = "SIZES") -> None:
    """Compare *run* with NumPy at all sizes; errors are relative to the largest element."""
    module = example(name)
    for sizes in getattr(module, which, module.SIZES):
        arrays = module.inputs(np.random.default_rng(1), **sizes)
        wanted = module.expected(**arrays)
        result = run(**{key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arrays.items()})
        for output, want in wanted.items():
            _compare(result[output], np.asarray(want), f"{name} {sizes}: {output}", getattr(module, "RTOL", 1e-5))


def _compare(got: Any, want: np.ndarray[Any, Any], what: str, rtol: float) -> None:
    got = np.asarray(got)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, must be {want.shape}"
    if want.dtype.names:
        for field in want.dtype.names:
            _compare(got[field], want[field], f"{what}.{field}", rtol)
    elif want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=what)
    else:
        np.testing.assert_allclose(got, want, rtol, rtol * np.max(np.abs(want), initial=0.0), err_msg=what)


def compiled(knl: pl.LoopKernel, target: pl.Target) -> Run:
    run = pl.compile(knl, target=target)
    return lambda **arrays: dict(run(**arrays, poison=True).items())


def on_fibres(name: str) -> Run:
    program = pl.generate_code(transformed(name), target=target_of(name))

    def run(**arrays: Any) -> Mapping[str, Any]:
        outputs = run_on_fibres(program, arrays)
        assert disagreement(outputs, rtol=1e-6, atol=1e-6) is None
        return dict(outputs["random"].items())

    return run


@pytest.mark.few(17, shift=0)
@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    knl = example(name).program()
    check(name, lambda **arrays: dict(pl.interpret(knl, **arrays).items()), "SMALL")


@pytest.mark.few(15, shift=1)
@pytest.mark.parametrize("name", IN_C)
def test_the_c_target_agrees_with_numpy(name: str) -> None:
    check(name, compiled(transformed(name), pl.CTarget()))


@pytest.mark.opencl
@pytest.mark.parametrize("name", IN_OPENCL)
def test_opencl_agrees_with_numpy(name: str) -> None:
    if name in LACKED_BY_OPENCL:
        with pytest.raises(pl.PolyloopError) as refused:
            pl.generate_code(transformed(name), target=pl.OpenCLTarget())
        assert LACKED_BY_OPENCL[name] in refused.value.codes
        return
    check(name, compiled(transformed(name), pl.OpenCLTarget()))


@pytest.mark.few(17, shift=2)
@pytest.mark.parametrize("name", NAMES)
def test_the_cuda_text_agrees_with_numpy_in_any_order_of_threads(name: str) -> None:
    check(name, on_fibres(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_cuda_text_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    text = pl.generate_code(transformed(name), target=target_of(name)).device_code
    golden(f"golden/examples/{name}.cu", text)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NAMES)
def test_its_c_text_has_no_endless_conditions(name: str) -> None:
    text = pl.generate_code(transformed(name), target=pl.CTarget()).device_code
    assert max(map(len, text.splitlines())) < LONGEST


@pytest.mark.few(17)
@pytest.mark.parametrize("name", NAMES)
def test_its_trace_replays_and_it_is_proven(name: str) -> None:
    module = example(name)
    knl = module.transformed()
    again = pl.replay(pl.trace_from_json(knl.trace.to_json()), module.program())
    assert str(again) == str(knl)
    assert str(again.trace) == str(knl.trace)
    certificate = pl.verify(knl)
    assert certificate.proofs
    assert not any("unchecked" in str(step) for step in knl.trace)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", IN_C)
def test_it_runs_as_a_script(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{name}: ")
    assert line.endswith("NumPy")
    assert f"`{name}.py`" in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.few(17)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ON_A_GPU)
def test_nvrtc_takes_it(name: str, arch: str) -> None:
    least = getattr(example(name), "ARCH", "sm_80")
    if arch < least.removesuffix("a"):
        pytest.skip("its instructions are newer")
    arch = max(arch, least)
    compile_cuda(pl.generate_code(transformed(name), target=target_of(name)).device_code, arch=arch)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_GPU)
def test_the_gpu_agrees_with_numpy(name: str) -> None:
    check(name, compiled(transformed(name), target_of(name)))


def at_smallest_sizes(name: str) -> None:
    """Run an example on the GPU at its smallest sizes: what compute-sanitizer watches."""
    module = example(name)
    module.SMALL = list(getattr(module, "SMALL", module.SIZES))[:2]
    check(name, compiled(module.transformed(), target_of(name)), "SMALL")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_GPU)
def test_racecheck_finds_nothing(name: str) -> None:
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        pytest.skip("compute-sanitizer is not on PATH")
    program = f"from tests.test_examples import at_smallest_sizes; at_smallest_sizes({name!r})"
    command = [tool, "--tool", "racecheck", "--racecheck-report", "all", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False, timeout=300)
    assert "RACECHECK SUMMARY: 0 hazards displayed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
