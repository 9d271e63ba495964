"""Calls that were checked before, and calls with their arguments bound."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import ArgumentError, CompilerError
from polyloop.expr.dtypes import to_dtype
from polyloop.runtime.arguments import Binder, Result
from polyloop.runtime.cuda.rawdriver import RawDriver
from polyloop.runtime.invoke import CompiledKernel, load
from polyloop.runtime.packed import CurrentStream, Launch, PackedCall
from polyloop.runtime.repeat import MOST_REPEATS, MOST_SIGNATURES, Repeats, Signature
from tests.runtime.programs import F4, axpy, steps

X = np.arange(1, 6, dtype=F4)


@pytest.fixture
def run() -> CompiledKernel:
    return load(axpy("c"))


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry for each call that is checked."""
    found: list[str] = []
    bind = Binder.bind

    def counted(self: Binder, *arguments: Any, **options: Any) -> Any:
        found.append(self.program.kernel)
        return bind(self, *arguments, **options)

    monkeypatch.setattr(Binder, "bind", counted)
    return found


def test_the_same_call_is_checked_once(run: CompiledKernel, checked: list[str]) -> None:
    x, z = X.copy(), np.empty(5, F4)
    for step in range(3):
        x[:] = X + step
        result = run(alpha=2, x=x, y=X, z=z)
        np.testing.assert_array_equal(z, 2 * x + X)
        assert result.z is z
        assert tuple(result) == (z,)
    assert len(checked) == 1
    run(x=x, alpha=2, y=X, z=z)  # in another order
    np.testing.assert_array_equal(z, 2 * x + X)


@pytest.mark.parametrize("other", [-0.0, 1.0, np.float32(2), np.float64(2), 3, np.array(2.5), float("nan")])
def test_another_number_is_another_call(run: CompiledKernel, other: Any) -> None:
    z = np.empty(5, F4)
    for alpha in (0.0, 2, other, 0.0, other):
        run(alpha=alpha, x=X, y=-0.0 * X, z=z)
        expected = (np.float32(alpha) * X + -0.0 * X).astype(F4)
        np.testing.assert_array_equal(z, expected)
        np.testing.assert_array_equal(np.signbit(z), np.signbit(expected))


NUMBERS: tuple[Any, ...] = (
    0.0, -0.0, 0.1, 1e30, -1e300, float("inf"), float("nan"), 3, -1, 2**24 + 1, 2**53 + 1, 2**31, 2**63, 2**64, 10**400,
    True, np.float32(0.1), np.float64(0.1), np.float16(0.1), np.longdouble(0.1), np.int8(-1), np.uint64(2**64 - 1),
    np.int64(2**53 + 1), np.bool_(True), 1j, np.complex64(1 + 2j), complex(0.1, -0.0), np.array(2.5), np.array(7),
    np.ma.masked_array(2.5), "2", None)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("dtype", [
    "bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "bfloat16", "float16", "float32", "float64",
    "complex64", "complex128"])
def test_a_number_that_nothing_depends_on_is_converted_as_at_the_first_call(dtype: str, checked: list[str]) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "o[i] = t if i == 1 else s",
        [pl.GlobalArg("o", dtype, shape="n"), pl.ValueArg("s, t", dtype), ...])
    run, o = pl.compile(knl, pl.CTarget()), np.zeros(2, to_dtype(dtype))

    def bits(call: CompiledKernel, s: Any, t: Any) -> bytes | str:
        try:
            call(o=o, s=s, t=t)
        except ArgumentError as error:
            return str(error)
        return o.tobytes()

    accepted = [value for value in NUMBERS if isinstance(bits(run, value, value), bytes)]
    assert accepted
    for value in NUMBERS:
        expected = bits(load(run.program), value, accepted[0]), bits(load(run.program), accepted[-1], value)
        bits(run, value, accepted[0])
        for _ in range(3):
            assert (bits(run, value, accepted[0]), bits(run, accepted[-1], value)) == expected
    run(o=o, s=type(accepted[0])(1), t=type(accepted[0])(1))
    before = len(checked)
    for number in range(3):
        run(o=o, s=type(accepted[0])(number % 2), t=type(accepted[0])(1))
        assert o[0] == number % 2
    assert len(checked) == before


