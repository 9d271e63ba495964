"""Shared memory of a block beyond what can be declared: one piece, of which the launch says the size."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import agree, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import resources

Golden = Callable[[str, str], None]
F = np.float32


def reversed_rows(length: int = 8192, *others: str) -> pl.LoopKernel:
    """Each block takes rows into shared memory and writes them back to front."""
    names = ("t", *others)
    lines = []
    for number, name in enumerate(names):
        lines += [f"for i{number}", f"  {name}[i{number}] = x[r, i{number}] + {number}", "end"]
    total = " + ".join(f"{name}[{length - 1} - j]" for name in names)
    inames = ", ".join(f"i{number}" for number in range(len(names)))
    domain = f"{{[r, j, {inames}]: 0 <= r < n and 0 <= j, {inames} < {length}}}"
    text = "\n".join(["for r", *lines, "for j", f"  y[r, j] = {total}", "end", "end"])
    temporaries = [pl.TemporaryVariable(name, F, shape=length) for name in names]
    data = [pl.GlobalArg("x, y", F, shape=f"n, {length}"), *temporaries, ...]
    knl = pl.make_kernel(domain, text, data, name="reversed_rows")
    for iname in (*inames.split(", "), "j"):
        knl = pl.split_iname(knl, iname, 128, inner_tag="l.0")
    return pl.tag_inames(knl, "r:g.0")


def test_arrays_are_carved_out_of_one(golden: Golden) -> None:
    program = pl.generate_code(reversed_rows(8192, "u"), target=pl.CudaTarget())
    golden("golden/dynamic_shared.cu", program.device_code)
    assert program.launches[0].shared_bytes == program.launches[0].dynamic_shared_bytes == 2 * 32 * 1024


def test_what_can_be_declared_is_declared() -> None:
    program = pl.generate_code(reversed_rows(12 * 1024), target=pl.CudaTarget())
    assert "__shared__ float t[12288];" in program.device_code
    assert program.launches[0].dynamic_shared_bytes == 0
    assert program.launches[0].shared_bytes == 48 * 1024


@pytest.mark.parametrize(("arch", "kib"), [("sm_75", 64), ("sm_80", 163), ("sm_89", 99), ("sm_90a", 227)])
def test_each_architecture_has_its_limit(arch: str, kib: int) -> None:
    per_kib = 256
    most = pl.generate_code(reversed_rows(kib * per_kib), target=pl.CudaTarget(arch))
    assert most.launches[0].dynamic_shared_bytes == kib * 1024
    with pytest.raises(pl.VerificationError) as err:
        pl.generate_code(reversed_rows(kib * per_kib + 128), target=pl.CudaTarget(arch))
    assert f"{kib * 1024 + 512} bytes of shared memory; the device has {kib * 1024}" in str(err.value)


def test_targets_of_one_architecture_are_equal() -> None:
    assert pl.CudaTarget("sm_80") == pl.CudaTarget("sm_80") != pl.CudaTarget("sm_90")


def test_arrays_of_all_types_are_aligned() -> None:
    text = """
        for r
            for i
                s[i] = 1
                t[i] = x[r, i]
            end
            for j
                y[r, j] = t[16383 - j] + s[16383 - j]
            end
        end
        """
    s = pl.TemporaryVariable("s", np.int8, shape=16384, padding=1)
    t = pl.TemporaryVariable("t", np.float64, shape=16384)
    data = [pl.GlobalArg("x, y", np.float64, shape="n, 16384"), s, t, ...]
    knl = pl.make_kernel("{[r, i, j]: 0 <= r < n and 0 <= i, j < 16384}", text, data, name="k")
    knl = pl.split_iname(pl.split_iname(knl, "i", 64, inner_tag="l.0"), "j", 64, inner_tag="l.0")
    program = pl.generate_code(pl.tag_inames(knl, "r:g.0"), target=pl.CudaTarget())
    assert "double (&t)[16384] = *(double (*)[16384])(shared_memory + 16400);" in program.device_code
    x = np.random.default_rng(1).random((2, 16384))
    outputs = run_on_fibres(program, {"x": x})
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["random"].y, x[:, ::-1] + 1)


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_values_of_temporaries_in_one_place(target: str) -> None:
    knl = reversed_rows(16384)
    x = np.random.default_rng(2).random((2, 16384), dtype=F)
    if target == "c":
        got = pl.compile(knl, target=pl.CTarget())(x=x).y
    else:
        got = run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"x": x})["reverse"].y
    np.testing.assert_array_equal(got, x[:, ::-1])


def test_a_pool_is_one_part() -> None:
    text = """
        for r
            for i
                s[i] = x[r, i]
            end
            for j
                y[r, j] = s[16383 - j]
            end
            for k
                t[k] = x[r, k] + 1
            end
            for l
                z[r, l] = t[16383 - l]
            end
        end
        """
    temporaries = [pl.TemporaryVariable(t, F, shape=16384, address_space=pl.AddressSpace.LOCAL) for t in "st"]
    data = [pl.GlobalArg("x, y, z", F, shape="n, 16384"), *temporaries, ...]
    knl = pl.make_kernel("{[r, i, j, k, l]: 0 <= r < n and 0 <= i, j, k, l < 16384}", text, data, name="k")
    for iname in "ijkl":
        knl = pl.split_iname(knl, iname, 64, inner_tag="l.0")
    knl = pl.alias_temporaries(pl.tag_inames(knl, "r:g.0"), ["s", "t"])
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert len(re.findall(r"\(\*\)\[16384\]\)shared_memory;", program.device_code)) == 2
    assert program.launches[0].dynamic_shared_bytes == 64 * 1024
    x = np.random.default_rng(3).random((2, 16384), dtype=F)
    outputs = run_on_fibres(program, {"x": x})
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["random"].z, x[:, ::-1] + 1)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_it_compiles(arch: str) -> None:
    program = pl.generate_code(reversed_rows(16384, "u"), target=pl.CudaTarget(arch))
    compiled = compile_cuda(program.device_code, arch)
    launch = program.launches[0]
    found = resources(compiled.cubin, {launch.name: 128}, {launch.name: launch.dynamic_shared_bytes})[launch.name]
    assert found.shared_bytes == 0
    assert found.occupancy is not None
    assert found.occupancy.blocks == 1


@pytest.mark.gpu
def test_it_runs_on_a_gpu() -> None:
    x = np.random.default_rng(4).random((5, 28 * 1024), dtype=F)
    knl = reversed_rows(28 * 1024, "u")
    got = pl.compile(knl, target=pl.CudaTarget())(x=x).y  # one rounding fewer, where the GPU fuses
    np.testing.assert_allclose(got, 2 * x[:, ::-1] + 1, rtol=2e-7)
