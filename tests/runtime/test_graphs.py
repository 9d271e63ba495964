"""CUDA graphs: nodes, updates, lifetime, the rule that chooses them."""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.arguments import Binder
from polyloop.runtime.cuda.graphs import (
    LEAST_NODES,
    MOST_GRAPHS,
    MOST_NODES,
    GraphCall,
    Graphs,
    KernelGraph,
    KernelNodeParams,
    Node,
    chosen,
)
from polyloop.runtime.views import HostMemory
from tests.runtime.fake_cuda import FakeCuda, FakeNode, raw_driver
from tests.runtime.fake_machine import FakePycuda
from tests.runtime.fake_pycuda import FakeDriver
from tests.runtime.hosts import PROGRAMS
from tests.runtime.programs import axpy

# {{{ structures and the rule


def test_the_structure_of_a_node_is_the_drivers() -> None:
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    theirs = driver.CUDA_KERNEL_NODE_PARAMS_v2()
    theirs.func = driver.CUfunction(0x7000_0000_0010)
    numbers = {f"{what}Dim{axis}": 1 + number for number, (what, axis) in
               enumerate((what, axis) for what in ("grid", "block") for axis in "XYZ")}  # fmt: skip
    for name, value in numbers.items():
        setattr(theirs, name, value)
    theirs.sharedMemBytes, theirs.extra = 7, 0x7000_0000_0020
    theirs.kern, theirs.ctx = driver.CUkernel(0x7000_0000_0030), driver.CUcontext(0x7000_0000_0040)
    ours = KernelNodeParams.from_address(int(theirs.getPtr()))
    assert ours.function == 0x7000_0000_0010
    found = [getattr(ours, f"{what}_{axis}") for what in ("grid", "block") for axis in "xyz"]
    assert found == [1, 2, 3, 4, 5, 6]
    assert (ours.shared, ours.parameters, ours.extra) == (7, None, 0x7000_0000_0020)
    assert (ours.kernel, ours.context) == (0x7000_0000_0030, 0x7000_0000_0040)
    assert ctypes.sizeof(KernelNodeParams) == 72


def test_the_rule() -> None:
    assert chosen("host", 1000)[0] == "host"
    assert chosen("graph", 1)[0] == "graph"
    assert chosen(None, LEAST_NODES - 1) == ("host", "a graph saves little for fewer than 8")
    assert chosen(None, MOST_NODES + 1) == ("host", "a graph has at most 16384")
    assert {chosen(None, count)[0] for count in (LEAST_NODES, MOST_NODES)} == {"graph"}


def test_explain_says_which_it_is_and_why() -> None:
    kernel = PROGRAMS["lu"].kernel()
    for n, said in (
        (64, "a call has 126 launches; unless pl.compile is told otherwise, a CUDA graph starts them: from the second "
             "call of the same sizes on, as for 8 to 16384 launches"),
        (4, "a call has 6 launches; unless pl.compile is told otherwise, the host starts them one after the other: a "
            "graph saves little for fewer than 8"),
    ):  # fmt: skip
        assert said in pl.explain(kernel, {"n": n}, "H100").notes

# }}}


# {{{ one graph


