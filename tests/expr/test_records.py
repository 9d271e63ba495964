"""Record and vector types: names, layout, what expressions may do with them."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from polyloop.expr.promotion import TypeConflictError
from polyloop.expr.records import is_vector, leaf_fields, record_name, struct_alignment, struct_padding
from polyloop.expr.typing import infer

SAMPLE = pl.record("sample", [("pos", pl.vec.float3), ("n", np.int32), ("flag", np.int8)])
TYPES = {
    "a": SAMPLE, "t": SAMPLE, "v": pl.vec.float4, "w": pl.vec.float4, "u": pl.vec.float2, "q": pl.vec.int3,
    "i": np.dtype("int32"), "f": np.dtype("float32"), "d": np.dtype("float64"), "s": np.dtype("int8"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a[i].pos", "float3"),
        ("a[i].pos.x", "float32"),
        ("t.n + 1", "int32"),
        ("t", "sample"),
        ("v + w", "float4"),
        ("2*v", "float4"),
        ("v/3", "float4"),
        ("-v", "float4"),
        ("v*f", "float4"),
        ("q*s", "int3"),
        ("max(v, 0)", "float4"),
        ("sqrt(v)", "float4"),
        ("abs(q)", "int3"),
        ("fma(v, w, 1)", "float4"),
        ("if(f > 0, v, 0)", "float4"),
        ("sum(k, v)", "float4"),
        ("make_float2(1, i)", "float2"),
        ("make_float2(1, i).y", "float32"),
        ("(v + w).x", "float32"),
        ("sincos(f)", "sincos_result"),
        ("sincos(i).cos", "float64"),
    ],
)
def test_type_of(text: str, name: str) -> None:
    found = infer(parse_expression(text, inames=frozenset({"k"})), TYPES.get)
    assert found is not None
    assert dtype_name(found) == name


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("a[i].position", "unknown-field", "no field 'position'"),
        ("f.x", "type-conflict", "'f' has no fields: it is float32"),
        ("t + 1", "type-conflict", "'t' is a record (sample), which 't + 1' cannot compute with"),
        ("sqrt(t)", "type-conflict", "'sqrt' does not take sample"),
        ("v < w", "type-conflict", "'v' is a record (float4), which 'v < w' cannot compute with"),
        ("v + u", "type-conflict", "float4 and float2 do not go together: v + u"),
        ("v*d", "type-conflict", "float4 and float64 do not go together: v*d"),
        ("q*f", "type-conflict", "int3 and float32 do not go together: q*f"),
        ("q/2", "type-conflict", "'q' is a record (int3), which 'q/2' cannot compute with"),
        ("sqrt(q)", "type-conflict", "'sqrt' does not take int3"),
        ("v // 2", "type-conflict", "'v' is a record (float4), which 'v // 2' cannot compute with"),
        ("if(v, 1, 2)", "type-conflict", "the condition 'v' is a record"),
        ("any(k, v)", "type-conflict", "'v' is a record (float4), which 'any(k, v)' cannot compute with"),
        ("isnan(v)", "type-conflict", "'isnan' does not take float4"),
        ("sincos(v)", "type-conflict", "'sincos' does not take float4"),
        ("cast(float4, f)", "type-conflict", "cast(float4, f) converts a record"),
        ("make_float2(v, 1)", "type-conflict", "'v' is float4, and is stored as float32"),
        ("a[t]", "type-conflict", "subscript 't' of 'a' is not an integer but sample"),
        ("if(f > 0, t, v)", "type-conflict", "sample and float4 do not go together: if(f > 0, t, v)"),
    ],
)
def test_what_records_cannot_do(text: str, code: str, message: str) -> None:
    with pytest.raises(TypeConflictError) as error:
        infer(parse_expression(text, inames=frozenset({"k"})), TYPES.get)
    assert (error.value.diagnostic.code, error.value.diagnostic.message) == (code, message)


@pytest.mark.parametrize("text", ["a[i].pos.x*2", "(v + w).x", "make_float2(1, i).y", "sincos(f).sin", "f(x).y**2"])
def test_fields_print_as_they_are_written(text: str) -> None:
    assert show(parse_expression(text)) == text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("a", "O")], "field 'a' has the type object"),
        ([("a", "f4", (2,))], "field 'a' is an array"),
        ([("a", ">f4")], "field 'a' has the type >f4"),
        ([("int", "f4")], "'int' cannot be the name of a field"),
        ({"names": ["a", "b"], "formats": ["f4", "f4"], "offsets": [0, 2]}, "field 'b' overlaps another one"),
        ([("a", [("b", "S3")])], "field 'b' has the type |S3"),
    ],
)
def test_what_is_no_record(fields: list[tuple[str, object]], message: str) -> None:
    with pytest.raises(pl.KernelError, match="bad-record") as error:
        to_dtype(np.dtype(fields))
    assert error.value.found[0].message == f"this is no record type: {message}"


def test_a_record_is_named_by_its_user_or_after_its_fields() -> None:
    assert record_name(SAMPLE) == "sample"
    assert record_name(np.dtype([("re", "f4"), ("n", "i4")])) == "record_re_n"
    assert record_name(np.dtype([("x", "f8"), ("y", "f8")])) == "double2"
    assert record_name(pl.record("named", np.dtype([("re", "f4")]))) == "named"
    for name in ("float4", "2d", "class"):
        with pytest.raises(pl.KernelError, match="bad-identifier"):
            pl.record(name, [("x", "f4")])


def test_which_records_are_vectors() -> None:
    assert is_vector(np.dtype([("x", "f4"), ("y", "f4")]))
    assert not is_vector(np.dtype([("x", "f4"), ("y", "f8")]))
    assert not is_vector(np.dtype([("x", "f4")]))
    assert not is_vector(np.dtype([("y", "f4"), ("x", "f4")]))
    assert not is_vector(np.dtype({"names": ["x", "y"], "formats": ["f4", "f4"], "offsets": [0, 8]}))
    assert list(leaf_fields(SAMPLE)) == [("pos", "x"), ("pos", "y"), ("pos", "z"), ("n",), ("flag",)]


def test_layout_in_c() -> None:
    packed = np.dtype([("flag", "i1"), ("value", "f4")])
    assert struct_padding(packed, wide=True) == (True, {})
    assert struct_alignment(packed, wide=True) == 1
    assert struct_padding(np.dtype(packed.descr, align=True), wide=True) == (False, {})
    gap = np.dtype({"names": ["a", "b"], "formats": ["f4", "f4"], "offsets": [4, 16], "itemsize": 24})
    assert struct_padding(gap, wide=True) == (False, {4: 4, 16: 8, 24: 4})
    held = np.dtype([("v", pl.vec.float4), ("n", "i4")])
    assert struct_padding(held, wide=False) == (False, {})
    assert struct_padding(held, wide=True) == (True, {})  # 20 bytes, where float4 asks for a multiple of 16
    names = ("char2", "float3", "int4", "double4")
    sizes = {name: struct_alignment(getattr(pl.vec, name), wide=True) for name in names}
    assert sizes == {"char2": 2, "float3": 4, "int4": 16, "double4": 16}


def test_add_dtypes_keeps_records_through_json() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", name="copies")
    typed = pl.add_dtypes(knl, {"a": SAMPLE})
    again = pl.replay(pl.trace_from_json(typed.trace.to_json()), knl)
    assert str(again) == str(typed)
    assert "a: sample[n] (in)" in str(again)
    (argument,) = [x for x in again.arguments if x.name == "b"]
    assert argument.dtype == SAMPLE
    with pytest.raises(pl.TransformError, match="'a' is sample already and cannot become float4"):
        pl.add_dtypes(typed, {"a": pl.vec.float4})
