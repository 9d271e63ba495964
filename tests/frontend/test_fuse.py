"""``fuse_kernels``: the result does what the kernels do one after the other, and says what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.frontend.renamed import Names, instruction_under
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.text.match import Glob, Subject
from polyloop.poly.sets import SET, parameter_space
from polyloop.testing.drawing.random_kernels import random_arguments, random_source
from tests.transform.checking import check

F = np.float32


def kernel(text: str | Sequence[str], name: str, domain: str = "0 <= i < n") -> pl.LoopKernel:
    lines = [text] if isinstance(text, str) else list(text)
    used = [array for array in ("a", "x", "y", "out") if any(f"{array}[" in line for line in lines)]
    data = [pl.GlobalArg(", ".join(used), F, shape="n"), ...]
    return pl.make_kernel(f"{{[i]: {domain}}}", lines, data, name=name)


def twice() -> pl.LoopKernel:
    return kernel(["<> t = 2*a[i]", "out[i] = t + 1"], "twice")


def reference(*kernels: pl.LoopKernel, **options: Any) -> list[str]:
    return str(pl.fuse_kernels(kernels, **options).reference).splitlines()


def test_loops_are_shared_where_every_read_gets_its_value() -> None:
    square = kernel(["<> t = x[i]", "y[i] = t*t"], "square")
    assert reference(twice(), square, data_flow=[("out", 0, 1, "x")]) == [
        "for i",
        "    t = 2*a[i]    {id=insn}",
        "    out[i] = t + 1    {id=insn_1}",
        "    t_1 = out[i]    {id=insn_1_0}",
        "    y[i] = t_1*t_1    {id=insn_1_1}",
    ]


def test_loops_are_not_shared_where_a_read_would_get_another_value() -> None:
    knl = pl.fuse_kernels([twice(), kernel("a[n - 1 - i] = 3", "clear")])
    assert str(knl.reference).splitlines() == [
        "for i",
        "    t = 2*a[i]    {id=insn}",
        "    out[i] = t + 1    {id=insn_1}",
        "for i_1",
        "    a[n - 1 - i_1] = 3    {id=insn_1_0}",
    ]
    assert str(knl.trace) == (
        "# knl = pl.fuse_kernels([twice, clear])\n"
        "# 'clear' does not share i with 'twice': some read would get another value"
    )
    a = np.arange(5, dtype=F)
    result = pl.interpret(knl, a=a.copy())
    np.testing.assert_array_equal(result.out, 2 * a + 1)
    np.testing.assert_array_equal(result.a, np.full(5, 3, F))


def test_domains_that_differ_are_not_shared() -> None:
    inner = kernel("y[i] = x[i - 1] + x[i + 1]", "inner", domain="1 <= i < n - 1")
    text = reference(twice(), inner, data_flow=[("out", 0, 1, "x")])
    assert text[3:] == ["for i_1", "    y[i_1] = out[i_1 - 1] + out[i_1 + 1]    {id=insn_1_0}"]


def test_inner_domains_are_shared_only_with_their_outer_ones() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i}"]
    one = pl.make_kernel(domains, "a[i, j] = 1", data, name="one")
    two = pl.make_kernel(domains, "b[i, j] = 2*a[i, j]", data, name="two")
    late = pl.make_kernel(["{[i]: 1 <= i < n}", domains[1]], "b[i, j] = 3*a[i, j]", data, name="late")
    assert reference(one, two)[:2] == ["for i", "    for j"]
    assert len(reference(one, two)) == 4
    assert reference(one, late)[3:5] == ["for i_1", "    for j_1"]


def test_names_that_clash_get_the_suffixes() -> None:
    rules = ["<> t = 2*a[i]", "f(z) := z*t", "out[i] = f(a[i]) {id=last, dep=first}", "<> t2 = 1 {id=first}"]
    one, two = kernel(rules, "one"), kernel(rules, "two")
    knl = pl.fuse_kernels([one, two], suffixes=["_a", "_b"])
    assert set(knl.temporaries) == {"t", "t2", "t_b", "t2_b"}
    assert list(knl.substitutions) == ["f", "f_b"]
    assert [str(i) for i in knl.instructions if i.id == "last_b"] == ["out[i] = f_b(a[i])"]
    assert next(i for i in knl.instructions if i.id == "last_b").depends_on == {"first_b"}
    for bad in (one, two):
        assert str(bad.substitutions["f"]) == "f(z) := z*t"
    assert str(knl.substitutions["f_b"]) == "f_b(z) := z*t_b"


def test_an_iname_gives_way_to_an_argument_of_another_kernel() -> None:
    one = kernel("out[i] = 1", "one")
    two = pl.make_kernel("{[j]: 0 <= j < n}", "y[j] = i", [pl.ValueArg("i", F), pl.GlobalArg("y", F, shape="n"), ...])
    assert reference(one, two)[0] == "for i_0"


def test_reductions_and_parameters_come_along() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("s", F, shape="n"), pl.GlobalArg("v", F, shape="m"), ...]
    domain = "{[i, k]: 0 <= i < n and 0 <= k < m}"
    one = pl.make_kernel(domain, "s[i] = sum(k, a[i, k])", [data[0], data[1], ...], name="rows")
    two = pl.make_kernel(domain, "v[k] = sum(i, a[i, k]*s[i])", data, name="columns")
    knl = pl.fuse_kernels([one, two], name="both")
    a = np.random.default_rng(0).integers(-3, 4, (4, 3)).astype(F)
    for result in (pl.interpret(knl, a=a), pl.compile(knl, target=pl.CTarget())(a=a)):
        np.testing.assert_array_equal(result.v, a.T @ a.sum(1))


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(40))
def test_random_pairs_do_what_they_do_one_after_the_other(seed: int) -> None:
    kernels = []
    for number in (seed, seed + 1000):
        try:
            kernels.append(random_source(number).make())
        except pl.KernelError:
            return
    try:
        fused = pl.fuse_kernels(kernels)
    except pl.KernelError as error:
        if set(error.codes) <= {"fusion-conflict"}:
            return
        raise
    given: dict[str, Any] = {}
    for knl in kernels:
        given = {**random_arguments(knl, 9, seed, whole=True), **given}
    wanted = dict(given)
    for knl in kernels:
        own = {name: wanted[name] for name in wanted if knl.argument(name)}
        wanted.update({name: np.asarray(value) for name, value in pl.interpret(knl, **own).items()})
    found = pl.interpret(fused, **{name: value for name, value in given.items() if fused.argument(name)})
    for name, value in found.items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=f"{name}\n{fused}")


def refused(code: str, *args: Any, **options: Any) -> str:
    with pytest.raises(pl.KernelError) as caught:
        pl.fuse_kernels(*args, **options)
    assert caught.value.codes == (code,)
    return str(caught.value)


def test_what_is_no_list_of_kernels_is_refused() -> None:
    assert "there is nothing to fuse" in refused("bad-fusion", [])
    assert "pass the kernels in a list" in refused("bad-fusion", twice())
    assert "there are 1 kernels and 2 suffixes" in refused("bad-fusion", [twice()], suffixes=["_a", "_b"])
    assert "'2x' is not a valid kernel name" in refused("bad-identifier", [twice()], name="2x")


def test_what_was_done_to_kernels_is_done_to_their_parts() -> None:
    square = kernel(["<> t = x[i]", "y[i] = t*t"], "square")
    first = pl.split_iname(twice(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    second = pl.split_iname(pl.split_iname(square, "i", 8, inner_tag="unr"), "i_outer", 4, inner_tag="l.0")
    knl = pl.fuse_kernels([first, second], data_flow=[("out", 0, 1, "x")], name="both")
    assert {name: str(tag) for name, tag in knl.iname_tags.items()} == {
        "i_outer": "g.0", "i_inner": "l.0", "i_1_inner": "unr", "i_1_outer_inner": "l.0",
    }  # fmt: skip
    a = np.arange(100, dtype=F)
    check(knl, {"a": a}, {"out": 2 * a + 1, "y": (2 * a + 1) ** 2})
    script = pl.kernel_to_python(knl)
    names: dict[str, Any] = {}
    exec(script, names)
    assert str(names["knl"]) == str(knl)
    again = pl.fuse_kernels([knl, kernel("y[i] = 3", "three")], name="all", data_flow=[("y", 0, 1)])
    assert again.iname_tags == knl.iname_tags
    check(again, {"a": a}, {"out": 2 * a + 1, "y": np.full(100, 3, F)})


def test_an_array_may_be_written_twice() -> None:
    knl = pl.fuse_kernels([twice(), kernel("out[i] = x[i]", "over")], data_flow=[("out", 0, 1)], name="both")
    a = np.arange(9, dtype=F)
    check(knl, {"a": a, "x": 5 * a}, {"out": 5 * a})


def test_kernels_that_stand_for_other_programs_on_purpose_are_fused() -> None:
    fixed = pl.fix_parameters(twice(), n=8)
    assumed = pl.assume(kernel("y[i] = 1", "one"), "n >= 2")
    knl = pl.fuse_kernels([fixed, assumed])
    assert "n >= 2" in str(knl.assumptions)


@pytest.mark.parametrize(
    ("flow", "message", "hint"),
    [
        (("out",), "('out',) states no data flow", "write data_flow=["),
        (("out", 0, 2, "x"), "there is no kernel 2", "kernels count from 0 to 1"),
        (("y", 1, 0, "a"), "kernel 0 runs before kernel 1, whose 'y' it would read", "list the kernels in the order"),
        (("a", 0, 1, "x"), "kernel 'twice' writes no array argument 'a'", "it writes out"),
        (("out", 0, 1, "z"), "kernel 'use' accesses no array argument 'z'", "it accesses x, y"),
    ],
)
def test_data_flow_that_is_not_there_is_refused(flow: Any, message: str, hint: str) -> None:
    text = refused("bad-data-flow", [twice(), kernel("y[i] = x[i]", "use")], data_flow=[flow])
    assert message in text
    assert f"Hint: {hint}" in text


def test_data_flow_into_a_kernel_that_has_the_name_is_refused() -> None:
    use = kernel("out[i] = x[i]", "use")
    text = refused("bad-data-flow", [twice(), use], data_flow=[("out", 0, 1, "x")])
    assert "kernel 'use' has another 'out' besides 'x'" in text


def test_arguments_of_one_name_must_be_the_same() -> None:
    other = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = out[i]", [pl.GlobalArg("out, y", np.float64, shape="n"), ...])
    assert refused("fusion-conflict", [twice(), other], name="both") == (
        "fuse_kernels on kernel 'both': 'out' is not the same in both kernels [fusion-conflict]\n"
        "  Note: in 'twice' it is a float32 array of shape (n), strides (1)\n"
        "  Note: in 'loop_kernel' it is a float64 array of shape (n), strides (1)\n"
        "  Hint: state one type for both, or give one of the two another name"
    )
    longer = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = out[i]", [pl.GlobalArg("out", F, shape="n + 1"), ...])
    assert "in 'loop_kernel' it is a float32 array of shape (n + 1), strides (1)" in refused(
        "fusion-conflict", [twice(), longer]
    )
    scalar = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = out", [pl.ValueArg("out", F), ...])
    assert "in 'loop_kernel' it is a float32 scalar" in refused("fusion-conflict", [twice(), scalar])


def test_assumptions_that_exclude_each_other_are_refused() -> None:
    small, large = pl.assume(twice(), "n < 5"), pl.assume(kernel("y[i] = 1", "one"), "n > 5")
    assert "the kernels assume what excludes each other" in refused("contradiction", [small, large])


def test_the_script_of_a_fused_kernel_makes_it_again() -> None:
    copy = kernel("y[i] = x[i]", "copy")
    knl = pl.fuse_kernels([twice(), copy], data_flow=[("out", 0, 1, "x")], suffixes=["", "_c"])
    knl = pl.split_iname(knl, "i", 8)
    namespace: dict[str, Any] = {}
    exec(pl.kernel_to_python(knl), namespace)
    again = namespace["knl"]
    assert str(again) == str(knl)
    assert str(again.reference) == str(knl.reference)
    assert [str(step) for step in again.trace] == [str(step) for step in knl.trace]


def test_layouts_that_are_read_off_the_arrays_follow_them() -> None:
    def strided(text: str, names: str) -> pl.LoopKernel:
        data = [pl.GlobalArg(names, F, shape="n", strides=pl.auto, alignment=8), ...]
        return pl.make_kernel("{[i]: 0 <= i < n}", text, data, index_dtype=np.int64)

    one, two = strided("out[i] = 2*a[i]", "a, out"), strided("y[i] = x[i] + 1", "x, y")
    knl = pl.fuse_kernels([one, two], data_flow=[("out", 0, 1, "x")], name="strided")
    assert knl.index_dtype == np.int64
    a, out, y = np.arange(12, dtype=F)[::2], np.zeros(12, F)[::2], np.zeros(18, F)[::3]
    for run in (pl.interpret, lambda knl, **given: pl.compile(knl, target=pl.CTarget())(**given)):
        np.testing.assert_array_equal(run(knl, a=a, out=out, y=y).y, 2 * a + 1)


def test_roles_are_assigned_after_kernels_are_fused() -> None:
    knl = pl.make_kernel("{[k, i]: 0 <= k < 64 and 0 <= i < 128}", "b[k, i] = a[k, i]*a[k, 127 - i]",
                         [pl.GlobalArg("a, b", np.float32, shape="64, 128")], target=pl.CudaTarget("sm_90a"))
    knl = knl.tag_inames("i:l.0").add_prefetch("a", "i", temporary_name="t").pipeline("k", stages=3, via="tma")
    knl, other = knl.assign_roles({"load": "t", "compute": "*"}), pl.make_kernel("{[j]: 0 <= j < 4}", "z[j] = 1")
    with pytest.raises(pl.KernelError, match="has roles") as refused:
        pl.fuse_kernels([knl, other])
    assert refused.value.codes == ("bad-fusion",)


def test_every_part_of_an_instruction_is_renamed() -> None:
    """A new field of ``Instruction`` has to be thought of in ``polyloop.frontend.renamed``."""
    array = (
        "name dtype shape strides order is_input is_output dim_tags offset alignment is_constant dim_names is_used_once"
    )
    assert {field.name for field in fields(ArrayArg)} == set(array.split())
    whole = (
        "name parameters assumptions domains instructions arguments temporaries substitutions iname_tags loop_priority "
        "evaluations partials tile_inames slabs fixed index_dtype conditions silenced_warnings barriers "
        "target reference trace made foreign fast preambles buffers waivers blocks roles"
    )
    assert {field.name for field in fields(pl.LoopKernel)} == set(whole.split())
    known = (
        "id inames domain assignee expression origin terms predicates depends_on tags blocks place atomic "
        "reads groups conflicts nosync fast step matrix"
    )
    assert {field.name for field in fields(Instruction)} == set(known.split())
    text = "y[i] = sum(k, a[i, k]*t) {if=p[i] > 0, id=it, dep=first, tags=tag, nosync=other}"
    lines = ["<> t = 1 {id=first}", "<> u = 2 {id=other}", text]
    knl = pl.make_kernel(["{[i, k]: 0 <= i, k < n}"], lines, silenced_warnings="*")
    old = knl.instruction("it")
    variables = {name: f"{name}_1" for name in ("i", "k", "y", "a", "t", "p")}
    names = Names(variables, {"it": "it_1", "first": "first_1", "other": "other_1"})
    new = instruction_under(old, names, 7, parameter_space(knl.parameters))
    assert str(new) == "y_1[i_1] = sum(k_1, a_1[i_1, k_1]*t_1) if p_1[i_1] > 0"
    assert (new.id, new.inames) == ("it_1", ("i_1",))
    assert new.depends_on == {"first_1"}
    assert [entry.which for entry in new.nosync] == [Glob(Subject.ID, "other_1")]
    assert new.reads == {"a_1", "t_1", "p_1"}
    assert new.terms[0].inames == ("i_1", "k_1")
    assert [new.terms[0].domain.get_dim_name(SET, x) for x in (0, 1)] == ["i_1", "k_1"]
