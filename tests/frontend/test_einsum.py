"""``make_einsum`` agrees with ``numpy.einsum``, and says what is wrong with a specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

SPECS = [
    "ij,j->i",
    "ij,jk",
    "ii",
    "ii->i",
    "i->",
    "i,j->ij",
    ",i->i",
    "bij,bjk->bik",
    "ij->ji",
    "ba",
    "i,i",
    ",->",
    "ijk,ik->j",
    "iij->j",
    "ij,ij,ij->i",
    "bqd,bkd->bkq",
    "i j , j k -> i k",
    "iK,Kj->ij",
]
EXTENTS = {"i": 3, "j": 4, "k": 5, "b": 2, "a": 6, "q": 3, "d": 2, "K": 5}


def arrays(spec: str, names: list[str]) -> dict[str, Any]:
    rng = np.random.default_rng(len(spec))
    parts = spec.replace(" ", "").partition("->")[0].split(",")
    return {
        name: rng.integers(-4, 5, [EXTENTS[x] for x in part]).astype(np.float64)
        for name, part in zip(names, parts, strict=True)
    }


@pytest.mark.parametrize("spec", SPECS)
def test_it_agrees_with_numpy(spec: str) -> None:
    names = [f"x{number}" for number in range(spec.count(",") + 1)]
    given = arrays(spec, names)
    knl = pl.add_dtypes(pl.make_einsum(spec, names), dict.fromkeys((*names, "out"), "float64"))
    expected = np.einsum(spec, *given.values())
    for result in (pl.interpret(knl, **given), pl.compile(knl, target=pl.CTarget())(**given)):
        np.testing.assert_array_equal(np.asarray(result.out).reshape(expected.shape), expected)


def test_the_kernel_is_that_of_the_docstring() -> None:
    knl = pl.make_einsum("ij,j->i", "a, x", assumptions="Ni >= 1")
    assert str(knl) == (
        "kernel einsum2to1_kernel\n"
        "arguments:\n"
        "    a: ?[Ni, Nj] (in)\n"
        "    x: ?[Nj] (in)\n"
        "    out: ?[Ni] (out)\n"
        "    Ni: int32\n"
        "    Nj: int32\n"
        "domains:\n"
        "    [Ni] -> { [i] : 0 <= i < Ni }\n"
        "    [Nj] -> { [j] : 0 <= j < Nj }\n"
        "assumptions:\n"
        "    [Ni, Nj] -> {  : Ni > 0 and Nj >= 0 }\n"
        "instructions:\n"
        "    [i]  out[i] = sum(j, a[i, j]*x[j])    {id=insn}"
    )


def test_a_sum_over_nothing_is_zero() -> None:
    knl = pl.add_dtypes(pl.make_einsum("ij,j->i", "a, x"), {"a": "float32", "x": "float32", "out": "float32"})
    given = {"a": np.ones((3, 0), np.float32), "x": np.ones(0, np.float32)}
    for result in (pl.interpret(knl, **given), pl.compile(knl, target=pl.CTarget())(**given, poison=True)):
        np.testing.assert_array_equal(result.out, np.zeros(3, np.float32))


def test_an_argument_that_is_given_twice_is_one_square_array() -> None:
    knl = pl.add_dtypes(pl.make_einsum("ij,ji", ("a", "a")), {"a": "int32"})
    a = np.arange(9, dtype=np.int32).reshape(3, 3)
    assert pl.interpret(knl, a=a).out == np.einsum("ij,ji", a, a)


@pytest.mark.parametrize(
    ("spec", "names", "code", "message"),
    [
        ("ij,j->i", ("a",), "wrong-argument-count", "the specification has 2 arguments, not 1"),
        ("i", ("a", "c"), "wrong-argument-count", "the specification has 1 argument, not 2"),
        ("i1,j", ("a", "c"), "bad-einsum", "'i1' in 'i1,j' is no group of letters"),
        ("...i->i", ("a",), "bad-einsum", "there is no '...'; name every axis"),
        ("i->j->k", ("a",), "bad-einsum", "'j->k' in 'i->j->k' is no group of letters"),
        ("ij->ii", ("a",), "bad-einsum", "index 'i' occurs twice in the result of 'ij->ii'"),
        ("ij->k", ("a",), "bad-einsum", "index 'k' of the result of 'ij->k' is in no argument"),
        (10_000 * "x", ("a",), "too-many-axes", "array 'a' would have 10000 axes"),
        ("ij->", ("i",), "name-taken", "argument 'i' has the name of an index, or its extent"),
        ("ij->", ("out",), "name-taken", "argument 'out' has the name of the result"),
        ("ij->", ("float",), "reserved-name", "'float' is a keyword of C or C++"),
        ("ij,i->", ("a", "a"), "bad-einsum", "argument 'a' is given as 'i' and 'ij'"),
    ],
)
def test_what_is_wrong_is_said(spec: str, names: tuple[str, ...], code: str, message: str) -> None:
    with pytest.raises(pl.KernelError) as caught:
        pl.make_einsum(spec, names)
    assert caught.value.codes == (code,)
    assert message in str(caught.value)
    assert "Hint: " in str(caught.value)


def test_the_arguments_cannot_be_declared_besides() -> None:
    with pytest.raises(pl.KernelError, match="follow from its specification"):
        pl.make_einsum("i->", "a", kernel_data=[])
