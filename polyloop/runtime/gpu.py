"""Launching on an NVIDIA GPU through PyCUDA or ``cuda.core``, on the context that Torch and CuPy use too.

The context: where there is a current context and only arrays of that library or of NumPy are passed, that
one.  Otherwise the primary context of the arrays' device, pushed for the length of a call only.

PyCUDA launches on its own streams and on the default stream; it has no way to take a stream that
another library made.  For those, and where there is no PyCUDA, the driver is called directly.
"""
# ruff: noqa: ANN401  # the libraries have no types

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.errors import ArgumentError, CompilerError, Diagnostic
from polyloop.runtime.arguments import Binding
from polyloop.runtime.cuda.asking import AskingCall, reader
from polyloop.runtime.cuda.choice import cuda_library, refuse_forked
from polyloop.runtime.cuda.counters import Counters
from polyloop.runtime.cuda.graphs import MOST_NODES, GraphCall, Graphs, KernelGraph, Node, chosen, has_graphs
from polyloop.runtime.cuda.library import CudaLibrary, NoDriverError
from polyloop.runtime.cuda.parameters import Parameters
from polyloop.runtime.cuda.rawdriver import RawDriver
from polyloop.runtime.cuda.rawdriver import raw_driver as _raw
from polyloop.runtime.gpuarrays import DeviceMemory, HostMirror, current_handle, current_stream
from polyloop.runtime.packed import NOTHING, PackedCall, Passed
from polyloop.runtime.resources import KernelImage, read_cubin
from polyloop.runtime.views import ArrayKind, ArrayView, call_error

__all__ = ["GpuModule", "StreamHandle", "active_context", "device_architecture", "device_name", "gpu_available",
           "on_device", "other_context", "resolve_stream", "workspace_of"]

_DEFAULT_SHARED_LIMIT: Final = 48 * 1024
MOST_KEPT: Final = 4096
"""Launches of a call that are kept with their arguments packed."""


@functools.lru_cache(maxsize=1)
def gpu_available() -> tuple[bool, str]:
    """Return whether CUDA kernels can run here, and if not, why."""
    try:
        count = cuda_library().device_count()
    except ModuleNotFoundError as err:
        return False, f'neither PyCUDA nor cuda.core is installed: pip install "polyloop[cuda]" ({err})'
    except NoDriverError as err:
        return False, str(err)
    return (True, "") if count else (False, "the NVIDIA driver sees no GPU")


def _require_gpu(kernel: str) -> CudaLibrary:
    available, reason = gpu_available()
    if not available:
        raise CompilerError("call", kernel, [Diagnostic(
            "no-gpu", "a CUDA kernel was called, and there is no usable GPU", (reason,),
            ("compile for the C target to run on the CPU; .source, .ptx, .cubin and .resources work without a GPU",))])
    refuse_forked()
    return cuda_library()


def device_architecture(ordinal: int = 0) -> str | None:
    """Return ``sm_90`` or the like for a GPU of this machine; None where there is none."""
    if not gpu_available()[0]:
        return None
    major, minor = cuda_library().capability(ordinal)
    return f"sm_{major}{minor}"


def device_name(ordinal: int = 0) -> str | None:
    """Return the name of a GPU, such as ``"NVIDIA H200"``; None where there is none."""
    return cuda_library().device_name(ordinal) if gpu_available()[0] else None


# {{{ contexts

_primary: Final[dict[int, Any]] = {}
_lock: Final = threading.RLock()


def _primary_context(library: CudaLibrary, ordinal: int) -> Any:
    with _lock:
        context = _primary.get(ordinal)
        if context is None:
            _release_at_exit()
            context = _primary[ordinal] = library.primary(ordinal)
        return context


