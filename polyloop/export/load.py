"""Bundles: exported kernels with their machine code, loaded and called without a compiler."""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyloop.display import Shown
from polyloop.edge.first import imported
from polyloop.export.described import Array, Bound, Described, Passed, bound, call_error, described, passed
from polyloop.export.manifest import Manifest, bundle_error, read_file, read_manifest
from polyloop.runtime.calls import Result
from polyloop.runtime.views import ArrayView, HostMemory, place_of

__all__ = ["LoadedKernel", "load"]

_CODES: Final = {
    "null_pointer": "missing-argument", "misaligned": "misaligned-argument", "bad_size": "wrong-shape",
    "overlapping_arguments": "overlapping-arguments", "overlapping_elements": "overlapping-elements",
    "assumption": "assumption-violated", "index_overflow": "index-overflow", "no_memory": "too-large",
    "grid_too_large": "grid-too-large", "device_error": "driver-failed",
}  # fmt: skip
"""Codes of diagnostics, by the kinds of statuses of exported functions."""


class LoadedKernel(Shown):
    """A kernel of a bundle, which is called with arrays by name; made by :func:`polyloop.load`.

    ::

        run = pl.load("build/axpy")
        y = run(x=x, a=2.0).y

    Sizes that are not passed are solved from the shapes of arrays. Arrays are those of any library, as for a compiled
    kernel: NumPy, Torch, JAX, CuPy, PyCUDA, or what has DLPack or ``__cuda_array_interface__``; those of a kernel for
    CUDA are in the memory of a GPU. Outputs that are not passed are allocated, in the kind of the inputs. A kernel for
    CUDA takes ``stream``; by default it runs on the stream that the arrays' library is using. The result has every
    output as an attribute.

    A copy is the kernel itself. It cannot be pickled: send the folder of the bundle.

    A call raises :class:`ArgumentError` where the arguments do not fit the kernel.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._program: Described = described(manifest)
        self._target = manifest.target
        self._statuses = _statuses(manifest)
        self._memory = HostMemory()
        if self._target == "c":
            self._function = _function(manifest, self._program)
        else:
            self._device = imported("polyloop.export.device").DeviceCode(manifest, self._program)

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self._program.parameters)
        return f"<LoadedKernel '{self._program.kernel}' for {self._target}: {names}>"

    def __call__(self, /, **arguments: Any) -> Result:
        """Run the kernel."""
        program = self._program
        stream = None if any(e.name == "stream" for e in program.parameters) else arguments.pop("stream", None)
        if self._target == "c" and stream is not None:
            raise call_error(program.kernel, "no-stream", "a kernel of the C target has no stream", "",
                             "leave out stream=")
        view = self._memory.view if self._target == "c" else self._device.view
        views = {a.name: view(program.kernel, a.name, arguments[a.name])
                 for a in program.arrays if arguments.get(a.name) is not None}
        call = bound(program, arguments, {a.name: passed(a, views[a.name]) for a in program.arrays if a.name in views})
        with nullcontext() if self._target == "c" or not call.missing else self._device.inside(call.arrays):
            made = {name: self._allocated(name, call, views) for name in call.missing}
        arrays = {**call.arrays, **made}
        if self._target == "c":
            self._run(call, arrays)
        else:
            self._device.run(call, arrays, stream, views)
        return Result.of({array.name: arrays[array.name].owner for array in program.arrays if array.is_output})

    def __copy__(self) -> LoadedKernel:
        return self

    def __deepcopy__(self, _: object) -> LoadedKernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise call_error(self._program.kernel, "not-picklable", "a loaded bundle cannot be pickled: it is machine code",
                         "", "send its folder, and load it there: pl.load(..)")

    def _allocated(self, name: str, call: Bound, views: Mapping[str, ArrayView]) -> Passed:
        """Return a new array for an output, or for scratch, in the kind of the arrays that were passed."""
        kernel, (shape, strides) = self._program.kernel, call.missing[name]
        array = next(array for array in self._program.arrays if array.name == name)
        kind, device = place_of(kernel, views)
        memory = self._memory if self._target == "c" else self._device.memory
        if self._target != "c" and not kind.on_device:
            raise call_error(kernel, "missing-argument", f"the array '{name}' was not passed",
                             "no array says in which library to allocate it", f"pass {name}=")
        try:
            return passed(array, memory.allocate(
                kernel, kind, device, dtype=array.dtype, shape=shape, strides=strides, poison=False))
        except (MemoryError, ValueError, OverflowError) as error:
            raise call_error(kernel, "too-large", f"'{name}' of shape {shape} cannot be allocated",
                             str(error)) from None

    def _run(self, call: Bound, arrays: Mapping[str, Passed]) -> None:
        values = [arrays[entry.name].pointer if isinstance(entry, Array) else call.numbers[entry.name].item()
                  for entry in self._program.parameters]
        status = self._function(*values)
        if status:
            kind, text = self._statuses[status]
            raise call_error(self._program.kernel, _CODES[kind], text, self._sizes(call),
                             "pass arguments that the kernel was made for")

    def _sizes(self, call: Bound) -> str:
        found = ", ".join(f"{name} = {number}" for name, number in sorted(call.sizes.items()))
        return f"called with {found}" if found else ""


def load(directory: str | Path) -> LoadedKernel:
    """Return the kernel of the bundle in *directory*, which ``pl.export(.., bundle=True)`` made.

    It needs no compiler, and imports neither islpy nor pymbolic. A bundle is code: load those of people whose programs
    you would run. Reading the manifest executes nothing; machine code is loaded when all hashes are right.

    ::

        pl.export(knl, "build/axpy", target=pl.CTarget(), bundle=True)      # before: here, with a compiler
        y = pl.load("build/axpy")(x=x, a=2.0).y                             # after: there, without

    Raises
    ------
    CompilerError
        ``no-bundle``: no manifest, or no machine code; ``bundle-version``: another format; ``bundle-damaged``: a file
        is missing, truncated or changed; ``foreign-bundle``: machine code for another system, or no GPU; ``no-gpu``.
    """
    manifest = read_manifest(directory)
    if "bundle" not in manifest.data:
        raise bundle_error(manifest.kernel, "no-bundle", f"'{manifest.folder}' holds sources and no machine code")
    if manifest.target not in ("c", "cuda"):
        raise bundle_error(manifest.kernel, "bundle-damaged", f"there is no target '{manifest.target}'"[:80])
    for name in manifest.data["files"]:
        read_file(manifest, name)
    return LoadedKernel(manifest)


def _statuses(manifest: Manifest) -> dict[int, tuple[str, str]]:
    """Return kind and text of each status."""
    try:
        found = {int(number): (str(kind), str(text)) for number, (kind, text) in manifest.data["statuses"].items()}
    except (TypeError, ValueError):
        found = {0: ("", "")}
    if unknown := {kind for kind, _ in found.values()} - _CODES.keys():
        raise bundle_error(manifest.kernel, "bundle-damaged", "the manifest has statuses of other kinds",
                           ", ".join(sorted(unknown))[:100])
    return found


def _function(manifest: Manifest, program: Described) -> Any:
    """Return the function of the shared object."""
    code = manifest.data["bundle"]
    library = str(code.get("library"))
    built, here = (str(code.get("system")), str(code.get("machine"))), (sys.platform, platform.machine())
    if built != here:
        raise bundle_error(program.kernel, "foreign-bundle", f"the bundle '{manifest.folder}' is for another machine",
                           f"it is for {' on '.join(built)}, this is {' on '.join(here)}")
    # from a private file, so that what is loaded is what was checked
    descriptor, path = import_module("tempfile").mkstemp(suffix=".so", prefix="polyloop-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(read_file(manifest, library))
        function = ctypes.CDLL(path)[manifest.data["prefix"]]
    except OSError as error:
        raise bundle_error(program.kernel, "foreign-bundle", "the system does not load the shared object",
                           str(error)) from None
    except AttributeError as error:
        raise bundle_error(program.kernel, "bundle-damaged", "the shared object has no such function",
                           str(error)) from None
    finally:
        os.unlink(path)
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p if isinstance(entry, Array) else np.ctypeslib.as_ctypes_type(entry.passed)
                         for entry in program.parameters]
    return function
