"""Instructions as objects, libraries of functions, copies between layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

F = np.float32


def refused(code: str, call: Any) -> str:
    with pytest.raises(pl.PolyloopError) as error:
        call()
    assert error.value.codes == (code,), error.value
    return str(error.value)


# {{{ instructions


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (pl.Assignment("a[i]", "b[i]"), "a[i] = b[i]"),
        (pl.Assignment("a[i]", "b[i]", id="x", depends_on="p:q", tags="t:u"), "a[i] = b[i] {id=x, dep=p:q, tags=t:u}"),
        (pl.Assignment("t", "b[i]", temp_var_type=pl.auto), "<> t = b[i]"),
        (pl.Assignment("t", "b[i]", temp_var_type=np.float64), "<float64> t = b[i]"),
        (pl.Assignment("a[i]", 0, within_inames=frozenset("ji")), "a[i] = 0 {inames=+i:j}"),
        (pl.Assignment("a[i]", 0, within_inames={"i"}, within_inames_is_final=True), "a[i] = 0 {inames=i}"),
        (pl.Assignment("a[0]", 0, within_inames=(), within_inames_is_final=True), "a[0] = 0 {inames=}"),
        (pl.Assignment("a[i]", 0, depends_on={"q", "p"}, depends_on_is_final=True), "a[i] = 0 {dep=*p:q}"),
        (pl.Assignment("a[i]", 0, predicates={"n > 2", "b[i] < 0"}), "a[i] = 0 {if=(b[i] < 0) and (n > 2)}"),
        (pl.Assignment("a[i]", 0, no_sync_with=[("x", "local"), "y"]), "a[i] = 0 {nosync=x@local:y}"),
        (pl.Assignment("a[i]", "a[i] + 1", atomic=True, priority=2), "a[i] = a[i] + 1 {priority=2, atomic}"),
        (pl.Assignment("a[i]", 0, groups="g", conflicts_with_groups={"h"}), "a[i] = 0 {groups=g, conflicts=h}"),
        (
            pl.Assignment(p.Subscript(p.Variable("a"), p.Variable("i")), p.Sum((p.Variable("x"), 1))),
            "a[i] = x + 1",
        ),
        (pl.Assignment("a[i]", 0, predicates=[p.Comparison(p.Variable("x"), ">", 0)]), "a[i] = 0 {if=x > 0}"),
        (pl.NoOpInstruction(id="all", depends_on="p*"), "... nop {id=all, dep=p*}"),
        (pl.BarrierInstruction(), "... gbarrier"),
        (pl.BarrierInstruction("b", {"x"}, "local", "global"), "... lbarrier {id=b, dep=x, mem_kind=global}"),
    ],
)
def test_an_object_is_a_line_of_text(instruction: Any, text: str) -> None:
    assert str(instruction) == text


def test_objects_and_text_are_one_list() -> None:
    objects: list[Any] = [
        "for i",
        pl.Assignment("t", "2*a[i]", temp_var_type=pl.auto, id="first"),
        pl.Assignment("b[i]", "t + 1", depends_on="first", predicates=["t > 0", "n > 1"]),
        "end",
    ]
    text = ["for i", "<> t = 2*a[i] {id=first}", "b[i] = t + 1 {dep=first, if=(t > 0) and (n > 1)}", "end"]
    data = [pl.GlobalArg("a, b", F, shape="n"), ...]
    one, other = (pl.make_kernel("{[i]: 0 <= i < n}", lines, data) for lines in (objects, text))
    assert str(one) == str(other)
    assert str(one.reference) == str(other.reference)
    names: dict[str, Any] = {}
    exec(pl.kernel_to_python(one), names)
    assert str(names["knl"]) == str(one)


def test_one_object_is_enough() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [pl.Assignment("b[i]", "a[i]")], [pl.GlobalArg("a", F, shape="n"), ...])
    np.testing.assert_array_equal(pl.interpret(knl, a=np.ones(2, F)).b, 1)


def test_a_barrier_separates_what_stands_around_it() -> None:
    first, last = pl.Assignment("b[i]", "a[i]"), pl.Assignment("c[j]", "b[n - 1 - j]")
    lines: list[Any] = [first, pl.BarrierInstruction(id="between"), last]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", lines, [pl.GlobalArg("a", F, shape="n"), ...])
    assert [barrier.id for barrier in knl.barriers] == ["between"]
    np.testing.assert_array_equal(pl.interpret(knl, a=np.arange(3, dtype=F)).c, [2, 1, 0])


def test_objects_that_mean_nothing_are_refused() -> None:
    def make(line: Any) -> pl.LoopKernel:
        return pl.make_kernel("{[i]: 0 <= i < n}", [line])

    refused("bad-instructions", lambda: make(pl.BarrierInstruction(synchronization_kind="warp")))
    refused("bad-instructions", lambda: make(3))
    refused("unknown-iname", lambda: make(pl.Assignment("a[i]", 0, within_inames="k")))
    assert "a[i] = b[i" in refused("syntax", lambda: make(pl.Assignment("a[i]", "b[i")))
    refused("bad-identifier", lambda: make(pl.Assignment("a[i]", 0, id="a b")))


# }}}
# {{{ libraries


def test_merge_makes_a_library() -> None:
    copy = pl.make_function("{[j]: 0 <= j < m}", "b[j] = a[j]", [pl.GlobalArg("a, b", shape="m"), ...], name="copied")
    half = pl.ForeignFunction("half_of", (F,))
    library = pl.merge([copy, [half, copy]])
    assert library == (copy, half)
    assert pl.merge([library, half]) == library
    refused("name-taken", lambda: pl.merge([half, pl.ForeignFunction("half_of", (F,), c_name="other")]))
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", [pl.GlobalArg("a", F, shape="n"), ...])
    assert "functions=[..]" in refused("bad-function", lambda: pl.merge([knl, copy]))  # type: ignore[list-item]


# }}}
# {{{ copies


LAYOUTS = [
    ("N0,N1", None),
    ("N1,N0", "N0,N1"),
    ("F,F", "C,C"),
    ("N0,N2,N1", "N1,N0,N2"),
    ("N1,N0(pad=4)", "N0(pad=4),N1"),
    ("N0", None),
]


@pytest.mark.few(6)
@pytest.mark.parametrize("sizes", [(0, 3, 2), (1, 1, 1), (3, 5, 4)])
@pytest.mark.parametrize(("new", "old"), LAYOUTS)
def test_a_copy_has_the_same_elements(new: str, old: str | None, sizes: tuple[int, ...]) -> None:
    rank = new.count(",") + 1
    knl = pl.add_dtypes(pl.make_copy_kernel(new, old), {"input": F, "output": F})
    assert knl.inames == tuple(f"i{axis}" for axis in range(rank))
    values = np.random.default_rng(0).random(sizes[:rank], dtype=F)
    np.testing.assert_array_equal(pl.interpret(knl, input=values).output, values)
    result = pl.compile(knl, target=pl.CTarget())(input=_stored(knl, values), poison=True)
    np.testing.assert_array_equal(result.output, values)
    knl = pl.split_iname(knl, "i0", 2, outer_tag="g.0", inner_tag="l.0")
    for found in run_on_fibres(pl.generate_code(knl), {"input": _stored(knl, values)}).values():
        np.testing.assert_array_equal(found.output, values)


def _stored(knl: pl.LoopKernel, values: Any) -> Any:
    """Return *values* in the layout of ``input``."""
    given: Any = knl.argument("input")
    strides = [eval(str(stride), {f"n{k}": n for k, n in enumerate(values.shape)}) for stride in given.strides]
    length = 1 + sum(max(n - 1, 0) * stride for n, stride in zip(values.shape, strides, strict=True))
    buffer = np.full(length, np.nan, F)
    view = np.lib.stride_tricks.as_strided(buffer, values.shape, [4 * stride for stride in strides])
    view[...] = values
    return view


def test_layouts_of_different_ranks_are_refused() -> None:
    refused("wrong-rank", lambda: pl.make_copy_kernel("N0,N1", "N0"))
    refused("bad-dim-tags", lambda: pl.make_copy_kernel("N0,N2"))


# }}}
