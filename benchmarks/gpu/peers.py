"""The same work by other libraries, on the same arrays; those that are not installed are left out and named."""
# ruff: noqa: ANN401  # the libraries' types are their own

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from benchmarks.gpu import handwritten
from benchmarks.gpu.triton_calls import TRITON

__all__ = ["PEERS", "Peer", "as_tensor", "calls_of", "load_peers"]

_OF_OTHERS: Final = 2
"""``np.dtype.isbuiltin`` of the types that a package has registered."""
_WIDTHS: Final = (1024, 4096, 16384, 65536)

Call: TypeAlias = Callable[[], object]
Calls: TypeAlias = Mapping[str, Callable[[Any, Mapping[str, Any]], Call | Sequence[Call]]]
"""Case name -> a function of the library and the arrays that returns what is timed, or several of which the fastest
counts.  A call that does not write the output of the case returns it."""


def _torch_product(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    torch.backends.cuda.matmul.allow_tf32 = False
    return lambda: torch.mm(arrays["a"], arrays["b"], out=arrays["c"])


def _torch_wide_product(torch: Any, arrays: Mapping[str, Any]) -> Sequence[Callable[[], object]]:
    """Return products of 16-bit elements with results in single precision, as ours, and in 16 bits."""
    a, b = arrays["a"], arrays["b"]
    return [lambda: torch.mm(a, b, out_dtype=torch.float32), lambda: torch.mm(a, b)]


def _torch_scaled(torch: Any, arrays: Mapping[str, Any]) -> Sequence[Callable[[], object]]:
    """Return products of 8-bit elements; Hopper's own sums are the fast ones, others add parts in float32 besides."""
    a, b = arrays["a"], arrays["b"].T
    one, scale = (torch.tensor(value, dtype=torch.float32, device="cuda") for value in (1.0, float(arrays["scale"])))

    def product(*, fast: bool) -> Callable[[], object]:
        return lambda: torch._scaled_mm(  # noqa: SLF001 - it has no other name
            a, b, scale_a=scale, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    return [product(fast=True), product(fast=False)]


def _torch_tf32(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    def run() -> object:
        torch.backends.cuda.matmul.allow_tf32 = True
        found = torch.mm(arrays["a"], arrays["b"], out=arrays["c"])
        torch.backends.cuda.matmul.allow_tf32 = False
        return found

    return run


def _torch_tf32_transposed(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    return _torch_tf32(torch, {**arrays, "b": arrays["b"].T})


def _torch_softmax(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    return lambda: torch.softmax(arrays["x"], 1, out=arrays["y"])


def _torch_norm(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    x, gamma, beta = (arrays[name] for name in ("x", "gamma", "beta"))
    return lambda: torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, 1e-5)


def _torch_sparse(torch: Any, a: Mapping[str, Any]) -> Callable[[], object]:
    shape = (a["y"].shape[0], a["x"].shape[0])
    matrix = torch.sparse_csr_tensor(a["first"], a["column"], a["a"], shape)
    return lambda: matrix @ a["x"]


_TORCH: Final[Calls] = {
    "copy": lambda _, arrays: lambda: arrays["y"].copy_(arrays["x"]),
    "axpy": lambda torch, a: lambda: torch.add(a["y"], a["x"], alpha=float(a["alpha"]), out=a["z"]),
    "transpose": lambda _, arrays: lambda: arrays["b"].copy_(arrays["a"].T),
    "bias + GELU": lambda torch, a: lambda: torch.nn.functional.gelu(a["x"] + a["b"]),
    "fp32 GEMM": _torch_product,
    "fp64 GEMM": _torch_product,
    "fp64 GEMM by FMA": _torch_product,
    "bf16 GEMM": _torch_wide_product,
    "bf16 GEMM by wgmma": _torch_wide_product,
    "bf16 GEMM by wgmma, lag 1": _torch_wide_product,
    "bf16 GEMM by wgmma and TMA": _torch_wide_product,
    "bf16 GEMM by wgmma, TMA both ways": _torch_wide_product,
    **{f"bf16 GEMM by wgmma and TMA, {turns}": _torch_wide_product for turns in ("panels", "persistent", "ahead")},
    "fp16 GEMM by wgmma": _torch_wide_product,
    "bf16 GEMM, 8-byte rows": _torch_wide_product,
    "bf16 GEMM, odd rows": _torch_wide_product,
    "fp16 GEMM": _torch_wide_product,
    **dict.fromkeys(("fp8 GEMM by wgmma and TMA", "fp8 GEMM by wgmma, TMA both ways",
                     "fp8 GEMM by wgmma, TMA both ways, ahead"), _torch_scaled),
    "tf32 GEMM": _torch_tf32,
    "tf32 GEMM by wgmma and TMA": _torch_tf32_transposed,
    "tf32 GEMM by wgmma, TMA both ways": _torch_tf32_transposed,
    "tf32 GEMM by wgmma and TMA, ahead": _torch_tf32_transposed,
    "row sums of 32": lambda torch, a: lambda: torch.sum(a["a"], 1, out=a["y"]),
    "row sums of 1024": lambda torch, a: lambda: torch.sum(a["a"], 1, out=a["y"]),
    "row sums of 16384": lambda torch, a: lambda: torch.sum(a["a"], 1, out=a["y"]),
    **{f"softmax of {columns}": _torch_softmax for columns in _WIDTHS},
    **{f"layer norm of {columns}": _torch_norm for columns in _WIDTHS},
    "prefix sum": lambda torch, a: lambda: torch.cumsum(a["a"], 0, out=a["b"]),
    "prefix sum, one pass": lambda torch, a: lambda: torch.cumsum(a["a"], 0, out=a["b"]),
    "CSR product": _torch_sparse,
}


def _cupy_axpy(cupy: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    fused = cupy.ElementwiseKernel("float32 a, float32 x, float32 y", "float32 z", "z = a*x + y", "axpy")
    return lambda: fused(arrays["alpha"], arrays["x"], arrays["y"], arrays["z"])


def _cupy_gelu(cupy: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    text = "const float t = x + b; y = 0.5f*t*(1.0f + erff(0.70710678f*t))"
    fused = cupy.ElementwiseKernel("float32 x, float32 b", "float32 y", text, "bias_gelu")
    return lambda: fused(arrays["x"], arrays["b"], arrays["y"])


def _cupy_stencil(cupy: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    names = ("below", "above", "north", "south", "west", "east", "here")
    fused = cupy.ElementwiseKernel(
        ", ".join(f"float32 {name}" for name in names), "float32 v",
        "v = below + above + north + south + west + east - 6.0f*here", "stencil",
    )  # fmt: skip
    u, inner, less, more = arrays["u"], slice(1, -1), slice(None, -2), slice(2, None)
    steps = [tuple(step if axis == k else inner for k in range(3)) for axis in range(3) for step in (less, more)]
    views = [u[step] for step in (*steps, (inner,) * 3)]
    v = arrays["v"][1:-1, 1:-1, 1:-1]

    def run() -> None:
        fused(*views, v)

    return run


def _cupy_softmax(_: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    special = importlib.import_module("cupyx.scipy.special")
    return lambda: special.softmax(arrays["x"], 1)


def _cupy_sparse(cupy: Any, a: Mapping[str, Any]) -> Callable[[], object]:
    sparse, library = (importlib.import_module(f"cupyx.{name}") for name in ("scipy.sparse", "cusparse"))
    shape = (a["y"].size, a["x"].size)
    matrix = sparse.csr_matrix((a["a"], a["column"], a["first"]), shape)
    assert matrix.data.dtype == cupy.float32, "the entries were converted"
    return lambda: library.spmv(matrix, a["x"], a["y"])


def _cupy_copy(cupy: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    return lambda: cupy.copyto(arrays["y"], arrays["x"])


_CUPY: Final[Calls] = {
    "copy": _cupy_copy,
    "axpy": _cupy_axpy,
    "transpose": lambda cupy, arrays: lambda: cupy.copyto(arrays["b"], arrays["a"].T),
    "fp32 GEMM": lambda cupy, arrays: lambda: cupy.matmul(arrays["a"], arrays["b"], out=arrays["c"]),
    "fp64 GEMM": lambda cupy, arrays: lambda: cupy.matmul(arrays["a"], arrays["b"], out=arrays["c"]),
    "fp64 GEMM by FMA": lambda cupy, arrays: lambda: cupy.matmul(arrays["a"], arrays["b"], out=arrays["c"]),
    "row sums of 32": lambda cupy, a: lambda: cupy.sum(a["a"], 1, out=a["y"]),
    "row sums of 1024": lambda cupy, a: lambda: cupy.sum(a["a"], 1, out=a["y"]),
    "row sums of 16384": lambda cupy, a: lambda: cupy.sum(a["a"], 1, out=a["y"]),
    "prefix sum": lambda cupy, a: lambda: cupy.cumsum(a["a"], out=a["b"]),
    "prefix sum, one pass": lambda cupy, a: lambda: cupy.cumsum(a["a"], out=a["b"]),
    "bias + GELU": _cupy_gelu,
    "stencil": _cupy_stencil,
    **{f"softmax of {columns}": _cupy_softmax for columns in _WIDTHS},
    "CSR product": _cupy_sparse,
}

@dataclass(frozen=True)
class Peer:
    """Another way to do the work of the cases.

    Attributes
    ----------
    module
        What is imported for it, and handed to the calls.
    taken
        How it takes an array of PyCUDA's, without a copy: a function of the module and the array.
    """

    module: str
    calls: Calls
    taken: Callable[[Any, Any], Any]


def as_tensor(_: Any, array: Any) -> Any:
    """Return an array of PyCUDA's, or a tensor, as a tensor on the GPU, without a copy."""
    torch: Any = importlib.import_module("torch")
    if isinstance(array.dtype, np.dtype) and array.dtype.isbuiltin == _OF_OTHERS:  # of ml_dtypes
        bits = torch.as_tensor(array.view(f"i{array.dtype.itemsize}"), device="cuda")
        return bits.view(getattr(torch, array.dtype.name))
    return torch.as_tensor(array, device="cuda")


PEERS: Final[Mapping[str, Peer]] = {
    "torch": Peer("torch", _TORCH, as_tensor),
    "cupy": Peer("cupy", _CUPY, lambda cupy, array: cupy.asarray(array)),
    "triton": Peer("benchmarks.gpu.triton_kernels", TRITON, as_tensor),
    "CUDA C": Peer("benchmarks.gpu.handwritten", handwritten.HANDWRITTEN, lambda _, array: array),
}
"""By the name of their column.  The products of torch and CuPy are cuBLAS', their sparse ones cuSPARSE's."""


def load_peers() -> tuple[dict[str, Any], list[str]]:
    """Return the modules of the peers that are there, and the names of those that are not."""
    found: dict[str, Any] = {}
    missing = []
    for name, peer in PEERS.items():
        try:
            found[name] = importlib.import_module(peer.module)
        except ImportError:
            missing.append(name)
    return found, missing


def calls_of(case: str, name: str, library: Any, arrays: Mapping[str, Any]) -> list[Call]:
    """Return the calls by which *library* can do the work of *case* on *arrays*; none where it has no way."""
    peer = PEERS[name]
    if case not in peer.calls:
        return []
    views = {key: peer.taken(library, value) if hasattr(value, "gpudata") else value for key, value in arrays.items()}
    found = peer.calls[case](library, views)
    return list(found) if isinstance(found, Sequence) else [found]
