"""Programs that are one cooperative launch: its blocks run all launches of a call, and wait for each other between two.

The list of launches that the function reads is put into the GPU's memory once for the sizes that decide it.  The state
of the barrier is memory of one launch, so that launches on two streams do not meet.

Structures and functions are those of the CUDA Driver API, "Execution Control".
"""
# ruff: noqa: ANN401  # the libraries have no types

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, listed_inames, listed_loops
from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.arguments import Binding
from polyloop.runtime.cuda.rawdriver import RawDriver
from polyloop.runtime.gpu import GpuModule, StreamHandle, active_context, other_context, workspace_of
from polyloop.runtime.gpuarrays import current_handle
from polyloop.runtime.packed import NOTHING, Launch, PackedCall, Passed, storing
from polyloop.runtime.steps import Path, Step
from polyloop.runtime.views import call_error

__all__ = ["CooperativeCall", "CooperativeModule", "gpu_module"]

_ELSEWHERE: Final = 201
"""The driver's status for another context, CUDA_ERROR_INVALID_CONTEXT: nothing was launched."""
_MULTIPROCESSORS: Final = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_STATE_BYTES: Final = 8
_NARROW: Final = 32
_MOST_BLOCKS: Final = 2**31 - 1
_LIST, _STATE = "list of launches", "state of the barrier"  # arguments, by names that no kernel has


_Instance: TypeAlias = tuple[Path, tuple[int, ...]]
_BEGINS: Final = -1
"""In place of a function: an iteration begins."""


class CooperativeCall:
    """A cooperative launch with its parameters, which allocates the state of its barrier in the order of its stream.

    Parameters
    ----------
    blocks, threads
        Blocks of the launch, and the shape of each.
    parameters, layout
        The parameter buffer, and the offset and size of each parameter in it [bytes]; the last one is the state.
    cells
        For each number that a launch takes, its place in the buffer, None if it is not passed.
    kept
        Memory that the launch reads; it lives as long as the call.
    """

    def __init__(
        self, driver: RawDriver, function: ctypes.c_void_p, blocks: int, threads: tuple[int, int, int], *,
        parameters: bytes, layout: Sequence[tuple[int, int]], cells: Sequence[tuple[int, type[Any]] | None] = (),
        kept: object = None,
    ) -> None:  # fmt: skip
        self._driver, self._function, self._lock, self._kept = driver, function, threading.RLock(), kept
        self._context = driver.current_context()
        self._sizes = tuple(map(ctypes.c_uint, (blocks, 1, 1, *threads, 0)))
        self._buffer = ctypes.create_string_buffer(parameters, len(parameters))
        places = [ctypes.addressof(self._buffer) + offset for offset, _ in layout]
        self._pointers = (ctypes.c_void_p * len(places))(*places)
        self._state = ctypes.c_uint64.from_buffer(self._buffer, layout[-1][0])
        self._cells = [() if cell is None else (cell[1].from_buffer(self._buffer, cell[0]),) for cell in cells]

    def on(self, stream: int) -> Launch:
        """Return a function that launches on *stream*."""
        launch = functools.partial(self._launch, ctypes.c_void_p(stream or None))
        return storing(launch, self._cells, self._lock) if self._cells else launch

    def _launch(self, stream: ctypes.c_void_p) -> int:
        driver, state, size = self._driver, ctypes.c_uint64(), ctypes.c_size_t(_STATE_BYTES)
        with self._lock:
            if driver.current_context() != self._context:
                return _ELSEWHERE
            driver.call("cuMemAllocAsync", ctypes.byref(state), size, stream)
            try:
                driver.call("cuMemsetD8Async", state, ctypes.c_ubyte(0), size, stream)
                self._state.value = state.value
                start = driver.function("cuLaunchCooperativeKernel")
                return start(self._function, *self._sizes, stream, ctypes.byref(self._pointers))
            finally:
                driver.call("cuMemFreeAsync", state, stream)


@dataclass(frozen=True)
class _Listed:
    """The list of the launches of a call in the GPU's memory, and the most blocks that one of them has."""

    memory: Any
    blocks: int

    def close(self) -> None:
        """Do nothing: the memory is freed with the last call that uses it."""


