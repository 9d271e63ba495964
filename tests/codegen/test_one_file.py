"""Programs side by side in one file: what they define beside their kernels does not collide."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.ccompile import build_library
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.base import Target
from tests.gallery import GALLERY

GUARD = re.compile(r"^#ifndef (POLYLOOP_\w+)\n#define \1\n(.*?)\n#endif$", re.MULTILINE | re.DOTALL)
SOME = ("best_so_far", "argmin_of_rows", "complex_dots_by_warps", "push_particles", "prefix_sum_by_blocks", "pivots",
        "compaction_by_blocks", "matmul_of_bfloat16", "product_by_asynchronous_copies", "blended_vectors")  # fmt: skip


def programs(target: Target, names: Iterable[str]) -> list[GeneratedProgram]:
    """Return programs of the gallery, of which no two have one name."""
    found: dict[str, GeneratedProgram] = {}
    for name in names:
        if name in GALLERY and target.name not in GALLERY[name].refused:
            program = pl.generate_code(GALLERY[name].build(), target=target)
            found.setdefault(program.kernel, program)
    return list(found.values())


def together(parts: Iterable[GeneratedProgram]) -> str:
    """Return one file with all of them."""
    return "\n".join(program.device_code for program in parts)


def least(name: str, dtype: type, what: str) -> pl.LoopKernel:
    """Return a kernel that needs a record, helpers for it, division, and a sum over a block."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 64}",
        f"best[i], place[i] = argmin(j, a[i, j], j)\nthird[i] = (i - {what}) // 3",
        [pl.GlobalArg("a", dtype, shape="n, 64"), ...], name=name,
    )  # fmt: skip
    return pl.tag_inames(pl.tag_inames(knl, "i:g.0"), "j:l.0")


@pytest.mark.nvrtc
def test_records_and_helpers_of_two_programs_are_two() -> None:
    kernels = [least("first", np.float32, "n"), least("second", np.float64, "2*n"), least("third", np.float32, "n")]
    compile_cuda(together(pl.generate_code(knl, target=pl.CudaTarget()) for knl in kernels))
    build_library(together(pl.generate_code(knl, target=pl.CTarget()) for knl in kernels))


def test_a_guard_stands_for_one_text() -> None:
    known: dict[str, str] = {}
    for target in (pl.CTarget(), pl.CudaTarget()):
        for program in programs(target, GALLERY if target.name == "c" else SOME):
            for macro, text in GUARD.findall(program.device_code):
                assert known.setdefault(f"{target.name} {macro}", text) == text
    assert known


@pytest.mark.nvrtc
def test_programs_of_the_gallery_stand_in_one_file() -> None:
    parts = programs(pl.CudaTarget(), SOME)
    assert len(parts) > 7
    compile_cuda(together(parts))


@pytest.mark.slow
def test_all_programs_of_the_gallery_stand_in_one_file() -> None:
    build_library(together(programs(pl.CTarget(), GALLERY)), flags=("-std=c11", "-O0", "-fPIC", "-shared"))
    text = together(programs(pl.CudaTarget(), GALLERY))
    known: dict[str, str] = {}
    for macro, guarded in GUARD.findall(text):
        assert known.setdefault(macro, guarded) == guarded
    compile_cuda(text)


def test_two_equal_preambles_are_read_once() -> None:
    body = "static inline float twice(float x) { return x + x; }"
    twice = pl.ForeignFunction("twice", (np.float32,), np.float32, preamble={"c": body})
    kernels = [
        pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = twice(x[i])", [pl.GlobalArg("x, y", np.float32, shape="n"), ...],
                       name=name, functions=[twice])
        for name in ("one", "two")
    ]  # fmt: skip
    build_library(together(pl.generate_code(knl, target=pl.CTarget()) for knl in kernels))
