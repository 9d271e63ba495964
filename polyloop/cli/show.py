"""``python -m polyloop show``, ``explain`` and ``view FILE.py:NAME``: source, bounds and page of a kernel."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import polyloop as pl
from polyloop.errors import ArgumentError, Diagnostic, unknown_name

__all__ = ["compute_units", "explanation", "load_kernel", "page", "source"]


def _refusal(*found: Diagnostic) -> ArgumentError:
    return ArgumentError("show", None, found)


def load_kernel(where: str) -> pl.LoopKernel:
    """Return the kernel that *where* names.

    Parameters
    ----------
    where
        ``FILE.py:NAME``.  ``NAME`` is a kernel of that module, or a function that takes no arguments and
        returns one.  The file is executed, as ``import`` would.

    Raises
    ------
    ArgumentError
        ``bad-kernel-path``, ``unknown-kernel``, ``not-a-kernel``.
    """
    path_text, colon, name = where.rpartition(":")
    path = Path(path_text)
    if not colon or not path_text or not name.isidentifier():
        raise _refusal(
            Diagnostic("bad-kernel-path", f"'{where}' does not name a kernel", hints=("write it FILE.py:NAME",))
        )
    if not path.is_file():
        raise _refusal(Diagnostic("bad-kernel-path", f"there is no file '{path}'", hints=("write it FILE.py:NAME",)))
    module = _execute(path)
    if not hasattr(module, name):
        raise _refusal(unknown_name("kernel", name, _kernel_names(module)))
    value = getattr(module, name)
    knl = value() if callable(value) and not isinstance(value, pl.LoopKernel | type) else value
    if not isinstance(knl, pl.LoopKernel):
        raise _refusal(
            Diagnostic(
                "not-a-kernel",
                f"'{name}' in '{path}' is of type {type(knl).__name__}, not a kernel",
                hints=("name a LoopKernel, or a function without arguments that returns one",),
            )
        )
    return knl


def _execute(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_polyloop_show_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise _refusal(
            Diagnostic("bad-kernel-path", f"'{path}' is not a Python file", hints=("name a file that ends in .py",))
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def _kernel_names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, pl.LoopKernel)]


def source(where: str, target: str) -> str:
    """Return the text generated for the kernel *where* by *target* (``"c"``, ``"cuda"``, ``"hip"``, ``"opencl"``)."""
    makers: dict[str, Callable[[], pl.Target]]
    makers = {"c": pl.CTarget, "cuda": pl.CudaTarget, "hip": pl.HipTarget, "opencl": pl.OpenCLTarget}
    language = makers[target]()
    return pl.generate_code(load_kernel(where), target=language).device_code


def compute_units(where: str, architectures: Iterable[str], output: Path | None) -> str:
    """Return the resource usage of the kernel *where* on some architectures, as tables.

    With *output*, the code object of the last one is written to that file.

    Raises
    ------
    CompilerError, CodegenError
        Those of :func:`polyloop.compile_hip`.
    """
    kernel = load_kernel(where)
    found = [pl.compile_hip(kernel, pl.HipTarget(arch)) for arch in architectures]
    if output is not None:
        output.write_bytes(found[-1].binary)
    return "\n\n".join(map(str, found))


def explanation(where: str, sizes: Iterable[str], device: str, *, compiled: bool, as_json: bool) -> str:
    """Return the performance bounds of the kernel *where*, for *sizes* such as ``n=1024``.

    Raises
    ------
    ArgumentError
        ``bad-sizes``, and the errors of :func:`load_kernel` and :func:`polyloop.explain`.
    """
    found = pl.explain(load_kernel(where), _sizes(sizes, "explain"), device, compile=compiled)
    return json.dumps(found.to_dict(), indent=2) if as_json else str(found)


def page(where: str, sizes: Iterable[str], device: str, output: Path | None) -> Path:
    """Write the page of the kernel *where*, and return the path of the file.

    Raises
    ------
    ArgumentError
        ``bad-sizes``, and the errors of :func:`load_kernel` and :func:`polyloop.view`.
    """
    given = _sizes(sizes, "view")
    target = Path(f"{where.rpartition(':')[2]}.html") if output is None else output
    return pl.view(load_kernel(where), target, sizes=given, device=device)


def _sizes(sizes: Iterable[str], command: str) -> dict[str, int]:
    """Return the values of words such as ``n=1024``."""
    given: dict[str, int] = {}
    for text in sizes:
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.lstrip("-").isdigit():
            problem = Diagnostic("bad-sizes", f"'{text}' is no size", hints=("write it NAME=SIZE, such as n=1024",))
            raise ArgumentError(command, None, [problem])
        given[name] = int(value)
    return given
