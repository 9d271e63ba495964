"""Types: NumPy's promotion, constants that adapt, refusals."""

from __future__ import annotations

from itertools import permutations

import ml_dtypes
import numpy as np
import pytest

from polyloop.errors import KernelError
from polyloop.expr.dtypes import DType, dtype_name, find_dtype, is_inexact, is_signed, to_dtype
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import RESERVED, check_identifier, is_identifier
from polyloop.expr.parser import parse_expression
from polyloop.expr.promotion import ScalarType, TypeConflictError, Weak, adapted, common_type, promote, settle
from polyloop.expr.typing import infer, infer_type

_TYPES = {
    "i": "int32",
    "n": "int32",
    "f": "float32",
    "d": "float64",
    "h": "float16",
    "s": "int8",
    "u": "uint32",
    "q": "int64",
    "t": "bool",
    "b": "bfloat16",
    "z": "complex64",
    "w": "complex128",
    "v": "uint64",
}


def lookup(name: str) -> DType | None:
    return find_dtype(_TYPES[name]) if name in _TYPES else None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("0.1*f", "float32"),
        ("f + 1", "float32"),
        ("h*2.5", "float16"),
        ("i + 1", "int32"),
        ("i*0.5", "float64"),
        ("i/2", "float64"),
        ("i/n", "float64"),
        ("s/s", "float64"),
        ("f/2", "float32"),
        ("i*f", "float32"),
        ("q*h", "float16"),
        ("i*0.5*f", "float32"),
        ("f*(i + 0.5)", "float32"),
        ("f*(i/n)", "float32"),
        ("f*sqrt(i)", "float64"),
        ("h*b", "float32"),
        ("i*b", "bfloat16"),
        ("z*f", "complex64"),
        ("1j*f", "complex64"),
        ("1j*i", "complex128"),
        ("z*d", "complex128"),
        ("1j*h", "complex64"),
        ("abs(z)", "float32"),
        ("real(w)", "float64"),
        ("conj(z)", "complex64"),
        ("exp(z)", "complex64"),
        ("arg(i)", "float64"),
        ("z**2", "complex64"),
        ("u & 4294967295", "uint32"),
        ("popcount(q)", "int32"),
        ("gcd(i, q)", "int64"),
        ("ldexp(f, i)", "float32"),
        ("t << 1", "int32"),
        ("sum(k, i*0.5)", "float64"),
        ("sum(k, z)", "complex64"),
        ("f*d", "float64"),
        ("s + i", "int32"),
        ("i + u", "int64"),
        ("i + 5000000000", "int64"),
        ("i - 2147483647", "int32"),
        ("i - 2147483648", "int64"),
        ("u - 2147483648", "uint32"),
        ("18446744073709551615", "uint64"),
        ("i // 2 % 3", "int32"),
        ("i**2", "int32"),
        ("f**2", "float32"),
        ("-s", "int8"),
        ("2", "int32"),
        ("2*3.0", "float64"),
        ("1/2", "float64"),
        ("True", "bool"),
        ("t + t", "int32"),
        ("t*f", "float32"),
        ("i < f", "bool"),
        ("0 < i < 3", "bool"),
        ("t and not t", "bool"),
        ("if(t, 1, f)", "float32"),
        ("if(t, t, t)", "bool"),
        ("min(i, 3)", "int32"),
        ("max(f, 0)", "float32"),
        ("i & 7", "int32"),
        ("~s << 2", "int8"),
        ("1 << q", "int64"),
        ("t | t", "bool"),
        ("cast(float16, d)*2", "float16"),
        ("sum(k, f)", "float32"),
        ("sum(k, t)", "int32"),
        ("any(k, t)", "bool"),
        ("max(k, t)", "bool"),
        ("f[i, n - 1]", "float32"),
        ("sqrt(f)", "float32"),
        ("sqrt(i)", "float64"),
        ("sqrt(2)*f", "float32"),
        ("pow(f, 2)", "float32"),
        ("fma(f, d, 1)", "float64"),
        ("abs(i)", "int32"),
        ("isnan(f)", "bool"),
        ("floor(f)", "float32"),
    ],
)
def test_type_of(text: str, name: str) -> None:
    found = infer(parse_expression(text, inames=frozenset({"k"})), lookup)
    assert found is not None
    assert dtype_name(found) == name


