"""Programs for OpenCL through PyOpenCL: arrays, queues, events, offsets, errors.  PoCL serves as the device."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.opencl.devices import address_of, opencl_available

pytestmark = pytest.mark.opencl
TARGET = pl.OpenCLTarget()
F = np.float32


@pytest.fixture(scope="module")
def cl() -> Any:
    module = importlib.import_module("pyopencl")
    importlib.import_module("pyopencl.array")
    return module


@pytest.fixture
def queue(cl: Any) -> Any:
    context = cl.create_some_context(interactive=False)
    yield cl.CommandQueue(context)  # noqa: PT022  # Intel's does not keep its context


def doubled(**how: Any) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x", F, shape="n", **how),
                         pl.GlobalArg("y", F, shape="n"), ...], name="doubled")  # fmt: skip
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


@pytest.fixture(scope="module")
def run() -> pl.CompiledKernel:
    return pl.compile(doubled(), target=TARGET)


X = np.arange(300, dtype=F)


def test_tune_races_choices_on_the_queue_of_the_arrays(cl: Any, queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(length: int) -> pl.LoopKernel:
        knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n")], name="twice")
        return pl.split_iname(knl, "i", length, outer_tag="g.0", inner_tag="l.0")

    def no_other(*_: object) -> None:
        pytest.fail("the arrays have a queue")

    monkeypatch.setattr("polyloop.tuning.queues.default_queue", no_other)
    args = {"x": cl.array.to_device(queue, X), "y": cl.array.zeros(queue, 300, F)}
    found = pl.tune(build, {"length": [32, 64, 1 << 20]}, args, target=TARGET, seconds=0.3, remember=False)
    outcomes = {trial.choice["length"]: trial.outcome.name for trial in found.trials}
    assert outcomes == {32: "TIMED", 64: "TIMED", 1 << 20: "REFUSED"}
    assert found.best["length"] in {32, 64}
    monkeypatch.undo()
    assert np.array_equal(found.compiled(x=X).y, 2 * X)


def test_tune_copies_numpy_arrays_to_the_device() -> None:
    x = np.ones(1000, F)
    found = pl.tune(doubled, {}, {"x": x}, target=TARGET, seconds=0.1, remember=False)
    assert found.trials[0].time is not None
    assert np.array_equal(x, np.ones(1000, F))


def test_numpy_arrays_are_copied(run: pl.CompiledKernel) -> None:
    y = run(x=X).y
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, 2 * X)
    given = np.full_like(X, np.nan)
    assert run(x=X, y=given).y is given
    np.testing.assert_array_equal(given, 2 * X)


def test_nothing_between_the_elements_is_written() -> None:
    arguments = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("y", F, shape="n", strides="2"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", arguments)
    whole = np.full(20, 7, F)
    pl.compile(knl, target=TARGET)(x=X[:10], y=whole[::2])
    np.testing.assert_array_equal(whole[::2], 2 * X[:10])
    np.testing.assert_array_equal(whole[1::2], 7)


def test_arrays_of_pyopencl_are_used_in_place(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    x, y = cl.array.to_device(queue, X), cl.array.zeros(queue, X.size, F)
    result = run(queue=queue, x=x, y=y)
    assert result.y is y
    np.testing.assert_array_equal(y.get(), 2 * X)
    made = run(x=x).y
    assert isinstance(made, cl.array.Array)
    assert made.queue is queue
    np.testing.assert_array_equal(made.get(), 2 * X)


def test_the_queue_may_come_first(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    np.testing.assert_array_equal(run(queue, x=cl.array.to_device(queue, X)).y.get(), 2 * X)
    np.testing.assert_array_equal(run(queue, x=X).y, 2 * X)


def test_arrays_have_the_event_of_the_call(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    x, y = cl.array.to_device(queue, X), cl.array.empty(queue, X.size, F)
    run(x=x, y=y)
    assert y.events[-1] == x.events[-1]
    y.events[-1].wait()
    assert y.events[-1].command_execution_status == cl.command_execution_status.COMPLETE


def test_a_call_waits_for_what_it_is_told(cl: Any, run: pl.CompiledKernel) -> None:
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    x, y, gate = cl.array.to_device(queue, X), cl.array.zeros(queue, X.size, F), cl.UserEvent(context)
    run(queue=queue, x=x, y=y, wait_for=[gate])
    event = y.events[-1]
    queue.flush()
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    np.testing.assert_array_equal(y.get(), 2 * X)


def test_launches_follow_one_another_on_a_queue_without_an_order(cl: Any) -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 0 <= i < n}",
        """
        for t
            for i
                v[i] = u[n - 1 - i] + 1 {id=there}
            end
            ... gbarrier
            for i
                u[i] = 2*v[i] {id=back, dep=there}
            end
            ... gbarrier
        end
        """,
        [pl.GlobalArg("u", np.int64, shape="n"), pl.TemporaryVariable("v", np.int64, shape="n", address_space="global"),
         ...],
        assumptions="n >= 1",
    )  # fmt: skip
    run = pl.compile(pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0"), target=TARGET)
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(
        context,
        properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE,
    )
    expected = np.arange(50)
    u = cl.array.to_device(queue, expected.copy())
    for _ in range(6):
        expected = 2 * (expected[::-1] + 1)
    run(queue=queue, u=u, steps=6)
    np.testing.assert_array_equal(u.get(), expected)


def test_a_call_is_repeated_with_its_arguments(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    x, y = cl.array.to_device(queue, X), cl.array.zeros(queue, X.size, F)
    step = run.bind(x=x, y=y)
    for value in (1, 2):
        x.fill(value)
        assert step().y is y
        np.testing.assert_array_equal(y.get(), 2 * value)
    y.fill(0)
    step(stream=cl.CommandQueue(queue.context))
    y.events[-1].wait()
    np.testing.assert_array_equal(y.get(), 2 * value)
    with pytest.raises(pl.ArgumentError, match="a bound call copies nothing"):
        run.bind(x=X, y=X.copy())


def test_a_part_of_a_buffer_is_passed_where_a_device_allows_it(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    x, unit = cl.array.to_device(queue, X), queue.device.mem_base_addr_align // 32
    np.testing.assert_array_equal(run(x=x[unit:]).y.get(), 2 * X[unit:])
    with pytest.raises(pl.ArgumentError) as refused:
        run(x=x[1:])
    assert refused.value.codes == ("misaligned-argument",)
    assert "'x' begins 4 bytes after its buffer" in str(refused.value)
    whole = pl.compile(doubled(offset=pl.auto), target=TARGET)
    np.testing.assert_array_equal(whole(x=x[1:]).y.get(), 2 * X[1:])
    np.testing.assert_array_equal(whole(x=X[1:]).y, 2 * X[1:])


def test_shared_virtual_memory_is_used_in_place(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    if not queue.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
        pytest.skip("the device has no shared virtual memory")
    allocator = importlib.import_module("pyopencl.tools").SVMAllocator(queue.context, queue=queue)
    x = cl.array.to_device(queue, X, allocator=allocator)
    np.testing.assert_array_equal(run(queue=queue, x=x).y.get(), 2 * X)
    with pytest.raises(pl.ArgumentError, match="'x' begins 4 bytes after its buffer"):
        run(queue=queue, x=x[1:])


def test_addresses_tell_buffers_apart(cl: Any, queue: Any) -> None:
    one, other = (cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 1 << 20) for _ in range(2))
    assert abs(address_of(one) - address_of(other)) >= 1 << 40
    assert address_of(one.get_sub_region(1 << 12, 64)) == address_of(one) + (1 << 12)


def test_what_is_written_overlaps_nothing(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    x = cl.array.to_device(queue, X)
    with pytest.raises(pl.ArgumentError) as refused:
        run(x=x, y=x)
    assert refused.value.codes == ("overlapping-arguments",)


def test_vectors_of_pyopencl_are_the_packages(cl: Any, queue: Any) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", pl.vec.float4, shape="n"), ...])
    values = np.arange(40, dtype=F)
    x = cl.array.to_device(queue, values.view(importlib.import_module("pyopencl.cltypes").float4))
    y = pl.compile(knl, target=TARGET)(x=x).y
    np.testing.assert_array_equal(y.get().view(F), 2 * values)


def test_types_that_were_left_open_follow_the_arrays(cl: Any, queue: Any) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", shape="n"), ...])
    run = pl.compile(knl, target=TARGET)
    for dtype in (F, np.int64):
        x = np.arange(9, dtype=dtype)
        np.testing.assert_array_equal(run(queue, x=cl.array.to_device(queue, x)).y.get(), 2 * x)
        np.testing.assert_array_equal(run(x=x).y, 2 * x)
    assert [name.partition(":")[0] for name in run.specializations] == ["opencl", "opencl"]  # type: ignore[attr-defined]


def test_an_argument_may_be_called_queue(cl: Any, queue: Any) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "queue[i] = wait_for[i]",
                         [pl.GlobalArg("queue, wait_for", F, shape="n"), ...])  # fmt: skip
    x = cl.array.to_device(queue, X)
    gate = cl.enqueue_marker(queue)
    np.testing.assert_array_equal(
        pl.compile(knl, target=TARGET)(wait_for=x, queue_=queue, wait_for_=[gate])["queue"].get(), X)  # fmt: skip


def test_no_elements_are_no_work(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    assert run(x=np.zeros(0, F)).y.shape == (0,)
    assert run(x=cl.array.zeros(queue, 0, F)).y.shape == (0,)


def test_a_compiled_kernel_is_pickled(run: pl.CompiledKernel) -> None:
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again(x=X).y, 2 * X)
    assert copy.copy(run) is run
    assert (run.target, run.ptx, run.cubin, dict(run.resources)) == ("opencl", "", b"", {})


def test_a_larger_array_gets_indices_of_64_bits() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i*2**31]",
                         [pl.GlobalArg("x", np.int8, shape="1 + (n - 1)*2**31"), pl.GlobalArg("y", np.int8, shape="n"),
                          ...], assumptions="n >= 1")  # fmt: skip
    assert pl.compile(knl, target=TARGET)(x=np.full(1, 3, np.int8)).y.tolist() == [3]


# {{{ refusals


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"x": X, "queue": 3}, "wrong-type", "'queue' is no command queue but int"),
        ({"x": [1.0]}, "wrong-type", "pass a NumPy array or a pyopencl.array.Array"),
        ({"x": X.astype(np.float64)}, "wrong-dtype", "'x' has dtype float64, expected float32"),
        ({"x": X, "z": X}, "unknown-argument", "no argument 'z'"),
    ],
)
def test_wrong_arguments(run: pl.CompiledKernel, arguments: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(pl.ArgumentError) as refused:
        run(**arguments)
    assert refused.value.codes == (code,)
    assert said in str(refused.value)


def test_a_buffer_does_not_say_what_is_in_it(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    with pytest.raises(pl.ArgumentError, match=r"pyopencl.array.Array\(queue, shape, dtype, data=x\)"):
        run(x=cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 1200))


def test_arrays_and_queue_are_of_one_context(cl: Any, queue: Any, run: pl.CompiledKernel) -> None:
    context = cl.Context([queue.device])
    other = cl.CommandQueue(context)
    x = cl.array.to_device(queue, X)
    with pytest.raises(pl.ArgumentError, match="'x' is in another OpenCL context than the queue"):
        run(queue=other, x=x)
    with pytest.raises(pl.ArgumentError) as refused:
        run(x=x, y=cl.array.zeros(other, X.size, F))
    assert refused.value.codes == ("wrong-device",)


def test_what_a_device_lacks_is_said_at_the_call(queue: Any) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...])
    knl = pl.split_iname(knl, "i", 65536, outer_tag="g.0", inner_tag="l.0")
    huge = pl.OpenCLTarget(pl.OpenCLDevice(max_threads=65536, max_block=(65536, 1, 1)))
    with pytest.raises(pl.CompilerError) as refused:
        pl.compile(knl, target=huge)(queue, x=X)
    assert refused.value.codes == ("device-lacks",)
    assert "'loop_kernel' has work-groups of 65536 x 1 x 1" in str(refused.value)


def test_a_device_of_another_name_is_not_there() -> None:
    run = pl.compile(doubled(), target=pl.OpenCLTarget(pl.OpenCLDevice("no such device")))
    with pytest.raises(pl.CompilerError, match=r"'no such device', and there is no such device \[no-opencl\]"):
        run(x=X)


def test_the_compilers_words_are_passed_on() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [pl.CInstruction("i", "y[i] = no_such_function(x[i]);",
                         read_variables="x", assignees="y[i]")], [pl.GlobalArg("x, y", F, shape="n"), ...])  # fmt: skip
    with pytest.raises(pl.CompilerError) as refused:
        pl.compile(knl, target=TARGET)(x=X, y=X.copy())
    assert refused.value.codes == ("opencl-compiler-failed",)
    assert "no_such_function" in str(refused.value)


# }}}


def test_the_device_of_the_queue_is_a_target(queue: Any) -> None:
    target = pl.OpenCLTarget(queue.device)
    assert target.limits.max_threads_per_block == queue.device.max_work_group_size
    assert pl.OpenCLDevice.of(queue.device).name == queue.device.name
    np.testing.assert_array_equal(pl.compile(doubled(), target=target)(x=X).y, 2 * X)


def test_two_kernels_are_compared_on_it() -> None:
    whole = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...])
    assert "opencl" in repr(pl.check_equivalence(whole, doubled(), targets=[TARGET]))
    assert opencl_available() == (True, "")


@pytest.mark.parametrize(("operation", "dtype"), [("sum", F), ("sum", np.int64), ("max", np.int32), ("any", F)])
def test_reductions_of_a_work_group(queue: Any, operation: str, dtype: Any) -> None:
    """Through sub-groups where the device has them: Intel's runtime for processors does, PoCL 3 does not."""
    value = "a[i, j] > 7" if operation == "any" else "a[i, j]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", f"s[i] = {operation}(j, {value})",
                         [pl.GlobalArg("a", dtype, shape="n, m"), ...], name="whole", assumptions="m >= 1")  # fmt: skip
    knl = pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", 96, inner_tag="l.0")
    a = np.random.default_rng(0).integers(0, 9, (4, 300)).astype(dtype)
    a[1] = 1
    found = pl.OpenCLDevice.of(queue.device).has_sub_groups
    run = pl.compile(knl, target=pl.OpenCLTarget(queue.device, version="3.0" if found else "1.2"))
    assert ("sub_group" in run.program.device_code) == (found and operation != "any")
    wanted = (a > 7).any(axis=1) if operation == "any" else getattr(np, operation)(a, axis=1)
    assert np.array_equal(run(queue=queue, a=a).s, wanted)
