"""Every schedule of the ready kernels at awkward sizes: CUDA C on fibres, C, NVRTC, a GPU."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop import library
from polyloop.library.attention import attention
from polyloop.library.attention_backward import gradients
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.tuning.interpolate import Interpolation, _alignment
from polyloop.tuning.schedules import Schedule
from tests.library.schedules import on_fibres

ROOT = Path(__file__).parents[2]
CUDA = pl.CudaTarget("sm_90a")
BF16 = np.dtype(ml_dtypes.bfloat16)
RTOL = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 1e-2, "float16": 2e-3, "tf32": 1e-3}
Arrays = Mapping[str, Any]


def matmul_case(rng: np.random.Generator, dtype: np.dtype[Any], m: int, n: int, p: int) -> tuple[Arrays, Arrays]:
    a, b = ((rng.random(shape) - 0.5).astype(dtype) for shape in ((m, p), (p, n)))
    return {"a": a, "b": b}, {"c": a.astype(np.float64) @ b.astype(np.float64)}


def transpose_case(rng: np.random.Generator, dtype: np.dtype[Any], m: int, n: int) -> tuple[Arrays, Arrays]:
    a = rng.random((m, n)).astype(dtype)
    return {"a": a}, {"b": a.T.astype(np.float64)}


def softmax_case(rng: np.random.Generator, dtype: np.dtype[Any], m: int, n: int) -> tuple[Arrays, Arrays]:
    x = rng.normal(0, 3, (m, n)).astype(dtype)
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    return {"x": x}, {"y": powers / powers.sum(1, keepdims=True)}


def layer_norm_case(rng: np.random.Generator, dtype: np.dtype[Any], m: int, n: int) -> tuple[Arrays, Arrays]:
    x, gamma, beta = rng.normal(1, 3, (m, n)).astype(dtype), rng.random(n).astype(dtype), rng.random(n).astype(dtype)
    wide = x.astype(np.float64)
    away = wide - wide.mean(1, keepdims=True)
    y = away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * gamma.astype(np.float64) + beta.astype(np.float64)
    return {"x": x, "gamma": gamma, "beta": beta}, {"y": y}


CASES: Mapping[str, Callable[..., tuple[Arrays, Arrays]]] = {
    "matmul": matmul_case, "transpose": transpose_case, "softmax": softmax_case, "layer_norm": layer_norm_case,
}  # fmt: skip


@cache
def ready(kernel: str, dtype: str) -> pl.Dispatcher:
    """Return the dispatcher for CUDA, where there is no GPU too; tf32 is a precision of float32."""
    how = {"precision": dtype} if dtype == "tf32" else {}
    made: pl.Dispatcher = getattr(library, kernel)("float32" if how else dtype, **how, target=CUDA, device="H200")
    return made


def valid(kernel: str, dtype: str, name: str, sizes: Mapping[str, int]) -> Schedule | None:
    """Return ``ready(kernel, dtype).valid(**sizes).get(name)``, without a program for each of the others."""
    made = ready(kernel, dtype)
    member = made._member(name, made._facts(dict(sizes)))
    return member if isinstance(member, Schedule) else None


def check(
    kernel: str, dtype: str, run: Callable[..., Any], sizes: Mapping[str, int], result: str | None = None
) -> None:
    element = "float32" if dtype == "tf32" else getattr(ml_dtypes, dtype, dtype)
    given, wanted = CASES[kernel](np.random.default_rng(1), np.dtype(element), **sizes)
    found = run(**given)
    for name, want in wanted.items():
        got = np.asarray(found[name]).astype(np.float64)
        assert got.shape == want.shape
        rtol = 2e-5 if kernel == "matmul" and dtype not in ("float64", "tf32") else RTOL[dtype]
        rtol = RTOL[result] if result is not None else rtol
        np.testing.assert_allclose(got, want, rtol, rtol*np.abs(want).max(), err_msg=f"{sizes}")


def names(kernel: str, dtype: str) -> Sequence[str]:
    return ready(kernel, dtype).names


PRODUCTS = [("matmul", dtype, name) for dtype in ("float32", "tf32", "float64", "bfloat16")
            for name in names("matmul", dtype)]  # fmt: skip
ROWS = [(kernel, dtype, name) for kernel in ("softmax", "layer_norm") for dtype in ("float32", "bfloat16")
        for name in names(kernel, dtype)]  # fmt: skip
TILES = [("transpose", dtype, name) for dtype in ("float32", "float64", "bfloat16")
         for name in names("transpose", dtype)]  # fmt: skip
SIZES: Mapping[str, Sequence[Mapping[str, int]]] = {
    "matmul": [{"m": 1, "n": 1, "p": 1}, {"m": 67, "n": 35, "p": 37}, {"m": 130, "n": 136, "p": 1040}],
    "transpose": [{"m": 1, "n": 1}, {"m": 67, "n": 37}, {"m": 72, "n": 136}],
    "softmax": [{"m": 1, "n": 1}, {"m": 3, "n": 37}, {"m": 10, "n": 136}],
    "layer_norm": [{"m": 1, "n": 1}, {"m": 3, "n": 37}, {"m": 10, "n": 136}],
}
"""A single element, primes, and multiples of 8 over the ends of tiles and of parts of sums."""


EVERY = pytest.mark.parametrize(("kernel", "dtype", "name"), [*PRODUCTS, *ROWS, *TILES])


@pytest.mark.few(9)
@EVERY
def test_every_schedule_on_fibres(kernel: str, dtype: str, name: str) -> None:
    ran = 0
    for sizes in SIZES[kernel]:
        if kernel == "matmul" and sizes["p"] > 1024 and "parts" not in name:
            sizes = {**sizes, "p": 264}  # noqa: PLW2901 - fewer terms, which are added up together
        schedule = valid(kernel, dtype, name, sizes)
        if schedule is not None:
            check(kernel, dtype, on_fibres(schedule), sizes)
            ran += 1
    assert ran, "one of the sizes is for each schedule"


@pytest.mark.parametrize("family", ["by_groups", "by_groups_on_copies", "by_warps"])
def test_results_of_16_bits_on_fibres(family: str) -> None:
    module = importlib.import_module("polyloop.library.matmul")  # the package has a function of this name
    more = {"by_groups": (64, 64), "by_groups_on_copies": (64, 64), "by_warps": (1,)}[family]
    program = module.program("bfloat16", "bfloat16", target=CUDA)
    made = pl.generate_code(getattr(module, family)(program, "bf16", *more), target=CUDA)

    def run(**arrays: Any) -> Mapping[str, Any]:
        outputs = run_on_fibres(made, arrays)
        assert disagreement(outputs) is None
        return dict(outputs["random"].items())

    for shape in ((1, 8, 8), (130, 136, 264), *(((1, 1, 1), (67, 35, 37)) if family != "by_groups" else ())):
        check("matmul", "bfloat16", run, dict(zip("mnp", shape, strict=True)), result="bfloat16")


TURNS = [("softmax", "bfloat16", 3, False), ("layer_norm", "float32", 1, True)]


@pytest.mark.parametrize(("kernel", "dtype", "stages", "kept"), TURNS)
def test_rows_in_turn(kernel: str, dtype: str, stages: int, kept: bool) -> None:
    """Each cluster has several rows; the last ones have none on their way."""
    module = importlib.import_module("polyloop.library.rows")
    program = getattr(module, f"{kernel}_program")(dtype)
    made = pl.generate_code(module.in_turns(program, 32, 2, 2, stages, n=136, kept=kept), target=CUDA)
    body = made.device_code[made.device_code.index("for (int turn") :]
    assert "cluster_barrier();  // partial" not in body, "two sums have a barrier for each other"
    assert not kept or "&gamma[" not in body, "what all rows need was fetched before"

    def run(**arrays: Any) -> Mapping[str, Any]:
        outputs = run_on_fibres(made, arrays)
        assert disagreement(outputs, rtol=1e-4, atol=1e-4) is None
        return dict(outputs["random"].items())

    check(kernel, dtype, run, {"m": 9, "n": 136})


@pytest.mark.parametrize(("kernel", "dtype", "n"), [("layer_norm", "bfloat16", 37), ("softmax", "float32", 3203)])
def test_rows_in_one_piece(kernel: str, dtype: str, n: int) -> None:
    """Rows of odd lengths are moved by vectors, and the last block has fewer of them; long ones share a tile."""
    module = importlib.import_module("polyloop.library.rows")
    made = pl.generate_code(module.in_one_piece(getattr(module, f"{kernel}_program")(dtype), 64, 4, n=n), target=CUDA)
    kind = "float4" if dtype == "float32" else "bfloat16x4"  # four rows of 2 bytes begin at multiples of 8
    assert re.findall(rf"\*\({kind} \*\)&(\w+)\[", made.device_code) == ["x_rows", "y"]

    def run(**arrays: Any) -> Mapping[str, Any]:
        outputs = run_on_fibres(made, arrays)
        assert disagreement(outputs, rtol=1e-4, atol=1e-4) is None
        return dict(outputs["random"].items())

    check(kernel, dtype, run, {"m": 6, "n": n})


def test_results_of_other_types_are_refused() -> None:
    with pytest.raises(pl.ArgumentError, match="stores no product of bfloat16 as float16") as refused:
        library.matmul("bfloat16", "float16")
    assert refused.value.codes == ("wrong-dtype",)
    with pytest.raises(pl.ArgumentError, match="pass result='float32'"):
        library.matmul("float32", "float64")


@pytest.mark.few(10, shift=1)
@EVERY
@pytest.mark.nvrtc
def test_every_schedule_compiles(kernel: str, dtype: str, name: str) -> None:
    schedule = valid(kernel, dtype, name, SIZES[kernel][-1]) or valid(kernel, dtype, name, SIZES[kernel][1])
    assert schedule is not None
    compile_cuda(schedule.program.device_code, "sm_90a")


# {{{ on a GPU

PRODUCT_SIZES = [(1, 1, 1), (127, 129, 131), (509, 1021, 1023), (133, 1048, 2056), (1000, 1000, 1000), (260, 256, 4100)]
WIDTHS = [1, 37, 1000, 1001, 4099, 16384, 33001, 65536, 100003]
TILE_SIZES = [(1, 1), (67, 1021), (1028, 516), (2049, 4099)]


def on_gpu(kernel: str, dtype: str, sizes: Mapping[str, int], result: str | None = None) -> None:
    """Run each valid schedule, and what the dispatcher chooses."""
    how = {"precision": dtype} if dtype == "tf32" else {}
    given = ["float32" if how else dtype, *([] if result is None else [result])]
    made: pl.Dispatcher = getattr(library, kernel)(*given, **how)
    for schedule in made.valid(**sizes).values():
        check(kernel, dtype, lambda run=schedule.compiled, **arrays: run(**arrays, poison=True), sizes, result)
    check(kernel, dtype, lambda **arrays: made(**arrays, poison=True), sizes, result)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", PRODUCT_SIZES)
@pytest.mark.parametrize("dtype", ["float32", "tf32", "float64", "bfloat16", "float16"])
def test_products_on_a_gpu(dtype: str, shape: tuple[int, int, int]) -> None:
    on_gpu("matmul", dtype, dict(zip("mnp", shape, strict=True)))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", PRODUCT_SIZES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_16_bits_on_a_gpu(dtype: str, shape: tuple[int, int, int]) -> None:
    on_gpu("matmul", dtype, dict(zip("mnp", shape, strict=True)), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", ["softmax", "layer_norm"])
def test_rows_on_a_gpu(kernel: str, dtype: str, width: int) -> None:
    on_gpu(kernel, dtype, {"m": 5, "n": width})


@pytest.mark.gpu
@pytest.mark.parametrize("shape", TILE_SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_transposes_on_a_gpu(dtype: str, shape: tuple[int, int]) -> None:
    on_gpu("transpose", dtype, dict(zip("mn", shape, strict=True)))


# }}}


@pytest.mark.few(5)
@pytest.mark.parametrize("sizes", SIZES["softmax"])
@pytest.mark.parametrize("kernel", ["softmax", "layer_norm", "transpose"])
def test_in_c(kernel: str, sizes: Mapping[str, int]) -> None:
    made: pl.Dispatcher = getattr(library, kernel)("float32", target=pl.CTarget())
    check(kernel, "float32", lambda **arrays: made(**arrays, poison=True), sizes)


@pytest.mark.few(3)
@pytest.mark.parametrize("sizes", SIZES["matmul"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_in_c(dtype: str, sizes: Mapping[str, int]) -> None:
    made = library.matmul(dtype, target=pl.CTarget())
    assert made.choose(**sizes).name.startswith("vectors")
    check("matmul", dtype, lambda **arrays: made(**arrays, poison=True), sizes)


def test_elements_are_rounded_to_the_nearest_of_tf32() -> None:
    """A sum of one term: what is far less than the last of 11 bits is gone, half of it is rounded up."""
    schedule = valid("matmul", "tf32", "mma, tiles of 64 x 64, any rows", {"m": 1, "n": 1, "p": 1})
    assert schedule is not None
    for value, wanted in ((1 + 2.0**-12, 1.0), (1 + 3 * 2.0**-12, 1 + 2.0**-10), (1 - 2.0**-24, 1.0)):
        given = {"a": np.full((1, 1), value, np.float32), "b": np.ones((1, 1), np.float32)}
        assert on_fibres(schedule)(**given)["c"].item() == wanted


def test_tf32_is_a_precision_of_float32_alone() -> None:
    exact = library.matmul(precision="tf32", target=pl.CTarget())
    assert exact.names == library.matmul(target=pl.CTarget()).names, "processors have no tensor cores"
    for dtype, precision in (("bfloat16", "tf32"), ("float64", "tf32"), ("float32", "tf23")):
        with pytest.raises(pl.ArgumentError, match=f"no matmul of {dtype} with precision='{precision}'") as refused:
            library.matmul(dtype, precision=precision)
        assert refused.value.codes == ("wrong-dtype",)


def test_another_type_is_refused() -> None:
    for kernel in ("matmul", "softmax", "layer_norm"):
        with pytest.raises(pl.ArgumentError, match=f"the library has no {kernel} of int32") as refused:
            getattr(library, kernel)("int32")
        assert refused.value.codes == ("wrong-dtype",)
        with pytest.raises(pl.KernelError) as unknown:
            getattr(library, kernel)("floot32")
        assert unknown.value.codes == ("unknown-dtype",)


@pytest.mark.slow
def test_sizes_choose() -> None:
    chosen = {sizes: ready("matmul", "float32").choose(**dict(zip("mnp", sizes, strict=True))).name
              for sizes in ((4096, 4096, 4096), (512, 512, 8192), (1023, 1023, 1023))}  # fmt: skip
    assert chosen[4096, 4096, 4096] == "tiles of 128 x 128"
    assert "parts" in chosen[512, 512, 8192]
    assert chosen[1023, 1023, 1023].endswith("any rows")


RECORDED = [
    (entry["kernel"], entry["dtype"], entry.get("result"), tuple(entry["sizes"].items()), tuple(entry["seconds"]))
    for entry in json.loads((ROOT / "polyloop/data/library_times.json").read_text())
]


def attention_of(kernel: str, dtype: str, **options: Any) -> pl.Dispatcher:
    """Return the dispatcher of attention that records call *kernel*, such as ``attention of 256, causal: dk``."""
    head, causal, part = re.fullmatch(r"attention of (\d+)(, causal)?(?:: (.+))?", kernel).groups()  # type: ignore[union-attr]
    given = {"head": int(head), "causal": causal is not None, **options}
    return gradients(dtype, **given).programs[part] if part else attention(dtype, **given)


@pytest.mark.parametrize(("kernel", "dtype", "result"), sorted({entry[:3] for entry in RECORDED}, key=str))
def test_times_that_come_with_the_library_are_of_its_schedules(kernel: str, dtype: str, result: str | None) -> None:
    which = (dtype,) if result is None else (dtype, result)
    made = getattr(library, kernel, None) or partial(attention_of, kernel)
    d = made(*which, target=pl.CudaTarget("sm_90"), device="H100")
    listed = str(d)
    for *of, sizes, names in RECORDED:
        if of == [kernel, dtype, result]:
            assert names, f"nothing was measured at {sizes}"
            assert not [name for name in names if f"  {name} " not in listed], sizes


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_products_are_chosen_well_by_the_times_of_others(dtype: str) -> None:
    """Of each fifth product, left out, the schedule that the others tell is near the fastest one."""
    entries = [(tuple(one["sizes"].values()), one["seconds"])
               for one in json.loads((ROOT / "polyloop/data/library_times.json").read_text())
               if one["kernel"] == "matmul" and one["dtype"] == one.get("result") == dtype]  # fmt: skip
    ratios = []
    for left_out in entries[::5]:
        sizes, seconds = left_out
        others = [entry for entry in entries if entry is not left_out]
        told = Interpolation(others).slowdowns(sizes)
        valid = {name for other, found in entries for name in found
                 if all(a <= b for a, b in zip(_alignment(other), _alignment(sizes), strict=True))}
        name = next(name for name in told if name in valid)
        ratios.append(min(seconds.values()) / seconds.get(name, 1.1 * max(seconds.values())))
    assert np.exp(np.mean(np.log(ratios))) > 0.93, sorted(ratios)[:5]


def test_a_call_takes_what_was_measured_on_the_device() -> None:
    d = library.transpose("float32", target=pl.CudaTarget("sm_90"), device="H100")
    assert d.choose(m=8200, n=8200).name == "tiles of 64, 16 rows"
    assert "measured on NVIDIA H100" in d.choose(m=8200, n=8200).why
    assert "measured on NVIDIA H200" in d.choose(m=8000, n=9000).why, "which has more calls around it"
    assert "model" in d.choose(m=100, n=100).why, "too far away"
    like = library.transpose("float32", target=pl.CudaTarget("sm_90"), device="H200")
    assert like.choose(m=12289, n=12289).name == "tiles of 96, whole sectors"
    assert "measured on NVIDIA H200" in like.choose(m=12289, n=12289).why, "its own time for the call counts first"
    assert like.choose(m=9001, n=12001).name.endswith("whole sectors"), "rows of other lengths begin within sectors too"
    product = library.matmul("float64", target=pl.CudaTarget("sm_90"), device="H200")
    assert "measured on NVIDIA H100" in product.choose(m=1024, n=1024, p=8192).why, "it differs in its memory only"
    other = library.transpose("float32", target=pl.CudaTarget("sm_80"), device="A100")
    assert "model of NVIDIA A100" in other.choose(m=8200, n=8200).why
    heads = [str(of).splitlines()[0] for of in (like, other, library.transpose("float32", target=pl.CTarget()))]
    assert ["what was measured" in head for head in heads] == [True, False, False]
