"""The same on a GPU: operators on streams and in graphs, arrays of JAX, Numba and DLPack, and what is refused."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.gpu import on_device
from tests.interop.libraries import F, added, matvec, matvec_backward, numba_module, refused

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.gpu
NAME = "polyloop_gpu_tests::"


def library(name: str) -> Any:
    """Return a library; skip the test where it is not installed."""
    return pytest.importorskip(name)


@pytest.fixture
def torch() -> Any:
    found = library("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch has no CUDA")
    found.manual_seed(0)
    return found


def tagged() -> pl.LoopKernel:
    return matvec().split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")


def scaled() -> pl.LoopKernel:
    """Return ``z[i] = s*x[i]``."""
    data = [pl.GlobalArg("x, z", F, shape="n"), pl.ValueArg("s", F), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i]", data, name="scaled")
    return knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")


def test_one_operator_on_both_devices(torch: Any) -> None:
    import polyloop.torch  # noqa: PLC0415 - where PyTorch is

    op = polyloop.torch.custom_op(tagged(), f"{NAME}both", backward=matvec_backward())
    a, x = torch.rand(300, 40), torch.rand(40)
    for device in ("cpu", "cuda", "cpu", "cuda"):
        one, two = (each.detach().to(device).requires_grad_() for each in (a, x))
        out = op(one, two, 2.0)
        assert out.device.type == device
        torch.testing.assert_close(out, 2 * one @ two, rtol=1e-4, atol=1e-4)
        own = torch.autograd.grad(torch.sin(out).sum(), (one, two))
        other = torch.autograd.grad(torch.sin(2 * one @ two).sum(), (one, two))
        for mine, theirs in zip(own, other, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
    torch.library.opcheck(op, (a.cuda().requires_grad_(), x.cuda(), 2.0))
    assert "is in host memory" in refused(lambda: op(a.cuda(), x, 1.0))


def test_an_operator_runs_on_the_current_stream_and_in_a_graph(torch: Any) -> None:
    import polyloop.torch  # noqa: PLC0415 - where PyTorch is

    op = polyloop.torch.custom_op(scaled(), f"{NAME}stream")
    x = torch.rand(1 << 20, device="cuda")
    op(x, 1.0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        busy = torch.rand(4096, 4096, device="cuda")
        for _ in range(10):
            busy = busy @ busy
            busy = busy / busy.norm()
        late = x * 0 + 3  # after the products
        out = op(late, 2.0)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(out, torch.full_like(out, 6.0))
    graph, given = torch.cuda.CUDAGraph(), torch.ones(1000, device="cuda")
    op(given, 2.0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found = op(op(given, 2.0), 3.0)
    for number in range(3):
        given.fill_(number)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, torch.full_like(found, 6.0 * number))


def test_compiled_by_inductor_without_graph_breaks(torch: Any) -> None:
    import polyloop.torch  # noqa: PLC0415 - where PyTorch is

    op = polyloop.torch.custom_op(scaled(), f"{NAME}compiled", backward=scaled_backward())

    def model(x: Any) -> Any:
        return torch.sin(op(torch.cos(x), 2.0)).sum()

    compiled = torch.compile(model, fullgraph=True)
    for size in (1000, 1001, 3000):
        x = torch.rand(size, device="cuda", requires_grad=True)
        (own,), (other,) = torch.autograd.grad(compiled(x), (x,)), torch.autograd.grad(model(x), (x,))
        torch.testing.assert_close(own, other)


def scaled_backward() -> pl.LoopKernel:
    data = [pl.GlobalArg("grad_x, grad_z", F, shape="n"), pl.ValueArg("s", F), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "grad_x[i] = s*grad_z[i]", data, name="scaled_backward")
    return knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")


def test_a_bundle_takes_and_allocates_arrays_of_other_libraries(torch: Any, tmp_path: Path) -> None:
    pl.export(scaled(), tmp_path, target=pl.CudaTarget(), bundle=True)
    run, host = pl.load(tmp_path), np.arange(1000, dtype=F)
    x = torch.as_tensor(host, device="cuda")
    for number in range(3):
        z = run(x=x, s=number).z
        assert (z.device, z.dtype, z.shape) == (x.device, x.dtype, x.shape)
        torch.testing.assert_close(z, number * x)

    class Lent:  # by DLPack alone
        def __dlpack__(self, **how: Any) -> Any:
            return x.__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

    z = torch.zeros_like(x)
    run(x=Lent(), z=z, s=4.0)
    torch.testing.assert_close(z, 4 * x)
    side, big = torch.cuda.Stream(), torch.ones(1 << 22, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # the kernel runs there, behind the additions
        for _ in range(20):
            big.add_(1)
        found = run(x=big, s=2.0).z
    side.synchronize()
    assert bool((found == 42).all())
    assert "requires gradients" in refused(lambda: run(x=x.clone().requires_grad_(), s=1.0))
    assert "[wrong-device]" in refused(lambda: run(x=x.cpu(), s=1.0))
    assert "[wrong-device]" in refused(lambda: run(x=host, s=1.0))


def test_a_bundle_allocates_arrays_of_jax(tmp_path: Path) -> None:
    jax = library("jax")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("JAX has no GPU")
    pl.export(scaled(), tmp_path, target=pl.CudaTarget(), bundle=True)
    x = jax.device_put(np.arange(1000, dtype=F), jax.devices("gpu")[0])
    z = pl.load(tmp_path)(x=x, s=3.0).z
    assert isinstance(z, jax.Array)
    np.testing.assert_array_equal(np.asarray(z), 3 * np.arange(1000, dtype=F))


def test_an_operator_costs_little_more_than_the_kernel(torch: Any) -> None:
    """The times of the host, without waiting; the best of several rounds."""
    import polyloop.torch  # noqa: PLC0415 - where PyTorch is

    op = polyloop.torch.custom_op(scaled(), f"{NAME}cost", backward=False)
    run, x = pl.compile(scaled(), target=pl.CudaTarget()), torch.rand(256, device="cuda")
    z = torch.empty_like(x)

    def host(call: Any) -> float:
        best = 1.0
        for _ in range(15):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(500):
                call()
            best = min(best, (time.perf_counter() - start) / 500)
        return 1e6 * best

    own = host(lambda: op(x, 2.0))
    kernel, allocation = host(lambda: run(x=x, z=z, s=2.0)), host(lambda: torch.empty_like(x))
    print(f"operator {own:.1f} us, kernel {kernel:.1f} us, allocation {allocation:.1f} us")
    assert own - kernel - allocation < 5


def test_an_operator_costs_nothing_in_a_graph(torch: Any) -> None:
    """A graph of many calls of the operator takes the time of one of as many bound calls of the kernel."""
    import polyloop.torch  # noqa: PLC0415 - where PyTorch is

    count = 200
    op = polyloop.torch.custom_op(scaled(), f"{NAME}graph_cost", backward=False)
    x = torch.rand(1 << 20, device="cuda")
    step = pl.compile(scaled(), target=pl.CudaTarget()).bind(x=x, z=torch.empty_like(x), s=2.0)

    def milliseconds(call: Any) -> float:
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                kept = call()
        best = 1e9
        for _ in range(10):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            best = min(best, begin.elapsed_time(end))
        del kept
        return best

    own, kernel = milliseconds(lambda: op(x, 2.0)), milliseconds(step)
    print(f"{count} operators in a graph {own:.3f} ms, bound calls {kernel:.3f} ms")
    assert own < 1.1 * kernel


def test_gradients_are_refused_on_a_gpu_too(torch: Any) -> None:
    run, x = pl.compile(scaled(), target=pl.CudaTarget()), torch.ones(1000, device="cuda")
    z = torch.zeros_like(x)
    for _ in range(3):
        run(x=x, z=z, s=2.0)
    x.requires_grad_()
    for _ in range(2):
        assert "'x' requires gradients" in refused(lambda: run(x=x, z=z, s=2.0))
        with torch.no_grad():
            run(x=x, z=z, s=3.0)
    assert torch.equal(z, torch.full_like(z, 3.0))


def test_changed_tensors_on_a_gpu(torch: Any) -> None:
    import polyloop.torch  # noqa: PLC0415 - where PyTorch is

    change = polyloop.torch.custom_op(added().split_iname("i", 128, outer_tag="g.0", inner_tag="l.0"), f"{NAME}changed")
    u, v = torch.zeros(1000, device="cuda"), torch.ones(1000, device="cuda")
    change(u, v)
    torch.compile(change, fullgraph=True, backend="aot_eager")(u, v)
    assert torch.equal(u, 2 * v)
    assert "[overlapping-arguments]" in refused(lambda: change(u[:400], u[200:600]))


def on_the_gpu(jax: Any) -> Any:
    """Return JAX's first GPU; skip where it has none."""
    try:
        return jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")