@contextlib.contextmanager
def active_context(kernel: str, views: list[ArrayView]) -> Iterator[Any]:
    """Make the CUDA context of the arrays current, and restore the previous one at exit."""
    library = _require_gpu(kernel)
    current = library.current()
    kinds = {view.kind for view in views}
    shared = kinds & {ArrayKind.TORCH, ArrayKind.CUPY, ArrayKind.CUDA, ArrayKind.JAX_CUDA}
    if current is not None and not shared:
        yield current
        return
    ordinal = max((view.device for view in views), default=-1)
    if ordinal < 0:
        ordinal = 0 if current is None else library.ordinal(current)
    primary = _primary_context(library, ordinal)
    if current is not None and current == primary:
        yield current
        return
    if current is not None and ArrayKind.PYCUDA in kinds:
        raise call_error(kernel, Diagnostic(
            "wrong-device", "PyCUDA arrays of a context of their own are mixed with arrays of other libraries",
            ("Torch and CuPy use the primary context of the device",),
            ("import pycuda.autoprimaryctx instead of pycuda.autoinit",)))
    library.push(primary)
    try:
        yield primary
    finally:
        library.pop()


def _inside(library: CudaLibrary, context: Any, action: Callable[[], None]) -> None:
    """Run *action* in *context*; not at all if that is neither current nor one that is kept: it may be gone."""
    if library.current() == context:
        action()
    elif context in _primary.values():
        library.push(context)
        try:
            action()
        finally:
            library.pop()


@functools.cache
def _release_at_exit() -> None:
    """Have everything released at the end of the process, before PyCUDA ends what contexts it made until now."""
    atexit.register(_release)


def _release() -> None:
    """Unload modules and give back the primary contexts while the driver still lives; they are not a child's."""
    if cuda_library().process != os.getpid():
        return
    for module in tuple(_modules):
        module.unload()
    while _primary:
        _, context = _primary.popitem()
        cuda_library().release(context)

# }}}


# {{{ streams


@dataclass(frozen=True, slots=True)
class StreamHandle:
    """A stream: the driver's handle (0: default), and PyCUDA's object if there is one."""

    handle: int
    pycuda: Any = None


def resolve_stream(kernel: str, stream: object) -> StreamHandle:
    """Return the stream that *stream* means.

    Parameters
    ----------
    stream
        None, a handle, a PyCUDA, Torch or CuPy stream, or an object with ``__cuda_stream__``.

    Raises
    ------
    ArgumentError
        ``wrong-type``.
    """
    match stream:
        case None:
            return StreamHandle(0)
        case bool():
            pass
        case int() | np.integer():
            return StreamHandle(int(stream))
        case _:
            if type(stream).__module__.startswith("pycuda"):
                return StreamHandle(int(getattr(stream, "handle", 0)), stream)
            if callable(protocol := getattr(stream, "__cuda_stream__", None)):
                return StreamHandle(int(protocol()[1]))
            for attribute in ("cuda_stream", "ptr"):
                if isinstance(handle := getattr(stream, attribute, None), int):
                    return StreamHandle(handle)
    raise call_error(kernel, Diagnostic(
        "wrong-type", f"'stream' is not a CUDA stream but {type(stream).__name__} {stream!r}"[:120], (),
        ("pass a PyCUDA, Torch or CuPy stream, or its handle as an integer",)))

# }}}


# {{{ modules and launches


@contextlib.contextmanager
def workspace_of(
    binding: Binding, stream: StreamHandle, kept: Mapping[str, int] = MappingProxyType({})
) -> Iterator[dict[str, int]]:
    """Allocate the workspace of a call by name, in the order of *stream*; the addresses *kept* are there already.

    Allocation and release take their turn on the stream (CUDA Driver API, "Stream Ordered Memory Allocator"), so that
    nothing waits and calls on other streams have memory of their own.
    """
    pointers: dict[str, int] = {}
    handle = ctypes.c_void_p(stream.handle)
    try:
        for array in binding.workspace:
            if array.name in kept:
                continue
            pointer, size = ctypes.c_uint64(), ctypes.c_size_t(max(1, array.nbytes))
            _raw().call("cuMemAllocAsync", ctypes.byref(pointer), size, handle)
            pointers[array.name] = pointer.value
            if binding.poisoned or array.zeroed:
                byte = ctypes.c_ubyte(0 if array.zeroed else 0xFF)
                _raw().call("cuMemsetD8Async", pointer, byte, size, handle)
        yield {**pointers, **kept}
    finally:
        for address in pointers.values():
            _raw().call("cuMemFreeAsync", ctypes.c_uint64(address), handle)