class CooperativeModule(GpuModule):
    """A cubin whose one function runs all launches of a program (``codegen/together.py``)."""

    def __init__(self, program: GeneratedProgram, cubin: bytes) -> None:
        super().__init__(program, cubin, "cooperative")
        arguments = (*(a.name for a in program.arguments), *(a.name for a in program.workspace), _LIST, _STATE)
        (name,) = self._dynamic
        self.together = DeviceLaunch(name, (1, 1, 1), program.launches[0].block, 0, arguments)

    def _functions(self) -> dict[str, int]:
        return dict.fromkeys(self.images, 0)

    def is_graph(self, binding: Binding) -> bool:
        """Return False."""
        return False

    def repeatable(self, binding: Binding, passed: Passed) -> PackedCall | None:
        """Return the launch of *binding*, for repeated use; None where each call allocates a workspace."""
        return None if binding.workspace else self.packed(binding, passed=passed)

    def packed(
        self, binding: Binding, workspace: Mapping[str, int] | None = None, *, passed: Passed = NOTHING,
    ) -> PackedCall:  # fmt: skip
        """Return the launch of *binding*, for repeated use; all of its arrays are in the GPU's memory."""
        views = list(binding.views.values())
        pointers = {name: binding.address(name, view.pointer) for name, view in binding.views.items()}
        done = functools.partial(self.driver.done, name="cuLaunchCooperativeKernel")
        if not binding.launches:
            return PackedCall([], current_handle(views), done, passed, launches="cooperative")
        cells = self.parameters.cells(self.together, passed)
        with active_context(self.program.kernel, views) as context:
            call = self._call(context, binding, {**pointers, **(workspace or {})}, cells)
        return PackedCall([call.on], current_handle(views), done, passed, launches="cooperative")

    def _start(self, loaded: Any, binding: Binding, pointers: Mapping[str, int], stream: StreamHandle) -> None:
        with workspace_of(binding, stream) as own:
            call = self._call(loaded.context, binding, {**pointers, **own})
            if not self.driver.done(call.on(stream.handle)() or 0, "cuLaunchCooperativeKernel"):
                raise other_context(self.program.kernel, "the stream is of another CUDA context than the arrays")

    def _call(
        self, context: Any, binding: Binding, pointers: Mapping[str, int],
        cells: Sequence[tuple[int, type[Any]] | None] = (),
    ) -> CooperativeCall:  # fmt: skip
        loaded = self._load(context)
        listed = loaded.graphs.get(self._key(binding), functools.partial(self._new_list, binding))
        assert listed is not None, "a list is made where there is none"
        function, launch = self._raw_functions(loaded)[self.together.name], self.together
        blocks = min(listed.blocks, self._resident(function))
        everything = {**pointers, _LIST: int(listed.memory), _STATE: 0}
        parameters = self.parameters.pack(Step(launch, (1, 1, 1), {}), everything, binding)
        layout = self.images[launch.name].parameters
        return CooperativeCall(self.driver, function, blocks, launch.block, parameters=parameters, layout=layout,
                               cells=cells, kept=listed)  # fmt: skip

    def _new_list(self, binding: Binding) -> _Listed:
        numbers = {launch.name: number for number, launch in enumerate(self.program.launches)}
        launches, most, rows = self.program.launches, 0, list[list[int]]()
        inames, loops = listed_inames(launches), listed_loops(launches)
        begins, ends = list[tuple[int, _Instance]](), dict[_Instance, int]()

        def begin(path: Path, values: Mapping[str, int]) -> None:
            begins.append((len(rows), _instance(path, values)))
            rows.append([_BEGINS, loops.index(path[-1]), 0, 0, *(values.get(name, 0) for name in inames)])

        for step in binding.launches.listing(begin):
            blocks = prod(step.grid)
            if blocks > _MOST_BLOCKS:
                raise call_error(self.program.kernel, Diagnostic(
                    "grid-too-large", f"launch '{step.launch.name}' has {blocks} blocks",
                    (f"of a cooperative launch, it can have {_MOST_BLOCKS}",), ('pass launches="host"',)))
            most = max(most, blocks)
            rows.append([numbers[step.launch.name], *step.grid, *(step.inames.get(name, 0) for name in inames)])
            around = step.launch.around
            ends.update((_instance(around[:depth], step.inames), len(rows)) for depth in range(1, len(around) + 1))
        for place, instance in begins:
            rows[place][2] = max(ends.get(instance, 0), place + 1)
        dtype = np.int32 if self.program.index_bits == _NARROW else np.int64
        return _Listed(self.copied(np.array([len(rows), *chain.from_iterable(rows)], dtype)), most)

    def _resident(self, function: ctypes.c_void_p) -> int:
        """Return the number of blocks that run at one time on the device of the current context."""
        device, processors, blocks = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        threads = prod(self.together.block)
        self.driver.call("cuCtxGetDevice", ctypes.byref(device))
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(processors), ctypes.c_int(_MULTIPROCESSORS), device)
        self.driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), function,
                         ctypes.c_int(threads), ctypes.c_size_t(0))
        if not blocks.value:
            image = self.images[self.together.name]
            raise CompilerError("call", self.program.kernel, [Diagnostic(
                "unsupported-launches", "a cooperative launch does not fit the device",
                (f"a multiprocessor cannot hold one block of {threads} threads with {image.registers} registers each "
                 f"and {image.shared_bytes} bytes of shared memory",),
                ('pass launches="graph", whose launches have functions of their own',))])
        return blocks.value * processors.value


def _instance(path: Path, values: Mapping[str, int]) -> _Instance:
    """Return one execution of a loop of the host: the loops around it and itself, and the values of those around."""
    return path, tuple(values[loop.iname] for loop in path[:-1])


def gpu_module(program: GeneratedProgram, cubin: bytes, launches: str | None) -> GpuModule:
    """Return the module of a program whose launches are started as *launches* says."""
    is_one = launches == "cooperative"
    return CooperativeModule(program, cubin) if is_one else GpuModule(program, cubin, launches)