def test_numbers_of_several_launches_and_threads_are_kept_apart() -> None:
    text = """
        <> u[i] = s*x[i] + k          {id=first}
        y[j] = u[n - 1 - j] + t       {dep=first}
        """
    data = [pl.GlobalArg("x, y", np.float64, shape="n"), pl.ValueArg("s, t", np.float64), pl.ValueArg("k", np.int64),
            ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data)
    run = pl.compile(knl.tag_inames("i:g.0, j:g.0"), pl.CTarget())
    x = np.arange(5.0)
    ones = pl.compile(knl, pl.CTarget())

    def calls(number: int) -> bool:
        y, z = np.zeros(5), np.zeros(5)
        for step in range(200):
            s, t, k = number + step / 7, -float(step), 10 * number + step
            run(x=x, y=y, s=s, t=t, k=k)
            ones(k=k, t=t, s=s, y=z, x=x)
            if not (np.array_equal(y, (s*x + k)[::-1] + t) and np.array_equal(y, z)):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))


def test_a_size_is_looked_up_and_checked() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < m}", "y[i] = s*x[i]",
        [pl.GlobalArg("x, y", np.float64, shape="n"), pl.ValueArg("s", np.float64), ...], assumptions="m <= n")
    run, x = pl.compile(knl, pl.CTarget()), np.ones(6)
    for m in (2, 5, 6, 3, 3):
        y = np.zeros(6)
        run(x=x, y=y, s=float(m), m=m)
        np.testing.assert_array_equal(y, [m]*m + [0]*(6 - m))
    with pytest.raises(ArgumentError):
        run(x=x, y=y, s=1.0, m=7)


def test_a_launch_stores_its_numbers_in_the_parameters_first() -> None:
    raw, seen = RawDriver.__new__(RawDriver), list[bytes]()

    def launch_kernel(config: Any, function: Any, parameters: Any, extra: Any) -> int:
        fields = extra._obj
        seen.append(ctypes.string_at(fields[1], 16))
        return 0

    raw._library = SimpleNamespace(cuLaunchKernelEx=launch_kernel)  # type: ignore[assignment]
    on = raw.prepared(ctypes.c_void_p(1), (2, 1, 1), (32, 1, 1), shared=0, parameters=bytes(range(16)),
                      cells=[(12, ctypes.c_float), None, (4, ctypes.c_int32), (2, ctypes.c_bool)])
    for stream in (0, 7):
        assert on(stream)(1.5, "not passed", -2, True) == 0
    assert seen == [b"\0\1\1\3\xfe\xff\xff\xff\x08\x09\x0a\x0b" + np.float32(1.5).tobytes()] * 2


def test_an_array_of_no_axes_passed_as_a_number_is_read_each_time(run: CompiledKernel) -> None:
    alpha, z = np.array(2, F4), np.empty(5, F4)
    for value in (2, 3):
        alpha[...] = value
        run(alpha=alpha, x=X, y=X, z=z)
        np.testing.assert_array_equal(z, (value + 1) * X)


def test_an_output_without_axes_is_an_array_like_any_other(checked: list[str]) -> None:
    arrays = [pl.GlobalArg("x", np.float64, shape="n"), pl.GlobalArg("d", np.float64, shape=()), ...]
    run = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "d = sum(i, x[i])", arrays), target=pl.CTarget())
    d, x = np.zeros(()), np.arange(5.0)
    for number in range(4):
        x[0] = number
        assert run(x=x, d=d).d == 10 + number
    assert len(checked) == 1
    assert run(x=x, d=np.zeros(())).d == 13
    with pytest.raises(pl.ArgumentError):
        run(x=x, d=np.zeros(1))


def test_a_call_that_was_wrong_stays_wrong(run: CompiledKernel) -> None:
    z = np.empty(5, F4)
    run(alpha=2, x=X, y=X, z=z)
    wrongs: tuple[dict[str, Any], ...] = (
        {"x": X.astype(np.float64)}, {"alpha": True}, {"alpha": "2"}, {"x": X[:4]}, {"x": z}, {"x": X[::-1]})
    for wrong in wrongs:
        for _ in range(2):
            with pytest.raises(ArgumentError):
                run(**dict[str, Any](alpha=2, x=X, y=X, z=z) | wrong)
    z.flags.writeable = False
    with pytest.raises(ArgumentError) as error:
        run(alpha=2, x=X, y=X, z=z)
    assert error.value.codes == ("read-only-output",)
    with pytest.raises(CompilerError):
        run(alpha=2, x=X, y=X, z=np.empty(5, F4), stream=3)


def test_outputs_that_are_not_passed_are_new_at_each_call(run: CompiledKernel) -> None:
    first, second = run(alpha=2, x=X, y=X).z, run(alpha=2, x=X, y=X).z
    assert first is not second
    np.testing.assert_array_equal(first, second)


