"""Kernels that are called with arrays: types, layouts, positions, and the specializations that are kept."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import ArgumentError, CompilerError
from polyloop.expr.dtypes import to_dtype
from polyloop.kernel.called import by_position
from polyloop.runtime import ccompile

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


def product() -> pl.LoopKernel:
    return pl.make_einsum("ij,jk->ik", "a, b")


def scaled(**options: Any) -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i] + s", name="scaled", **options)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ArgumentError) as caught:
        call()
    return str(caught.value)


@pytest.mark.few(16)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("spec", ["ij,jk->ik", "ij,kj->ik", "ij,ij->", "ij->ji", "i,j->ij", "bij,bjk->bik", "ii"])
def test_an_einsum_is_called_with_its_operands(spec: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    parts = spec.partition("->")[0].split(",")
    operands = [rng.integers(0, 4, [3] * len(part)).astype(dtype) for part in parts]
    names = [f"x{number}" for number in range(len(parts))]
    knl, expected = pl.make_einsum(spec, names), np.einsum(spec, *operands)
    for run in (knl, pl.compile(knl)):
        for result in (run(*operands), run(**dict(zip(names, operands, strict=True)))):
            assert np.array_equal(np.asarray(result.out).reshape(expected.shape), expected)
            assert result.out.dtype == expected.dtype


@pytest.mark.parametrize(("a", "s", "out", "number"), [
    ("float32", 2.0, "float32", "float32"), ("float32", np.float64(2), "float64", "float64"),
    ("float64", 2.0, "float64", "float64"), ("float32", 3, "float32", "int32"), ("float32", True, "float32", "bool"),
    ("int64", 3, "int64", "int64"), ("uint64", 3, "uint64", "uint64"), ("uint8", 3, "uint8", "uint8"),
    ("int32", 0.5, "float64", "float64"), ("float32", 1j, "complex64", "complex64"),
    ("complex128", 0.5, "complex128", "float64"), ("float16", 0.5, "float16", "float32"),
    ("int16", np.int8(3), "int16", "int8"), ("float32", np.array(2.0), "float64", "float64"),
    ("float32", np.float16(2), "float32", "float16"),
])  # fmt: skip
def test_types_are_those_of_arrays_and_python_numbers_adapt(a: str, s: Any, out: str, number: str) -> None:
    knl, x = scaled(), np.array([1, 2, 3], a)
    special = knl.specialized(a=x, s=s)
    assert [str(argument.dtype) for argument in special.arguments] == [out, a, number, "int32"]
    assert knl.argument("a").dtype is None  # type: ignore[union-attr]
    for result in (knl(a=x, s=s), pl.compile(special, pl.CTarget())(a=x, s=s), pl.interpret(special, a=x, s=s)):
        assert result.out.dtype == out
        np.testing.assert_array_equal(result.out, (2 * x.astype(out) + np.asarray(s).astype(out)).astype(out))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "uint64", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("number", [3, 0.5, 1j])
def test_a_number_of_python_makes_the_types_that_a_constant_makes(dtype: str, number: complex) -> None:
    text = ["<> t = {0} {{id=t}}", "o[i] = x[i] + {0}*2 {{id=o}}", "p[i] = ({0} - y[i])*{0} + t {{dep=t}}"]
    data = [pl.GlobalArg("x, y, o, p", shape="n"), ...]

    def types(by: str) -> dict[str, str]:
        knl = pl.make_kernel("{[i]: 0 <= i < n}", [line.format(by) for line in text], data)
        given = {"x": np.ones(3, to_dtype(dtype)), "y": np.ones(3), **({"s": number} if by == "s" else {})}
        special = knl.specialized(**given)
        assert special.specialized(**given).trace == special.trace
        return {argument.name: str(argument.dtype) for argument in special.arguments if argument.name != "s"}

    assert types("s") == types(str(number))


def test_a_number_of_python_does_not_join_the_types_of_instructions() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", ["o[i] = s*x[i]", "q[i] = s*y[i]"])
    x = np.arange(3, dtype=np.float32)
    result = knl(x=x, y=x.astype(np.float64), s=0.1)
    assert [str(out.dtype) for out in (result.o, result.q)] == ["float32", "float64"]
    np.testing.assert_array_equal(result.q, 0.1 * x.astype(np.float64))
    assert "'s' = 300 does not fit uint8" in refused(lambda: scaled()(a=np.ones(3, np.uint8), s=300))


def test_what_was_inferred_is_in_the_trace() -> None:
    special = product().specialized(a=np.asfortranarray(A), b=B[:, ::-1])
    assert str(special.trace) == (
        "knl = pl.add_dtypes(knl, dtypes={'a': 'float64', 'b': 'float64', 'out': 'float64'})\n"
        "knl = pl.tag_array_axes(knl, ary_names=['a'], dim_tags='F')\n"
        "knl = pl.tag_array_axes(knl, ary_names=['b'], dim_tags='stride:auto,stride:auto')"
    )
    assert str(pl.replay(special.trace, product())) == str(special)
    assert product().specialized(a=A, b=B).argument("a").is_packed  # type: ignore[union-attr]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray, "F": np.asfortranarray, "every other": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1], "padded": lambda x: np.pad(x, 3)[3:-3, 3:-3],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}  # fmt: skip


@pytest.mark.few(5)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("typed", [False, True])
def test_arrays_of_any_layout_are_taken(layout: str, typed: bool) -> None:
    knl = product().split_iname("i", 2, outer_tag="g.0", inner_tag="l.0")
    if typed:
        knl = knl.add_dtypes({"a, b": "float64"})
    a, out = LAYOUTS[layout](A), LAYOUTS["F"](np.zeros((2, 4)))
    for _ in range(3):
        np.testing.assert_array_equal(knl(a, B).out, a @ B)
        assert knl(a, B, out).out is out
        np.testing.assert_array_equal(out, a @ B)
        out[...] = 0


def test_a_layout_that_was_chosen_is_kept() -> None:
    for knl in (product().tag_array_axes("a", "F"), product().add_dtypes({"a": "float64"}).add_padding("a", 0, 64)):
        assert "is not stored as the kernel reads it [wrong-strides]" in refused(lambda knl=knl: knl(A, B))  # type: ignore[misc]


def test_c_text_reads_arrays_as_they_are_stored() -> None:
    text = pl.CInstruction("i", "o[i] = 2*x[i];", read_variables=("x",), assignees="o[i]")
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [text], [pl.GlobalArg("x, o", np.float32, shape="n")])
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(knl(x).o, 2 * x)
    assert "'x' is not stored as the kernel reads it [wrong-strides]" in refused(lambda: knl(x[::2]))


def test_arrays_whose_layout_does_not_matter_need_no_specialization() -> None:
    knl = product()
    run = pl.compile(knl)
    empty = np.asfortranarray(np.zeros((0, 3)))
    for a, b in ((A, B), (A[:1, :1], B[:1, :1].T), (empty, B), (A[:, :1].copy(), np.asfortranarray(B[:1]))):
        np.testing.assert_array_equal(run(a, b).out, a @ b)
    assert isinstance(run, pl.SpecializingKernel)
    assert len(run.specializations) == 1


def test_one_specialization_serves_all_calls_of_its_types(monkeypatch: pytest.MonkeyPatch) -> None:
    run = pl.compile(scaled())
    assert isinstance(run, pl.SpecializingKernel)
    x = np.ones(4, np.float32)
    numbers: tuple[Any, ...] = (1.0, 2.0, np.float32(3), np.array(4.0, np.float32))
    for s in numbers:
        for out in (None, np.zeros(4, np.float32)):
            np.testing.assert_array_equal(run(a=x, s=s, out=out).out, 2 + s)
    assert [*run.specializations] == ["c: out: float32, a: float32, s: float32"]
    run(a=x.astype(np.float64), s=1.0)
    assert len(run.specializations) == 2
    assert repr(run) == "<SpecializingKernel 'scaled': out, a, s, n; 2 of 32 specializations>"
    same = pl.compile(scaled())
    monkeypatch.setattr(ccompile, "_run", None)  # the text is in the cache on disk
    np.testing.assert_array_equal(same(a=x, s=1.0).out, [3] * 4)


def test_a_change_of_types_is_noticed_in_repeated_calls() -> None:
    knl = scaled()
    given: tuple[tuple[Any, Any], ...] = ((np.float32, 1), (np.float64, 1.0), (np.int64, 2), (np.float32, 2.5))
    for _ in range(3):
        for dtype, other in given:
            x, s = np.arange(5).astype(dtype), other
            out = knl.specialized(a=x, s=s).argument("out")
            assert out is not None
            y = np.zeros(5, out.dtype)
            for step in range(3):
                knl(a=x, s=type(other)(s + step), out=y)
                np.testing.assert_array_equal(y, 2 * x + s + step)


def test_the_limit_is_said_and_can_be_raised() -> None:
    run = pl.compile(scaled(), max_specializations=2)
    for dtype in (np.float32, np.float64):
        run(a=np.ones(3, dtype), s=1)
    assert refused(lambda: run(a=np.ones(3, np.int64), s=1)) == (
        "call on kernel 'scaled': the kernel has 2 specializations already, as many as are kept "
        "[too-many-specializations]\n"
        "  Note: another one would be for out: int64, a: int64, s: int64\n"
        "  Note: the last one was for c: out: float64, a: float64, s: int32\n"
        "  Hint: convert the arguments to types and layouts that were passed before\n"
        "  Hint: or allow more: pl.compile(knl, max_specializations=4)"
    )
    assert run(a=np.ones(3, np.float32), s=2).out[0] == 4
    with pytest.raises(ArgumentError, match="it takes an integer of at least 1"):
        pl.compile(scaled(), max_specializations=0)


@pytest.mark.parametrize(("given", "message"), [
    ({"a": A[0]},
     "the value 's' was not passed [missing-argument]\n  Hint: pass s= as a number, which says its type too"),
    ({"s": 3}, "the array 'a' was not passed [missing-argument]\n  Note: it is an input\n  Hint: pass a="),
    ({"a": [1, 2], "s": 1},
     "'a' must be an array [wrong-type]\n  Note: it is a builtins.list\n  Hint: pass np.asarray(a)"),
    ({"a": A[0], "s": "x"}, "'s' must be a number, not str 'x' [wrong-type]"),
    ({"a": A[0], "s": [1]}, "'s' must be a number, not list [1] [wrong-type]"),
    ({"a": A[0], "s": np.ma.masked_array(1.0)}, "'s' is a masked array [wrong-type]"),
    ({"a": np.ma.ones(3), "s": 1}, "'a' is a masked array [wrong-type]"),
    ({"a": np.ones(3, ">f4"), "s": 1},
     "'a' has dtype >f4, expected float32 [wrong-dtype]\n  Note: its bytes are in the order of other processors\n"
     "  Hint: pass a.astype(np.float32)"),
    ({"a": np.ones(3, object), "s": 1}, "'a' has dtype object, which is no element type of a kernel [wrong-dtype]"),
    ({"a": np.ones(3, "M8[s]"), "s": 1}, "'a' has dtype datetime64[s], which is no element type"),
    ({"a": np.float32(3), "s": 1}, "'a' must be an array [wrong-type]"),
    ({"a": A, "s": 1}, "'a' has 2 axes, and the kernel has 1 [wrong-shape]"),
    ({"a": np.ones(3, np.float32), "s": 1, "out": np.ones(3)},
     "'out' has dtype float64, expected float32 [wrong-dtype]\n  Note: the call has a: float32, s: int of Python\n"
     "  Hint: pass an array of float32, or leave it out to have it allocated\n"
     '  Hint: or state its type: knl.add_dtypes({"out": "float64"})'),
    ({"a": A[0], "s": 1, "out": np.ones(4)}, "'a' does not fit the other arrays [inconsistent-size]"),
    ({"a": A[0], "s": 1, "ouf": np.ones(3)}, "no argument 'ouf' [unknown-argument]\n  Hint: did you mean 'out'?"),
    ({"a": np.ones(3, np.uint64), "s": np.int64(1)}, "uint64 and int64 have no common integer type: 2*a[i] + s"),
    ({"a": np.ones(3, np.uint64), "s": -1}, "'s' = -1 does not fit uint64 [wrong-type]"),
    ({"a": np.ones(3, np.int32), "s": 2**40}, "'s' = 1099511627776 does not fit int32 [wrong-type]"),
    ({"a": A[0], "s": np.longdouble(1)}, "'s' must be a number, not longdouble"),
])  # fmt: skip
def test_a_wrong_call_is_refused_and_changes_nothing(given: dict[str, Any], message: str) -> None:
    knl = scaled()
    for _ in range(2):
        found = refused(lambda: knl(**given))
        assert found.startswith("call on kernel 'scaled': ")
        assert message in found
    np.testing.assert_array_equal(knl(a=A[0], s=1).out, 2 * A[0] + 1)
    assert knl.argument("a").dtype is None  # type: ignore[union-attr]


def test_an_array_without_elements_is_an_array() -> None:
    assert scaled()(a=np.zeros(0, np.float32), s=1).out.shape == (0,)
    assert product()(np.zeros((2, 0)), np.zeros((0, 3))).out.tolist() == [[0.0] * 3] * 2


def test_the_type_of_an_output_counts_where_nothing_else_says_it() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [pl.CInstruction("i", "o[i] = 7;", assignees="o[i]")])
    assert knl(o=np.zeros(2, np.int16)).o.tolist() == [7, 7]
    assert knl(o=np.zeros(2, np.float64)).o.tolist() == [7.0, 7.0]
    assert "the type of 'o' is not known [unknown-dtype]" in refused(lambda: knl(n=2))
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "x[i] = x[i] + 1")
    x = np.zeros(3, np.int16)
    assert knl(x=x).x is x
    assert x.tolist() == [1] * 3
    fill = pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = 7")
    assert fill(n=2).o.dtype == np.int32


def test_positions_are_those_that_were_declared() -> None:
    @pl.kernel
    def axpy(n, alpha, x, y, z):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        for i in range(n):
            z[i] = alpha * x[i] + y[i]

    x, z = np.arange(3.0), np.zeros(3)
    assert by_position(axpy) == ("n", "alpha", "x", "y", "z")
    assert axpy(3, 2.0, x, x, z).z is z
    np.testing.assert_array_equal(axpy(3, 2.0, x, y=x).z, 3 * x)
    run = pl.compile(axpy.specialized(alpha=2.0, x=x, y=x), pl.CTarget())
    np.testing.assert_array_equal(run(3, 2.0, x, x).z, 3 * x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(run))(3, 2.0, x, x).z, 3 * x)
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = s*b[i] + c[i]", [pl.GlobalArg("c, b"), pl.ValueArg("s"), ...])
    assert by_position(knl) == ("c", "b", "s")
    assert by_position(knl.rename_argument("b", "a")) == ("c", "a", "s")
    assert by_position(knl.fix_parameters(n=3)) == ("c", "b", "s")
    assert by_position(knl.set_argument_order("o, n, s, b, c")) == ("o", "n", "s", "b", "c")
    assert by_position(knl.tag_array_axes("b", "stride:auto")) == ("c", "b", "s")
    assert by_position(scaled()) == ()
    assert by_position(pl.fuse_kernels([knl, knl])) == ()


def test_positions_that_are_not_there_are_refused() -> None:
    knl = product()
    assert refused(lambda: knl(A, B, B, 1, 2, 3, 4)) == (
        "call on kernel 'einsum2to2_kernel': 7 arguments are passed by position, of which there are 6 "
        "[unnamed-argument]\n"
        "  Note: by position: a, b, out, Ni, Nk, Nj; others have no declared order\n"
        "  Hint: run(a=a, b=b, out=out)"
    )
    assert refused(lambda: knl(A, B, a=A)) == (
        "call on kernel 'einsum2to2_kernel': 'a' is passed by position and by name [unnamed-argument]\n"
        "  Note: by position: a, b, out, Ni, Nk, Nj\n"
        "  Hint: leave out a="
    )
    assert "passed by their names [unnamed-argument]" in refused(lambda: scaled()(A[0], 1))
    queue = type("CommandQueue", (), {})()
    assert "the first argument is a queue, and a kernel has none [unnamed-argument]\n  Hint: leave it out: run(" in (
        refused(lambda: knl(queue, a=A, b=B)))


def test_what_was_compiled_last_is_shown() -> None:
    run = pl.compile(product(), pl.CTarget())
    message = (
        "call on kernel 'einsum2to2_kernel': the kernel leaves types open, and was not called yet [not-specialized]\n"
        "  Hint: call it first, or compile a kernel with types: pl.compile(knl.specialized(..))"
    )
    for ask in (lambda: run.source, lambda: run.target, lambda: run.program, lambda: run.resources, lambda: run.ptx):
        assert refused(ask) == message
    run(A, B)
    assert "const double *restrict a" in run.source
    run(A.astype(np.float32), B.astype(np.float32))
    assert "const float *restrict a" in run.source
    assert (run.target, run.resources, run.ptx, run.cubin) == ("c", {}, "", b"")
    out, narrow = np.zeros((2, 4)), (A.astype(np.float32), B.astype(np.float32))
    for _ in range(2):
        run(A, B, out)
        run(a=A, b=B, out=out)
        run(a=A, b=B, out=out)
        run(*narrow)
        assert "const float *restrict a" in run.source
        run(a=A, b=B, out=out)
        assert "const double *restrict a" in run.source
        run.bind(a=narrow[0], b=narrow[1])
        assert "const float *restrict a" in run.source
    with pytest.raises(AttributeError, match="a kernel has no attribute 'sauce'"):
        _ = run.sauce  # type: ignore[attr-defined]


def test_a_specializing_kernel_is_bound_copied_and_pickled() -> None:
    run = pl.compile(product(), max_specializations=3)
    a = A.copy()
    step = run.bind(a=a, b=B)
    for number in range(3):
        a[...] = A + number
        np.testing.assert_array_equal(step().out, a @ B)
    loaded = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(loaded(A, B).out, A @ B)
    assert "1 of 3 specializations" in repr(loaded)
    assert copy.copy(run) is run
    assert copy.deepcopy(run) is run
    knl = product()
    knl(A, B)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(knl))(A, B).out, A @ B)


@pytest.mark.usefixtures("young_heap")
def test_a_kernel_and_what_it_compiled_go_with_the_last_reference() -> None:
    knl, out = product(), np.zeros((2, 4))
    for _ in range(3):
        knl(A, B, out)
    seen = weakref.ref(knl)
    del knl
    gc.collect()
    assert seen() is None
    run = pl.compile(product())
    np.testing.assert_array_equal(run(A, B).out, A @ B)


@pytest.mark.parametrize("name", ["stream", "poison", "self", "kernel", "operands", "arguments", "given"])
def test_arguments_of_any_name_are_passed(name: str) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"out[i] = 2*{name}[i]")
    for _ in range(3):
        np.testing.assert_array_equal(knl(**{name: A[0]}, out=np.zeros(3)).out, 2 * A[0])
        assert knl.specialized(**{name: A[0]}).argument("out").dtype == np.float64  # type: ignore[union-attr]


class _OnDevice:
    """An array that says that it is in the memory of a GPU."""

    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012


@pytest.mark.nvrtc
def test_arrays_in_the_memory_of_a_gpu_make_it_a_kernel_for_cuda() -> None:
    run = pl.compile(scaled())
    with pytest.raises((CompilerError, ArgumentError)):  # there is none, or it has no such address
        run(a=_OnDevice(), s=1, out=np.zeros(3, np.float32))
    assert isinstance(run, pl.SpecializingKernel)
    assert [*run.specializations] == ["cuda: out: float32, a: float32, s: int32"]
    assert "wrong-device" in refused(lambda: pl.compile(scaled(), pl.CTarget())(a=_OnDevice(), s=1))
    run(a=np.ones(3, np.float32), s=1)
    assert run.target == "c"


@pytest.mark.gpu
def test_gpu_kernels_are_called_with_arrays_of_each_library() -> None:
    torch: Any = importlib.import_module("torch")
    cupy: Any = importlib.import_module("cupy")
    knl = product()
    for make in (lambda x: torch.as_tensor(x, device="cuda"), cupy.asarray, lambda x: x):
        for dtype in (np.float32, np.float64):
            a, b = make(A.astype(dtype)), make(B.astype(dtype))
            for x, y in ((a, b), (b.T, a.T), (a[:, ::2], b[::2])):
                assert bool((knl(x, y).out == x @ y).all())
            out = make(np.zeros((2, 4), dtype))
            for _ in range(3):
                assert knl(a, b, out).out is out
                assert bool((out == a @ b).all())


@pytest.mark.gpu
def test_gpu_a_stream_is_that_of_the_specialization_that_is_called() -> None:
    torch: Any = importlib.import_module("torch")
    knl, side = product(), torch.cuda.Stream()
    a, b = torch.as_tensor(A, device="cuda"), torch.as_tensor(B, device="cuda")
    out = torch.zeros(2, 4, device="cuda", dtype=torch.float64)
    torch.cuda.synchronize()
    for _ in range(3):
        for stream in (side, None):
            out.zero_()
            torch.cuda.synchronize()
            np.testing.assert_array_equal(knl(A, B).out, A @ B)
            assert knl(a, b, out, stream=stream).out is out
            assert knl(a=a, b=b, out=out, stream=stream).out is out
            torch.cuda.synchronize()
            assert bool((out == a @ b).all())
    with pytest.raises(CompilerError, match="no-stream"):
        knl(A, B, stream=side)


def test_a_type_that_constants_alone_say_is_that_of_the_array_passed() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i] {id=b}\na[i] = 0 {dep=b}\nc[i] = 1",
                         [pl.GlobalArg("a, b, c", shape="n"), ...])  # fmt: skip
    assert {argument.dtype for argument in knl.arguments} == {np.dtype(np.int32)}
    for dtype in (np.int32, np.float32, np.int32):
        a = np.array([1.5, 2, 3], dtype)
        result = knl(a=a.copy(), c=np.zeros(3, np.float64))
        assert (result.a.dtype, result.b.dtype, result.c.dtype) == (dtype, dtype, np.float64)
        np.testing.assert_array_equal(result.b, a)
        np.testing.assert_array_equal(result.a + result.c, np.ones(3))
    assert knl.specialized(a=np.zeros(3)).argument("b").dtype == np.float64  # type: ignore[union-attr]
    declared = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = a[i] + 1", [pl.GlobalArg("a", np.int32, shape="n"), ...])
    assert "'a' has dtype float32, expected int32" in refused(lambda: declared(a=np.zeros(3, np.float32)))
    firm = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", [pl.GlobalArg("a", np.int32), ...])
    assert "'b' has dtype float32, expected int32" in refused(
        lambda: firm(a=np.zeros(3, np.int32), b=np.zeros(3, np.float32)))  # fmt: skip
