"""Whole kernels: the C target against NumPy at awkward sizes, CUDA through NVRTC, and the shape of the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyloop.codegen.generate import generate
from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.schedule.plan import Schedule
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.codegen import kernels
from tests.codegen.running import needs_compiler, run_c
from tests.generated import code_of

Array = np.ndarray[Any, np.dtype[Any]]

ALL: dict[str, Callable[[], Schedule]] = {
    **{name: getattr(kernels, name) for name in kernels.__all__},
    "matmul_divisible": lambda: kernels.matmul("n>=1 and n mod 16=0"),
    "jacobi_divisible": lambda: kernels.jacobi("n>=3 and n mod 16=2"),
    "registers_divisible": lambda: kernels.matmul_registers(assumptions="n>=1 and n mod 32=0"),
}


def c_program(name: str, bits: int = 32) -> GeneratedProgram:
    return generate(ALL[name](), C_LANGUAGE, index_bits=bits)


def cuda_text(name: str) -> str:
    return generate(ALL[name](), CUDA_LANGUAGE).device_code


def random(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32) * np.float32(0.25)


# {{{ values


@needs_compiler
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("name", ["axpy", "axpy_unrolled"])
def test_axpy(name: str, n: int, bits: int, tmp_path: Path) -> None:
    x, y = random(n), random(n, seed=2)
    expected = 2 * x + y
    run_c(c_program(name, bits), tmp_path, a=2.0, x=x, y=y, n=n)
    np.testing.assert_array_equal(y, expected)


MATMULS = [
    ("matmul", [1, 7, 15, 16, 17, 31, 33, 48]),
    ("matmul_registers", [1, 7, 8, 9, 31, 32, 33, 63, 64, 70]),
    ("matmul_divisible", [16, 48]),
    ("registers_divisible", [32, 64]),
]


@pytest.mark.few(15)
@needs_compiler
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("name", "n"), [(name, n) for name, sizes in MATMULS for n in sizes])
def test_matmul(name: str, n: int, bits: int, tmp_path: Path) -> None:
    a, b, c = random(n, n), random(n, n, seed=2), np.full((n, n), np.nan, np.float32)
    run_c(c_program(name, bits), tmp_path, a=a, b=b, c=c, n=n)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("n", [1, 15, 16, 17, 50])
def test_triangular(n: int, tmp_path: Path) -> None:
    x = random(n, n)
    expected = np.where(np.tri(n, dtype=bool), 2 * x, x)
    run_c(c_program("triangular"), tmp_path, x=x, n=n)
    np.testing.assert_array_equal(x, expected)


@needs_compiler
@pytest.mark.parametrize("n", [1, 2, 9])
def test_imperfect_triangular_nest(n: int, tmp_path: Path) -> None:
    x, d = random(n, n), np.zeros(n, np.float32)
    expected = np.where(np.tri(n, dtype=bool), 2 * x, x)
    run_c(c_program("triangular_plain"), tmp_path, x=x, d=d, n=n)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(d, np.diagonal(expected))


@pytest.mark.few(6)
@needs_compiler
@pytest.mark.parametrize(
    ("name", "n"),
    [("jacobi", n) for n in (3, 4, 17, 18, 19, 20, 33, 34, 35, 50)] + [("jacobi_divisible", n) for n in (18, 34, 50)],
)
def test_jacobi(name: str, n: int, tmp_path: Path) -> None:
    u, v = random(n, n), np.zeros((n, n), np.float32)
    expected = v.copy()
    neighbours = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    expected[1:-1, 1:-1] = np.float32(0.25) * neighbours
    run_c(c_program(name), tmp_path, u=u, v=v, n=n)
    np.testing.assert_allclose(v, expected, rtol=1e-6)


@needs_compiler
@pytest.mark.parametrize("m", [0, 1, 5])
@pytest.mark.parametrize("n", [1, 127, 128, 129, 300])
def test_row_normalise(n: int, m: int, tmp_path: Path) -> None:
    x = np.abs(random(n, m)) + 1
    y, sums = np.zeros((n, m), np.float32), np.full(n, np.nan, np.float32)
    run_c(c_program("row_normalise"), tmp_path, x=x, y=y, sums=sums, n=n, m=m)
    np.testing.assert_allclose(sums, x.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(y, x / x.sum(axis=1, keepdims=True), rtol=1e-6)


@needs_compiler
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (5, 3), (4, 4)])
def test_statements_with_different_bounds_share_a_loop(n: int, m: int, tmp_path: Path) -> None:
    x, y = np.zeros((n, n), np.float32), np.zeros((n, m), np.float32)
    run_c(c_program("two_bounds"), tmp_path, x=x, y=y, n=n, m=m)
    assert (x == 1).all()
    assert (y[:, 2:] == 2).all()
    assert (y[:, :2] == 0).all()


@needs_compiler
@pytest.mark.parametrize("n", [1, 2, 3, 4, 10])
def test_strided_loop(n: int, tmp_path: Path) -> None:
    x = np.zeros((n, n), np.float32)
    expected = np.array([[(i + 1) % 3 == 0 and j < i for j in range(n)] for i in range(n)], np.float32)
    run_c(c_program("strided"), tmp_path, x=x, n=n)
    np.testing.assert_array_equal(x, expected)


# }}}
# {{{ text


@pytest.mark.few(15)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", list(ALL))
def test_nvrtc_accepts_the_cuda_text(name: str, bits: int, arch: str) -> None:
    assert compile_cuda(generate(ALL[name](), CUDA_LANGUAGE, index_bits=bits).device_code, arch).cubin


def body_of(text: str, head: str) -> str:
    """Return the block that the first line with *head* opens."""
    start = text.index(head)
    depth, begin = 0, text.index("{", start)
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[begin : position + 1]
    raise AssertionError(f"no end of the block '{head}'")


@pytest.mark.parametrize(("name", "loop"), [("matmul", "k_outer_full"), ("matmul_registers", "ko_full")])
def test_full_tile_has_two_barriers_and_no_condition(name: str, loop: str) -> None:
    body = body_of(cuda_text(name), f"< {loop}; ")
    assert body.count("__syncthreads();") == 2
    assert "if (" not in body
    assert "min(" not in body
    assert "max(" not in body


def test_every_k_step_of_matmul_has_two_barriers() -> None:
    text = cuda_text("matmul")
    bodies = [body_of(text[m.start() :], "for") for m in re.finditer(r"for \(int k_outer ", text)]
    assert len(bodies) == 3
    assert [body.count("__syncthreads();") for body in bodies] == [2, 2, 2]


@pytest.mark.parametrize("name", ["matmul_divisible", "jacobi_divisible", "registers_divisible"])
def test_divisible_sizes_need_no_guards_on_them(name: str) -> None:
    conditions = re.findall(r"if \((.*)\)", cuda_text(name))
    assert not [c for c in conditions if re.search(r"\bn\b", c)], conditions


@pytest.mark.parametrize("name", ["axpy", "axpy_unrolled", "matmul", "jacobi", "row_normalise", "two_bounds"])
def test_no_division_in_loops(name: str) -> None:
    text = re.sub(r"const int \w+_full = .*", "", cuda_text(name))
    inside = [line for line in text.splitlines() if not line.lstrip().startswith(("for", "//"))]
    assert not [line for line in inside if re.search(r" [/%] \d", line)]


def test_axpy_is_what_a_person_writes() -> None:
    assert code_of(cuda_text("axpy")) == (
        'extern "C" __global__ void __launch_bounds__(256) axpy(\n'
        "    float a,\n"
        "    const float *__restrict__ x,\n"
        "    float *__restrict__ y,\n"
        "    int n)\n"
        "{\n"
        "    const int bx = blockIdx.x;\n"
        "    const int tx = threadIdx.x;\n"
        "    if (256 * bx + tx < n)\n"
        "        y[256 * bx + tx] += a * x[256 * bx + tx];\n"
        "}\n"
    )


def test_the_text_is_stable() -> None:
    for name in ALL:
        assert cuda_text(name) == cuda_text(name)


# }}}