@pytest.mark.parametrize("text", ["x + 1", "f*x", "if(t, x, 1)", "sqrt(x)", "x[i]", "sum(k, x)"])
def test_an_unknown_type_leaves_the_result_unknown(text: str) -> None:
    assert infer(parse_expression(text, inames=frozenset({"k"})), lookup) is None


def test_a_comparison_of_unknown_types_is_still_a_truth_value() -> None:
    assert infer(parse_expression("x < y"), lookup) == np.dtype("bool")


@pytest.mark.parametrize("left", sorted(set(_TYPES.values())))
@pytest.mark.parametrize("right", sorted(set(_TYPES.values())))
def test_promotion_agrees_with_numpy_but_for_integers_and_floats(left: str, right: str) -> None:
    kinds = (to_dtype(left), to_dtype(right))
    inexact = [kind for kind in kinds if is_inexact(kind)]
    if len(inexact) == 1:
        assert promote(*kinds) == inexact[0]
    elif "bfloat16" in (left, right) and left != right:
        other = next(kind for kind in kinds if kind.name != "bfloat16")
        assert promote(*kinds) == (np.float32 if other == np.float16 else other)
    elif "uint64" in (left, right) and any(is_signed(kind) for kind in kinds):
        with pytest.raises(TypeConflictError):
            promote(*kinds)
    else:
        assert promote(*kinds) == np.result_type(*kinds)


@pytest.mark.parametrize("order", list(permutations([np.dtype("int32"), Weak.FLOAT, np.dtype("float32")])))
def test_the_order_of_operands_does_not_matter(order: tuple[ScalarType, ...]) -> None:
    assert common_type(order) == np.dtype("float32")
    assert promote(promote(order[0], order[1]), order[2]) == np.dtype("float32")


def test_a_value_without_width_takes_the_one_that_is_wanted() -> None:
    half = np.dtype("float16")
    assert adapted(Weak.FLOAT, half) == half
    assert adapted(Weak.FLOAT, np.dtype("int32")) == np.dtype("float64")
    assert adapted(Weak.FLOAT, np.dtype("complex64")) == np.dtype("float32")
    assert adapted(Weak.COMPLEX, np.dtype("float32")) == np.dtype("complex64")
    assert adapted(Weak.INT, np.dtype("float32")) == np.dtype("float32")
    assert adapted(Weak.INT, np.dtype("uint8")) == np.dtype("uint8")
    assert adapted(Weak.LONG, np.dtype("uint8")) == np.dtype("int64")
    assert adapted(np.dtype("int8"), half) == np.dtype("int8")


