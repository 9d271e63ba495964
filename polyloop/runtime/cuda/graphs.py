"""CUDA graphs of calls: all launches of a call as the nodes of one chain, which one call of the driver starts.

A graph is made for what decides its launches and grids: some sizes, and the sizes of the workspace.  A call with other
pointers or numbers writes them into the nodes of the functions that take them; nothing is made anew.  The driver runs
one execution of a graph after the other, on whatever streams, so one workspace serves all of them.

Structures and functions are those of the CUDA Driver API, "Graph Management", from version 12.0 on.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from polyloop.runtime.cuda.rawdriver import RawDriver
from polyloop.runtime.packed import Launch, storing
from polyloop.runtime.steps import Grid

__all__ = ["LEAST_NODES", "MOST_GRAPHS", "MOST_NODES", "GraphCall", "Graphs", "KernelGraph", "KernelNodeParams", "Node",
           "chosen", "has_graphs"]

LEAST_NODES: Final = 8
"""Launches of a call from which on a graph is chosen: below, it can save little."""
MOST_NODES: Final = 16384
"""Launches of a call that can be nodes of one graph."""
MOST_GRAPHS: Final = 8
"""Graphs that a program keeps in one context."""
_MOST_SEEN: Final = 1024
"""Sizes of calls that are remembered to tell the second call from the first."""
_ELSEWHERE: Final = 201
"""The driver's status for another context, CUDA_ERROR_INVALID_CONTEXT: nothing was launched."""


# {{{ the rule


def chosen(asked: str | None, count: int, *, reads: bool = False) -> tuple[str, str]:
    """Return the start of a call of *count* launches, ``"graph"`` or ``"host"``, and the reason.

    Parameters
    ----------
    asked
        What the user asked for; None: nothing.
    reads
        Whether the host reads memory between the launches.
    """
    if asked is not None:
        return asked, "as asked for"
    if reads:
        return "host", "it reads between them whether a loop goes on"
    if count < LEAST_NODES:
        return "host", f"a graph saves little for fewer than {LEAST_NODES}"
    if count > MOST_NODES:
        return "host", f"a graph has at most {MOST_NODES}"
    return "graph", f"from the second call of the same sizes on, as for {LEAST_NODES} to {MOST_NODES} launches"

# }}}


class KernelNodeParams(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2``."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared", ctypes.c_uint), ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )


def has_graphs(driver: RawDriver) -> bool:
    """Return whether the driver has the functions that are used here."""
    return driver.has("cuGraphAddKernelNode_v2") and driver.has("cuGraphExecKernelNodeSetParams_v2")


@dataclass(frozen=True, slots=True)
class Node:
    """One launch of a graph.

    Attributes
    ----------
    name
        Of the function; nodes of one function share all parameters but their own.
    shared
        Dynamic shared memory [bytes].
    own
        The parameters of this launch alone: offsets in the parameter buffer [bytes], and what is there.
    """

    name: str
    function: ctypes.c_void_p
    grid: Grid
    block: Grid
    shared: int
    own: tuple[tuple[int, bytes], ...] = ()


class _Buffer:
    """The parameter buffer of all nodes of one function, and the array that tells the driver of it."""

    def __init__(self, data: bytes) -> None:
        self.data = ctypes.create_string_buffer(data, max(1, len(data)))
        self._size = ctypes.c_size_t(len(data))
        self.extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.data), 2, ctypes.addressof(self._size), None)

    def put(self, data: bytes) -> None:
        ctypes.memmove(self.data, data, len(data))

    def put_own(self, node: Node) -> None:
        """Put the parameters of one node beside those that all share."""
        for offset, data in node.own:
            ctypes.memmove(ctypes.byref(self.data, offset), data, len(data))


@dataclass(frozen=True, slots=True)
class _Made:
    """A node in a graph: *update* gives the driver its structure, *params*, with the buffer's present contents."""

    node: Node
    params: KernelNodeParams
    update: Callable[[], int]


