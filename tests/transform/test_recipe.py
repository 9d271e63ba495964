"""``Recipe``: transforms written for one kernel, applied to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest

import polyloop as pl
from polyloop.transform.base import Applied
from tests.transform.checking import check, cuda, refused
from tests.transform.kernels import F, check_matmul, matmul

Golden = Callable[[str, str], None]

NAMES: Mapping[str, str] = {"i": "row", "j": "col", "k": "t", "a": "u", "b": "v"}


def tiled() -> pl.LoopKernel:
    blocks, threads = {"i": "g.1", "j": "g.0"}, {"i": "l.1", "j": "l.0"}
    knl = pl.tile(matmul(), {"i": 16, "j": 16}, outer_tags=blocks, inner_tags=threads)
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", "i_inner, k_inner")
    knl = pl.add_prefetch(knl, "b", "k_inner, j_inner", temporary_name="tile_b")
    return pl.tag_inames(pl.tag_array_axes(knl, "a_fetch", "F"), "k_inner:unr_hint")


def recipe() -> pl.Recipe:
    return pl.Recipe.of(tiled()).with_parameters(size=["1.lengths.i", "1.lengths.j"], depth="2.inner_length")


def weighted() -> pl.LoopKernel:
    """Other names, other domains, one instruction more."""
    return pl.make_kernel(
        "{[row, col, t]: 0 <= row, t < m and 0 <= col < p}",
        "<> s = 2*x[row]\ny[row, col] = s*sum(t, u[row, t]*v[col, t])",
        [pl.GlobalArg("u", F, shape="m, m"), pl.GlobalArg("v", F, shape="p, m"), pl.GlobalArg("x", F, shape="m"), ...],
        name="weighted",
    )


def test_a_recipe_makes_the_kernel_again() -> None:
    again = recipe().apply(matmul())
    assert cuda(again) == cuda(tiled())
    assert str(again.trace) == str(tiled().trace)


def test_names_that_steps_make_follow_the_renaming() -> None:
    knl = recipe().apply(weighted(), rename=NAMES, size=8, depth=4)
    assert {"row_outer", "col_inner", "t_inner"} <= {*knl.inames}
    assert {"u_fetch", "tile_b"} <= {*knl.temporaries}
    assert "float u_fetch[4][8];" in cuda(knl)
    for m, p in ((1, 1), (9, 17)):
        u, v = np.arange(m * m, dtype=F).reshape(m, m) % 5, np.arange(p * m, dtype=F).reshape(p, m) % 3
        x = np.arange(m, dtype=F)
        check(knl, {"u": u, "v": v, "x": x}, {"y": 2 * x[:, None] * (u @ v.T)})


def test_recipes_are_data() -> None:
    base = recipe()
    again = pl.Recipe.from_json(base.to_json())
    assert again.to_json() == base.to_json()
    assert again.parameters == {"size": 16, "depth": 16}
    plain = pl.Recipe.from_json(tiled().trace.to_json())
    assert cuda(plain.apply(weighted(), rename=NAMES)) == cuda(base.apply(weighted(), rename=NAMES))


def test_a_recipe_prints_as_a_script(golden: Golden) -> None:
    text = str(recipe())
    golden("messages/recipe_as_a_script.txt", text)
    scripted = {"pl": pl, "knl": matmul()}
    exec(text.replace("size = 16", "size = 8"), scripted)
    made = scripted["knl"]
    assert isinstance(made, pl.LoopKernel)
    assert cuda(made) == cuda(recipe().apply(matmul(), size=8))


def test_recipes_are_put_together() -> None:
    first = pl.Recipe.of(pl.split_iname(matmul(), "i", 16)).with_parameters(f="1.inner_length")
    second = pl.Recipe.of(pl.split_iname(matmul(), "j", 16)).with_parameters(f="1.inner_length")
    both = first + second
    assert len(both) == 2
    knl = both.apply(matmul(), f=4)
    assert "inner_length=4" in str(knl.trace.steps[1].call())
    check_matmul(knl)


def test_a_step_that_does_not_fit_is_explained(golden: Golden) -> None:
    base = recipe()
    half = partial(base.apply, rename={"j": "col"})
    golden("messages/recipe_no_iname.txt", refused(weighted(), half, "unknown-iname"))
    partly = partial(base.apply, rename={**NAMES, "a": "w"})
    golden("messages/recipe_no_array.txt", refused(weighted(), partly, "unknown-array"))
    text = refused(pl.split_iname(weighted(), "row", 4), partial(base.apply, rename=NAMES), "unknown-iname")
    assert "'row' became row_outer, row_inner in step 1" in text
    unsplit = pl.Recipe(base.steps[:1] + base.steps[2:])
    golden("messages/recipe_no_step.txt", refused(matmul(), unsplit.apply, "unknown-iname"))
    data = [pl.GlobalArg("c", F, shape="n + 1, n"), ...]
    chain = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i + 1, j] = c[i, j] + k", data)
    assert "step 1 of the recipe is tile(" in refused(chain, base.apply, "illegal-order")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"rename": {"q": "i"}}, "unknown-name"),
        ({"siz": 8}, "unknown-parameter"),
        ({"size": "8"}, "bad-value"),
        ({"size": 0}, "bad-factor"),
    ],
)
def test_what_an_application_cannot_say(values: dict[str, object], code: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        recipe().apply(matmul(), **values)  # type: ignore[arg-type] # wrong on purpose
    assert set(caught.value.codes) == {code}


@pytest.mark.parametrize(
    ("place", "code"),
    [("1.length", "unknown-parameter"), ("9.x", "unknown-parameter"), ("1", "unknown-parameter")],
)
def test_places_that_are_none(place: str, code: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        recipe().with_parameters(x=place)
    assert caught.value.codes == (code,)
    with pytest.raises(pl.TransformError) as caught:
        recipe().with_parameters(rename="1.within")
    assert caught.value.codes == ("name-taken",)


@pytest.mark.parametrize(
    "text", ["{}", "no JSON", "3", '[{"step": 1}]', '{"steps": [{"name": "split_iname", "arguments": {"f": 1}}]}']
)
def test_what_is_no_recipe(text: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.Recipe.from_json(text)
    assert caught.value.codes == ("bad-trace",)


def test_what_names_nothing_in_a_kernel_stays() -> None:
    """Claims, spellings and the subscripts of an intrinsic are called what they are, whatever a kernel has."""
    knl = pl.make_kernel("{[races]: 0 <= races < 8}", "order[races] = 2*x[races]")
    made = pl.add_prefetch(pl.unchecked(knl, "order", claims="order, races", arrays="order"), "x", "races")
    other = pl.make_kernel("{[i]: 0 <= i < 8}", "y[i] = 2*x[i]")
    waived, fetched = pl.Recipe.of(made).apply(other, rename={"order": "y", "races": "i"}).trace
    assert isinstance(waived, Applied)
    assert isinstance(fetched, Applied)
    assert waived.transform.given() == {"reason": "order", "claims": ("order", "races"), "arrays": ("y",)}
    assert fetched.transform.given() == {"var_name": "x", "sweep_inames": ("i",)}
