"""The text of the demo kernels, what it must not contain, and that NVRTC takes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import polyloop as pl
from polyloop.cli.kernels import DEMO_KERNELS, axpy, matmul, stencil
from polyloop.runtime.nvrtc import compile_cuda

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[str, str], None]


@pytest.mark.parametrize("name", DEMO_KERNELS)
def test_demo_kernels(name: str, golden: Golden) -> None:
    knl = DEMO_KERNELS[name].build()
    golden(f"golden/demo_{name}.cu", pl.generate_code(knl, target=pl.CudaTarget()).device_code)
    golden(f"golden/demo_{name}.c", pl.generate_code(knl, target=pl.CTarget()).device_code)


@pytest.mark.parametrize("name", DEMO_KERNELS)
def test_text_is_the_same_when_it_is_made_again(name: str) -> None:
    texts = {pl.generate_code(DEMO_KERNELS[name].build()).device_code for _ in range(3)}
    assert len(texts) == 1


def blocks_of(text: str, head: str) -> list[str]:
    """Return the bodies of all loops or branches that begin with *head*."""
    found = []
    for match in re.finditer(re.escape(head), text):
        start = text.index("{", match.start())
        depth, end = 0, start
        for end in range(start, len(text)):
            depth += (text[end] == "{") - (text[end] == "}")
            if depth == 0:
                break
        found.append(text[start + 1 : end])
    return found


def test_the_matrix_product_has_two_barriers_a_step() -> None:
    text = pl.generate_code(matmul()).device_code
    bodies = blocks_of(text, "for (int k_outer = ")
    assert len(bodies) == 3
    assert all(body.count("__syncthreads();") == 2 for body in bodies)


def test_a_full_tile_is_without_conditionals_and_division() -> None:
    text = pl.generate_code(matmul()).device_code
    (body,) = blocks_of(text, "for (int k_outer = 0; k_outer < k_outer_full;")
    code = re.sub(r"//.*", "", body)
    assert "if" not in code
    assert not re.search(r"\b(min|max)\b|[/%?]", code)


@pytest.mark.parametrize("build", [axpy, matmul, stencil])
def test_no_division_in_a_loop_body(build: Callable[[], pl.LoopKernel]) -> None:
    text = re.sub(r"//.*", "", pl.generate_code(build()).device_code)
    statements = [line for line in text.splitlines() if not re.match(r"\s*(for \(|const int \w+_full = )", line)]
    assert not re.search(r"[/%]", "\n".join(statements))


@pytest.mark.parametrize("build", [axpy, matmul, stencil])
def test_indices_have_32_bits(build: Callable[[], pl.LoopKernel]) -> None:
    text = pl.generate_code(build()).device_code
    assert not re.search(r"\blong\b|int64|size_t", text)
    wide = pl.generate_code(build(), index_bits=64).device_code
    assert re.search(r"\blong long\b|int64_t", wide)


@pytest.mark.few(40)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.cu")), ids=lambda path: path.stem)
def test_nvrtc_takes_every_golden_text(
    path: Path, arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = path.read_text(encoding="utf-8")
    if arch == "sm_80" and re.search(r"mma\.sync\.aligned\.m16n8k\d+\.row\.col\.f64", text):
        pytest.skip("the instruction is sm_90's")
    if "wgmma.mma_async" in text:
        if arch == "sm_80":
            pytest.skip("the instruction is sm_90a's")
        arch = "sm_90a"
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path / "cache"))
    compiled = compile_cuda(text, arch)
    assert f".target {arch}" in compiled.ptx
    assert compiled.cubin
