"""Enough of the CUDA driver, called through ctypes, to follow graphs without a GPU: what they launch runs on fibres."""
# the arguments are what ctypes passes, which has no types
# ruff: noqa: N802  # the names of the driver
from __future__ import annotations

import ctypes
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.cuda.graphs import KernelNodeParams
from polyloop.runtime.cuda.rawdriver import RawDriver
from polyloop.runtime.fibres import fibre_library
from polyloop.runtime.resources import KernelImage
from tests.runtime.fake_pycuda import FakeDriver, Kernel

__all__ = ["FakeCuda", "FakeNode", "fibre_kernels", "raw_driver"]

_H: Final = "handle"
_SIGNATURES: Final[Mapping[str, tuple[object, ...]]] = {
    "cuCtxGetCurrent": (ctypes.c_void_p,),
    "cuStreamIsCapturing": (_H, ctypes.c_int),
    "cuGraphCreate": (ctypes.c_void_p, "uint"),
    "cuGraphAddKernelNode_v2": (ctypes.c_void_p, _H, ctypes.c_void_p, "size", KernelNodeParams),
    "cuGraphInstantiateWithFlags": (ctypes.c_void_p, _H, "ulonglong"),
    "cuGraphExecKernelNodeSetParams_v2": (_H, _H, KernelNodeParams),
    "cuGraphLaunch": (_H, _H),
    "cuGraphExecDestroy": (_H,),
    "cuGraphDestroy": (_H,),
    "cuCtxGetDevice": (ctypes.c_int,),
    "cuDeviceGetAttribute": (ctypes.c_int, "int", "a device"),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (ctypes.c_int, _H, "int", "size"),
    "cuLaunchCooperativeKernel": (_H, *["uint"] * 7, _H, "pointers"),
    "cuLaunchKernel": (_H, *["uint"] * 7, _H, None, ctypes.c_void_p * 5),
}
"""The parameters of functions, as the manual has them: a type is that of an object that a pointer points at."""
_NUMBERS: Final = {
    "uint": ctypes.c_uint, "size": ctypes.c_size_t, "ulonglong": ctypes.c_ulonglong, "int": ctypes.c_int,
    "a device": ctypes.c_int,
}  # fmt: skip


def _value(name: str, argument: Any, kind: object) -> Any:
    """Return what a parameter of a *kind* is passed, if ctypes passes it as C would."""
    if isinstance(kind, str) and kind in _NUMBERS:
        assert type(argument) is _NUMBERS[kind], f"{name} takes {kind}, not {argument!r}"
        return argument.value
    if kind == _H:
        assert type(argument) is ctypes.c_void_p, f"{name} takes a handle, not {argument!r}"
        return argument.value or 0
    if argument is None:
        return None
    found = argument._obj
    if kind == "pointers":
        return [*found]
    assert isinstance(found, kind) if isinstance(kind, type) else False, f"{name} takes a pointer, not {found!r}"
    return found


