"""Programs that are one cooperative launch: the text, its list of launches, calls, refusals."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.arguments import Binder
from polyloop.runtime.ccompile import open_library
from polyloop.runtime.cuda.cooperative import CooperativeModule
from polyloop.runtime.views import HostMemory
from polyloop.target.cuda import with_one_launch
from tests.generated import flat
from tests.runtime.fake_machine import Machine, got, machine_of, module
from tests.runtime.hosts import PROGRAMS
from tests.runtime.test_graph_calls import SIZES, damped, damped_expected
from tests.runtime.test_host_loops import agree, copied

F = np.float64


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with machine_of(monkeypatch) as found:
        yield found


# {{{ text


def test_the_text_runs_a_list_of_launches() -> None:
    text = pl.generate_code(PROGRAMS["lu"].kernel(), target=with_one_launch(pl.CudaTarget())).device_code
    assert "static __device__ __forceinline__ void lu_0(double * a, int n, int k, const uint3 blockIdx)" in flat(text)
    assert text[text.index('extern "C"'):].splitlines() == [
        'extern "C" __global__ void __launch_bounds__(32) lu_together(',
        "    double *a,",
        "    int n,",
        "    const int *__restrict__ list,",
        "    unsigned int *state)",
        "{",
        "    unsigned int awaited = 0;  // arrivals of all blocks at the waits until now",
        "    for (int step = 0; step < list[0]; ++step) {",
        "        const int *const launch = list + 1 + 5 * step;",
        "        const unsigned int nx = launch[1], ny = launch[2], blocks = nx * ny * launch[3];",
        "        for (unsigned int block = blockIdx.x; block < blocks; block += gridDim.x) {",
        "            const uint3 place = {block % nx, block / nx % ny, block / nx / ny};",
        "            switch (launch[0]) {",
        "            case 0: lu_0(a, n, launch[4], place); break;",
        "            case 1: lu_1(a, n, launch[4], place); break;",
        "            }",
        "            __syncthreads();  // the next block uses the same memory",
        "        }",
        "        if (step + 1 < list[0])",
        "            wait_for_blocks(state, awaited += gridDim.x);",
        "    }",
        "}",
    ]


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_launches_change_is_not_read_through_the_cache_for_constants(name: str) -> None:
    run = pl.compile(PROGRAMS[name].kernel(), target=pl.CudaTarget(), launches="cooperative")
    assert re.findall(r"ld\.global\.nc\.(?:v\d\.)?f64", run.ptx) == []
    assert "ld.global.nc" in run.ptx  # the list
    assert "f64" in run.ptx


def test_names_of_the_text_give_way_to_those_of_the_kernel() -> None:
    knl = pl.make_kernel(
        "{[launch, i]: 0 <= launch < step and 1 <= i < block - 1}",
        "list[launch + 1, i] = state*(list[launch, i - 1] + list[launch, i + 1])",
        [pl.GlobalArg("list", F, shape="step + 1, block"), pl.ValueArg("state", F), ...], name="place",
        assumptions="block >= 0 and step >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0")
    text = pl.generate_code(knl, target=with_one_launch(pl.CudaTarget())).device_code
    assert "for (int step_0 = 0; step_0 < list_0[0]; ++step_0) {" in text

# }}}


# {{{ calls


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", SIZES)
def test_one_launch_computes_what_numpy_says(name: str, machine: Machine) -> None:
    program, run = PROGRAMS[name], machine.compile(PROGRAMS[name].kernel(), "cooperative")
    for size in (SIZES[name], *program.sizes[-2:], SIZES[name]):
        given = program.inputs(size)
        agree(got(run(**copied(given))), program.expected(**copied(given)))
    assert len(machine.cuda.names("cooperative")) == 4
    assert not machine.cuda.memory
    assert not machine.driver.stack


@pytest.mark.nvrtc
def test_the_list_is_made_once_for_its_sizes(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, values = machine.compile(PROGRAMS["lu"].kernel(), "cooperative"), PROGRAMS["lu"].inputs(21)
    found = module(run)
    assert isinstance(found, CooperativeModule)
    for n in (21, 21, 13, 21):
        a = machine.array(values["a"][:n, :n].copy())
        expected = PROGRAMS["lu"].expected(values["a"][:n, :n])
        agree(got(run(a=a)), expected)
    lists = found._loaded[0].graphs._graphs
    assert {key: listed.blocks for key, listed in lists.items()} == {(13,): 8, (21,): 18}
    raw = machine.driver.memory
    assert sum(len(memory._buffer) == 4 * (1 + 5 * 40) for memory in raw) == 1
    (memory,) = (memory for memory in raw if len(memory._buffer) == 4 * (1 + 5 * 40))
    count, *rows = struct.unpack(f"<{1 + 5 * 40}i", memory._buffer.raw)
    assert count == 40
    assert rows[:10] == [0, 3, 1, 1, 0, 1, 3, 6, 1, 0]
    assert rows[-10:] == [0, 1, 1, 1, 19, 1, 1, 1, 1, 19]


@pytest.mark.nvrtc
def test_repeated_calls_take_numbers_and_streams(machine: Machine) -> None:
    machine.driver.stack.append(object())
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 1 <= i < n - 1}", "u[t + 1, i] = w*(u[t, i - 1] + u[t, i + 1])",
        [pl.GlobalArg("u", F, shape="steps + 1, n"), pl.ValueArg("w", F), ...], name="tiny",
        assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    run = machine.compile(knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0"), "cooperative")
    values = np.random.default_rng(1).random((6, 40))
    u = machine.array(values)
    bound = run.bind(u=u, w=0.5)
    assert bound.launches == "cooperative"
    for number, w in enumerate((0.5, 0.25, 0.25, 0.125)):
        run(u=u, w=w, stream=(None, 7, 8, 7)[number])
        expected = values.copy()
        for t in range(5):
            expected[t + 1, 1:-1] = w * (expected[t, :-2] + expected[t, 2:])
        np.testing.assert_allclose(u.get(), expected)
    bound(stream=9)
    bound()
    assert machine.cuda.names("cooperative") == [(5, 0), (5, 7), (5, 8), (5, 7), (5, 9), (5, 0)]
    machine.driver.stack.append(object())
    with pytest.raises(pl.ArgumentError, match="wrong-device"):
        bound()


@pytest.mark.nvrtc
def test_the_blocks_of_the_launch_are_those_that_run_at_one_time(machine: Machine) -> None:
    run = machine.compile(damped(), "cooperative")
    values = np.arange(200.0)
    found = run(u=values.copy(), w=0.5, steps=3).u
    np.testing.assert_allclose(found, damped_expected(values, 0.5, 3))
    assert machine.cuda.names("cooperative") == [(8, 0)]  # of 25


@pytest.mark.nvrtc
def test_a_launch_that_does_not_fit_is_refused_with_the_numbers(machine: Machine) -> None:
    run, machine.cuda.held = machine.compile(damped(), "cooperative"), 0
    with pytest.raises(pl.CompilerError) as error:
        run(u=np.arange(20.0), w=0.5, steps=3)
    assert str(error.value).splitlines()[0] == \
        "call on kernel 'damped': a cooperative launch does not fit the device [unsupported-launches]"
    assert "a multiprocessor cannot hold one block of 8 threads with" in str(error.value)


@pytest.mark.nvrtc
def test_a_workspace_is_one_of_the_call(machine: Machine) -> None:
    machine.driver.stack.append(object())
    run, values = machine.compile(damped(), "cooperative"), np.arange(20.0)
    for poison in (False, True, False):
        u = machine.array(values)
        np.testing.assert_allclose(run(u=u, w=0.5, steps=5, poison=poison).u.get(), damped_expected(values, 0.5, 5))
    u = machine.array(values)
    run.bind(u=u, w=0.5, steps=5)()
    np.testing.assert_allclose(u.get(), damped_expected(values, 0.5, 5))
    run.bind(u=u, w=0.5, steps=0)()
    assert len(machine.cuda.names("cooperative")) == 4
    assert not machine.cuda.memory

# }}}


# {{{ the barrier


_THREADS = """
#include <thread>
#include <vector>
#include <atomic>
struct uint3 { unsigned int x, y, z; };
static thread_local uint3 threadIdx, blockIdx;
static uint3 gridDim;
static std::atomic<int> barriers;
static inline void __syncthreads() {}
static inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
static inline unsigned int atomicAdd(unsigned int *at, unsigned int by) { return __sync_fetch_and_add(at, by); }
"""
_RUN = """
extern "C" int run_blocks(int count, double *u, int n, double w, int steps, double *v, const int *list,
                          unsigned int *state)
{
    std::vector<std::thread> blocks;
    gridDim.x = count;
    for (int block = 0; block < count; ++block)
        blocks.emplace_back([=] { blockIdx.x = block; barriers += 1; damped_together(PASSED); });
    for (auto &block : blocks) block.join();
    return barriers;
}
"""


@pytest.mark.parametrize("is_whole", [True, False])
def test_blocks_that_run_at_one_time_wait_for_each_other(is_whole: bool) -> None:
    """Each block is a thread of the processor; without the barrier, results are wrong."""
    kernel = damped(block=1)
    program = pl.generate_code(kernel, target=with_one_launch(pl.CudaTarget("sm_60")))
    text = program.device_code
    for old, new in (("static __device__ __forceinline__", "static inline"), ('extern "C" __global__', "static"),
                     ("__launch_bounds__(1)", ""), ("< 0) {}", "< 0) std::this_thread::yield();")):
        assert old in text
        text = text.replace(old, new)
    if not is_whole:
        text = text.replace("wait_for_blocks(state, awaited += gridDim.x);", "std::this_thread::yield();")
    arguments = [*(a.name for a in program.arguments), *(a.name for a in program.workspace), "list", "state"]
    library = open_library(_THREADS + text + _RUN.replace("PASSED", ", ".join(arguments)), language="c++",
                           flags=("-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-pthread"), kind="blocks")
    n, steps, wrong = 400, 40, 0
    binding = Binder(program, HostMemory()).bind({"u": np.zeros(n), "w": 0.5, "steps": steps})
    rows = [x for s in binding.launches for x in (int(s.launch.name[-1]), *s.grid, *([s.inames["t"]]))]
    launches = np.array([binding.launches.count, *rows], np.int32)
    for _ in range(5):
        values = np.random.default_rng(1).random(n)
        u, v, state = values.copy(), np.zeros(n), np.zeros(2, np.uint32)
        place = [ctypes.c_void_p(array.__array_interface__["data"][0]) for array in (u, v, launches, state)]
        library.run_blocks(4, place[0], n, ctypes.c_double(0.5), steps, *place[1:])
        assert state[0] == (4 * (2 * steps - 1) if is_whole else 0)
        wrong += not np.allclose(u, damped_expected(values, 0.5, steps))
    assert (wrong == 0) is is_whole

# }}}


# {{{ refusals


def refusal(knl: LoopKernel) -> list[str]:
    with pytest.raises(pl.PolyloopError) as error:
        pl.compile(knl, target=pl.CudaTarget(), launches="cooperative")
    assert error.value.codes == ("unsupported-launches",)
    return [line.removeprefix("  Note: ") for line in str(error.value).splitlines() if line.startswith("  Note")]


def two(shared: int = 0) -> LoopKernel:
    data: list[Any] = [pl.GlobalArg("x, y", F, shape="n"), ...]
    store, load = "y[8*io + ii] = x[n - 1 - 8*io - ii]  {id=a}", ""
    if shared:
        data.insert(0, pl.TemporaryVariable("tile", F, shape=shared, address_space="local"))
        store, load = "tile[ii] = x[n - 1 - 8*io - ii]  {id=s}", "y[8*io + jj] = tile[7 - jj]  {id=a, dep=s}"
    knl = pl.make_kernel(
        "{[t, io, ii, jj, j]: 0 <= t < 5 and 0 <= 8*io < n and 0 <= ii, jj < 8 and 0 <= j < n}",
        f"for t\n  for io\n    for ii\n      {store}\n    end\n    for jj\n      {load}\n    end\n  end\n"
        "  for j\n    x[j] = y[j]  {id=b}\n  end\nend" if load else
        f"for t\n  for io\n    for ii\n      {store}\n    end\n  end\n  for j\n    x[j] = y[j]  {{id=b}}\n  end\nend",
        data, name="two", assumptions="n >= 8 and n % 8 = 0",
    )  # fmt: skip
    knl = pl.tag_inames(knl, {"io": "g.0", "ii": "l.0"} | ({"jj": "l.0"} if load else {}))
    return knl.split_iname("j", 8, outer_tag="g.0", inner_tag="l.0")


def test_launches_that_need_to_be_their_own_are_named() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...], name="twice")
    assert refusal(knl) == ["a call is one launch, which it would only make slower"]
    assert refusal(pl.persist_blocks(damped(), 4)) == [
        "the blocks of 'damped_0' are numbered in an order of their own",
        "the blocks of 'damped_1' are numbered in an order of their own",
    ]
    assert refusal(two(6200)) == ["'two_0' asks for dynamic shared memory, 49600 bytes"]


@pytest.mark.nvrtc
def test_blocks_of_one_block_wait_for_its_shared_memory(machine: Machine) -> None:
    run, values = machine.compile(two(8), "cooperative"), np.random.default_rng(1).random(40)
    expected = values.copy()
    for _ in range(5):
        expected = expected[::-1].reshape(5, 8)[:, ::-1].ravel()
    np.testing.assert_array_equal(run(x=values.copy()).x, expected)

# }}}