def test_arrays_of_jax_are_read_and_made_on_the_gpu() -> None:
    jax = library("jax")
    place = on_the_gpu(jax)
    run = pl.compile(scaled(), target=pl.CudaTarget())
    x = jax.device_put(np.arange(1000, dtype=F), place)
    results = [run(x=jax.numpy.sin(x), s=number).z for number in range(4)]
    for number, z in enumerate(results):
        assert isinstance(z, jax.Array)
        assert z.devices() == {place}
        np.testing.assert_allclose(np.asarray(z), number * np.sin(np.arange(1000)), rtol=1e-5, atol=1e-6)
    assert "[read-only-output]" in refused(lambda: run(x=x, z=results[0], s=2))
    assert "is on a GPU, and this kernel runs on the CPU" in refused(
        lambda: pl.compile(scaled(), target=pl.CTarget())(x=x, s=2))


def test_jax_call_runs_on_a_gpu_inside_of_jit() -> None:
    jax = library("jax")
    place = on_the_gpu(jax)
    import polyloop.jax  # noqa: PLC0415 - where JAX is

    f, rng = polyloop.jax.call(tagged(), backward=matvec_backward()), np.random.default_rng(0)
    given = [jax.device_put(rng.random(shape, F), place) for shape in ((1000, 300), (300,))]

    def own(a: Any, x: Any) -> Any:
        return jax.numpy.sum(jax.numpy.sin(f(jax.numpy.cos(a), x, 2.0)))

    def other(a: Any, x: Any) -> Any:
        return jax.numpy.sum(jax.numpy.sin(2 * (jax.numpy.cos(a) @ x)))

    with jax.default_matmul_precision("highest"):
        for mine, theirs in zip(jax.jit(jax.grad(own, (0, 1)))(*given), jax.jit(jax.grad(other, (0, 1)))(*given),
                                strict=True):  # fmt: skip
            assert mine.devices() == {place}
            np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3)
        batches = jax.numpy.stack([given[1], 2 * given[1], 3 * given[1]])
        found = jax.jit(jax.vmap(lambda a, x: f(a, x, 1.0), (None, 0)))(given[0], batches)
        np.testing.assert_allclose(found, batches @ given[0].T, rtol=1e-3)
    assert f(*given, 1.0).devices() == {place}, "outside of jit, too"
    small = jax.jit(lambda a, x: f(a, x, 1.0))(given[0][:7], given[1])  # another size
    np.testing.assert_allclose(small, given[0][:7] @ given[1], rtol=1e-3)