def test_no_array_is_kept_alive(run: CompiledKernel) -> None:
    z = np.empty(5, F4)
    run(alpha=2, x=X, y=X, z=z)
    seen = weakref.ref(z)
    del z
    assert seen() is None


COMPLEX, REAL = (SimpleNamespace(is_complex=is_complex) for is_complex in (True, False))


def _entry(signature: Signature, checked: Any) -> Any:
    handle: Any = int
    return signature.entry(checked, handle)


def _using(handle: Callable[[], int]) -> CurrentStream:
    return CurrentStream(handle, "()", handle)


class _Known:
    """The calls that are known, found in both ways: by the mapping of arguments, and by a function of their names."""

    def __init__(self, names: Sequence[str], outputs: Sequence[str]) -> None:
        self.repeats = Repeats(names, outputs)
        self._checked: list[tuple[object, ...]] = []
        self._note: Any = lambda *what: self._checked.append(what)

    def remember(self, given: Mapping[str, Any], packed: PackedCall) -> None:
        self.repeats.remember(given, packed)

    def again(self, given: Mapping[str, Any], stream: int | None = None) -> Any:
        found = self._entered(given, stream)
        if found is not None:
            return found
        again = self.repeats.again(given, stream)
        if again is None:
            return None
        assert self._entered(given, stream) is not None, "what was found by the mapping is found by name from now on"
        return again[0]

    def _entered(self, given: Mapping[str, Any], stream: int | None) -> Any:
        self._checked.clear()
        for signature in self.repeats._signatures:
            found = _entry(signature, self._note)(**given, stream=stream)
            if found is not None:
                return found
        assert all(what == (given, stream, None, ()) for what in self._checked)
        return None


class _Tensor:
    """What the checks look at of a Torch tensor."""

    def __init__(self, **facts: Any) -> None:
        self._facts = {"data_ptr": 4096, "stride": (3, 1), "is_neg": False, "is_conj": False, **facts}
        self._facts["is_contiguous"] = self._facts["stride"] == (3, 1)
        self.dtype, self.shape = facts.get("dtype", COMPLEX), facts.get("shape", (2, 3))
        self.device, self.requires_grad = facts.get("device", "cuda:0"), False

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self._facts[name]


class _Array:
    """The same of CuPy and PyCUDA arrays."""

    def __init__(self, **facts: Any) -> None:
        self.dtype, self.shape = facts.get("dtype", np.dtype(F4)), facts.get("shape", (2, 3))
        self.strides = facts.get("strides", (12, 4))
        self.gpudata = facts.get("pointer", 4096)
        self.data, self.ndim, self.size = SimpleNamespace(ptr=self.gpudata), len(self.shape), math.prod(self.shape)
        steps = [4 * math.prod(self.shape[axis + 1:]) for axis in range(self.ndim)]
        self._c_contiguous = self.strides == tuple(steps)

    def __len__(self) -> int:
        return int(self.shape[0])


def _like(base: type, module: str, name: str) -> type:
    return type(name, (base,), {"__module__": module, "__qualname__": name})


Tensor, Cupy, Pycuda = (
    _like(_Tensor, "torch", "Tensor"), _like(_Array, "cupy", "ndarray"), _like(_Array, "pycuda.gpuarray", "GPUArray"))


def _noting(seen: list[Any], name: object) -> Callable[[int], Launch]:
    def on(stream: int) -> Launch:
        return lambda: seen.append((name, stream))

    return on


class Derived(Tensor):  # type: ignore[misc, valid-type]
    pass


