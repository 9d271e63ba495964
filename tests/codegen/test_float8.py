"""Floating-point numbers of 8 bits: conversions bit by bit on every target, arithmetic in float32, what is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import CodegenError
from polyloop.expr.dtypes import rounded
from polyloop.runtime.ccompile import open_library
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.opencl import OPENCL_LANGUAGE

Array = np.ndarray[Any, Any]
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
TYPES = pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=["e4m3fn", "e5m2"])


def kernel(text: str, **types: Any) -> pl.LoopKernel:
    """Return a kernel over ``i`` with arrays of some types."""
    data = [pl.GlobalArg(name, kind, shape="n") for name, kind in types.items()]
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [*data, ...], assumptions="n >= 1")


def on_threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def everywhere(knl: pl.LoopKernel, **arrays: Any) -> dict[str, Array]:
    """Return ``o`` from the interpreter, C, and CUDA on fibres."""
    program = pl.generate_code(on_threads(knl), target=pl.CudaTarget())
    return {
        "interpreter": pl.interpret(knl, **arrays).o,
        "C": pl.compile(knl, target=pl.CTarget())(**arrays).o,
        "fibres": run_on_fibres(program, arrays, orders=("forward",))["forward"].o,
    }


def numbers(dtype: Any, source: Any) -> Array:
    """Return numbers of type *source*: all of *dtype*, what is halfway between two, next to these, and any bits."""
    rng = np.random.default_rng(0)
    if np.dtype(source).kind == "i":
        return (np.arange(-600, 600) * 131).astype(source)
    own = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    own = np.sort(own[np.isfinite(own)])
    halves = (own[1:] + own[:-1]) / 2
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 464, 465, -465, 61440, 61441, 1e30]
    wide = np.concatenate([own, halves, special])
    kind = np.dtype(source)
    bits: Array = rng.integers(0, 2**32, 2000, dtype=np.uint64).astype(f"u{min(4, kind.itemsize)}")
    with np.errstate(all="ignore"):
        near = [np.nextafter(halves.astype(np.float32), np.float32(side)).astype(source) for side in (-1e30, 1e30)]
        if kind == np.float64:
            near += [halves * (1 + 2.0**-45), halves * (1 - 2.0**-45)]  # which float32 does not hold
            return np.concatenate([wide, *near, bits.view(np.float32).astype(source)])
        return np.concatenate([wide.astype(source), *near, bits.view(source)])


def by_definition(x: Array, dtype: Any) -> Array:
    """Return the bits of the nearest number, found among all of them: __nv_cvt_double_to_fp8 with __NV_SATFINITE."""
    every = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float64)
    count = int(np.isfinite(every).sum())
    with np.errstate(invalid="ignore"):
        x = x.astype(np.float64)
    sizes, wide = every[:count], np.abs(x)
    low = np.clip(np.searchsorted(sizes, wide, side="right") - 1, 0, count - 1)
    high = np.minimum(low + 1, count - 1)
    with np.errstate(invalid="ignore"):
        down, up = wide - sizes[low], sizes[high] - wide
    near = np.where((up < down) | ((up == down) & (low % 2 == 1)), high, low)
    signed = near | np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(wide), 0x7F, signed).astype(np.uint8)


# {{{ conversions


SOURCES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int32, E4M3, E5M2]


@pytest.mark.few(4)
@TYPES
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(np.dtype(source)))
def test_all_round_alike(dtype: Any, source: Any) -> None:
    if source in (E4M3, E5M2):
        x: Array = np.arange(256, dtype=np.uint8).view(source)
    else:
        x = numbers(dtype, source)
    wanted = x.view(np.uint8) if source is dtype else by_definition(x, dtype)  # a copy keeps its bits
    np.testing.assert_array_equal(np.asarray(rounded(x, np.dtype(dtype))).view(np.uint8), wanted)
    for where, found in everywhere(kernel("o[i] = x[i]", x=source, o=dtype), x=x).items():
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.view(np.uint8), wanted, err_msg=where)


@TYPES
def test_all_widen_alike(dtype: Any) -> None:
    x: Array = np.arange(256, dtype=np.uint8).view(dtype)
    for where, found in everywhere(kernel("o[i] = x[i]", x=dtype, o=np.float32), x=x).items():
        np.testing.assert_array_equal(found, x.astype(np.float32), err_msg=where)
        signs = np.signbit(found) == np.signbit(x.astype(np.float32))
        assert signs[~np.isnan(found)].all()


def test_beyond_the_greatest_number_it_stays_the_greatest() -> None:
    x = np.array([1e9, -np.inf, 464, 465, np.nan], np.float64)
    assert rounded(x, np.dtype(E4M3)).astype(float).tolist()[:4] == [448, -448, 448, 448]
    assert rounded(x, np.dtype(E5M2)).astype(float).tolist()[:2] == [57344, -57344]
    assert np.isnan(rounded(np.nan, np.dtype(E4M3)))
    assert rounded(1.0 + 2.0**-4 + 2.0**-40, np.dtype(E4M3)) == 1.125, "rounded once: float32 lies halfway"


_AS_C = """
#include <stdint.h>
#include <string.h>
typedef uint8_t uchar;
typedef uint32_t uint;
typedef uint64_t ulong;
static uint as_uint(float x) { uint r; memcpy(&r, &x, 4); return r; }
static float as_float(uint x) { float r; memcpy(&r, &x, 4); return r; }
static ulong as_ulong(double x) { ulong r; memcpy(&r, &x, 8); return r; }
static double as_double(ulong x) { double r; memcpy(&r, &x, 8); return r; }
"""


@TYPES
def test_the_text_in_opencl_c_computes_the_same(dtype: Any) -> None:
    """Its words are defined in C here, where no device of OpenCL is asked for."""
    name = np.dtype(dtype).name
    keys = (name, f"widen {name}", f"narrow {name}", f"narrow_double {name}")
    entries = [f"void {call}({kind} x, {name} *r) {{ *r = {function}(x); }}"
               for call, kind, function in (("single", "float", f"to_{name}"), ("wide", "double", f"double_to_{name}"))]
    entries.append(f"float back({name} x) {{ return {name}_to_float(x); }}")
    texts = [OPENCL_LANGUAGE.definitions[key].text for key in keys]
    library = open_library("\n".join([_AS_C, *texts, *entries]))
    library.back.restype, library.back.argtypes = ctypes.c_float, [ctypes.c_uint8]
    for call, source, kind in (("single", np.float32, ctypes.c_float), ("wide", np.float64, ctypes.c_double)):
        x, found = numbers(dtype, source), ctypes.c_uint8()
        function = getattr(library, call)
        for value, wanted in zip(x, by_definition(x, dtype), strict=True):
            function(kind(value), ctypes.byref(found))
            assert found.value == wanted, value
    for bits in range(256):
        wide = np.uint8(bits).view(dtype).astype(np.float32)
        np.testing.assert_equal(np.float32(library.back(bits)), wide)


@TYPES
def test_numbers_that_are_passed_are_rounded_alike(dtype: Any) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "o[i] = s", [pl.ValueArg("s", dtype), pl.GlobalArg("o", dtype, shape="n"), ...]
    )
    for value in (1e9, 0.3, -2.0**-10, 448.0, float("nan")):
        wanted = by_definition(np.array([value]), dtype)[0]
        assert pl.compile(knl, target=pl.CTarget())(s=value, n=2).o.view(np.uint8)[0] == wanted
        assert pl.interpret(knl, s=value, n=2).o.view(np.uint8)[0] == wanted


# }}}
# {{{ arithmetic


@TYPES
def test_arithmetic_is_in_float32(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.uniform(-8, 8, 50).astype(dtype) for _ in "xy")
    wide_x, wide_y = x.astype(np.float32), y.astype(np.float32)
    knl = kernel("o[i] = x[i]*y[i] + 2*x[i]", x=dtype, y=dtype, o=np.float32)
    for found in everywhere(knl, x=x, y=y).values():
        np.testing.assert_allclose(found, wide_x * wide_y + 2 * wide_x, rtol=1e-6, atol=1e-6)


@TYPES
def test_a_cast_rounds(dtype: Any) -> None:
    x = numbers(dtype, np.float32)[:300]
    text = f"o[i] = cast({np.dtype(dtype).name}, x[i]) + cast({np.dtype(dtype).name}, 1000000)"
    wanted = np.asarray(rounded(x, np.dtype(dtype))).astype(np.float32) + np.float32(448 if dtype is E4M3 else 57344)
    for found in everywhere(kernel(text, x=np.float32, o=np.float32), x=x).values():
        np.testing.assert_array_equal(found, wanted)


def test_two_formats_meet_in_float32() -> None:
    knl = kernel("o[i] = x[i] + y[i]", x=E4M3, y=E5M2)
    assert knl.arguments[[a.name for a in knl.arguments].index("o")].dtype == np.float32


@TYPES
def test_sums_over_threads(dtype: Any) -> None:
    x = np.random.default_rng(2).integers(-4, 5, 64).astype(dtype)
    knl = pl.make_kernel("{[i]: 0 <= i < 64}", "s = sum(i, x[i])", [
        pl.GlobalArg("x", dtype, shape="64"), pl.GlobalArg("s", np.float32, shape="")])  # fmt: skip
    split = pl.split_iname(knl, "i", 32, inner_tag="l.0")
    program = pl.generate_code(split, target=pl.CudaTarget())
    for found in run_on_fibres(program, {"x": x}).values():
        assert found["s"] == x.astype(np.float32).sum()


@pytest.mark.few(2)
@TYPES
@pytest.mark.parametrize("count", [4, 16])
def test_vectors_and_tiles(dtype: Any, count: int) -> None:
    x: Array = np.arange(256, dtype=np.uint8).view(dtype)
    knl = pl.split_iname(pl.assume(kernel("o[i] = x[i]", x=dtype, o=dtype), f"n mod {count} = 0"), "i", count,
                         outer_iname="block", inner_tag="vec")  # fmt: skip
    knl = pl.split_iname(knl, "block", 4, outer_tag="g.0", inner_tag="l.0")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    for found in run_on_fibres(program, {"x": x}).values():
        np.testing.assert_array_equal(found["o"].view(np.uint8), x.view(np.uint8))


# }}}


def test_cuda_c_has_no_atomic_updates_of_bytes() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 64}", "s[i//8] = s[i//8] + x[i] {atomic}", [
        pl.GlobalArg("x", E4M3, shape="64"), pl.GlobalArg("s", E4M3, shape="8", for_atomic=True)])  # fmt: skip
    with pytest.raises(CodegenError, match="no atomic 'sum' on float8_e4m3fn"):
        pl.generate_code(pl.tag_inames(knl, "i:l.0"), target=pl.CudaTarget())


def test_there_are_no_tables_of_them() -> None:
    table = pl.TemporaryVariable("t", initializer=np.ones(4, E5M2), read_only=True)
    knl = pl.make_kernel("{[i]: 0 <= i < 4}", "o[i] = t[i]", [pl.GlobalArg("o", np.float32, shape="4"), table])
    with pytest.raises(CodegenError) as error:
        pl.generate_code(knl, target=pl.CTarget())
    assert error.value.codes == ("unsupported-initializer",)


def test_a_type_is_no_name() -> None:
    with pytest.raises(pl.KernelError) as error:
        pl.make_kernel("{[i]: 0 <= i < n}", "float8_e4m3fn[i] = 1", [...])
    assert error.value.codes == ("reserved-name",)


TEXTS: dict[str, Callable[[Any], pl.LoopKernel]] = {
    "narrow": lambda dtype: kernel("o[i] = x[i]", x=np.float32, o=dtype),
    "narrow a double": lambda dtype: kernel("o[i] = x[i]", x=np.float64, o=dtype),
    "widen": lambda dtype: kernel("o[i] = 2*x[i]", x=dtype, o=np.float32),
}


@pytest.mark.few(6)
@TYPES
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
@pytest.mark.parametrize("text", TEXTS)
def test_nvrtc_takes_the_conversions(dtype: Any, arch: str, text: str) -> None:
    program = pl.generate_code(on_threads(TEXTS[text](dtype)), target=pl.CudaTarget(arch))
    assert compile_cuda(program.device_code, arch).cubin


@pytest.mark.gpu
@TYPES
@pytest.mark.parametrize("source", [np.float64, np.float32, np.float16], ids=lambda source: str(np.dtype(source)))
def test_the_gpu_rounds_alike(dtype: Any, source: Any) -> None:
    x = numbers(dtype, source)
    found = pl.compile(on_threads(kernel("o[i] = x[i]", x=source, o=dtype)), target=pl.CudaTarget())(x=x)["o"]
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), by_definition(x, dtype))


@pytest.mark.gpu
@TYPES
def test_the_gpu_widens_alike(dtype: Any) -> None:
    x: Array = np.arange(256, dtype=np.uint8).view(dtype)
    found = pl.compile(on_threads(kernel("o[i] = x[i]", x=dtype, o=np.float32)), target=pl.CudaTarget())(x=x)["o"]
    np.testing.assert_array_equal(np.asarray(found), x.astype(np.float32))
