"""Kernels on records and vectors: what is refused, what is passed, what stays in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.arguments import Binder
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.gpuarrays import DeviceMemory
from polyloop.runtime.views import HostMemory

F = np.float32
PAIR = pl.record("pair", [("a", F), ("b", np.int32)])
NESTED = pl.record("nested", [("pos", pl.vec.float2), ("w", F)])


def _knl(text: str, *data: object) -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [*data, ...], name="records")


def _everywhere(knl: pl.LoopKernel, **arguments: Any) -> dict[str, np.ndarray]:
    """Return the outputs of the interpreter, with which the C target and every order of fibres agree."""
    expected = pl.interpret(knl, **arguments)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    copies: dict[str, Any] = {
        name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()
    }
    results = {"c": pl.compile(knl, target=pl.CTarget())(**copies), **run_on_fibres(program, arguments)}
    for where, result in results.items():
        for name, value in expected.items():
            np.testing.assert_array_equal(result[name], value, err_msg=f"{name} on {where}")
    return expected


def _pairs(n: int) -> np.ndarray:
    found = np.zeros(n, PAIR)
    found["a"], found["b"] = np.arange(n), 10 + np.arange(n)
    return found


def test_a_field_of_an_output_that_is_not_written_keeps_its_value() -> None:
    knl = _knl("x[i].a = 2*x[i].b", pl.GlobalArg("x", PAIR, shape="n"))
    (x,) = [a for a in knl.arguments if a.name == "x"]
    assert isinstance(x.dtype, np.dtype)
    out = _everywhere(knl, x=_pairs(5))
    assert out["x"]["a"].tolist() == [20, 22, 24, 26, 28]
    assert out["x"]["b"].tolist() == [10, 11, 12, 13, 14]


def test_fields_of_a_temporary_are_followed_one_by_one() -> None:
    data = [pl.TemporaryVariable("t", PAIR), pl.GlobalArg("y", PAIR, shape="n"), pl.GlobalArg("x", F, shape="n")]
    knl = _knl("t.a = x[i] {id=one}\nt.b = i {id=two}\ny[i] = t {dep=one:two}", *data)
    assert _everywhere(knl, x=np.arange(4, dtype=F))["y"].tolist() == [(0, 0), (1, 1), (2, 2), (3, 3)]
    for text in ("t.a = x[i]\ny[i] = t", "t.a = x[i]\ny[i].b = t.b"):
        with pytest.raises(pl.KernelError, match="read-before-write"):
            _knl(text, *data)


def test_an_output_of_which_only_written_fields_are_read_is_no_input() -> None:
    knl = _knl("y[i].a = x[i]\nz[i] = y[i].a", pl.GlobalArg("y", PAIR, shape="n"), pl.GlobalArg("x, z", F, shape="n"))
    assert {a.name: a.is_input for a in knl.arguments if isinstance(a.dtype, np.dtype) and hasattr(a, "is_input")} == {
        "y": False, "x": True, "z": False,
    }  # fmt: skip
    knl = _knl("y[i].a = x[i]\nz[i] = y[i].b", pl.GlobalArg("y", PAIR, shape="n"), pl.GlobalArg("x, z", F, shape="n"))
    assert next(a for a in knl.arguments if a.name == "y").is_input  # type: ignore[union-attr]


def test_assignments_of_fields_keep_their_order() -> None:
    text = "x[i].a = x[i].a + 1 {id=first}\nfor j\n  y[j] = x[n - 1 - j] {id=second}\nend"
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", text, [pl.GlobalArg("x, y", PAIR, shape="n"), ...], name="reversal"
    )  # fmt: skip
    out = _everywhere(knl, x=_pairs(5))
    assert out["y"]["a"].tolist() == [5, 4, 3, 2, 1]
    with pytest.raises(pl.TransformError, match="write-race"):
        pl.tag_inames(
            pl.make_kernel("{[i]: 0 <= i < n}", "x[0].a = x[0].a + y[i]", [pl.GlobalArg("x", PAIR, shape="1"), ...]),
            "i:l.0",
        )


def test_two_threads_must_not_write_two_fields_of_one_element() -> None:
    """To the analysis, an assignment of a field is one of the whole element."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 2}",
        "x[i].a = 1 {if=k == 0, inames=i:k}",
        [pl.GlobalArg("x", PAIR, shape="n"), ...],
    )
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert "x[i].a = 1.0f" in pl.generate_code(pl.tag_inames(knl, "k:l.1")).device_code
    both = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 2}",
        "x[i].a = 1 {if=k == 0, inames=i:k}\nx[i].b = 2 {if=k == 1, inames=i:k}",
        [pl.GlobalArg("x", PAIR, shape="n"), ...],
    )
    both = pl.split_iname(both, "i", 4, outer_tag="g.0", inner_tag="l.0")
    text = pl.generate_code(pl.tag_inames(both, "k:l.1")).device_code
    assert "__syncwarp();" in text