def test_constants_stay_weak_until_they_meet_a_typed_value() -> None:
    assert infer_type(parse_expression("2*3"), lookup) is Weak.INT
    assert infer_type(parse_expression("2*3.5"), lookup) is Weak.FLOAT
    assert settle(Weak.INT) == np.dtype("int32")
    assert settle(Weak.FLOAT) == np.dtype("float64")
    assert settle(np.dtype("int8")) == np.dtype("int8")
    assert infer_type(np.float32(2.0), lookup) == np.dtype("float32")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("sqr(f)", "unknown-function", "no function 'sqr'"),
        ("sqrt(f, f)", "wrong-argument-count", "'sqrt' takes 1 argument, not 2"),
        ("pow(f)", "wrong-argument-count", "'pow' takes 2 arguments, not 1"),
        ("f & 1", "type-conflict", "bit operation on 'f', which is float32"),
        ("i << 1.5", "type-conflict", "bit operation on '1.5', which is a floating-point number"),
        ("f[i/2]", "type-conflict", "subscript 'i/2' of 'f' is not an integer but a floating-point number"),
        ("f[t]", "type-conflict", "subscript 't' of 'f' is not an integer but bool"),
        ("x < f & 1.0", "type-conflict", "bit operation on 'f', which is float32"),
        ("v + i", "type-conflict", "uint64 and int32 have no common integer type: v + i"),
        ("z < w", "type-conflict", "complex numbers have no order: z < w"),
        ("max(z, w, z)", "type-conflict", "complex numbers have no order: max(z, w, z)"),
        ("z // w", "type-conflict", "complex numbers have no quotient that is rounded downward: z // w"),
        ("if(z, 1, 2)", "type-conflict", "a complex number is no condition: z"),
        ("not z", "type-conflict", "a complex number is no condition: z"),
        ("cast(float32, z)", "type-conflict", "a complex number cannot be cast to float32: cast(float32, z)"),
        ("erf(z)", "type-conflict", "'erf' is not defined for complex numbers: erf(z)"),
        ("f[z]", "type-conflict", "subscript 'z' of 'f' is not an integer but complex64"),
        ("gcd(f, 2)", "type-conflict", "'gcd' of 'f', which is float32"),
        ("ldexp(f, f)", "type-conflict", "the last argument of 'ldexp' is 'f', which is float32"),
        ("i ** -1", "type-conflict", "an integer to a negative power is no integer: i**(-1)"),
        ("s + 300", "bad-constant", "the constant 300 does not fit int8, the type of s + 300"),
        ("u > -1", "bad-constant", "the constant -1 does not fit uint32, the type of u > -1"),
        ("i << 32", "bad-constant", "a shift of int32 by 32 bits: i << 32"),
        ("i >> -1", "bad-constant", "a shift of int32 by -1 bits: i >> -1"),
    ],
)
def test_what_has_no_type_is_refused(text: str, code: str, message: str) -> None:
    with pytest.raises(TypeConflictError) as error:
        infer(parse_expression(text), lookup)
    found = error.value.diagnostic
    assert (found.code, found.message) == (code, message)
    assert found.hints


def test_a_near_function_name_is_suggested() -> None:
    with pytest.raises(TypeConflictError) as error:
        infer(parse_expression("sqr(f)"), lookup)
    assert error.value.diagnostic.hints == ("did you mean 'sqrt'?",)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        (np.float32, "float32"),
        ("float32", "float32"),
        ("np.int8", "int8"),
        ("f4", "float32"),
        (np.dtype("uint16"), "uint16"),
        (bool, "bool"),
        (np.bool_, "bool"),
        (float, "float64"),
        ("double", "float64"),
        ("complex64", "complex64"),
        (complex, "complex128"),
        ("bfloat16", "bfloat16"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype("c8"), "complex64"),
    ],
)
def test_spellings_of_types(spelling: object, name: str) -> None:
    assert to_dtype(spelling) == np.dtype(name)


@pytest.mark.parametrize(
    ("spelling", "hint"),
    [
        ("flaot32", "did you mean 'float32'?"),
        ("float", "write float32 or float64"),
        ("complex", "write complex64 or complex128"),
        ("bfloat", "did you mean 'bfloat16'?"),
        (np.complexfloating, None),
        (None, None),
        (np.floating, None),
        (np.dtype(">f4"), None),
        ("", None),
    ],
)
def test_an_unknown_type_is_refused(spelling: object, hint: str | None) -> None:
    assert find_dtype(spelling) is None
    with pytest.raises(KernelError) as error:
        to_dtype(spelling)
    (found,) = error.value.found
    assert found.code == "unknown-dtype"
    assert found.hints == (hint,) if hint else found.hints


@pytest.mark.parametrize("name", ["a", "a_1", "_t", "i0", "sum", "end", "A", "input"])
def test_good_names(name: str) -> None:
    assert is_identifier(name)
    assert check_identifier(name) is None


@pytest.mark.parametrize("name", ["", "1a", "a-b", "__a", "\u00e9", "a b", "a\n", "\u0661"])
def test_badly_spelt_names(name: str) -> None:
    wrong = check_identifier(name)
    assert wrong is not None
    assert wrong.code == "bad-identifier"


@pytest.mark.parametrize("name", ["float", "int", "template", "threadIdx", "blockDim", "NULL", "float4"])
def test_names_that_c_or_cuda_use(name: str) -> None:
    wrong = check_identifier(name)
    assert wrong is not None
    assert wrong.code == "reserved-name"


def test_reserved_words_are_identifiers() -> None:
    assert all(is_identifier(name) for name in RESERVED)
    assert all(function.accepts(function.arity) for function in FUNCTIONS.values())