class KernelGraph:
    """An executable graph of launches, each of which waits for the one before.

    Parameters
    ----------
    nodes
        The launches in their order, at least one.
    parameters
        Function -> parameter buffer of its nodes; copied.
    workspace
        Memory that the nodes use, by name; it lives as long as the graph.
    inside
        Runs a function in the context of the graph if that still lives: the graph is destroyed so.
    """

    def __init__(
        self, driver: RawDriver, nodes: Iterable[Node], parameters: Mapping[str, bytes], *,
        workspace: Mapping[str, Any], inside: Callable[[Callable[[], None]], None],
    ) -> None:  # fmt: skip
        self._driver = driver
        self.lock = threading.RLock()
        self._context = driver.current_context()
        self._workspace: Mapping[str, Any] | None = workspace
        self._buffers = {name: _Buffer(data) for name, data in parameters.items()}
        self._current: dict[str, bytes | None] = dict(parameters)
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuGraphCreate", ctypes.byref(graph), ctypes.c_uint(0))
        try:
            handles = [*self._add(graph, nodes)]
            driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        except BaseException:
            driver.call("cuGraphDestroy", graph)
            raise
        self._executable = executable
        update = driver.function("cuGraphExecKernelNodeSetParams_v2")
        self._made = [_Made(node, params, functools.partial(update, executable, handle, ctypes.byref(params)))
                      for node, params, handle in handles]
        self._destroy = weakref.finalize(self, inside, functools.partial(_destroy, driver, executable, graph))
        self._destroy.atexit = False  # contexts are gone by then

    def _add(
        self, graph: ctypes.c_void_p, nodes: Iterable[Node]
    ) -> Iterator[tuple[Node, KernelNodeParams, ctypes.c_void_p]]:
        before: ctypes.c_void_p | None = None
        for node in nodes:
            buffer = self._buffers[node.name]
            buffer.put_own(node)
            params = KernelNodeParams(
                node.function.value, *node.grid, *node.block, node.shared, None, ctypes.addressof(buffer.extra), None,
                None)
            handle = ctypes.c_void_p()
            known = (None, ctypes.c_size_t(0)) if before is None else (ctypes.byref(before), ctypes.c_size_t(1))
            self._driver.call("cuGraphAddKernelNode_v2", ctypes.byref(handle), graph, *known, ctypes.byref(params))
            before = handle
            yield node, params, handle

    @property
    def count(self) -> int:
        """The number of launches."""
        return len(self._made)

    @property
    def pointers(self) -> dict[str, int]:
        """Addresses of the workspace, by name."""
        return {name: int(memory) for name, memory in (self._workspace or {}).items()}

    def launch(self, parameters: Mapping[str, bytes], stream: int, *, each: bool = False) -> int:
        """Run all launches on *stream*, and return the driver's status.

        Parameters
        ----------
        parameters
            Function -> parameter buffer of its nodes.
        each
            Whether a stream whose work is captured gets the launches one by one, to be nodes of the other graph;
            otherwise nothing is launched on it, as in another context, and 201 is returned.
        """
        with self.lock:
            if not self._destroy.alive or self._driver.current_context() != self._context:
                return _ELSEWHERE
            if self._driver.is_captured(stream):
                return self._launch_each(parameters, stream) if each else _ELSEWHERE
            for name, data in parameters.items():
                if self._current[name] != data:
                    self._update(name, data)
            return self._driver.function("cuGraphLaunch")(self._executable, ctypes.c_void_p(stream or None))

    def _update(self, name: str, data: bytes) -> None:
        """Give all nodes of a function new parameters."""
        buffer, self._current[name] = self._buffers[name], None  # a failure leaves nodes of both kinds
        buffer.put(data)
        for made in self._made:
            if made.node.name == name:
                buffer.put_own(made.node)
                self._driver.check("cuGraphExecKernelNodeSetParams_v2", made.update())
        self._current[name] = data

    def _launch_each(self, parameters: Mapping[str, bytes], stream: int) -> int:
        launch, handle = self._driver.function("cuLaunchKernel"), ctypes.c_void_p(stream or None)
        for name, data in parameters.items():
            self._buffers[name].put(data)
        for made in self._made:
            node, buffer = made.node, self._buffers[made.node.name]
            buffer.put_own(node)
            sizes = (ctypes.c_uint(size) for size in (*node.grid, *node.block, node.shared))
            status = launch(node.function, *sizes, handle, None, ctypes.byref(buffer.extra))
            if status:
                return status
        return 0

    def close(self) -> None:
        """Destroy the graph, once; what of it runs on the GPU ends first."""
        with self.lock:
            self._destroy()
            self._workspace = None