class Two:
    """A graph of functions 'a' and 'b' in turn, each with a pointer and the number of its iteration."""

    def __init__(self, steps: int = 3) -> None:
        self.driver = FakeDriver({})
        self.context = object()
        self.driver.stack.append(self.context)
        self.seen: list[FakeNode] = []
        self.cuda = FakeCuda(self.driver, {name: self._noting(name) for name in "ab"})
        self.raw = raw_driver(self.cuda)
        _, self.functions = self.raw.load(b"\x7fELF", ["a", "b"])
        self.inside = 0
        nodes = (Node(name, self.functions[name], (step + 1, 2, 3), (32, 1, 1), 5, ((8, struct.pack("<i", step)),))
                 for step in range(steps) for name in "ab")  # fmt: skip
        self.graph = KernelGraph(self.raw, nodes, {name: self.data(1) for name in "ab"}, workspace={},
                                 inside=self._inside)

    def _noting(self, name: str) -> Callable[..., None]:
        return lambda grid, block, data: self.seen.append(FakeNode(name, grid, block, 5, data))

    def _inside(self, action: Callable[[], None]) -> None:
        self.inside += 1
        action()

    @staticmethod
    def data(pointer: int, number: int = 0) -> bytes:
        return struct.pack("<Qif", pointer, number, 0.5)

    def launch(self, a: int, b: int, stream: int = 0, *, each: bool = False) -> int:
        self.seen.clear()
        return self.graph.launch({"a": self.data(a), "b": self.data(b)}, stream, each=each)

    def expected(self, a: int, b: int) -> list[FakeNode]:
        return [FakeNode(name, (step + 1, 2, 3), (32, 1, 1), 5, self.data(pointer, step))
                for step in range(3) for name, pointer in (("a", a), ("b", b))]


def test_nodes_form_a_chain_with_what_each_launch_is_passed() -> None:
    two = Two()
    assert two.cuda.log == [("create", *two.cuda.graphs), ("instantiate", 6)]
    assert two.launch(1, 1, stream=0x7000_0000_4711) == 0
    assert two.seen == two.expected(1, 1)
    assert two.cuda.log[2:] == [("graph", 0x7000_0000_4711)]  # nothing was updated
    (made,) = two.cuda.executables.values()
    assert [len(node.after) for node in made.nodes.values()] == [0, 1, 1, 1, 1, 1]


def test_new_parameters_go_to_the_nodes_of_the_functions_that_have_them() -> None:
    two = Two()
    two.launch(1, 2)
    assert two.seen == two.expected(1, 2)
    assert two.cuda.names("update") == [("b",)] * 3
    two.launch(1, 2)
    assert len(two.cuda.names("update")) == 3
    two.launch(9, 2)
    assert two.seen == two.expected(9, 2)
    assert two.cuda.names("update")[3:] == [("a",)] * 3
    assert two.cuda.names("instantiate") == [(6,)]


def test_a_failed_update_is_made_again() -> None:
    two = Two()
    two.cuda.fails["cuGraphExecKernelNodeSetParams_v2"] = 2
    with FakePycuda(two.driver), pytest.raises(two.driver.LogicError, match="SetParams_v2 failed: status 700"):
        two.launch(7, 1)
    assert not two.cuda.names("graph")
    two.launch(1, 1)
    assert two.seen == two.expected(1, 1)
    assert len(two.cuda.names("update")) == 1 + 3


