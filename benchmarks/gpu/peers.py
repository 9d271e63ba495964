"""The same work by other libraries, on the same arrays; those that are not installed are left out and named."""
# ruff: noqa: ANN401  # the libraries' types are their own

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["PEERS", "calls_of", "load_peers"]

_WIDTHS: Final = (1024, 4096, 16384, 65536)

Calls: TypeAlias = Mapping[str, Callable[[Any, Mapping[str, Any]], Callable[[], object]]]
"""Case name -> a function of the library and the arrays that returns what is timed."""


def _torch_product(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    torch.backends.cuda.matmul.allow_tf32 = False
    return lambda: torch.mm(arrays["a"], arrays["b"], out=arrays["c"])


def _torch_softmax(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    return lambda: torch.softmax(arrays["x"], 1, out=arrays["y"])


def _torch_norm(torch: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    x, gamma, beta = (arrays[name] for name in ("x", "gamma", "beta"))
    return lambda: torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, 1e-5)


_TORCH: Final[Calls] = {
    "copy": lambda _, arrays: lambda: arrays["y"].copy_(arrays["x"]),
    "axpy": lambda torch, a: lambda: torch.add(a["y"], a["x"], alpha=float(a["alpha"]), out=a["z"]),
    "transpose": lambda _, arrays: lambda: arrays["b"].copy_(arrays["a"].T),
    "bias + GELU": lambda torch, a: lambda: torch.nn.functional.gelu(a["x"] + a["b"]),
    "fp32 GEMM": _torch_product,
    "row sums of 32": lambda torch, a: lambda: torch.sum(a["a"], 1, out=a["y"]),
    "row sums of 1024": lambda torch, a: lambda: torch.sum(a["a"], 1, out=a["y"]),
    "row sums of 16384": lambda torch, a: lambda: torch.sum(a["a"], 1, out=a["y"]),
    **{f"softmax of {columns}": _torch_softmax for columns in _WIDTHS},
    **{f"layer norm of {columns}": _torch_norm for columns in _WIDTHS},
    "prefix sum": lambda torch, a: lambda: torch.cumsum(a["a"], 0, out=a["b"]),
}


def _cupy_axpy(cupy: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    fused = cupy.ElementwiseKernel("float32 a, float32 x, float32 y", "float32 z", "z = a*x + y", "axpy")
    return lambda: fused(arrays["alpha"], arrays["x"], arrays["y"], arrays["z"])


def _cupy_copy(cupy: Any, arrays: Mapping[str, Any]) -> Callable[[], object]:
    return lambda: cupy.copyto(arrays["y"], arrays["x"])


_CUPY: Final[Calls] = {
    "copy": _cupy_copy,
    "axpy": _cupy_axpy,
    "transpose": lambda cupy, arrays: lambda: cupy.copyto(arrays["b"], arrays["a"].T),
    "fp32 GEMM": lambda cupy, arrays: lambda: cupy.matmul(arrays["a"], arrays["b"], out=arrays["c"]),
    "row sums of 32": lambda cupy, a: lambda: cupy.sum(a["a"], 1, out=a["y"]),
    "row sums of 1024": lambda cupy, a: lambda: cupy.sum(a["a"], 1, out=a["y"]),
    "row sums of 16384": lambda cupy, a: lambda: cupy.sum(a["a"], 1, out=a["y"]),
    "prefix sum": lambda cupy, a: lambda: cupy.cumsum(a["a"], out=a["b"]),
}

PEERS: Final[Mapping[str, tuple[Calls, Callable[[Any, Any], Any]]]] = {
    "torch": (_TORCH, lambda torch, array: torch.as_tensor(array, device="cuda")),
    "cupy": (_CUPY, lambda cupy, array: cupy.asarray(array)),
}
"""What each can do, and how it takes an array of PyCUDA's without a copy."""


def load_peers() -> tuple[dict[str, Any], list[str]]:
    """Return the libraries that are there, and the names of those that are not."""
    found: dict[str, Any] = {}
    missing = []
    for name in PEERS:
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return found, missing


def calls_of(case: str, name: str, library: Any, arrays: Mapping[str, Any]) -> Callable[[], object] | None:
    """Return the call of *library* that does the work of *case* on *arrays*; None where it has none."""
    calls, taken = PEERS[name]
    if case not in calls:
        return None
    views = {key: taken(library, value) if hasattr(value, "gpudata") else value for key, value in arrays.items()}
    return calls[case](library, views)