@dataclass
class _Loaded:
    """The cubin in one context; the second copy serves streams of other libraries, and graphs.

    ``functions`` are those of the library, None if it starts none.
    """

    context: Any
    module: Any
    functions: Mapping[str, Any] | None
    graphs: Graphs[Any]
    counters: Counters = field(default_factory=Counters)
    raw_module: ctypes.c_void_p | None = None
    raw_functions: dict[str, ctypes.c_void_p] | None = None


@contextlib.contextmanager
def on_device(
    kernel: str, arrays: Mapping[str, np.ndarray[Any, Any]]
) -> Iterator[tuple[dict[str, Any], Callable[[], None]]]:
    """Give copies of NumPy arrays in the memory of the GPU, of the same layout, and a function that waits for the GPU.

    They are those of :func:`~polyloop.runtime.cuda.choice.cuda_library`, on the primary context or the one that is
    current, which stays so inside the ``with`` block.
    """
    with active_context(kernel, []):
        library, memory, copies = cuda_library(), DeviceMemory(), dict[str, Any]()
        for name, array in arrays.items():
            view = memory.view(kernel, name, array)
            begin, end = view.byte_range()
            copy = memory.allocate(kernel, library.arrays, -1, dtype=view.dtype, shape=view.shape,
                                   strides=view.strides, poison=False)
            if end > begin:
                raw = memoryview((ctypes.c_char * (end - begin)).from_address(begin))
                library.copy_in(copy.owner.gpudata, np.frombuffer(raw, np.uint8))
            copies[name] = copy.owner
        yield copies, library.wait


def other_context(kernel: str, message: str) -> ArgumentError:
    """Return ``wrong-device`` for a launch in another context than that of its arrays."""
    hint = "use a stream of the context that the arrays belong to, and bind the arguments again in another one"
    return call_error(kernel, Diagnostic("wrong-device", message, (), (hint,)))