def test_records_are_passed_by_value() -> None:
    knl = _knl("y[i] = p.a*x[i] + p.b", pl.ValueArg("p", PAIR), pl.GlobalArg("x, y", F, shape="n"))
    knl = pl.add_dtypes(knl, {})
    value = np.array((2.0, 3), PAIR)[()]
    x = np.arange(3, dtype=F)
    assert _everywhere(knl, p=value, x=x)["y"].tolist() == [3, 5, 7]
    with pytest.raises(pl.ArgumentError, match="'p' must be a record"):
        pl.compile(knl, target=pl.CTarget())(p=1.0, x=x)


def test_vectors_are_passed_by_value() -> None:
    knl = _knl("y[i] = x[i]*v.x + v.y", pl.ValueArg("v", pl.vec.float2), pl.GlobalArg("x, y", pl.vec.float4, shape="n"))
    x = np.zeros(3, pl.vec.float4)
    x["z"] = [1, 2, 3]
    assert _everywhere(knl, v=np.array((2.0, 3.0), pl.vec.float2)[()], x=x)["y"]["z"].tolist() == [5, 7, 9]


def test_a_misaligned_record_is_refused() -> None:
    knl = _knl("y[i] = x[i].a", pl.GlobalArg("x", np.dtype([("a", F), ("c", np.int32)]), shape="n"))
    raw = np.zeros(8 * 4 + 1, np.uint8)[1:].view(np.dtype([("a", F), ("c", np.int32)]))
    with pytest.raises(pl.ArgumentError, match="misaligned-argument"):
        pl.compile(knl, target=pl.CTarget())(x=raw)
    other = np.zeros(4, np.dtype([("a", F), ("d", np.int32)]))
    with pytest.raises(pl.ArgumentError, match=r"make it with dtype=\[\('a', '<f4'\), \('c', '<i4'\)\]"):
        pl.compile(knl, target=pl.CTarget())(x=other)


def test_vectors_on_a_gpu_must_be_aligned_as_a_whole() -> None:
    program = pl.generate_code(_knl("y[i] = 2*x[i]", pl.GlobalArg("x", pl.vec.float4, shape="n")))
    binder = Binder(program, HostMemory())
    view = HostMemory().view("k", "x", np.zeros(4, pl.vec.float4))
    (x,) = [a for a in binder.arrays if a.name == "x"]
    assert binder._alignment(x, view) == 4


class _OnDevice:
    """An array that says it is in the memory of a GPU."""

    def __init__(self, array: np.ndarray, shift: int = 0) -> None:
        known = {key: array.__array_interface__[key] for key in ("typestr", "descr", "shape")}
        self.interface = {**known, "version": 3, "data": (1024 + shift, False), "strides": array.strides}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.interface


def test_arrays_on_a_gpu_pass_as_records_and_as_vectors() -> None:
    data = [pl.GlobalArg("x, y", pl.vec.float4, shape="n"), pl.GlobalArg("p", NESTED, shape="n")]
    binder = Binder(pl.generate_code(_knl("y[i] = p[i].w*x[i]", *data)), DeviceMemory())

    def bind(x: np.ndarray, p: np.ndarray, shift: int = 0) -> Any:
        y = _OnDevice(np.zeros((5, 4), F), 8192)
        return binder.bind({"x": _OnDevice(x, shift), "p": _OnDevice(p, 4096), "y": y})

    for given in (np.zeros((5, 4), F), np.zeros(5, pl.vec.float4)):
        binding = bind(given, np.zeros(5, NESTED))
        assert {name: (view.shape, view.strides) for name, view in binding.views.items()} == dict.fromkeys(
            ("x", "y", "p"), ((5,), (1,))
        )
    cases: list[tuple[np.ndarray, int, str]] = [
        (np.zeros((5, 3), F), 0, "wrong-dtype"),
        (np.zeros((5, 4)), 0, "wrong-dtype"),
        (np.zeros((5, 5), F)[:, :4], 0, "wrong-dtype"),
        (np.zeros((5, 8), F)[:, :4], 0, "wrong-strides"),
        (np.zeros((5, 4), F), 4, "misaligned-argument"),
        (np.zeros(5, pl.vec.float4), 8, "misaligned-argument"),
    ]
    for x, shift, code in cases:
        with pytest.raises(pl.ArgumentError) as error:
            bind(x, np.zeros(5, NESTED), shift)
        assert error.value.codes == (code,)
    with pytest.raises(pl.ArgumentError, match="wrong-dtype"):
        bind(np.zeros((5, 4), F), np.zeros(5, PAIR))