@pytest.mark.parametrize(("make", "others"), [
    (Tensor, [{"data_ptr": 8192}, {"stride": (1, 2)}, {"is_neg": True}, {"is_conj": True}, {"shape": (3, 2)},
              {"dtype": REAL}, {"dtype": REAL, "is_neg": True}, {"device": "cuda:1"},
              {"shape": (1, 3)}, {"shape": (1, 3), "stride": (9, 1)}]),
    (Cupy, [{"pointer": 8192}, {"strides": (4, 8)}, {"shape": (3, 2), "strides": (8, 4)}, {"shape": (3, 2)},
            {"dtype": np.dtype(np.float64)}, {"shape": (6,), "strides": (4,)}, {"shape": (2,), "strides": (4,)},
            {"shape": (2, 3, 1), "strides": (12, 4, 4)}, {"shape": (), "strides": ()},
            {"shape": (5,), "strides": (4,)}, {"shape": (2, 4), "strides": (16, 4)}]),
    (Pycuda, [{"pointer": 8192}, {"strides": (4, 8)}, {"shape": (3, 2)}, {"dtype": np.dtype(np.int32)},
              {"pointer": None}]),
])
def test_everything_that_the_checks_look_at_tells_calls_apart(make: Any, others: list[dict[str, Any]]) -> None:
    launched: list[tuple[int, int | None]] = []

    def launch(number: int) -> Callable[[int], Launch]:
        return _noting(launched, number)

    repeats = _Known(("x", "n"), ("x",))
    first = make()
    assert repeats.again({"x": first, "n": 1}, None) is None
    repeats.remember({"x": first, "n": 1}, PackedCall([launch(0)]))
    same = make()
    found = repeats.again({"x": same, "n": 1}, None)
    assert found is not None
    assert found.x is same
    assert repeats.again({"n": 1, "x": same}, 9) is not None  # in another order
    assert launched == [(0, 0), (0, 9), (0, 9)]
    for _ in range(3):  # and when the one before was the same
        assert repeats.again({"x": same, "n": 1}, None) is not None
    del launched[3:]
    wrongs: list[dict[str, Any]] = [{"x": make(**other), "n": 1} for other in others]
    wrongs += [{"x": same, "n": True}, {"x": same, "n": 2}, {"x": same}, {"x": same, "n": 1, "m": 1}]
    wrongs += [{"x": same, "n": np.int64(1)}, {"x": same, "m": 1}, {"x": Derived(), "n": 1}, {"x": same, "n": None}]
    for wrong in wrongs:
        assert repeats.again(wrong, None) is None
    assert len(launched) == 3
    for number, other in enumerate(others, 1):  # each is remembered beside the others, but for what has no key
        repeats.remember({"x": make(**other), "n": 1}, PackedCall([launch(number)]))
        again = repeats.again({"x": make(**other), "n": 1}, None)
        assert (again is None) == bool({"is_neg", "is_conj"} & other.keys() or other.get("pointer", 1) is None)
        assert again is None or launched[-1] == (number, 0)
    assert repeats.again({"x": first, "n": 1}, None) is not None
    assert launched[-1] == (0, 0)


def test_a_call_is_known_for_each_stream() -> None:
    seen: list[Any] = []
    streams = SimpleNamespace(ptr=0)
    repeats = _Known(("x",), ())
    current = CurrentStream(lambda: streams, "().ptr", lambda: streams.ptr)
    given = {"x": Cupy()}
    repeats.remember(given, PackedCall([_noting(seen, "x")], current))
    for stream in (0, 0, 0, 7, 0, 7, 7, 7, 7, 0):
        streams.ptr = stream
        assert repeats.again(given) is not None
        if seen[-1][1] != stream:
            raise AssertionError(seen)
    assert repeats.again(given, 3) is not None
    assert seen[-1][1] == 3


class _Allocation:
    """What PyCUDA's arrays have their memory in."""


_Allocation.__module__, _Allocation.__name__ = "pycuda._driver", "DeviceAllocation"


@pytest.mark.parametrize("make", [Tensor, Cupy, Pycuda])
def test_the_call_before_is_not_looked_up(make: Any) -> None:
    seen: list[Any] = []
    repeats = _Known(("x",), ("x",))
    x, y = make(), make(data_ptr=8192, pointer=8192)
    repeats.remember({"x": x}, PackedCall([_noting(seen, "x")]))
    repeats.remember({"x": y}, PackedCall([_noting(seen, "y")]))
    for value in (x, x, x, y, x, y, y, y, x):
        assert repeats.again({"x": value}).x is value
    assert [name for name, _ in seen] == list("xxxyxyyyx")
    (signature,) = repeats.repeats._signatures
    for _ in range(3):
        repeats.again({"x": x})
    signature._launches.clear()
    assert repeats.again({"x": x}) is not None
    assert not signature._launches
    gone = weakref.ref(x)
    del x, value
    assert gone() is None


