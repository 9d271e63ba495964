"""Bundles: exported kernels with their machine code, loaded and called without a compiler."""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyloop.export.described import Array, Bound, Described, Passed, bound, call_error, described
from polyloop.export.manifest import Manifest, bundle_error, read_file, read_manifest
from polyloop.runtime.calls import Result

__all__ = ["LoadedKernel", "load"]

_CODES: Final = {
    "null_pointer": "missing-argument", "misaligned": "misaligned-argument", "bad_size": "wrong-shape",
    "overlapping_arguments": "overlapping-arguments", "overlapping_elements": "overlapping-elements",
    "assumption": "assumption-violated", "index_overflow": "index-overflow", "no_memory": "too-large",
    "grid_too_large": "grid-too-large", "device_error": "driver-failed",
}  # fmt: skip
"""Codes of diagnostics, by the kinds of statuses of exported functions."""
_ALIGNMENT: Final = 64


class LoadedKernel:
    """A kernel of a bundle, which is called with arrays by name; made by :func:`polyloop.load`.

    ::

        run = pl.load("build/axpy")
        y = run(x=x, a=2.0).y

    Sizes that are not passed are solved from the shapes of arrays. Outputs of a kernel for the CPU that are not passed
    are allocated; a kernel for CUDA takes all arrays, as objects with ``__cuda_array_interface__``, and ``stream``, the
    handle of a stream. The result has every output as an attribute.

    A call raises :class:`ArgumentError` where the arguments do not fit the kernel.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._program: Described = described(manifest)
        self._target = manifest.target
        self._statuses = _statuses(manifest)
        if self._target == "c":
            self._function = _function(manifest, self._program)
        else:
            self._device = import_module("polyloop.export.device").DeviceCode(manifest, self._program)

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self._program.parameters)
        return f"<LoadedKernel '{self._program.kernel}' for {self._target}: {names}>"

    def __call__(self, /, **arguments: Any) -> Result:
        """Run the kernel."""
        program = self._program
        stream = None if any(e.name == "stream" for e in program.parameters) else arguments.pop("stream", None)
        view = self._host_array if self._target == "c" else self._device.view
        passed = {a.name: view(a, arguments[a.name]) for a in program.arrays if arguments.get(a.name) is not None}
        call = bound(program, arguments, passed)
        if self._target == "c":
            if stream is not None:
                raise call_error(program.kernel, "no-stream", "a kernel of the C target has no stream", "",
                                 "leave out stream=")
            arrays = {**call.arrays, **{name: _allocated(program, name, call) for name in call.missing}}
            self._run(call, arrays)
        else:
            arrays = dict(call.arrays)
            self._device.run(call, stream)
        return Result.of({array.name: arrays[array.name].owner for array in program.arrays if array.is_output})

    def _host_array(self, array: Array, given: Any) -> Passed:
        """Return the view of a NumPy array."""
        kernel, name = self._program.kernel, array.name
        if not isinstance(given, np.ndarray) or hasattr(given, "mask"):
            raise call_error(kernel, "wrong-type", f"'{name}' must be an array",
                             f"it is a {type(given).__module__}.{type(given).__qualname__}", f"pass np.asarray({name})")
        size = given.itemsize
        if any(stride % size for stride in given.strides):
            raise call_error(kernel, "wrong-strides", f"the elements of '{name}' are not a whole number of elements "
                             "apart", "", f"pass np.ascontiguousarray({name})")
        strides = tuple(stride // size for stride in given.strides)
        return Passed(given.ctypes.data, given.dtype, given.shape, strides, given.flags.writeable, given)

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


def _allocated(program: Described, name: str, call: Bound) -> Passed:
    """Return a new array for an output, or for scratch, aligned for vector instructions."""
    shape, strides = call.missing[name]
    dtype = next(array.dtype for array in program.arrays if array.name == name)
    low, high = Passed(0, np.dtype(np.uint8), shape, strides, True, None).byte_range()
    try:
        raw = np.empty((high - low) * dtype.itemsize + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise call_error(program.kernel, "too-large", f"'{name}' of shape {shape} cannot be allocated",
                         str(error)) from None
    start = -raw.ctypes.data % _ALIGNMENT - low * dtype.itemsize
    array = np.ndarray(shape, dtype, raw, start, tuple(stride * dtype.itemsize for stride in strides))
    return Passed(array.ctypes.data, dtype, shape, strides, True, array)