def test_a_layout_that_cuda_does_not_have_is_refused() -> None:
    held = pl.record("held", [("n", np.int32), ("v", pl.vec.float4)], align=False)
    knl = _knl("y[i] = x[i].v", pl.GlobalArg("x", held, shape="n"))
    x = np.zeros(3, held)
    x["v"]["y"] = 7
    assert pl.compile(knl, target=pl.CTarget())(x=x).y["y"].tolist() == [7, 7, 7]
    with pytest.raises(pl.CodegenError) as error:
        pl.generate_code(knl)
    assert str(error.value).splitlines() == [
        "generate_code on kernel 'records': target 'cuda' cannot lay out 'held' as NumPy does [unsupported-dtype]",
        "  Note: its field 'v' (float4) needs a multiple of 16 bytes",
        "  Note: the field lies at byte 4, the record has 20 bytes",
        "  Hint: put the field first, and fill the record up to such a multiple",
    ]


def test_names_of_records_stay_apart_from_others() -> None:
    knl = _knl("<> t = pair[i] {id=load}\nt.b = t.b + 1 {id=add, dep=load}\npair[i] = t {dep=add}",
               pl.GlobalArg("pair", PAIR, shape="n"))  # fmt: skip
    assert "pair t = pair_[i];" in pl.generate_code(knl).device_code
    assert _everywhere(knl, pair=_pairs(3))["pair"]["b"].tolist() == [11, 12, 13]


def test_several_results_are_computed_once() -> None:
    knl = _knl("s[i], c[i] = sincos(x[i])", pl.GlobalArg("x", np.float64, shape="n"))
    text = pl.generate_code(knl).device_code
    assert text.count("sincos_float64(x[i])") == 1
    x = np.linspace(-3, 3, 7)
    out = pl.compile(knl, target=pl.CTarget())(x=x)
    np.testing.assert_allclose(out.s, np.sin(x))
    np.testing.assert_allclose(out.c, np.cos(x))
    for text, message in (
        ("s, c, d = sincos(x[i])", "3 variables are assigned, and 'sincos(x[i])' has 2 results"),
        ("s, c = sin(x[i])", "2 variables are assigned, and 1 value given"),
        ("<> s.x, c = sincos(x[i])", "a field cannot be declared"),
        ("s[i] = sincos(x[i])", "'sincos(x[i])' is sincos_result, and is stored as float64"),
    ):
        with pytest.raises(pl.KernelError) as error:
            _knl(text, pl.GlobalArg("x, s", np.float64, shape="n"))
        assert error.value.found[0].message == message


def test_a_record_that_holds_vectors_runs_everywhere() -> None:
    held = pl.record("held", [("n", np.int32), ("v", pl.vec.float4)])
    assert held.itemsize == 32
    knl = _knl("<> t = x[i] {id=load}\nt.v = cast(float32, t.n)*t.v {id=change}\ny[i] = t {dep=change}",
               pl.GlobalArg("x, y", held, shape="n"))  # fmt: skip
    x = np.zeros(3, held)
    x["v"]["y"], x["n"] = 7, [1, 2, 3]
    assert _everywhere(knl, x=x)["y"]["v"]["y"].tolist() == [7, 14, 21]
    direct = _knl("y[i] = x[i] {id=copy}\ny[i].v = x[i].n*x[i].v {dep=copy}", pl.GlobalArg("x, y", held, shape="n"))
    assert _everywhere(direct, x=x)["y"]["v"]["y"].tolist() == [7, 14, 21]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17])
def test_integer_vectors_wrap_as_numpy_does(n: int) -> None:
    knl = _knl("y[i] = -x[i]*3 + abs(x[i] - 100) + max(x[i], 5)", pl.GlobalArg("x, y", pl.vec.char3, shape="n"))
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    x = np.zeros(n, pl.vec.char3)
    for number, axis in enumerate("xyz"):
        x[axis] = (np.arange(n) * 37 + 50 * number) % 128
    out = _everywhere(knl, x=x)
    with np.errstate(over="ignore"):
        expected = -x["x"] * np.int8(3) + np.abs(x["x"] - np.int8(100)) + np.maximum(x["x"], np.int8(5))
    np.testing.assert_array_equal(out["y"]["x"], expected)


def test_fibres_compare_records_field_by_field() -> None:
    knl = _knl("y[i] = x[i]", pl.GlobalArg("x, y", NESTED, shape="n"))
    x = np.zeros(4, NESTED)
    x["pos"]["y"][2] = np.nan
    outputs = run_on_fibres(pl.generate_code(knl), {"x": x})
    assert disagreement(outputs) is None
    outputs["reverse"]["y"]["pos"]["x"][1] = 5
    found = disagreement(outputs)
    assert found is not None
    assert found.startswith("y.pos.x[1] is 0.0 in order")
