"""Export of kernels: sources with a C interface, and bundles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, HostCondition
from polyloop.edge.checks import OneOf
from polyloop.errors import CodegenError, CompilerError, Diagnostic, PolyloopError
from polyloop.export.binaries import binaries, given_architectures
from polyloop.export.build import cmake_text, pkg_config_text
from polyloop.export.header import header_text
from polyloop.export.interface import Array, Interface, interface_of, loops_of, refused, tree_of
from polyloop.export.manifest import MANIFEST, manifest_text
from polyloop.export.opencl import program_texts
from polyloop.export.status import statuses
from polyloop.export.trees import Tree
from polyloop.expr.dtypes import dtype_name
from polyloop.expr.names import RESERVED
from polyloop.expr.printer import show
from polyloop.expr.records import is_record
from polyloop.frozen import replace
from polyloop.kernel.arrays import ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.target.base import Target, target_of
from polyloop.target.cuda import CudaTarget, with_standard_halves
from polyloop.target.source import generate_code

__all__ = ["export"]

_PREFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SUFFIX: Final = {"c": "c", "cuda": "cu", "opencl": "cl"}
_VERSION: Final = "0.1.0"
_OWN_HALVES: Final = re.compile(r"^struct b?float16 \{", re.MULTILINE)
"""Definitions that make a text independent of headers; a bundle is compiled of it, where there may be no toolkit."""


def export(
    kernel: LoopKernel, directory: str | Path, target: Target | None = None, *, prefix: str | None = None,
    index_bits: Annotated[int, OneOf(32, 64)] | None = None, bundle: bool = False,
    architectures: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Write *kernel* to *directory* as source with a C interface, for programs that need neither Python nor polyloop.

    ::

        pl.export(knl, "build/axpy", target=pl.CTarget())

        # before: int(n), pointers and assumptions checked by run(x=x, y=y, n=n)
        # after, in C: int status = axpy(x, y, n);   0, or a status for axpy_status_text(status)

    The files are the text of the kernel (``axpy_kernel.c``, or ``.cu`` with the 16-bit types of ``cuda_fp16.h`` and
    ``cuda_bf16.h``); a header (``axpy.h``) and a launcher (``axpy.c``), in C for CUDA too, which checks sizes,
    pointers, alignment, overlap and assumptions, computes grids, and runs the launches with the loops of the host
    around them;
    ``CMakeLists.txt`` and ``axpy.pc.in`` for pkg-config; and ``manifest.json``, with the hash of each file.

    Parameters
    ----------
    directory
        Made if it does not exist; files of an earlier export there are replaced.
    target
        As for :func:`polyloop.generate_code`.
    prefix
        Name of the function in C, and the beginning of all other names that a linker sees; by default the kernel's
        name.  Kernels can be linked into one program if no prefix is that of another with ``_kernel`` behind it.
    index_bits
        Width of index arithmetic [bits]: 32 or 64.  With 32 a call with larger arrays returns ``.._INDEX_OVERFLOW``.
    bundle
        Whether to compile: to a shared object, or cubins and PTX.  :func:`polyloop.load` runs the folder then.
    architectures
        For a bundle for CUDA: as ``["sm_80", "sm_90"]``, by default that of the target.  PTX is that of the first.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    VerificationError, CodegenError
        As :func:`polyloop.generate_code`; ``not-exportable``, ``bad-prefix``.
    CompilerError
        ``cannot-write``; for a bundle, as :func:`polyloop.compile`.
    """
    chosen = target_of(kernel, target) or CudaTarget()
    name = kernel.name if prefix is None else prefix
    if _PREFIX.fullmatch(name) is None or name in RESERVED | {"main"}:
        raise CodegenError("export", kernel.name, [Diagnostic(
            "bad-prefix", f"{name!r} can be no name of a function in C", (), ('pass a name: prefix="my_kernel"',))])
    given = given_architectures(kernel.name, chosen, architectures, bundle=bundle)
    program = _program(kernel, name, chosen, index_bits)
    interface = interface_of(program, name)
    source = f"{name}_kernel.{_SUFFIX[program.target]}"
    text, launcher = program_texts(interface, source, chosen.arch)
    if interface.is_cuda and _OWN_HALVES.search(text):
        text = _program(kernel, name, with_standard_halves(chosen), index_bits).device_code
    files = {
        source: text,
        f"{name}.h": header_text(interface),
        f"{name}.c": launcher,
        "CMakeLists.txt": cmake_text(interface, source, chosen.arch),
        f"{name}.pc.in": pkg_config_text(interface, _VERSION),
    }
    content = {file: text.encode() for file, text in files.items()}
    data = _described(interface, chosen)
    if bundle and interface.is_opencl:
        raise refused(program, "a bundle has machine code, and OpenCL's is made by the driver of a device",
                      "the exported source is built at its first call", "leave out bundle=True")
    if bundle and interface.is_cuda and (asked := _asked(program)):
        raise refused(program, f"the host decides whether a launch runs: {asked}",
                      "a bundle describes sizes, not other numbers", "leave out bundle=True, and build the source")
    if bundle:
        if records := [array.name for array in interface.arrays if is_record(array.dtype)]:
            raise refused(program, f"'{records[0]}' is an array of records", "a bundle cannot describe its type",
                          "leave out bundle=True, and build the source")
        made, code = binaries(interface, content, given)
        content |= made
        data["bundle"] = code
    return _written(Path(directory), content, manifest_text(data, content))