@pytest.mark.parametrize(("make", "changes"), [
    (Pycuda, [{"gpudata": 8192}, {"gpudata": None}, {"shape": (3, 2)}, {"strides": (4, 8)},
              {"dtype": np.dtype(np.int32)}]),
    (Cupy, [{"shape": (3, 2), "ndim": 2}, {"shape": (6,), "ndim": 1}, {"shape": (2, 3, 1), "ndim": 3},
            {"shape": (2, 4), "ndim": 2, "size": 8}]),
    (Tensor, [{"shape": (3, 2)}, {"dtype": REAL}, {"device": "cuda:1"}]),
])
def test_an_array_that_changes_in_place_is_another(make: Any, changes: Sequence[Mapping[str, Any]]) -> None:
    repeats = _Known(("x",), ())
    memory = _Allocation()
    for change in changes:
        x = make(pointer=memory)
        repeats.remember({"x": x}, PackedCall([lambda _: lambda: 0]))
        for _ in range(4):
            assert repeats.again({"x": x}) is not None
        for name, value in change.items():
            setattr(x, name, value)
        assert repeats.again({"x": x}) is None, change


def test_memory_that_is_gone_is_not_the_memory_of_an_array_without_any() -> None:
    repeats = _Known(("x",), ())
    x = Pycuda(pointer=_Allocation())
    repeats.remember({"x": x}, PackedCall([lambda _: lambda: 0]))
    for _ in range(4):
        assert repeats.again({"x": x}) is not None
    x.gpudata = None
    x.data = None
    assert repeats.again({"x": x}) is None


def test_no_more_is_remembered_than_is_said() -> None:
    repeats = Repeats(("n", "x"), ())
    nothing = PackedCall([lambda _: lambda: 0])
    for number in range(3 * MOST_REPEATS):
        repeats.remember({"n": number}, nothing)
    assert sum(repeats.again({"n": number}, None) is not None for number in range(3 * MOST_REPEATS)) == MOST_REPEATS
    for stream in range(2 * MOST_REPEATS):
        repeats.again({"n": 3 * MOST_REPEATS - 1}, stream)
    assert len(repeats._signatures[0]._launches) <= MOST_REPEATS
    for number in range(1, 3 * MOST_SIGNATURES):
        repeats.remember({"x": np.zeros(number)}, nothing)
        assert len(repeats._signatures) <= MOST_SIGNATURES


def test_an_allocation_is_known_as_long_as_it_lives() -> None:
    seen: list[Any] = []
    repeats = _Known(("x", "y"), ())
    first, second = _Allocation(), _Allocation()
    x, y = Pycuda(pointer=first), Pycuda(pointer=second)
    repeats.remember({"x": x, "y": y}, PackedCall([_noting(seen, "kept")]))
    assert repeats.again({"x": x, "y": y}) is not None
    assert repeats.again({"x": Pycuda(pointer=first), "y": y}) is not None  # a view
    assert repeats.again({"x": y, "y": x}) is None
    assert repeats.again({"x": Pycuda(pointer=4096), "y": y}) is None
    (signature,) = repeats.repeats._signatures
    gone = weakref.ref(first)
    x.gpudata = _Allocation()
    x.data = first = None  # type: ignore[assignment]
    assert gone() is None, "nothing keeps the memory"
    assert not signature._packed
    assert not signature._launches, "another allocation may be at its place"
    assert repeats.again({"x": x, "y": y}) is None
    assert len(seen) == 2


@pytest.mark.parametrize("name", ["lambda", "stream", "__n", "type", "calls", "name", "value", "len__memory"])
def test_arguments_of_any_name_are_found(name: str) -> None:
    seen: list[Any] = []
    repeats = Repeats((name, "len"), ("len",))
    x = X.copy()
    repeats.remember({name: 1, "len": x}, PackedCall([_noting(seen, name)]))
    found = repeats.again({name: 1, "len": x}, None)
    assert found is not None
    assert found[0]["len"] is x
    assert repeats.again({name: 2, "len": x}, None) is None
    entry = _entry(found[1], lambda *_: None)
    assert (entry is None) == (name in {"lambda", "__n"})
    assert entry is None or list(entry(**{name: 1, "len": x}).values()) == [x]
    assert seen == [(name, 0)] * (1 if entry is None else 2)


def test_several_launches_are_made_in_order_on_one_stream() -> None:
    seen: list[tuple[str, int | None]] = []
    packed = PackedCall([_noting(seen, "a"), _noting(seen, "b")], _using(lambda: 5))
    assert packed.run(None)
    assert packed.run(3)
    assert seen == [("a", 5), ("b", 5), ("a", 3), ("b", 3)]
    assert not PackedCall([lambda _: lambda: 201, _noting(seen, "c")], done=lambda _: False).run(None)
    assert len(seen) == 4