@pytest.mark.parametrize(("function", "number"), [("cuGraphAddKernelNode_v2", 4), ("cuGraphInstantiateWithFlags", 1)])
def test_a_graph_that_cannot_be_made_leaves_nothing(
    function: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    driver, create = FakeDriver({}), FakeCuda.__init__
    cudas = list[FakeCuda]()

    def failing(self: FakeCuda, *arguments: Any) -> None:
        create(self, *arguments)
        self.fails[function] = number
        cudas.append(self)

    monkeypatch.setattr(FakeCuda, "__init__", failing)
    with FakePycuda(driver), pytest.raises(driver.LogicError, match=f"{function} failed"):
        Two()
    assert not cudas[0].graphs
    assert not cudas[0].executables


def test_a_status_of_the_launch_is_handed_on() -> None:
    two = Two()
    two.cuda.fails["cuGraphLaunch"] = 1
    assert two.launch(1, 1) == 700
    assert two.launch(1, 1) == 0


def test_a_graph_is_launched_in_its_context_only() -> None:
    two = Two()
    two.driver.stack.append(object())
    assert two.launch(5, 5) == 201
    two.driver.stack.clear()
    assert two.launch(5, 5) == 201
    assert two.cuda.log[2:] == []


def test_a_stream_that_is_captured_gets_the_launches_or_nothing() -> None:
    two = Two()
    two.cuda.captured.add(9)
    assert two.launch(5, 6, 9) == 201
    assert two.launch(5, 6, 9, each=True) == 0
    assert two.cuda.names("captured") == [(node, 9) for node in two.expected(5, 6)]
    two.launch(1, 1)  # nodes have what they had
    assert two.seen == two.expected(1, 1)
    assert not two.cuda.names("update")


@pytest.mark.usefixtures("young_heap")
def test_a_graph_is_destroyed_once() -> None:
    two = Two()
    two.graph.close()
    two.graph.close()
    assert two.launch(1, 1) == 201
    assert two.cuda.log[2:] == [("destroy executable",), ("destroy",)]
    assert two.inside == 1
    two = Two()
    memory = FakeDriver({})
    two.graph._workspace = {"x": memory}
    gone = weakref.ref(memory)
    del memory, two.graph
    gc.collect()
    assert two.cuda.log[2:] == [("destroy executable",), ("destroy",)]
    assert gone() is None


def test_numbers_of_a_call_are_stored_where_functions_take_them() -> None:
    two = Two()
    base = {"a": two.data(1), "b": two.data(2)}
    cells: Any = [[("a", 12, ctypes.c_float), ("b", 12, ctypes.c_float)], [], [("b", 0, ctypes.c_uint64)]]
    one, other = GraphCall(two.graph, base, cells), GraphCall(two.graph, base, cells)
    for call, number, pointer in ((one, 1.5, 7), (other, 2.5, 8), (one, 1.5, 7)):
        two.seen.clear()
        assert call.on(3)(number, "not passed", pointer) == 0
        found = [struct.unpack("<Qif", node.data) for node in two.seen]
        assert found == [(at, step, number) for step in range(3) for at in (1, pointer)]
    assert base["a"] == two.data(1)
    assert GraphCall(two.graph, base).on(3)() == 0

# }}}


# {{{ which graphs are kept


def test_a_graph_is_made_at_the_second_call_unless_it_is_asked_for() -> None:
    made = list[str]()

    def make() -> Any:
        made.append("made")
        return SimpleNamespace(close=lambda: made.append("closed"))

    store = Graphs[Any](are_asked=False)
    assert store.get((1,), make) is None
    assert store.may_come((1,))
    found = store.get((1,), make)
    assert found is not None
    assert store.get((1,), make) is found is store.find((1,))
    for number in range(2, MOST_GRAPHS + 1):
        store.get((number,), make)
        store.get((number,), make)
    assert not store.may_come((0,))
    assert store.get((0,), make) is store.get((0,), make) is store.get((0,), make) is None
    assert made == ["made"] * MOST_GRAPHS
    made.clear()
    store = Graphs[Any](are_asked=True)
    for number in range(MOST_GRAPHS):
        store.get((number,), make)
    store.get((0,), make)
    store.get((MOST_GRAPHS,), make)
    assert made == ["made"] * MOST_GRAPHS + ["closed", "made"]
    assert store.find((1,)) is None  # it was used longest ago
    assert store.find((0,)) is not None

# }}}


def test_what_decides_the_launches_is_the_key_of_a_graph() -> None:
    binder = Binder(pl.generate_code(PROGRAMS["jacobi_plane"].kernel(), target=pl.CudaTarget()), HostMemory())
    keys = [binder.bind({"u": np.zeros((steps + 1, n, n)), "steps": steps}).launches.key
            for steps, n in ((3, 9), (3, 9), (4, 9), (3, 10))]
    assert keys[0] == keys[1]
    assert len({*keys}) == 3
    x = np.ones(5, np.float32)
    assert Binder(axpy("cuda"), HostMemory()).bind({"alpha": 1.0, "x": x, "y": x}).launches.key == (5,)