def _destroy(driver: RawDriver, executable: ctypes.c_void_p, graph: ctypes.c_void_p) -> None:
    try:
        driver.call("cuGraphExecDestroy", executable)
    finally:
        driver.call("cuGraphDestroy", graph)


class GraphCall:
    """A call as a graph, with parameters of its own, which the graph is given where it has those of another call.

    Parameters
    ----------
    parameters
        Function -> parameter buffer; copied.
    cells
        For each number that a launch takes, its places: function, offset [bytes], type of ctypes.
    each
        As in :meth:`KernelGraph.launch`.
    """

    def __init__(
        self, graph: KernelGraph, parameters: Mapping[str, bytes],
        cells: Sequence[Sequence[tuple[str, int, type[Any]]]] = (), *, each: bool = False,
    ) -> None:  # fmt: skip
        self.graph, self._each = graph, each
        self._buffers = {name: bytearray(max(1, len(data))) for name, data in parameters.items()}
        self._sizes = {name: len(data) for name, data in parameters.items()}
        for name, data in parameters.items():
            self._buffers[name][: len(data)] = data
        self._cells = [[kind.from_buffer(self._buffers[name], offset) for name, offset, kind in places]
                       for places in cells]

    def on(self, stream: int) -> Launch:
        """Return a function that launches everything on *stream*."""
        launch = functools.partial(self._launch, stream)
        return storing(launch, self._cells, self.graph.lock) if self._cells else launch

    def _launch(self, stream: int) -> int:
        parameters = {name: bytes(buffer[: self._sizes[name]]) for name, buffer in self._buffers.items()}
        return self.graph.launch(parameters, stream, each=self._each)


class _Closes(Protocol):
    def close(self) -> None:
        """Give everything back."""


T = TypeVar("T", bound=_Closes)


class Graphs(Generic[T]):
    """The graphs of one program in one context, or what else is made for a call, by what decides its launches.

    Parameters
    ----------
    are_asked
        Whether the user asked for graphs: then one is made at the first call, in the place of the one that was used
        longest ago if there are too many.  Otherwise one is made at the second call, while there is room.
    """

    def __init__(self, *, are_asked: bool) -> None:
        self._are_asked, self._lock = are_asked, threading.RLock()
        self._graphs: dict[tuple[Any, ...], T] = {}
        self._seen: dict[tuple[Any, ...], None] = {}

    def find(self, key: tuple[Any, ...]) -> T | None:
        """Return a graph if there is one."""
        return self._graphs.get(key)

    def may_come(self, key: tuple[Any, ...]) -> bool:
        """Return whether another call with *key* may find a graph."""
        return self._are_asked or key in self._graphs or len(self._graphs) < MOST_GRAPHS

    def get(self, key: tuple[Any, ...], make: Callable[[], T]) -> T | None:
        """Return the graph for a call, which *make* may have to make; None where the call has to do without."""
        with self._lock:
            found = self._graphs.pop(key, None)
            if found is None and (self._are_asked or self._is_second(key)):
                while len(self._graphs) >= MOST_GRAPHS:
                    oldest = next(iter(self._graphs))
                    self._graphs.pop(oldest).close()
                found = make()
            if found is not None:
                self._graphs[key] = found
            return found

    def _is_second(self, key: tuple[Any, ...]) -> bool:
        """Return whether a graph is worth its making: a call with *key* came before, and there is room."""
        if key not in self._seen:
            while len(self._seen) >= _MOST_SEEN:
                self._seen.pop(next(iter(self._seen)))
            self._seen[key] = None
            return False
        return len(self._graphs) < MOST_GRAPHS