def test_a_bound_call_asks_for_the_stream_and_looks_no_further() -> None:
    seen: list[Any] = []
    elsewhere: list[object] = []
    streams = [5, 5, 6, 6, 7]
    result = Result.of({})

    def otherwise(stream: Any) -> Result:
        elsewhere.append(stream)
        packed.run(stream)
        return result

    packed = PackedCall([_noting(seen, "a")], _using(lambda: streams.pop(0)))
    step = packed.repeated(result, otherwise)
    assert [step(), step(stream=8)] == [result] * 2
    assert seen == [("a", 5), ("a", 8)]
    assert elsewhere == [None, 8]
    step()
    assert seen[-1] == ("a", 6)
    assert len(elsewhere) == 2 + 1
    always = PackedCall([_noting(seen, "b")]).repeated(result, otherwise)
    assert always() is result
    assert seen[-1] == ("b", 0)
    not_current = PackedCall([lambda _: lambda: 201]).repeated(result, lambda _: Result.of({"elsewhere": 1}))
    assert "elsewhere" in not_current()


def test_the_driver_gets_the_stream_and_its_status_is_read() -> None:
    raw, statuses, seen = RawDriver.__new__(RawDriver), [0, 0, 201, 400], list[tuple[int, int | None]]()

    def launch_kernel(config: Any, *_: object) -> int:
        seen.append((config._obj.grid_x, config._obj.stream))
        return statuses.pop(0)

    raw._library = SimpleNamespace(cuLaunchKernelEx=launch_kernel)  # type: ignore[assignment]
    on = raw.prepared(ctypes.c_void_p(1), (2, 1, 1), (32, 1, 1), shared=0, parameters=b"12345678")
    launches = [on(stream) for stream in (0, 6, 9, 9)]
    assert [raw.done(launch() or 0) for launch in launches] == [True, True, False, False]
    assert seen == [(2, None), (2, 6), (2, 9), (2, 9)]


def test_what_has_no_key() -> None:
    repeats = _Known(("x", "n"), ())
    for given in ({"x": X, "n": None}, {"x": np.zeros((), F4).view(np.matrix)}, {"x": [1.0]}):
        repeats.remember(given, PackedCall([lambda _: lambda: 0]))
        assert repeats.again(given) is None


def test_arguments_without_names_are_refused(run: CompiledKernel) -> None:
    z = np.empty(5, F4)
    for _ in range(2):
        with pytest.raises(ArgumentError) as error:
            run(2, X, X, z)
        assert str(error.value) == (
            "call on kernel 'axpy': the arguments of a kernel are passed by their names [unnamed-argument]\n"
            "  Hint: run(x=x, y=y, z=z)"
        )
        run(alpha=2, x=X, y=X, z=z)


def test_a_kernel_goes_with_its_last_reference(run: CompiledKernel) -> None:
    z = np.empty(5, F4)
    for step in (run, copy.copy(run), copy.deepcopy(run)):
        step(alpha=2, x=X, y=X, z=z)
    kernel = load(axpy("c"))
    kernel(alpha=2, x=X, y=X, z=z)
    kernel(alpha=2, x=X, y=X, z=z)
    seen = weakref.ref(kernel)
    gc.disable()
    try:
        del kernel
        assert seen() is None
    finally:
        gc.enable()


def test_a_bound_call_is_repeated_on_the_same_arrays(run: CompiledKernel, checked: list[str]) -> None:
    x = X.copy()
    step = run.bind(alpha=2, x=x, y=X)
    for number in range(3):
        x[:] = X + number
        assert step() is step.result
        np.testing.assert_array_equal(step.result.z, 2 * x + X)
    assert len(checked) == 1
    assert repr(step) == "<call of 'axpy' for c, with its arguments>"
    with pytest.raises(CompilerError) as error:
        step(stream=1)
    assert error.value.codes == ("no-stream",)


def test_a_bound_call_keeps_its_workspace() -> None:
    u = np.arange(70, dtype=F4)
    step = pl.compile(steps(), pl.CTarget()).bind(u=u)
    for number in range(2):
        u += number
        np.testing.assert_array_equal(step().v, 2 * u[::-1] + 1)


def test_a_large_workspace_lives_as_long_as_a_call() -> None:
    u = np.arange(1 << 20, dtype=F4)  # of a size that goes back to the system as soon as it is released
    kernel = pl.compile(steps(), pl.CTarget())
    for _ in range(2):
        np.testing.assert_array_equal(kernel(u=u).v, 2 * u[::-1] + 1)
