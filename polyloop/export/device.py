"""Cubins and PTX of a bundle, loaded and launched by the CUDA driver."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

from polyloop.errors import CompilerError, Diagnostic
from polyloop.export.described import Bound, Described, Passed, call_error
from polyloop.export.manifest import Manifest, bundle_error, read_file
from polyloop.export.trees import Tree, is_tree, value
from polyloop.runtime.cuda.driver import DriverFunctions
from polyloop.runtime.foreign.readers import is_device_array
from polyloop.runtime.foreign.view import ArrayView, type_note
from polyloop.runtime.gpuarrays import DeviceMemory, current_stream

__all__ = ["DeviceCode"]

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, .._MINOR
_CONTEXT, _ORDINAL = 1, 9  # CU_POINTER_ATTRIBUTE_CONTEXT, .._DEVICE_ORDINAL
_DEFAULT_SHARED: Final = 48 * 1024
_ARCHITECTURE: Final = re.compile(r"sm_(\d+)(\d)([af]?)")
_NARROW: Final = 32


@dataclass(frozen=True)
class _Launch:
    """A launch of a bundle; ``around`` are loops of the host: iname, lower and upper bound, step, place.

    It runs where ``condition`` is not 0.
    """

    function: str
    grid: tuple[Tree, Tree, Tree]
    block: tuple[int, int, int]
    shared: int
    arguments: tuple[str, ...]
    around: tuple[tuple[str, Tree, Tree, int, int], ...]
    max_grid: tuple[int, int, int]
    condition: Tree


def _launches(data: Mapping[str, Any], program: Described) -> Iterator[_Launch]:
    known = program.integers
    for entry in data["launches"]:
        around = tuple((str(i), low, high, int(step), int(place)) for i, low, high, step, place in entry["around"])
        (x, y, z), (bx, by, bz), (mx, my, mz) = entry["grid"], entry["block"], entry["max_grid"]
        inames = known | {loop[0] for loop in around}
        condition = entry.get("condition", 1)
        trees = (x, y, z, condition, *(bound for loop in around for bound in loop[1:3]))
        names = {e.name for e in (*program.parameters, *program.workspace)} | inames
        arguments = tuple(map(str, entry["arguments"]))
        if not all(is_tree(tree, inames) for tree in trees) or not names.issuperset(arguments) \
                or any(loop[3] < 1 for loop in around):
            raise ValueError(f"the launch {entry['function']!r}")
        yield _Launch(str(entry["function"]), (x, y, z), (int(bx), int(by), int(bz)),
                      int(entry["dynamic_shared_bytes"]), arguments, around, (int(mx), int(my), int(mz)), condition)


def _holds(condition: Tree, values: Mapping[str, int]) -> bool:
    try:
        return bool(value(condition, values))
    except ZeroDivisionError:
        return False  # no instance runs, or what it does is not defined


class DeviceCode:
    """The machine code of a bundle for CUDA, loaded into each context that calls it."""

    def __init__(self, manifest: Manifest, program: Described) -> None:
        data, self._program = manifest.data, program
        try:
            self._launches = tuple(_launches(data, program))
            self._checks = [(str(c["code"]), c["condition"], str(c["text"]), str(c["message"]), str(c["hint"]))
                            for c in data["checks"]]
            code = data["bundle"]
            self._cubins = {str(arch): read_file(manifest, name) for arch, name in code["cubins"].items()}
            self._ptx, self._ptx_for = read_file(manifest, code["ptx"]), str(code["ptx_architecture"])
            self._index = np.int32 if data["index_bits"] == _NARROW else np.int64
            if not all(is_tree(check[1], program.integers) for check in self._checks):
                raise ValueError("a condition on sizes")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise bundle_error(None, "bundle-damaged", "the manifest does not describe launches",
                               f"{type(error).__name__}: {error}"[:200]) from None
        self._loaded: dict[int, dict[str, ctypes.c_void_p]] = {}
        self._primary: dict[int, ctypes.c_void_p] = {}
        self._driver: DriverFunctions | None = None
        self.memory = DeviceMemory()

    def view(self, kernel: str, name: str, given: object) -> ArrayView:
        """Return the view of an array in the memory of the GPU."""
        if not is_device_array(given):
            raise call_error(kernel, "wrong-device", f"'{name}' is in no memory of a GPU", type_note(given),
                             "copy it there: a bundle copies nothing")
        return self.memory.view(kernel, name, given)

    def run(
        self, call: Bound, arrays: Mapping[str, Passed], stream: object, views: Mapping[str, ArrayView]
    ) -> None:
        """Check sizes and addresses, and run all launches on *stream*.

        Parameters
        ----------
        arrays
            All arrays of the call.
        views
            Those that it was passed; their library says on which stream it runs, where *stream* is None.

        Raises
        ------
        ArgumentError
            ``missing-argument``, ``assumption-violated``, ``index-overflow``, ``grid-too-large``,
            ``misaligned-argument``, ``overlapping-arguments``, ``wrong-type``, ``wrong-device``.
        CompilerError
            ``no-gpu``, ``foreign-bundle``, ``driver-failed``.
        """
        kernel = self._program.kernel
        for code, condition, text, message, hint in self._checks:
            if not value(condition, call.sizes):
                raise call_error(kernel, code, message, f"{text} is false", hint)
        self._check_addresses(arrays)
        launches = [*self._steps(self._launches, 0, dict(call.sizes))]
        for launch, grid, _ in launches:
            if any(blocks > most for blocks, most in zip(grid, launch.max_grid, strict=True)):
                raise call_error(kernel, "grid-too-large", f"launch '{launch.function}' has the grid {grid}",
                                 f"a device can have {launch.max_grid}", "pass smaller arrays")
        if not launches:
            return
        handle = self._stream(current_stream(views.values()) if stream is None else stream)
        driver = self._opened()
        with self._context(driver, arrays) as (context, device):
            functions = self._loaded.get(context) or self._load(driver, context, device)
            for ready in sorted({view.stream for view in arrays.values() if view.stream is not None} - {handle}):
                if {ready, handle} != {0, 1}:  # both are the default stream
                    driver.order(ready, handle)
            with self._of_the_context(driver, handle), self._workspace(driver, call, handle) as spaces:
                for launch, grid, inames in launches:
                    values = self._values(call, arrays, spaces, inames)
                    self._start(driver, functions[launch.function], launch, grid, values, handle)
                if any(view.kind.is_jax for view in views.values()):  # which gives memory away by streams of its own
                    driver.synchronize(handle)

    @contextlib.contextmanager
    def inside(self, arrays: Mapping[str, Passed]) -> Iterator[None]:
        """Make the context of the arrays current."""
        with self._context(self._opened(), arrays):
            yield

    @contextlib.contextmanager
    def _of_the_context(self, driver: DriverFunctions, stream: int) -> Iterator[None]:
        """Say so where the driver refuses a stream because it is of another context than the current one."""
        try:
            yield
        except CompilerError:
            if not stream or driver.is_here(stream):
                raise
            raise call_error(self._program.kernel, "wrong-device",
                             "the stream is of another CUDA context than the arrays", "",
                             "pass a stream of their context") from None

    def _check_addresses(self, arrays: Mapping[str, Passed]) -> None:
        kernel = self._program.kernel
        ranges = {name: view.byte_range() for name, view in arrays.items()}
        for array in self._program.arrays:
            low, high = ranges[array.name]
            if arrays[array.name].pointer % array.alignment:
                raise call_error(kernel, "misaligned-argument",
                                 f"'{array.name}' does not begin at a multiple of {array.alignment} bytes")
            if array.is_written and arrays[array.name].may_share:
                raise call_error(kernel, "overlapping-elements",
                                 f"'{array.name}' is written, and two of its elements may have one address")
            for other, (other_low, other_high) in ranges.items():
                if array.is_written and other != array.name and low < other_high and other_low < high:
                    message, hint = f"'{array.name}' is written and overlaps '{other}'", f"pass a copy of '{other}'"
                    raise call_error(kernel, "overlapping-arguments", message, "", hint)

    def _stream(self, stream: object) -> int:
        if stream is None:
            return 0
        if isinstance(stream, int) and not isinstance(stream, bool):
            return stream
        if callable(protocol := getattr(stream, "__cuda_stream__", None)):
            return int(protocol()[1])
        for attribute in ("cuda_stream", "ptr", "handle"):
            if isinstance(found := getattr(stream, attribute, None), int):
                return found
        raise call_error(self._program.kernel, "wrong-type", f"'stream' is no CUDA stream: {stream!r}"[:120], "",
                         "pass a stream of PyCUDA, Torch or CuPy, or its handle")

    def _steps(
        self, launches: Sequence[_Launch], depth: int, values: dict[str, int]
    ) -> Iterator[tuple[_Launch, tuple[int, int, int], dict[str, int]]]:
        """Yield launches with their grids and the values of all integers, in their order."""
        for loop, group in groupby(launches, key=lambda each: each.around[depth] if each.around[depth:] else None):
            members = [*group]
            if loop is not None:
                name, lower, upper, step, _ = loop
                for number in range(value(lower, values), value(upper, values), step):
                    yield from self._steps(members, depth + 1, {**values, name: number})
                continue
            for launch in members:
                x, y, z = (value(extent, values) for extent in launch.grid)
                if min(x, y, z) > 0 and _holds(launch.condition, values):
                    yield launch, (x, y, z), values

    def _values(
        self, call: Bound, arrays: Mapping[str, Passed], spaces: Mapping[str, int], integers: Mapping[str, int]
    ) -> dict[str, np.generic]:
        """Return the arguments of functions, by name."""
        found: dict[str, np.generic] = {name: self._index(number) for name, number in integers.items()
                                        if name not in call.sizes}
        found |= call.numbers
        for array in (*self._program.arrays, *self._program.workspace):
            first = spaces[array.name] if array.name in spaces else arrays[array.name].pointer
            found[array.name] = np.uint64(first - value(array.offset, call.sizes) * array.dtype.itemsize)
        return found

    def _start(self, driver: DriverFunctions, function: ctypes.c_void_p, launch: _Launch, grid: tuple[int, int, int],
               values: Mapping[str, np.generic], stream: int) -> None:
        cells = [ctypes.create_string_buffer(values[name].tobytes()) for name in launch.arguments]
        pointers = (ctypes.c_void_p * max(1, len(cells)))(*map(ctypes.addressof, cells))
        sizes = map(ctypes.c_uint, (*grid, *launch.block, launch.shared))
        driver.call("cuLaunchKernel", function, *sizes, ctypes.c_void_p(stream), pointers, None)

    def _opened(self) -> DriverFunctions:
        """Return the driver, initialised."""
        if self._driver is None:
            try:
                driver = DriverFunctions()
                driver.call("cuInit", ctypes.c_uint(0))
            except (OSError, CompilerError) as error:
                raise CompilerError("call", self._program.kernel, [Diagnostic(
                    "no-gpu", "a CUDA kernel was called, and there is no usable GPU", (str(error),),
                    ("export for the C target to run on the CPU",))]) from None
            self._driver = driver
        return self._driver

    @contextlib.contextmanager
    def _context(self, driver: DriverFunctions, arrays: Mapping[str, Passed]) -> Iterator[tuple[int, int]]:
        """Make the context of the arrays current; give its handle and the device."""
        context, ordinal, device = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        for view in (view for view in arrays.values() if view.pointer):
            address = ctypes.c_uint64(view.pointer)
            driver.call("cuPointerGetAttribute", ctypes.byref(context), ctypes.c_int(_CONTEXT), address)
            driver.call("cuPointerGetAttribute", ctypes.byref(ordinal), ctypes.c_int(_ORDINAL), address)
            break
        driver.call("cuDeviceGet", ctypes.byref(device), ordinal)
        if not context.value:  # memory of a pool, or no array
            context = self._primary_of(driver, device)
        driver.call("cuCtxPushCurrent_v2", context)
        try:
            yield context.value or 0, device.value
        finally:
            driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _primary_of(self, driver: DriverFunctions, device: ctypes.c_int) -> ctypes.c_void_p:
        """Return the primary context of a device, which is kept from the first call on."""
        if device.value not in self._primary:
            context = ctypes.c_void_p()
            driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._primary[device.value] = context
        return self._primary[device.value]

    def _load(self, driver: DriverFunctions, context: int, device: int) -> dict[str, ctypes.c_void_p]:
        """Load the code for a device into the current context."""
        numbers = []
        for attribute in (_MAJOR, _MINOR):
            number = ctypes.c_int()
            driver.call("cuDeviceGetAttribute", ctypes.byref(number), ctypes.c_int(attribute), ctypes.c_int(device))
            numbers.append(number.value)
        names = [*dict.fromkeys(launch.function for launch in self._launches)]
        _, functions = driver.load(self.code_for(numbers[0], numbers[1]), names)
        for launch in self._launches:
            if launch.shared > _DEFAULT_SHARED:
                driver.allow_shared(functions[launch.function], launch.shared)
        self._loaded[context] = functions
        return functions

    def code_for(self, major: int, minor: int) -> bytes:
        """Return the cubin for a device of that compute capability, or the PTX, which the driver compiles.

        A cubin runs on devices of its major version and no smaller minor one, that of ``sm_90a`` on 9.0 alone: CUDA C++
        Programming Guide, "Application Compatibility".

        Raises
        ------
        CompilerError
            ``foreign-bundle``.
        """
        fitting = []
        for name, cubin in self._cubins.items():
            found = _ARCHITECTURE.fullmatch(name)
            if found is None:
                continue
            own_major, own_minor, own_kind = int(found[1]), int(found[2]), found[3]
            if own_major == major and (own_minor == minor if own_kind else own_minor <= minor):
                fitting.append((own_minor, own_kind, cubin))
        if fitting:
            return max(fitting, key=lambda entry: entry[:2])[2]
        found = _ARCHITECTURE.fullmatch(self._ptx_for)
        if found is not None and not found[3] and (int(found[1]), int(found[2])) <= (major, minor):
            return self._ptx + b"\0"
        raise bundle_error(
            self._program.kernel, "foreign-bundle", f"the bundle has no code for a device of compute capability "
            f"{major}.{minor}", f"it has cubins for {', '.join(self._cubins)}, and PTX for {self._ptx_for}")

    @contextlib.contextmanager
    def _workspace(self, driver: DriverFunctions, call: Bound, stream: int) -> Iterator[dict[str, int]]:
        """Allocate temporary arrays in the order of *stream*."""
        spaces: dict[str, int] = {}
        try:
            for array in self._program.workspace:
                shape, strides = (tuple(value(t, call.sizes) for t in trees) for trees in (array.shape, array.strides))
                view = Passed(0, array.dtype, tuple(max(0, extent) for extent in shape), strides, True, None)
                low, high = view.byte_range()
                pointer, size = ctypes.c_uint64(), ctypes.c_size_t(max(1, high - low))
                driver.call("cuMemAllocAsync", ctypes.byref(pointer), size, ctypes.c_void_p(stream))
                spaces[array.name] = pointer.value
                if array.name in self._program.zeroed:
                    driver.call("cuMemsetD8Async", pointer, ctypes.c_ubyte(0), size, ctypes.c_void_p(stream))
            yield spaces
        finally:
            for address in spaces.values():
                driver.call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))
