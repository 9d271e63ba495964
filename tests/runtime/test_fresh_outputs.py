"""Outputs that a call allocates: a repeated call makes new ones, and packs all else once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks import launch
from polyloop.errors import ArgumentError
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime import views
from polyloop.runtime.gpu import on_device
from polyloop.runtime.invoke import CompiledKernel
from tests.runtime.fake_machine import Machine, machine_of
from tests.runtime.test_call_times import microseconds

F = np.float32
X = np.arange(6, dtype=F)


@pytest.fixture(scope="module")
def scaled() -> CompiledKernel:
    data = [pl.GlobalArg("x, z", F, shape="n"), pl.ValueArg("s", F), ...]
    return pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i]", data, name="scaled"), target=pl.CTarget())


@pytest.fixture(scope="module")
def both() -> CompiledKernel:
    """Two outputs, one without axes and one with a pitch; a workspace between launches."""
    text = """
        u[i] = 2*(x[i] + s)                 {id=u}
        y[k, j] = u[n - 1 - j] + k          {id=y, dep=u}
        d = sum(j, u[j])                    {id=d, dep=u}
        """
    data = [pl.GlobalArg("x", F, shape="n"), pl.TemporaryVariable("u", F, shape="n", address_space="global"),
            pl.GlobalArg("y", F, shape="m, n", strides="n + 3, 1"), pl.GlobalArg("d", F, shape=()),
            pl.ValueArg("s", F), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j < n and 0 <= k < m}", text, data, name="both")
    return pl.compile(knl.tag_inames("i:g.0"), target=pl.CTarget())


def expected(x: np.ndarray, s: float, m: int) -> tuple[np.ndarray, float]:
    u = 2 * (x + F(s))
    return u[::-1] + np.arange(m, dtype=F)[:, None], float(u.sum())


def checks(run: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    seen: list[object] = []
    binder = run._small.binder
    bind = binder.bind

    def noted(*given: Any, **how: Any) -> Any:
        seen.append(given)
        return bind(*given, **how)

    monkeypatch.setattr(binder, "bind", noted)
    return seen


def test_a_call_that_allocates_costs_what_one_with_outputs_does(scaled: CompiledKernel) -> None:
    dot = pl.make_kernel("{[i]: 0 <= i < n}", "d = sum(i, x[i])",
                         [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("d", F, shape=()), ...], name="dot")
    summed = pl.compile(dot, target=pl.CTarget())
    z, d = np.empty(6, F), np.empty((), F)
    given, new, given0, new0 = microseconds(
        lambda: scaled(x=X, z=z, s=1.0), lambda: scaled(x=X, s=1.0), lambda: summed(x=X, d=d), lambda: summed(x=X))
    assert new - given < 1.0, f"{given:.2f} us with an output, {new:.2f} us with a new one"
    assert new0 - given0 < 1.0, f"{given0:.2f} us with an output without axes, {new0:.2f} us with a new one"


def test_outputs_are_new_at_each_call_and_like_the_first_ones(
    both: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, kept, other = checks(both, monkeypatch), [], X + 1
    for number in range(12):
        m, x = 2 + number % 3 // 2, (X, other)[number % 4 == 3]
        found = both(x=x, s=number / 4, m=m)
        kept.append((found, *expected(x, number / 4, m)))
        assert found.keys() == {"y", "d"}
        assert (found.y.shape, found.y.strides, found.d.shape) == ((m, 6), (36, 4), ())
        assert all(array.__array_interface__["data"][0] % 64 == 0 for array in found)
    assert len(seen) == 4  # two arrays, two numbers of rows
    for found, y, d in kept:
        np.testing.assert_array_equal(found.y, y)
        assert found.d == d
    assert len({id(found.y) for found, _, _ in kept}) == 12
    given = np.empty((2, 9), F)[:, :6]
    assert both(x=X, s=1.0, m=2, y=given).y is given  # one is passed, and the other is not
    np.testing.assert_array_equal(given, expected(X, 1.0, 2)[0])


def test_threads_have_outputs_of_their_own(both: CompiledKernel) -> None:
    def calls(number: int) -> bool:
        for step in range(100):
            found, (y, d) = both(x=X, s=number + step / 8, m=2), expected(X, number + step / 8, 2)
            if not (np.array_equal(found.y, y) and found.d == d):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))


def test_poison_is_asked_for_at_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [pl.GlobalArg("x, z", F, shape="n"), ...]
    odd = pl.make_kernel("{[i]: 0 <= i < n and i mod 2 = 1}", "z[i] = x[i]", data, name="odd")
    run = pl.compile(odd, target=pl.CTarget())
    for _ in range(3):
        run(x=X)
    assert np.isnan(run(x=X, poison=True).z).tolist() == [True, False] * 3
    monkeypatch.setenv("POLYLOOP_POISON", "1")
    for _ in range(3):
        assert np.isnan(run(x=X).z).tolist() == [True, False] * 3
        assert run(x=X, poison=False).z[1::2].tolist() == [1, 3, 5]
    monkeypatch.setenv("POLYLOOP_POISON", "0")
    assert run(x=X).z[1::2].tolist() == [1, 3, 5]


def test_no_memory_is_the_same_error_at_a_repeated_call(
    scaled: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> np.ndarray:
        raise MemoryError("no")

    class Empty:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def empty(self, *shape: Any) -> np.ndarray:
            return none() if broken else np.empty(*shape)

    broken, x = list[int](), np.ones(7, F)
    monkeypatch.setattr(views, "np", Empty())
    for _ in range(3):
        assert scaled(x=x, s=2.0).z.tolist() == [2.0] * 7
    broken.append(1)
    for _ in range(2):
        with pytest.raises(ArgumentError) as error:
            scaled(x=x, s=2.0)
        assert error.value.codes == ("too-large",)
    broken.clear()
    assert scaled(x=x, s=2.0).z.tolist() == [2.0] * 7


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with machine_of(monkeypatch) as found:
        yield found


def two_outputs() -> LoopKernel:
    text = """
        u[i] = 2*(x[i] + s)          {id=u}
        y[j] = u[n - 1 - j] + k      {id=y, dep=u}
        """
    data = [pl.GlobalArg("x, y, u", F, shape="n"), pl.ValueArg("s", F), pl.ValueArg("k", np.int32), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="two_outputs")
    return knl.tag_inames("i:g.0, j:g.0")


def calls_are_right(run: CompiledKernel, x: Any, get: Callable[[Any], np.ndarray], count: int = 6) -> None:
    host, kept = get(x), []
    for number in range(count):
        found = run(x=x, s=float(number), k=number)
        u = 2 * (host + F(number))
        kept.append((found, u))
    for number, (found, u) in enumerate(kept):
        np.testing.assert_array_equal(get(found.u), u)
        np.testing.assert_array_equal(get(found.y), u[::-1] + number)


@pytest.mark.nvrtc
@pytest.mark.parametrize("launches", ["host", "graph", "cooperative"])
def test_launches_on_a_gpu_take_the_pointers_of_new_outputs(
    launches: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.driver.stack.append(object())
    run = machine.compile(two_outputs(), launches)
    seen = checks(run, monkeypatch)
    calls_are_right(run, machine.array(X), lambda array: array.get())
    assert len(seen) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("launches", ["host", "graph", "cooperative"])
@pytest.mark.parametrize("library", ["torch", "cupy", "own"])
def test_gpu_outputs_are_new_at_each_call(library: str, launches: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pl.compile(two_outputs(), pl.CudaTarget(), launches=launches)
    seen, values = checks(run, monkeypatch), np.arange(300, dtype=F)
    if library == "own":
        with on_device("two_outputs", {"x": values}) as (arrays, _):
            calls_are_right(run, arrays["x"], lambda array: array.get())
    elif library == "torch":
        x = pytest.importorskip("torch").as_tensor(values, device="cuda")
        calls_are_right(run, x, lambda tensor: tensor.cpu().numpy())
    else:
        x = pytest.importorskip("cupy").asarray(values)
        calls_are_right(run, x, lambda array: array.get())
    assert len(seen) == 1


@pytest.mark.gpu
def test_gpu_a_call_that_allocates_costs_little_more_than_torch(capsys: pytest.CaptureFixture[str]) -> None:
    torch: Any = pytest.importorskip("torch")
    run = pl.compile(launch.add(), pl.CudaTarget())
    a, b, c, d = (torch.ones(256, device="cuda") for _ in range(4))
    given, new, empty = microseconds(
        lambda: run(a=a, b=b, c=c, d=d), lambda: run(a=a, b=b, c=c), lambda: torch.empty_strided(
            (256,), (1,), dtype=torch.float32, device="cuda"))
    with capsys.disabled():
        print(f"\n{given:.2f} us with an output, {new:.2f} us with a new one, torch.empty_strided {empty:.2f} us")
    assert new - given < 1.5 * empty