def _asked(program: GeneratedProgram) -> str:
    """Return a condition of the host that a bundle cannot hold, empty if there is none.

    Of those that read memory, threads ask, too.
    """
    conditions = (c for launch in program.launches for c in _conditions(launch))
    return next((c.text for c in conditions if not c.elements and not c.is_whole), "")


def _conditions(launch: DeviceLaunch) -> Iterator[HostCondition]:
    """Yield the conditions of a launch, and of the loops around it."""
    yield from (c for c in (launch.condition, *(loop.test for loop in launch.around)) if c is not None)


def _condition_of(program: GeneratedProgram, launch: DeviceLaunch) -> Tree:
    """Return the condition on sizes under which a launch runs; a loop that ends has no further launches, either."""
    found = [tree_of(program, c.condition) for c in _conditions(launch) if c.is_whole]
    return 1 if not found else found[0] if len(found) == 1 else ["and", *found]


def _program(kernel: LoopKernel, prefix: str, target: Target, index_bits: int | None) -> GeneratedProgram:
    """Return the program, with the prefix in all names that a linker sees: functions are named after the kernel."""
    try:
        named = generate_code(replace(kernel, name=f"{prefix}_kernel"), target, index_bits=index_bits)
    except PolyloopError:
        generate_code(kernel, target, index_bits=index_bits)  # the same error, with the user's name
        raise
    return replace(named, kernel=kernel.name)


def _written(folder: Path, content: Mapping[str, bytes], manifest: str) -> Path:
    """Write files; the manifest last, so that a folder that was not finished is no bundle."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        for name, text in content.items():
            (folder / name).write_bytes(text)
        (folder / MANIFEST).write_text(manifest, encoding="utf-8")
    except (OSError, ValueError) as error:  # of a zero in a name
        raise CompilerError("export", None, [Diagnostic(
            "cannot-write", f"the files of an export cannot be written to '{folder}'", (str(error),),
            ("name a folder that is there or can be made, and that can be written to",))]) from None
    return folder


def _described(interface: Interface, target: Target) -> dict[str, Any]:
    """Return the entries of a manifest that describe a program."""
    program = interface.program

    def array(entry: Array) -> dict[str, Any]:
        dtype = f"V{entry.dtype.itemsize}" if is_record(entry.dtype) else dtype_name(entry.dtype)
        return {
            "kind": "array", "name": entry.name, "dtype": dtype, "shape": list(entry.shape),
            "strides": list(entry.strides), "offset": entry.offset, "alignment": entry.alignment,
            "is_read": entry.is_read, "is_written": entry.is_written,
            "is_output": entry.name in outputs,
        }  # fmt: skip

    outputs = {argument.name for argument in program.arguments if getattr(argument, "is_output", False)}
    parameters = [array(e) if isinstance(e, Array) else {"kind": "value", "name": e.name, "dtype": e.dtype.name}
                  for e in interface.parameters]
    launches = [
        {"function": launch.name, "grid": [tree_of(program, extent) for extent in launch.grid],
         "block": list(launch.block), "dynamic_shared_bytes": launch.dynamic_shared_bytes,
         "arguments": list(launch.arguments), "around": loops_of(program, launch),
         "condition": _condition_of(program, launch),
         "max_grid": list(launch.max_grid or (2**31 - 1, 65535, 65535))}
        for launch in program.launches
    ]  # fmt: skip
    zeroed = {"zeroed": list(program.zeroed)} if program.zeroed else {}
    return {
        "version": _VERSION, "kernel": program.kernel, "target": program.target, "architecture": target.arch,
        "prefix": interface.prefix, "index_bits": program.index_bits, "parameters": parameters,
        "layouts": [a.name for a in program.arguments if isinstance(a, ValueArg) and a.layout_of is not None],
        "workspace": [array(entry) for entry in interface.workspace], **zeroed,
        "checks": [
            {"code": check.code, "condition": tree_of(program, check.condition), "text": show(check.condition),
             "message": check.message, "hint": check.hint}
            for check in (*program.checks, *program.index_checks)
        ],
        "launches": launches if interface.is_cuda or interface.is_opencl else [],
        "statuses": {str(s.value): [s.kind, s.text] for s in statuses(interface)},
    }  # fmt: skip