@dataclass
class FakeNode:
    """A kernel node: what its structure said when it was copied, and the nodes that it waits for."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    data: bytes
    after: tuple[int, ...] = ()


@dataclass
class _Graph:
    nodes: dict[int, FakeNode] = field(default_factory=dict)


class FakeCuda:
    """The driver's library; graphs are run by ``kernels``, at once, and ``log`` records what came.

    Attributes
    ----------
    captured
        Streams whose work is recorded.
    fails
        Function -> the number of the call that fails, from 1 on.
    layouts
        Function -> offset and size of each parameter, of those that are launched cooperatively.
    held
        Blocks that a multiprocessor holds.
    """

    def __init__(self, driver: FakeDriver, kernels: Mapping[str, Kernel]) -> None:
        self.kernels, self._driver = kernels, driver
        self.log: list[tuple[Any, ...]] = []
        self.captured: set[int] = set()
        self.fails: dict[str, int] = {}
        self.layouts: dict[str, Sequence[tuple[int, int]]] = {}
        self.held = 2
        self._names: dict[int, str] = {}
        self._next = 0x7000_0000_1000  # handles that do not fit an int of C
        self.graphs: dict[int, _Graph] = {}
        self.executables: dict[int, _Graph] = {}
        self.memory: dict[int, Any] = {}
        self.parents: dict[int, int] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        signature = _SIGNATURES.get(name)
        plain = self.__class__.__dict__.get(f"_{name}")
        if plain is None:
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            if name in self.fails:
                self.fails[name] -= 1
                if not self.fails[name]:
                    del self.fails[name]
                    return 700
            if signature is not None:
                assert len(arguments) == len(signature), f"{name} takes {len(signature)} arguments"
                arguments = tuple(_value(name, x, kind) for x, kind in zip(arguments, signature, strict=True))
            return int(plain(self, *arguments) or 0)

        return function

    def names(self, name: str) -> list[tuple[Any, ...]]:
        """Return the entries of the log of one function, without its name."""
        return [entry[1:] for entry in self.log if entry[0] == name]

    def _handle(self) -> int:
        self._next += 16
        return self._next

    def _node(self, params: KernelNodeParams) -> FakeNode:
        assert not params.parameters, "arguments are in a buffer"
        assert not params.kernel, "a function is given, and no kernel"
        grid, block = (params.grid_x, params.grid_y, params.grid_z), (params.block_x, params.block_y, params.block_z)
        return FakeNode(self._names[params.function], grid, block, params.shared, _extra(params.extra))

    def _run(self, node: FakeNode) -> None:
        self.kernels[node.function](node.grid, node.block, node.data)

    # {{{ functions of the driver

    def _cuCtxGetCurrent(self, into: Any) -> None:
        into.value = id(self._driver.stack[-1]) if self._driver.stack else None

    def _cuStreamIsCapturing(self, stream: int, into: Any) -> None:
        into.value = int(stream in self.captured)

    def _cuModuleLoadData(self, into: Any, cubin: bytes) -> None:
        assert cubin.startswith(b"\x7fELF")
        into._obj.value = self._handle()

    def _cuModuleUnload(self, module: Any) -> None:
        self.log.append(("unload",))

    def _cuModuleGetFunction(self, into: Any, module: Any, name: bytes) -> None:
        into._obj.value = self._handle()
        self._names[into._obj.value] = name.decode()

    def _cuGetErrorString(self, status: int, into: Any) -> None:
        into._obj.value = f"status {status}".encode()

    def _cuMemAllocAsync(self, into: Any, size: Any, stream: Any) -> None:
        memory = ctypes.create_string_buffer(size.value)
        into._obj.value = ctypes.addressof(memory)
        self.memory[into._obj.value] = memory

    def _cuMemsetD8Async(self, pointer: Any, value: Any, size: Any, stream: Any) -> None:
        ctypes.memset(pointer.value, value.value, size.value)

    def _cuMemFreeAsync(self, pointer: Any, stream: Any) -> None:
        del self.memory[pointer.value]

    def _cuMemcpyDtoHAsync_v2(self, into: Any, pointer: Any, size: Any, stream: Any) -> None:
        ctypes.memmove(into.value, pointer.value, size.value)

    def _cuStreamSynchronize(self, stream: Any) -> None:
        self.log.append(("synchronize", stream.value))

    def _cuLaunchKernelEx(self, config: Any, function: Any, parameters: Any, extra: Any) -> None:
        found, name = config._obj, self._names[_address(function)]
        grid, block = (found.grid_x, found.grid_y, found.grid_z), (found.block_x, found.block_y, found.block_z)
        self.log.append(("launch", name, found.stream or 0))
        self._run(FakeNode(name, grid, block, found.shared, _extra(ctypes.addressof(extra._obj))))

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        gx, gy, gz, bx, by, bz, shared, stream, _, extra = rest
        node = FakeNode(self._names[function], (gx, gy, gz), (bx, by, bz), shared, _extra(ctypes.addressof(extra)))
        self.log.append(("captured", node, stream))

    def _cuCtxGetDevice(self, into: Any) -> None:
        into.value = 3

    def _cuDeviceGetAttribute(self, into: Any, attribute: int, device: int) -> None:
        assert (attribute, device) == (16, 3)
        into.value = 4

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, into: Any, function: int, threads: int, size: int) -> None:
        assert size == 0
        into.value = self.held

    def _cuLaunchCooperativeKernel(self, function: int, *rest: Any) -> None:
        gx, gy, gz, bx, by, bz, shared, stream, pointers = rest
        assert (gy, gz, shared) == (1, 1, 0)
        name = self._names[function]
        layout = self.layouts[name]
        buffer = bytearray(max(offset + size for offset, size in layout))
        for pointer, (offset, size) in zip(pointers, layout, strict=True):
            buffer[offset : offset + size] = ctypes.string_at(pointer, size)
        state = int.from_bytes(buffer[layout[-1][0] : layout[-1][0] + 8], sys.byteorder)
        assert ctypes.string_at(self.memory[state], 8) == bytes(8), "the state of the barrier is memory of the launch"
        self.log.append(("cooperative", gx, stream))
        self.kernels[name]((1, 1, 1), (bx, by, bz), bytes(buffer))  # one block executes those of all

    def _cuGraphCreate(self, into: Any, flags: int) -> None:
        assert flags == 0
        into.value = self._handle()
        self.graphs[into.value] = _Graph()
        self.log.append(("create", into.value))

    def _cuGraphAddKernelNode_v2(self, into: Any, graph: int, after: Any, count: int, params: Any) -> None:
        assert count == (after is not None), "a pointer to as many nodes as there are"
        into.value = self._handle()
        node = self._node(params)
        node.after = () if after is None else (after.value,)
        self.graphs[graph].nodes[into.value] = node

    def _cuGraphInstantiateWithFlags(self, into: Any, graph: int, flags: int) -> None:
        assert flags == 0
        into.value = self._handle()
        self.executables[into.value] = _Graph({handle: FakeNode(**vars(node)) for handle, node in
                                               self.graphs[graph].nodes.items()})  # fmt: skip
        self.parents[into.value] = graph
        self.log.append(("instantiate", len(self.graphs[graph].nodes)))

    def _cuGraphExecKernelNodeSetParams_v2(self, executable: int, node: int, params: Any) -> None:
        assert node in self.graphs[self.parents[executable]].nodes, "the graph that has the node lives"
        found, old = self._node(params), self.executables[executable].nodes[node]
        found.after = old.after
        assert found.function == old.function
        self.executables[executable].nodes[node] = found
        self.log.append(("update", found.function))

    def _cuGraphLaunch(self, executable: int, stream: int) -> None:
        assert stream not in self.captured
        self.log.append(("graph", stream))
        done = list[int]()
        for handle, node in self.executables[executable].nodes.items():
            assert all(before in done for before in node.after), "nodes run in the order of their dependences"
            assert len(node.after) == min(1, len(done)), "each node waits for the one before"
            done.append(handle)
            self._run(node)

    def _cuGraphExecDestroy(self, executable: int) -> None:
        assert self._driver.stack, "no context is current"
        del self.executables[executable]  # once
        self.log.append(("destroy executable",))

    def _cuGraphDestroy(self, graph: int) -> None:
        del self.graphs[graph]  # once
        self.log.append(("destroy",))

    # }}}


def _address(pointer: Any) -> int:
    """Return what ``c_void_p.from_param`` holds, which only its text tells."""
    return int(re.findall(r"0x[0-9a-f]+", repr(pointer))[0], 16)


def _extra(address: int) -> bytes:
    """Return the parameter buffer that an array of extra options names."""
    options = (ctypes.c_void_p * 5).from_address(address)
    assert (options[0], options[2], options[4]) == (1, 2, None), "a buffer, its size, and the end"
    size = ctypes.c_size_t.from_address(options[3] or 0).value
    return ctypes.string_at(options[1] or 0, size)


def raw_driver(library: Any) -> RawDriver:
    """Return the driver whose library is *library*."""
    found = RawDriver.__new__(RawDriver)
    found._library = library
    return found


def fibre_kernels(program: GeneratedProgram, images: Mapping[str, KernelImage]) -> dict[str, Kernel]:
    """Return the functions of *program*, which run on fibres with the parameter buffers of a launch."""
    library = fibre_library(program)
    dynamic = {launch.name: launch.dynamic_shared_bytes for launch in program.launches}

    def kernel(name: str) -> Kernel:
        function, layout = getattr(library, f"polyloop_run_{name}"), images[name].parameters

        def run(grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes) -> None:
            buffer, report = ctypes.create_string_buffer(parameters), ctypes.create_string_buffer(64)
            three = ctypes.c_int * 3
            places = [ctypes.addressof(buffer) + offset for offset, _ in layout]
            status = function((ctypes.c_void_p * max(1, len(places)))(*places), three(*grid), three(*block),
                              ctypes.c_size_t(dynamic[name]), ctypes.c_int(1), ctypes.c_int(2), ctypes.c_uint64(1),
                              report)  # in clusters of one block
            assert status == 0, struct.unpack("16i", report.raw[:64])

        return run

    return {launch.name: kernel(launch.name) for launch in program.launches}
