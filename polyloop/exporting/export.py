"""Export of kernels: sources with a C interface in a directory, ready for CMake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from polyloop.errors import CodegenError, Diagnostic
from polyloop.exporting.build import cmake, manifest, package_config
from polyloop.exporting.interface import Interface
from polyloop.exporting.launcher import Launcher
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.ccompile import export_flags
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.source import generate_code

__all__ = ["export"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def export(
    kernels: LoopKernel | Sequence[LoopKernel], directory: str | Path, *, target: Target | None = None,
    library: str | None = None, index_bits: int | None = None,
) -> tuple[Path, ...]:  # fmt: skip
    """Write the sources of *kernels* with a C interface, and the files that build a library of them.

    ::

        pl.export(knl, "smooth")   ->   smooth/smooth.c   smooth.h   CMakeLists.txt   smooth.pc.in   manifest.json

    The header declares ``NAME_run``, which checks sizes, assumptions, alignment and overlap, runs all launches, and
    returns a status; ``NAME_message`` says what a status means.  A program with memory between launches has
    ``NAME_workspace_bytes`` too.  Arguments come in the order of the kernel's, then ``workspace``, then ``stream`` for
    CUDA.  Nothing of polyloop is needed to build or run it.

    Parameters
    ----------
    kernels
        One, or several with names of their own, for one library.
    directory
        Is made if it is not there; files of these names in it are replaced.
    target
        :func:`CTarget`, which is the default unless the kernels have another one, or :func:`CudaTarget`.
    library
        Name of the library; by default that of the first kernel.
    index_bits
        As for :func:`generate_code`.  With 32, sizes beyond which 64 are needed are a status.

    Returns
    -------
    tuple
        The files.

    Raises
    ------
    CodegenError
        ``cannot-export``: the interface cannot express the kernel; ``bad-library-name``; what :func:`generate_code`
        raises.
    VerificationError
        As :func:`generate_code`.
    OSError
        The directory cannot be written.
    """
    several = (kernels,) if isinstance(kernels, LoopKernel) else tuple(kernels)
    if not several:
        raise _refused(None, "cannot-export", "there is no kernel to export", "pass one, or several")
    chosen = target_of(several[0], target) or CTarget()
    interfaces = [Interface(generate_code(knl, chosen, index_bits=index_bits)) for knl in several]
    names = [own.name for own in interfaces]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _refused(several[0].name, "cannot-export", f"two kernels have the name '{twice[0]}'",
                       'give one another name: make_kernel(.., name="..")')
    name = names[0] if library is None else library
    if not _NAME.fullmatch(name):
        raise _refused(several[0].name, "bad-library-name", f"'{name}' is no name of a library",
                       "a name has letters, digits and underscores, and begins with a letter")
    files = _files(name, interfaces, chosen)
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (root / path).write_text(text, encoding="utf-8")
    return tuple(root / path for path in files)


def _files(library: str, interfaces: Sequence[Interface], target: Target) -> dict[str, str]:
    """Return the text of each file, by its name."""
    files, sources = dict[str, str](), list[str]()
    for own in interfaces:
        runtime = "#include <cuda_runtime.h>\n\n" if own.is_cuda else ""
        text = f"{runtime}{own.program.device_code.rstrip()}\n\n{Launcher(own).text()}"
        files[f"{own.name}.{'cu' if own.is_cuda else 'c'}"] = text
        files[f"{own.name}.h"] = own.header()
        sources.append(text)
    architectures = ["".join(c for c in target.arch.removeprefix("sm_"))] if target.arch else []
    files["CMakeLists.txt"] = cmake(library, interfaces, export_flags("\n".join(sources)), architectures)
    files[f"{library}.pc.in"] = package_config(library, interfaces)
    files["manifest.json"] = manifest(library, interfaces, repr(target), files)
    return files


def _refused(kernel: str | None, code: str, message: str, hint: str) -> CodegenError:
    return CodegenError("export", kernel, [Diagnostic(code, message, (), (hint,))])
