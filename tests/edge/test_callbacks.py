"""Functions of users that raise, and other values that are refused where they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl


def small() -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])


class UnspeakableError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError


def raises(*_: object, **__: object) -> Any:
    raise UnspeakableError


def interpreted() -> object:
    row = pl.ForeignFunction("row", [np.float32], np.float32, reference=raises)
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = row(x[i])", [pl.GlobalArg("x, y", np.float32, shape="n"), ...], functions=[row]
    )
    return pl.interpret(knl, x=np.ones(2, np.float32))


CALLS: dict[str, Callable[[], object]] = {
    "f": lambda: pl.map_instructions(small(), f=raises),
    "inputs": lambda: pl.check_equivalence(small(), small(), inputs=raises),
    "build": lambda: pl.tune(raises, {}, {"x": np.ones(2, np.float32)}),
    "conditions": lambda: pl.tune(lambda tile: small(), {"tile": [1, 2]}, {}, conditions=lambda tile: raises()),
    "reference": interpreted,
}


@pytest.mark.parametrize("name", CALLS)
def test_an_exception_of_a_users_function_is_the_cause(name: str) -> None:
    with pytest.raises(pl.PolyloopError, match=f"'{name}' raised an exception") as caught:
        CALLS[name]()
    assert caught.value.codes == ("callback-failed",)
    assert isinstance(caught.value.__cause__, UnspeakableError)


def test_a_diagnostic_of_a_users_function_is_passed_on() -> None:
    def inner(*_: object) -> Any:
        pl.split_iname(small(), "k", 4)

    with pytest.raises(pl.TransformError) as caught:
        pl.map_instructions(small(), f=inner)
    assert caught.value.codes == ("unknown-iname",)


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


@pytest.mark.parametrize("dtype", [Hostile(), 10**5000, {"a": 10**5000}], ids=["hostile", "huge", "huge inside"])
def test_what_is_no_type_is_refused_by_its_name(dtype: Any) -> None:
    for call in (
        lambda: pl.add_dtypes(small(), {"x": dtype}),
        lambda: pl.add_and_infer_dtypes(small(), {"x": dtype}),
        lambda: pl.ForeignFunction("row", [dtype]),
    ):
        with pytest.raises(pl.PolyloopError, match="unknown-dtype"):
            call()


@pytest.mark.parametrize("text", ["{[i]", "1 +", "f4,,", "(", "2x"])
def test_what_numpy_cannot_read_is_no_record(text: str) -> None:
    with pytest.raises(pl.KernelError):
        pl.record("pair", [("x", text)])
    with pytest.raises(pl.KernelError):
        pl.record("pair", [text])  # type: ignore[list-item]


def test_a_parameter_of_a_recipe_stands_for_a_place() -> None:
    recipe = pl.Recipe.of(pl.split_iname(small(), "i", 4))
    with pytest.raises(pl.PolyloopError, match="'block' stands for no place"):
        recipe.with_parameters(block=[])