class GpuModule:
    """A cubin and the launches of its program, loaded once into each context that calls it.

    Parameters
    ----------
    launches
        How calls are started, ``"host"`` or ``"graph"``; None: as :func:`polyloop.runtime.cuda.graphs.chosen` says.
    """

    def __init__(self, program: GeneratedProgram, cubin: bytes, launches: str | None = None) -> None:
        self.program = program
        self.cubin = cubin
        self.launches = launches
        self.memory = DeviceMemory(active_context)
        self.images: dict[str, KernelImage] = read_cubin(cubin)
        self.parameters = Parameters(self.images)
        self._graphs = weakref.WeakSet[KernelGraph]()
        self._dynamic = self._functions()
        self._loaded: list[_Loaded] = []
        self._loading = threading.RLock()
        _modules.add(self)

    @property
    def driver(self) -> RawDriver:
        """The driver's functions."""
        return _raw()

    def handle_of(self, kernel: str, stream: object) -> int:
        """Return the handle of a stream, as :func:`resolve_stream` finds it for a call of *kernel*."""
        return resolve_stream(kernel, stream).handle

    def copied(self, values: np.ndarray[Any, Any]) -> Any:
        """Return memory of the GPU with *values*, in the current context; it is freed with the object returned."""
        _release_at_exit()
        memory = cuda_library().allocate(values.nbytes)
        cuda_library().copy_in(memory, values)
        return memory

    def _functions(self) -> dict[str, int]:
        """Return the functions to load, with the dynamic shared memory that each asks for [bytes]."""
        return {launch.name: launch.dynamic_shared_bytes for launch in self.program.launches}

    def launch(self, binding: Binding, stream: object) -> None:
        """Run all launches of *binding* in order, on one stream."""
        kernel = self.program.kernel
        views = list(binding.views.values())
        with active_context(kernel, views) as context:
            stream = resolve_stream(kernel, current_stream(views) if stream is None else stream)
            mirrors = {name: HostMirror(cuda_library(), view, fill=binding.poisoned or name not in binding.fresh)
                       for name, view in binding.views.items() if view.kind is ArrayKind.NUMPY}
            try:
                self._await_producers(views, stream)
                pointers = {name: binding.address(name, mirrors[name].pointer if name in mirrors else view.pointer)
                            for name, view in binding.views.items()}
                self._start(self._load(context), binding, pointers, stream)
                if mirrors or any(view.kind.is_jax for view in views):  # JAX has streams of its own
                    self._copy_back(mirrors, binding, stream)
            except cuda_library().errors as error:
                if stream.handle and not _raw().is_here(stream.handle):
                    raise other_context(kernel, "the stream is of another CUDA context than the arrays") from error
                raise
            finally:
                for mirror in mirrors.values():
                    mirror.free()

    def _start(self, loaded: _Loaded, binding: Binding, pointers: Mapping[str, int], stream: StreamHandle) -> None:
        """Launch everything, as a graph if that is chosen."""
        graph = self._graph(loaded, binding, pointers, stream)
        if graph is not None and not binding.poisoned:
            self._replay(graph, binding, {**pointers, **graph.pointers}, stream)
            return
        counters = loaded.counters.on(_raw(), cuda_library(), stream.handle, binding.workspace)
        with workspace_of(binding, stream, counters) as own:
            if graph is None:
                self._launch_all(loaded, binding, {**pointers, **own}, stream)
            else:
                self._replay(graph, binding, {**pointers, **own}, stream)

    def _launch_all(
        self, loaded: _Loaded, binding: Binding, pointers: Mapping[str, int], stream: StreamHandle
    ) -> None:  # fmt: skip
        known = dict[str, bytes]()
        read = reader(_raw(), binding, pointers, stream.handle) if binding.launches.has_reads else None
        for step in binding.launches.asking(read):
            parameters = self.parameters.of_step(step, pointers, binding, known)
            self._launch_one(loaded, step.launch, step.grid, parameters, stream)

    def _load(self, context: Any) -> _Loaded:
        with self._loading:
            for loaded in self._loaded:
                if loaded.context == context:
                    return loaded
            kept, functions = cuda_library().load(self.cubin, self._allowed()) or (None, None)
            self._loaded.append(_Loaded(context, kept, functions, Graphs(are_asked=self.launches is not None)))
            return self._loaded[-1]

    def _allowed(self) -> dict[str, int]:
        """Return the dynamic shared memory that each function has to be allowed, 0 if none."""
        return {name: size if size + self.images[name].shared_bytes > _DEFAULT_SHARED_LIMIT else 0
                for name, size in self._dynamic.items()}

    def _launch_one(self, loaded: _Loaded, launch: DeviceLaunch, grid: tuple[int, int, int], parameters: bytes,
                    stream: StreamHandle) -> None:
        shared = self._dynamic[launch.name]
        if loaded.functions is not None and (stream.handle == 0 or stream.pycuda is not None):
            function = loaded.functions[launch.name]
            cuda_library().start(function, grid, launch.block, parameters, shared=shared, stream=stream.pycuda)
            return
        raw = self._raw_functions(loaded)[launch.name]
        launch_it = _raw().prepared(raw, grid, launch.block, shared=shared, parameters=parameters)(stream.handle)
        if not _raw().done(launch_it() or 0):
            raise other_context(self.program.kernel, "the stream is of another CUDA context than the arrays")

    def _raw_functions(self, loaded: _Loaded) -> dict[str, ctypes.c_void_p]:
        """Return the driver's own handles, which PyCUDA does not give, of a copy loaded for them."""
        with self._loading:
            if loaded.raw_functions is None:
                loaded.raw_module, functions = _raw().load(self.cubin, list(self._dynamic))
                for name, size in self._allowed().items():
                    if size:
                        _raw().allow_shared(functions[name], size)
                loaded.raw_functions = functions
            return loaded.raw_functions

    def repeatable(self, binding: Binding, passed: Passed) -> PackedCall | None:
        """Return the launches of *binding*, as :meth:`packed` or as a graph; None where later calls are as this one.

        That is so where the launches are too many to be kept packed, where each call allocates a workspace, where the
        next call may make a graph, and where memory decides how many launches there are.
        """
        if self.is_graph(binding):
            with active_context(self.program.kernel, list(binding.views.values())) as context:
                graphs, key = self._load(context).graphs, self._key(binding)
            if (graph := graphs.find(key)) is not None:
                return self._graph_call(graph, binding, passed)
            if graphs.may_come(key):
                return None
        if binding.launches.has_reads:
            return None
        few = binding.launches.count <= MOST_KEPT  # of more, packing is a small part of the call, and much to keep
        return self.packed(binding, passed=passed) if few and not binding.workspace else None

    def bound(self, binding: Binding) -> tuple[PackedCall, object]:
        """Return the launches of *binding*, and the memory that they use, to be kept as long as they are."""
        if binding.launches and self.is_graph(binding):
            pointers = {name: binding.address(name, view.pointer) for name, view in binding.views.items()}
            with active_context(self.program.kernel, list(binding.views.values())) as context:
                graph = self._new_graph(self._load(context), binding, pointers)
            return self._graph_call(graph, binding, each=True), graph
        workspace = self.kept_workspace(binding)
        return self.packed(binding, {name: int(memory) for name, memory in workspace.items()}), workspace

    def packed(
        self, binding: Binding, workspace: Mapping[str, int] | None = None, *, passed: Passed = NOTHING,
    ) -> PackedCall:  # fmt: skip
        """Return the launches of *binding*, for repeated use; all of its arrays are in the GPU's memory."""
        views = list(binding.views.values())
        with active_context(self.program.kernel, views) as context:
            functions = self._raw_functions(self._load(context))
            pointers = {name: binding.address(name, view.pointer) for name, view in binding.views.items()}
            pointers |= workspace or {}
            known = dict[str, bytes]()
            if binding.launches.has_reads:
                call = AskingCall(_raw(), functions, binding, pointers, parameters=self.parameters)
                return PackedCall([call.on], current_handle(views), _raw().done)
            launches = [
                _raw().prepared(functions[step.launch.name], step.grid, step.launch.block,
                                shared=self._dynamic[step.launch.name],
                                parameters=self.parameters.of_step(step, pointers, binding, known),
                                cells=self.parameters.cells(step.launch, passed) if passed else ())
                for step in binding.launches]
            return PackedCall(launches, current_handle(views), _raw().done, passed)

    # {{{ graphs

    def is_graph(self, binding: Binding) -> bool:
        """Return whether a call is to be a graph.

        Raises
        ------
        ArgumentError
            ``graph-too-large``.
        CompilerError
            ``unsupported-launches``: graphs are asked for, and the driver has none.
        """
        kernel, count, is_asked = self.program.kernel, binding.launches.count, self.launches == "graph"
        if chosen(self.launches, count, reads=binding.launches.has_reads)[0] == "host":
            return False
        if is_asked and count > MOST_NODES:
            raise call_error(kernel, Diagnostic(
                "graph-too-large", f"the call has {count} launches, and a graph at most {MOST_NODES}", (),
                ('pass launches="host"', "let a call compute fewer iterations of the loops around the launches")))
        if has_graphs(_raw()):
            return True
        if is_asked:
            raise CompilerError("call", kernel, [Diagnostic(
                "unsupported-launches", 'launches="graph" is not supported by the NVIDIA driver of this machine',
                ("graphs of kernels are made by functions of CUDA 12.0",),
                ('pass launches="host", or install a newer driver',))])
        return False

    def _graph(
        self, loaded: _Loaded, binding: Binding, pointers: Mapping[str, int], stream: StreamHandle
    ) -> KernelGraph | None:
        """Return the graph of a call; None where its launches are started one by one."""
        if not self.is_graph(binding) or _raw().is_captured(stream.handle):
            return None
        return loaded.graphs.get(self._key(binding), functools.partial(self._new_graph, loaded, binding, pointers))

    def _key(self, binding: Binding) -> tuple[object, ...]:
        """Return the sizes that decide the launches of a call, their grids, and the workspace."""
        return *binding.launches.key, *(array.nbytes for array in binding.workspace)

    def _new_graph(self, loaded: _Loaded, binding: Binding, pointers: Mapping[str, int]) -> KernelGraph:
        _release_at_exit()
        workspace, functions = self.kept_workspace(binding), self._raw_functions(loaded)
        everything = {**pointers, **{name: int(memory) for name, memory in workspace.items()}}
        nodes = (Node(step.launch.name, functions[step.launch.name], step.grid, step.launch.block,
                      self._dynamic[step.launch.name], self.parameters.own(step, binding))
                 for step in binding.launches)
        graph = KernelGraph(_raw(), nodes, self.parameters.common(self.program, everything, binding),
                            workspace=workspace, inside=functools.partial(_inside, cuda_library(), loaded.context))
        self._graphs.add(graph)
        return graph

    def _replay(
        self, graph: KernelGraph, binding: Binding, pointers: Mapping[str, int], stream: StreamHandle
    ) -> None:  # fmt: skip
        common = self.parameters.common(self.program, pointers, binding)
        if not _raw().done(graph.launch(common, stream.handle), "cuGraphLaunch"):
            raise other_context(self.program.kernel, "the stream is of another CUDA context than the arrays")

    def _graph_call(
        self, graph: KernelGraph, binding: Binding, passed: Passed = NOTHING, *, each: bool = False,
    ) -> PackedCall:  # fmt: skip
        views = list(binding.views.values())
        pointers = {name: binding.address(name, view.pointer) for name, view in binding.views.items()}
        common = self.parameters.common(self.program, {**pointers, **graph.pointers}, binding)
        cells: list[list[tuple[str, int, type[Any]]]] = [[] for _ in passed.names]
        for launch in self.program.launches:
            for places, cell in zip(cells, self.parameters.cells(launch, passed), strict=True):
                if cell is not None:
                    places.append((launch.name, *cell))
        done = functools.partial(_raw().done, name="cuGraphLaunch")
        call = GraphCall(graph, common, cells, each=each)
        return PackedCall([call.on], current_handle(views), done, passed, launches="graph")

    # }}}

    def run_elsewhere(self, packed: PackedCall, binding: Binding, stream: int | None) -> None:
        """Run *packed* in a thread where the context of its arrays is not current."""
        kernel = self.program.kernel
        with active_context(kernel, list(binding.views.values())):
            if not packed.run(stream):
                raise other_context(kernel, "a bound call is repeated in another CUDA context than it was made in")

    def kept_workspace(self, binding: Binding) -> dict[str, Any]:
        """Allocate the workspace of *binding*; it is freed with the object returned."""
        with active_context(self.program.kernel, list(binding.views.values())):
            library = cuda_library()
            found = {array.name: library.allocate(max(1, array.nbytes)) for array in binding.workspace}
            for array in binding.workspace:
                if array.zeroed:
                    library.fill(found[array.name], 0, array.nbytes)
            return found

    def _await_producers(self, views: list[ArrayView], stream: StreamHandle) -> None:
        for handle in sorted({view.stream for view in views if view.stream is not None}):
            if handle != stream.handle and {handle, stream.handle} != {0, 1}:  # 0 and 1: the default stream
                _raw().order(handle, stream.handle)

    def _copy_back(self, mirrors: dict[str, HostMirror], binding: Binding, stream: StreamHandle) -> None:
        if stream.pycuda is not None:
            stream.pycuda.synchronize()
        elif stream.handle or not mirrors:
            _raw().synchronize(stream.handle)
        written = {a.name for a in self.program.arguments if getattr(a, "is_output", False)}
        for name in written & mirrors.keys():
            mirrors[name].copy_back()

    def unload(self) -> None:
        """Destroy the graphs, and forget the loaded copies; the context they are in must still exist."""
        for graph in tuple(self._graphs):
            graph.close()
        for loaded in self._loaded:
            loaded.functions = loaded.module = None
            if loaded.raw_module is not None and loaded.context in _primary.values():
                cuda_library().push(loaded.context)
                try:
                    _raw().call("cuModuleUnload", loaded.raw_module)
                finally:
                    cuda_library().pop()
        self._loaded.clear()


_modules: weakref.WeakSet[GpuModule] = weakref.WeakSet()

# }}}
