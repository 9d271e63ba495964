"""Cubins and PTX of a bundle, loaded and launched by the CUDA driver."""
# ruff: noqa: ANN401  # arrays of libraries without types

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
from polyloop.export.described import Array, Bound, Described, Passed, call_error
from polyloop.export.manifest import Manifest, bundle_error, read_file
from polyloop.export.trees import Tree, is_tree, value
from polyloop.runtime.cuda.driver import DriverFunctions

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

    def view(self, array: Array, given: Any) -> Passed:
        """Return the view of an array in the memory of the GPU."""
        kernel, name = self._program.kernel, array.name
        found = getattr(given, "__cuda_array_interface__", None)
        if found is None:
            raise call_error(kernel, "wrong-device", f"'{name}' is in no memory of a GPU",
                             f"it is a {type(given).__module__}.{type(given).__qualname__}",
                             "pass an array with __cuda_array_interface__")
        dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
        if found.get("strides") is None:
            strides = tuple(int(np.prod(shape[axis + 1:], dtype=np.int64)) for axis in range(len(shape)))
        elif any(stride % dtype.itemsize for stride in found["strides"]):
            raise call_error(kernel, "wrong-strides", f"'{name}' is not a whole number of elements apart")
        else:
            strides = tuple(stride // dtype.itemsize for stride in found["strides"])
        if dtype.kind == "V" and dtype.itemsize == array.dtype.itemsize:
            dtype = array.dtype  # the protocol has no name for bfloat16 and floats of 8 bits
        pointer, is_read_only = found["data"]
        return Passed(int(pointer or 0), dtype, shape, strides, not is_read_only, given, found.get("stream"))

    def run(self, call: Bound, stream: object) -> None:
        """Check sizes and addresses, and run all launches on *stream*.

        Raises
        ------
        ArgumentError
            ``missing-argument``, ``assumption-violated``, ``index-overflow``, ``grid-too-large``,
            ``misaligned-argument``, ``overlapping-arguments``, ``wrong-type``, ``wrong-device``.
        CompilerError
            ``no-gpu``, ``foreign-bundle``, ``driver-failed``.
        """
        kernel = self._program.kernel
        for name in call.missing:
            raise call_error(kernel, "missing-argument", f"the array '{name}' was not passed",
                             "a bundle for CUDA allocates no outputs", f"pass {name}=")
        for code, condition, text, message, hint in self._checks:
            if not value(condition, call.sizes):
                raise call_error(kernel, code, message, f"{text} is false", hint)
        self._check_addresses(call)
        launches = [*self._steps(self._launches, 0, dict(call.sizes))]
        for launch, grid, _ in launches:
            if any(blocks > most for blocks, most in zip(grid, launch.max_grid, strict=True)):
                raise call_error(kernel, "grid-too-large", f"launch '{launch.function}' has the grid {grid}",
                                 f"a device can have {launch.max_grid}", "pass smaller arrays")
        if not launches:
            return
        handle = self._stream(stream)
        driver = self._opened()
        with self._context(driver, call) as (context, device):
            functions = self._loaded.get(context) or self._load(driver, context, device)
            for ready in sorted({view.stream for view in call.arrays.values() if view.stream is not None} - {handle}):
                driver.order(ready, handle)
            with self._of_the_context(driver, handle), self._workspace(driver, call, handle) as spaces:
                for launch, grid, inames in launches:
                    self._start(driver, functions[launch.function], launch, grid, self._values(call, spaces, inames),
                                handle)

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

    def _check_addresses(self, call: Bound) -> None:
        kernel = self._program.kernel
        ranges = {name: view.byte_range() for name, view in call.arrays.items()}
        for array in self._program.arrays:
            low, high = ranges[array.name]
            if call.arrays[array.name].pointer % array.alignment:
                raise call_error(kernel, "misaligned-argument",
                                 f"'{array.name}' does not begin at a multiple of {array.alignment} bytes")
            if array.is_written and call.arrays[array.name].may_share:
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
        self, call: Bound, spaces: Mapping[str, int], integers: Mapping[str, int]
    ) -> dict[str, np.generic]:
        """Return the arguments of functions, by name."""
        found: dict[str, np.generic] = {name: self._index(number) for name, number in integers.items()
                                        if name not in call.sizes}
        found |= call.numbers
        for array in (*self._program.arrays, *self._program.workspace):
            first = spaces[array.name] if array.name in spaces else call.arrays[array.name].pointer
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
    def _context(self, driver: DriverFunctions, call: Bound) -> Iterator[tuple[int, int]]:
        """Make the context of the arrays current; give its handle and the device."""
        context, ordinal, device = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        for view in (view for view in call.arrays.values() if view.pointer):
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
            yield spaces
        finally:
            for address in spaces.values():
                driver.call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))