def test_jax_call_costs_the_host_little_on_a_gpu() -> None:
    """The time of a call inside of ``jit``, less that of a function of JAX with as much to do."""
    jax = library("jax")
    place = on_the_gpu(jax)
    import polyloop.jax  # noqa: PLC0415 - where JAX is

    data = [pl.GlobalArg("x, z", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", data, name="doubled")
    call = polyloop.jax.call(knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0"), backward=False)
    x = jax.device_put(np.ones(256, F), place)
    many = 50

    def chain(step: Any) -> Any:
        def run(x: Any) -> Any:
            for _ in range(many):
                x = step(x) * 0.5
            return x

        return jax.jit(run)

    def microseconds(run: Any) -> float:
        run(x).block_until_ready()
        best = 1.0
        for _ in range(20):
            start = time.perf_counter()
            run(x).block_until_ready()
            best = min(best, time.perf_counter() - start)
        return 1e6 * best / many

    barrier = jax.lax.optimization_barrier
    own, plain = microseconds(chain(lambda x: call(x=x))), microseconds(chain(lambda x: barrier(2 * barrier(x))))
    print(f"a call in jit {own:.1f} us, JAX's own {plain:.1f} us")
    assert own - plain < 10


def test_a_layer_of_a_jax_model_on_a_gpu() -> None:
    on_the_gpu(library("jax"))
    folder = ROOT / "examples/embedding/jax_layer"
    done = subprocess.run(
        [sys.executable, "layer.py"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on gpu: gradients agree" in done.stdout


def test_conjugate_gradients_on_a_gpu(torch: Any) -> None:
    del torch
    folder = ROOT / "examples/embedding/sparse_cg"
    done = subprocess.run(
        # four million unknowns: with fewer, kernels that are timed by themselves find their vectors in the cache
        [sys.executable, "solve_gpu.py", "2000"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])})
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    ratio = float(done.stdout.partition("takes ")[2].partition(" times")[0])
    assert ratio < 1.1


def test_arrays_of_numba() -> None:
    cuda = numba_module("numba.cuda")
    run, x = pl.compile(scaled(), target=pl.CudaTarget()), cuda.to_device(np.arange(1000, dtype=F))
    z = cuda.to_device(np.zeros(1000, F))
    assert run(x=x, z=z, s=2).z is z
    cuda.synchronize()
    assert np.array_equal(z.copy_to_host(), 2 * np.arange(1000, dtype=F))
    made = cuda.as_cuda_array(run(x=x, s=3).z)  # which Numba reads where it lies
    assert np.array_equal(made.copy_to_host(), 3 * np.arange(1000, dtype=F))
    assert pl.as_dlpack(z).__dlpack_device__() == (2, 0)  # Numba's arrays have no DLPack


@pytest.mark.parametrize("name", ["torch", "cupy", "jax"])
def test_results_are_read_by_dlpack_where_they_lie(name: str) -> None:
    """A result beside arrays of PyCUDA, or ours, is read by another library without a copy, and kept alive by it."""
    reader = library(name)
    if name == "jax":
        on_the_gpu(reader)
    read = (importlib.import_module("jax.dlpack") if name == "jax" else reader).from_dlpack
    where: dict[str, Any] = {"torch": lambda x: x.data_ptr(), "cupy": lambda x: x.data.ptr,
                             "jax": lambda x: x.unsafe_buffer_pointer()}
    back: dict[str, Any] = {"torch": lambda x: x.cpu().numpy(), "cupy": lambda x: x.get(), "jax": np.asarray}
    run, host = pl.compile(scaled(), target=pl.CudaTarget()), np.arange(1000, dtype=F)
    with on_device("scaled", {"x": host}) as (arrays, _):
        z = run(x=arrays["x"], s=3).z
    given = [pl.as_dlpack(z), *([z] if hasattr(z, "__dlpack__") else [])]
    pointer = int(z.gpudata)
    found: Any = None
    for lent in given:
        found = read(lent)
        assert where[name](found) == pointer
        np.testing.assert_array_equal(back[name](found), 3 * host)
    if name == "torch":
        found.add_(1)  # of the same memory
        side = reader.cuda.Stream()
        with reader.cuda.stream(side):
            again = reader.from_dlpack(pl.as_dlpack(z)) * 2
        side.synchronize()
        np.testing.assert_array_equal(again.cpu().numpy(), 2 * (3 * host + 1))
        np.testing.assert_array_equal(z.get(), 3 * host + 1)
        copied = reader.from_dlpack(pl.as_dlpack(z), copy=True) if _takes_copy(reader) else None
        assert copied is None or copied.data_ptr() != pointer
    del z, given, lent
    for _ in range(3):
        other = pl.compile(scaled(), target=pl.CudaTarget())(x=host, s=9).z
        assert other[1] == 9
    assert back[name](found)[2] in (6, 7), "the memory is still the reader's"


def _takes_copy(torch: Any) -> bool:
    return "copy" in inspect.signature(torch.from_dlpack).parameters


def test_arrays_that_describe_or_lend_themselves() -> None:
    cupy = library("cupy")
    run = pl.compile(scaled(), target=pl.CudaTarget())
    x = cupy.arange(1000, dtype=F)
    assert isinstance(run(x=x, s=2).z, cupy.ndarray)
    z = cupy.zeros_like(x)

    class Described:
        """An array that only describes itself, as those of libraries do that are not known."""

        def __init__(self, array: Any) -> None:
            self._array = array

        @property
        def __cuda_array_interface__(self) -> Any:
            return self._array.__cuda_array_interface__

    class Lent:
        """An array that only lends its memory by DLPack."""

        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__(**options)

    one, two = Described(x), Described(z)
    assert run(x=one, z=two, s=3).z is two
    cupy.cuda.get_current_stream().synchronize()
    assert bool((z == 3 * x).all())
    run(x=Lent(), z=z, s=4)
    cupy.cuda.get_current_stream().synchronize()
    assert bool((z == 4 * x).all())
    for given in (one, Lent()):  # new outputs are memory of the library that launches
        made = cupy.asarray(run(x=given, s=3).z)
        cupy.cuda.get_current_stream().synchronize()
        assert bool((made == 3 * x).all())


def test_the_module_of_the_examples(torch: Any) -> None:
    folder = ROOT / "examples/embedding/torch_module"
    done = subprocess.run(
        [sys.executable, "module.py"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 steps on cuda: gradients agree" in done.stdout


def test_gradients_that_follow_from_the_kernel() -> None:
    torch = library("torch")
    polyloop_torch = library("polyloop.torch")
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}", "y[i] = sum(j, sin(a[i, j])*x[idx[j]])",
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("x", F, shape="l"), pl.GlobalArg("idx", np.int32, shape="n"),
         pl.GlobalArg("y", F), ...])
    op = polyloop_torch.custom_op(knl, f"{NAME}derived")
    a = torch.rand(70, 300, device="cuda", requires_grad=True)
    x = torch.rand(9, device="cuda", requires_grad=True)
    idx = torch.randint(0, 9, (300,), device="cuda", dtype=torch.int32)
    ours = torch.autograd.grad(op(a, x, idx).square().sum(), (a, x))
    theirs = torch.autograd.grad((torch.sin(a) @ x[idx.long()]).square().sum(), (a, x))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
