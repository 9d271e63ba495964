"""Options of instructions, ``with`` blocks, ``... nop`` and several assignments at once: what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel

DATA = [pl.GlobalArg("a, b, c, d", np.float64, shape="n"), ...]


def make(text: str, domain: str | list[str] = "{[i]: 0 <= i < n}", data: list[Any] | None = None) -> LoopKernel:
    return pl.make_kernel(domain, text, DATA if data is None else data)


def order(text: str) -> str:
    return " ".join(instruction.id for instruction in make(text).instructions)


def refused(text: str, domain: str | list[str] = "{[i]: 0 <= i < n}") -> pl.KernelError:
    with pytest.raises(pl.KernelError) as error:
        make(text, domain)
    return error.value


# {{{ dep


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("dep=y", "y x z"),
        ("dep=*", "x y z"),
        ("dep=y:z", "y z x"),
        ("dep=?", "y z x"),
        ("depends_on=z", "y z x"),
        ("dep=*q*", "x y z"),
        ("dep_query=tag:late", "y z x"),
        ("dep_query=(writes:b and not id:z)", "y x z"),
        ("dep_query=*", "y z x"),
        ("dep=all", "y z x"),
        ("dep=a*", "y z x"),
    ],
)
def test_dep_names_instructions(option: str, expected: str) -> None:
    nop = "\n... nop {id=all, dep=some}\n... nop {id=some, dep=y:z}" if "=a" in option else ""
    text = f"a[i] = 1 {{id=x, {option}}}\nb[i] = 2 {{id=y}}\nc[i] = 3 {{id=z, tags=late}}{nop}"
    assert order(text) == expected


def test_a_pattern_that_fits_nothing_is_refused() -> None:
    error = refused("a[i] = 1 {id=x, dep=load_*}\nb[i] = 2 {id=y}")
    assert str(error) == (
        "make_kernel: the pattern 'load_*' of 'x' fits no other instruction [unknown-instruction]\n"
        "  a[i] = 1 {id=x, dep=load_*}                          (line 1, instruction 'x')\n"
        "  Hint: ids: x, y; 'dep=*load_*' may fit nothing"
    )


@pytest.mark.parametrize(
    "text", ["a[i] = 1 {dep_query=id:q}", "a[i] = 1 {nosync=q}", "a[i] = 1\n... nop {id=x, dep=q}"]
)
def test_an_id_that_is_none_is_refused(text: str) -> None:
    assert refused(text).codes == ("unknown-instruction",)


def test_a_nop_in_a_cycle_is_refused() -> None:
    error = refused("a[i] = 1 {id=x, dep=p}\n... nop {id=p, dep=q}\n... nop {id=q, dep=p}")
    assert error.codes == ("dependency-cycle",)
    assert "'p' -> 'q' -> 'p'" in str(error)
    assert refused("a[i] = 1 {id=x, dep=p}\n... nop {id=p, dep=x}").codes == ("dependency-cycle",)


def test_a_nop_takes_no_name_that_is_in_use() -> None:
    assert refused("a[i] = 1 {id=x}\n... nop {id=x, dep=x}").codes == ("name-taken",)


# }}}
# {{{ priority, groups


def test_a_higher_priority_goes_first() -> None:
    assert order("a[i] = 1 {id=x}\nb[i] = 1 {id=y, priority=1}\nc[i] = 1 {id=z, priority=2}") == "z y x"


def test_a_priority_does_not_pass_what_it_depends_on() -> None:
    assert order("a[i] = 1 {id=x}\nb[i] = a[i] {id=y, priority=9}") == "x y"
    assert order("b[i] = a[i] {id=x}\na[i] = 1 {id=y, priority=9}") == "x y"
    assert order("a[i] = 2 {id=x}\na[i] = 1 {id=y, priority=9}") == "x y"


def test_an_instruction_between_those_of_a_group_it_conflicts_with_is_refused() -> None:
    text = "a[i] = 1 {id=x, groups=g}\nb[i] = 1 {id=y, conflicts=g:h}\nc[i] = 1 {id=z, groups=g}"
    error = refused(text)
    assert error.codes == ("group-conflict",)
    assert "'y' conflicts with group 'g' and stands inside it" in str(error)
    assert "the group has 'x' before it and 'z' after it" in str(error)
    assert order(text.replace("id=y,", "id=y, dep=z,")) == "x z y"


# }}}
# {{{ with


def test_options_of_with_blocks_reach_every_instruction_inside() -> None:
    kernel = make(
        """
        with {tags=outer, id_prefix=p, groups=g}
            a[i] = 1
            with {tags=inner, priority=-1, id_prefix=q}
                b[i] = 1 {tags=own}
                c[i] = 1 {id_prefix=r, priority=1}
            end with
        end
        d[i] = 1
        """
    )
    assert [(x.id, sorted(x.tags)) for x in kernel.instructions] == [
        ("r", ["inner", "outer"]),
        ("p", ["outer"]),
        ("insn", []),
        ("q", ["inner", "outer", "own"]),
    ]


def test_with_holds_conditions_dependences_and_inames() -> None:
    text = "with {if=i > 2, dep=y, inames=i:j}\na[i] = 1 {id=x, if=i < 5}\nend\nb[i] = 1 {id=y}"
    kernel = make(text, ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 2}"])
    assert [x.id for x in kernel.instructions] == ["y", "x"]
    assert set(kernel.instruction("x").inames) == {"i", "j"}
    out = pl.interpret(kernel, n=8, a=np.zeros(8))
    np.testing.assert_array_equal(out.a, [0, 0, 0, 1, 1, 0, 0, 0])


@pytest.mark.parametrize(
    "text", ["if i < 3\n  a[j] = sum(i, b[i])\nend", "a[i] = sum(i, b[i])", "a[j] = b[i] + sum(i, b[i])"]
)
def test_a_reduction_iname_is_no_loop_of_the_same_instruction(text: str) -> None:
    assert refused(text, "{[i, j]: 0 <= i, j < n}").codes == ("iname-bound-twice",)


# }}}
# {{{ dup


@pytest.mark.parametrize(
    ("option", "new"), [("dup=i", "i_copy"), ("dup=i:i_2", "i_2"), ("dup=i->own", "own")]
)
def test_dup_gives_an_instruction_its_own_loop(option: str, new: str) -> None:
    kernel = make(f"a[i] = b[i] {{id=x}}\nc[i] = 2*a[i] {{id=y, {option}}}")
    assert kernel.instruction("x").inames == ("i",)
    assert kernel.instruction("y").inames == (new,)
    b = np.arange(5.0)
    np.testing.assert_array_equal(pl.interpret(kernel, b=b).c, 2 * b)


def test_dup_copies_reduction_inames_and_written_loops() -> None:
    text = "f := d[j]\nfor i\n  c[i] = sum(j, a[j])\n  b[i] = c[i] + sum(j, f) {id=y, dup=i:j}\nend"
    kernel = make(text, ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}"])
    assert kernel.instruction("y").inames == ("i_copy",)
    assert str(kernel.reference).count("for i_copy") == 1
    a, d = np.arange(4.0), np.ones(4)
    np.testing.assert_array_equal(pl.interpret(kernel, a=a, d=d).b, np.full(4, a.sum() + 4))


def test_dup_of_one_iname_keeps_what_relates_it_to_another() -> None:
    domain = "{[i, j]: 0 <= i <= j < n}"
    data = [pl.GlobalArg("a, b", np.float64, shape="n, n"), ...]
    kernel = pl.make_kernel(domain, "a[i, j] = 1 {id=x}\nb[i, j] = a[i, j] + 1 {id=y, dup=i}", data)
    assert kernel.inames == ("i", "i_copy", "j")
    assert set(kernel.instruction("y").inames) == {"i_copy", "j"}
    zero = np.zeros((5, 5))
    out = pl.interpret(kernel, a=zero, b=zero)
    np.testing.assert_array_equal(out.a, np.triu(np.ones((5, 5))))
    np.testing.assert_array_equal(out.b, 2 * np.triu(np.ones((5, 5))))


def test_dup_of_an_outer_iname_alone_is_refused() -> None:
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i}"]
    error = refused("a[i] = sum(j, b[j]) {dup=i}", domains)
    assert error.codes == ("duplicate-bounds",)
    assert "dup=i:j" in str(error)
    kernel = make("a[i] = sum(j, b[j]) {dup=i:j}", domains)
    b = np.arange(4.0)
    np.testing.assert_array_equal(pl.interpret(kernel, b=b).a, np.cumsum(b))


def test_dup_is_refused_where_it_makes_no_sense() -> None:
    two = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}"]
    assert refused("a[i] = 1 {dup=j}", two).codes == ("unused-option",)
    assert refused("a[i] = b[i] {dup=i->b}").codes == ("name-taken",)


# }}}
# {{{ several assignments


def test_several_variables_are_assigned_at_once() -> None:
    kernel = make("a[i], b[i] = b[i], a[i] {id=swap}\nc[i] = a[i] {dep=swap, id=after}")
    assert [x.id for x in kernel.instructions] == ["swap_b_new", "swap_0", "swap_1", "after"]
    x, y = np.arange(6.0), np.arange(6.0) ** 2
    out = pl.interpret(kernel, a=x, b=y)
    np.testing.assert_array_equal(out.a, y)
    np.testing.assert_array_equal(out.b, x)
    np.testing.assert_array_equal(out.c, y)


def test_three_are_rotated_without_a_temporary_too_many() -> None:
    kernel = make("a[i], b[i], c[i] = b[i], c[i], a[i]")
    assert list(kernel.temporaries) == ["c_new"]
    arrays = {name: np.full(3, float(k)) for k, name in enumerate("abc")}
    out = pl.interpret(kernel, **arrays)
    assert [out[name][0] for name in "abc"] == [1, 2, 0]


def test_names_that_are_in_use_are_avoided() -> None:
    kernel = make("a[i], b[i] = b[i], a[i] + b_new\n", data=[pl.ValueArg("b_new", np.float64), *DATA])
    assert list(kernel.temporaries) == ["b_new_0"]


def test_what_can_stand_as_it_is_stays() -> None:
    kernel = make("<> s, t = a[i], b[i]\nc[i], d[i] = s + t, s - t")
    assert len(kernel.instructions) == 4
    out = pl.interpret(kernel, a=np.full(2, 5.0), b=np.full(2, 3.0))
    assert (out.c[0], out.d[0]) == (8, 2)


def test_all_parts_run_in_the_same_loops() -> None:
    both = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}"]
    kernel = make("<> s, t = a[i], b[j]\nc[i] = s {dep=*}", both)
    assert {frozenset(x.inames) for x in kernel.instructions} == {frozenset("ij")}
    assert refused("a[i], c[j] = sum(j, b[j]), 1", both).codes == ("iname-bound-twice",)


@pytest.mark.parametrize("target", ["b[i], c[i]", "<> s, t", "a[i], b[i]"])
def test_a_call_with_several_results_is_made_once(target: str) -> None:
    text = f"{target} = sincos(a[i])" + ("\nb[i], c[i] = s, t" if "<>" in target else "")
    kernel = make(text)
    assert str(kernel).count("sincos(") == 1
    a = np.linspace(0, 3, 5)
    out = pl.interpret(kernel, a=a)
    first, second = ("a", "b") if target.startswith("a") else ("b", "c")
    np.testing.assert_allclose(out[first], np.sin(a))
    np.testing.assert_allclose(out[second], np.cos(a))
    code = pl.generate_code(pl.tag_inames(kernel, "i:g.0"), target=pl.CudaTarget()).device_code
    assert code.count("= loop_kernel_sincos_float64(") == 1


def test_a_condition_on_what_is_swapped_is_evaluated_first() -> None:
    domain = "{[i]: 0 <= i < m}"
    data = [pl.GlobalArg("a", np.float64, shape="n"), ...]
    text = "if i + 1 < n and a[i] > a[i + 1]\n  a[i], a[i + 1] = a[i + 1], a[i]\nend"
    kernel = pl.make_kernel(domain, text.replace(" and ", "\nif ") + "\nend", data, assumptions="m <= n")
    out = pl.interpret(kernel, a=np.array([3.0, 1.0, 2.0, 0.0]), m=3)
    np.testing.assert_array_equal(out.a, [1, 2, 0, 3])


# }}}


def test_patterns_have_sets_of_letters() -> None:
    text = "y[i] = 1 {id=set1}\nz[i] = 2 {id=set2}\nw[i] = 3 {id=set3}\nv[i] = y[i] + z[i] {id=add, dep=set[12]}"
    knl = pl.make_kernel("{[i]: 0 <= i < 4}", text)
    assert knl.instructions[-1].depends_on == {"set1", "set2"}
    assert [insn.id for insn in pl.find_instructions(knl, "id:set[!2] or a[b-e]d")] == ["set1", "set3", "add"]
