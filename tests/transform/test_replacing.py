"""``map_instructions``, ``replace_instruction_ids``, and what became of names that a step took away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, refused, same_after_replay
from tests.transform.kernels import F, blur, spread

Golden = Callable[[str, str], None]


def rows() -> pl.LoopKernel:
    text = "y[i] = sum(j, a[i, j]) {id=rows}\nz[i] = 2*y[i] {id=twice, dep=rows}"
    return pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, [pl.GlobalArg("a", F, shape="n, n"), ...], name="rows")


def check_rows(knl: pl.LoopKernel, first: float, second: float) -> None:
    for n in (1, 4, 9):
        a = np.arange(n * n, dtype=F).reshape(n, n)
        check(knl, {"a": a}, {"y": first * a.sum(1), "z": second * first * a.sum(1)})


def test_dependences_follow_other_ids() -> None:
    base = rows()
    knl = pl.replace_instruction_ids(base, {"rows": "twice", "twice": "rows"})
    assert [(i.id, i.depends_on) for i in knl.instructions] == [("twice", frozenset()), ("rows", {"twice"})]
    knl = pl.add_prefetch(pl.split_iname(knl, "j", 4), "a", "j_inner")
    filler = knl.evaluations["a_fetch"]
    knl = pl.replace_instruction_ids(spread(knl, length=4), {filler: ["load"]})
    assert knl.evaluations["a_fetch"] == "load"
    check_rows(knl, 1, 2)
    same_after_replay(base, knl)


def test_barriers_stay_between_the_instructions() -> None:
    text = "a[i] = b[i] {id=w}\n... gbarrier\nc[i] = a[idx[i]] {id=r}"
    data = [pl.GlobalArg("idx", np.int32, shape="n"), pl.GlobalArg("a, b, c", F, shape="n"), ...]
    base = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="gather", silenced_warnings="*")
    knl = spread(pl.replace_instruction_ids(base, {"w": "r", "r": "w"}), length=4)
    assert len(pl.generate_code(knl, target=pl.CudaTarget()).launches) == 2
    b = np.arange(6, dtype=F)
    given = {"idx": np.array([2, 0, 1, 5, 4, 3], np.int32), "b": b}
    check(knl, given, {"c": b[given["idx"]]})


def test_ids_that_cannot_be(golden: Golden) -> None:
    knl = pl.replace_instruction_ids(rows(), {"rows": "first"})
    text = refused(knl, lambda k: pl.replace_instruction_ids(k, {"rows": "other"}), "unknown-instruction")
    golden("messages/replace_instruction_ids_renamed.txt", text)
    refused(knl, lambda k: pl.replace_instruction_ids(k, {"first": "twice"}), "name-taken")
    refused(knl, lambda k: pl.replace_instruction_ids(k, {"first": "a b"}), "bad-identifier")
    refused(knl, lambda k: pl.replace_instruction_ids(k, {"first": ["one", "two"]}), "bad-value")


def test_instructions_are_mapped_after_loops_were_split() -> None:
    base = rows()
    knl = pl.split_iname(spread(base, length=4), "j", 4)
    knl = pl.map_instructions(knl, "writes:y", lambda insn: insn.copy(expression=insn.expression * 3))
    knl = pl.map_instructions(knl, "id:twice", lambda insn: pl.Assignment(insn.assignee, "5*y[i]"))
    check_rows(knl, 3, 5)
    assert "instructions={'rows': 'y[i] = sum(j, a[i, j])*3'}" in str(knl.trace)
    assert "z[i] = 5*y[i]" in str(knl.reference)
    same_after_replay(base, knl)


def test_a_reversed_loop_sees_the_inames_that_were_written() -> None:
    knl = pl.reverse(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = i", [pl.GlobalArg("y", np.int32)]), "i")
    knl = pl.map_instructions(knl, f=lambda insn: f"{insn.assignee} = i*i")
    check(knl, {"n": 5}, {"y": np.arange(5, dtype=np.int32) ** 2})


def test_what_cannot_be_mapped(golden: Golden) -> None:
    knl = rows()
    fetched = pl.add_prefetch(pl.split_iname(knl, "j", 4), "a", "j_inner")
    ones = partial(pl.map_instructions, instructions={"rows": "y[i] = sum(j, 1)"})
    text = refused(fetched, ones, "bad-instructions")
    golden("messages/map_instructions_rewritten.txt", text)
    filler = fetched.evaluations["a_fetch"]
    for name, answer, code in (
        ("none", "y[i] = 1", "unknown-instruction"),
        ("rows", "y[i] = 2*", "syntax"),
        ("rows", "<> t = sum(j, 1)", "syntax"),
        ("rows", "y[i] = a[i, 0]", "bad-instructions"),
        ("twice", "z[i] = b + y[i]", "undeclared-name"),
        ("twice", "z[j] = y[i]", "undeclared-name"),
        ("twice", "z[i + 1] = y[i]", "out-of-bounds"),
    ):
        refused(knl, partial(pl.map_instructions, instructions={name: answer}), code)
    refused(knl, lambda k: pl.map_instructions(k, "id:rows", lambda insn: insn.copy(id="other")), "bad-instructions")
    refused(knl, lambda k: pl.map_instructions(k, "id:rows"), "bad-value")
    refused(fetched, lambda k: pl.map_instructions(k, f"id:{filler}", lambda _: "a_fetch[0] = 1"), "bad-instructions")


def test_the_steps_that_consumed_a_name_are_told(golden: Golden) -> None:
    knl = pl.split_iname(pl.split_iname(pl.rename_iname(blur(), "i", "x"), "x", 16), "x_inner", 4)
    text = refused(knl, lambda k: pl.add_prefetch(k, "a", "i"), "unknown-iname")
    golden("messages/history_of_an_iname.txt", text)
    fixed = pl.fix_parameters(blur(), n=9)
    assert "'n' went in step 1: fix_parameters(n=9)" in refused(
        fixed, lambda k: pl.fix_parameters(k, n=8), "unknown-parameter"
    )
    swapped = pl.rename_argument(blur(), "a", "b")
    assert "'a' became b in step 1" in refused(swapped, lambda k: pl.add_prefetch(k, "a", "i"), "unknown-array")


# {{{ tile


@pytest.mark.few(1)
@pytest.mark.parametrize("lengths", [{"i": 4, "j": 8}, {"j": 3, "i": 1}, {"i": 32}])
def test_loops_are_tiled_at_once(lengths: dict[str, int]) -> None:
    text = "c[i, j] = sum(k, a[i, k]*a[k, j])"
    base = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, [pl.GlobalArg("a, c", F, shape="n, n")], name="square")
    knl = pl.tile(base, lengths)
    outer, inner = ([f"{iname}_{part}" for iname in lengths] for part in ("outer", "inner"))
    nest = knl.instructions[0].inames
    assert [x for x in nest if x in {*outer, *inner}] == [*outer, *inner]
    blocks = {iname: f"g.{axis}" for axis, iname in enumerate(lengths)}
    tagged = pl.tile(base, lengths, outer_tags=blocks, inner_tags={"i": "l.0"})
    for n in (1, 8, 9):
        a = np.arange(n * n, dtype=F).reshape(n, n) % 5
        for variant in (knl, tagged):
            check(variant, {"a": a}, {"c": a @ a})
    same_after_replay(base, tagged)


def test_tiles_that_wait_for_each_other(golden: Golden) -> None:
    text = "x[t + 1, i] = x[t, i - 1] + x[t, i + 1]"
    base = pl.make_kernel(
        "{[t, i]: 0 <= t < m and 1 <= i < n - 1}", text, [pl.GlobalArg("x", F, shape="m + 1, n"), ...], name="waves"
    )
    golden("messages/tile_skew_first.txt", refused(base, lambda k: pl.tile(k, {"t": 4, "i": 8}), "illegal-order"))
    knl = pl.tile(pl.map_domain(base, "{[t, i] -> [t, i + t]}"), {"t": 4, "i": 8})
    x = np.zeros((8, 12), F)
    x[0] = np.arange(12) % 3
    want = x.copy()
    for t in range(7):
        want[t + 1, 1:-1] = want[t, :-2] + want[t, 2:]
    check(knl, {"x": x}, {"x": want}, fibres=False)
    refused(base, lambda k: pl.tile(k, {"t": 0}), "bad-factor")
    refused(base, lambda k: pl.tile(k, {}), "bad-factor")
    refused(base, lambda k: pl.tile(k, {"s": 4}), "unknown-iname")
    refused(base, lambda k: pl.tile(k, {"t": 4}, inner_tags={"i": "l.0"}), "bad-tag")


# }}}
