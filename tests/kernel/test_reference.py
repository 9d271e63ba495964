"""The rules of the reference program: what shares a loop, when reductions read, what is too ambiguous to be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check

F = np.float64
LINE = "{[i]: 0 <= i < n}"
SQUARE = "{[i, j]: 0 <= i, j < n}"


def make(domain: str | list[str], text: str, **options: Any) -> pl.LoopKernel:
    """Create a kernel with vectors a, b, c, e, a matrix m and single elements o, p, as far as the text has them."""
    shapes = {**dict.fromkeys("abce", "n"), "m": "n, n", **dict.fromkeys("op", "1")}
    data = [pl.GlobalArg(name, F, shape=shape) for name, shape in shapes.items() if f"{name}[" in text]
    return pl.make_kernel(domain, text, [*data, ...], **options)


def tree(knl: pl.LoopKernel) -> list[str]:
    """Return the reference program, one line a step: loops, ids."""
    assert knl.reference is not None
    lines = str(knl.reference).splitlines()
    return [line.rpartition("id=")[2].rstrip("}") if "id=" in line else line.strip() for line in lines]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-4, 5, shape).astype(F)


# {{{ reductions of what their loop sets

SET_IN_LOOP = {
    "written": "for i\n  <> v = 2*a[i]\nend\no[0] = sum(i, v) {id=s}",
    "shared": "<> v = 2*a[i]\no[0] = sum(i, v) {id=s}",
    "in_the_other_order": "o[0] = sum(i, v) {id=s}\n<> v = 2*a[i]",
    "through_a_rule": "f(x) := x + 0\n<> v = 2*a[i]\no[0] = sum(i, f(v)) {id=s}",
    "two_of_them": "for i\n  <> v = a[i]\n  <> w = a[i]\nend\no[0] = sum(i, v) + sum(i, w) {id=s}",
}


@pytest.mark.few(6)
@pytest.mark.parametrize("case", SET_IN_LOOP)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_reduction_over_a_scalar_that_its_loop_sets_collects_in_that_loop(case: str, n: int) -> None:
    knl = make(LINE, SET_IN_LOOP[case])
    steps = tree(knl)
    assert steps[-1] == "s"
    assert steps.index("s_init") < steps.index("for i") < steps.index("s_update")
    assert steps.count("for i") == 1
    a = numbers(n)
    check(knl, {"a": a, "n": n}, {"o": np.array([2 * a.sum()])})


def test_the_reference_program_shows_where_terms_are_collected() -> None:
    assert str(make(LINE, SET_IN_LOOP["written"]).reference) == """\
start of sum(i, v)    {id=s_init}
for i
    v = 2*a[i]    {id=insn}
    one term of sum(i, v)    {id=s_update}
o[0] = sum(i, v)    {id=s}"""


@pytest.mark.parametrize("operation", ["max", "min", "product", "sum"])
def test_every_operation_collects(operation: str) -> None:
    knl = make(LINE, f"<> v = a[i] + 1\no[0] = {operation}(i, v)")
    a = np.array([2.0, -3, 1, 0.5])
    expected = {"max": np.max(a + 1), "min": np.min(a + 1), "product": np.prod(a + 1), "sum": np.sum(a + 1)}
    check(knl, {"a": a}, {"o": np.array([expected[operation]])})


def test_a_reduction_inside_a_reduction_collects_with_it() -> None:
    a = numbers(5)
    expected = {"o": np.array([sum(2 * x * sum(a * 2 * x) for x in a)])}
    check(make(SQUARE, "for i\n<> v = 2*a[i]\nend\no[0] = sum(i, v*sum(j, a[j]*v))"), {"a": a}, expected)
    check(make(SQUARE, "<> v = 2*a[i]\n<> w = sum(j, a[j]*v)\no[0] = sum(i, w*v)"), {"a": a}, expected)


def test_a_reduction_over_both_loops_collects_in_the_inner_one() -> None:
    m = numbers(4, 4)
    for text in ("<> v = m[i, j]\no[0] = sum((i, j), v)", "<> v = m[i, j]\no[0] = sum(i, sum(j, v))"):
        check(make(SQUARE, text), {"m": m}, {"o": np.array([m.sum()])})


def test_a_reduction_collects_once_for_each_iteration_around() -> None:
    m = numbers(4, 4)
    knl = make(SQUARE, "for i\n  for j\n    <> v = m[i, j]\n  end\n  a[i] = sum(j, v)\nend")
    check(knl, {"m": m}, {"a": m.sum(1)})


def test_what_is_indexed_by_the_reduction_is_read_when_its_loop_is_over() -> None:
    text = "<> t[i] = 2*a[i] {id=w}\no[0] = sum(k, t[k]) {id=s}"
    knl = pl.make_kernel("{[i, k]: 0 <= i, k < 8}", text, [pl.GlobalArg("a, o", F), ...])
    assert tree(knl) == ["for i", "w", "s"]
    a = numbers(8)
    check(knl, {"a": a}, {"o": np.array([2 * a.sum()])})


def test_collecting_survives_transforms() -> None:
    a = numbers(37)
    expected = {"o": np.array([2 * a.sum()])}
    for text in SET_IN_LOOP.values():
        knl = pl.split_iname(make(LINE, text), "i", 8)
        check(knl, {"a": a}, expected)
        check(pl.tag_inames(knl, {"i_inner": "unr"}), {"a": a}, expected)
        check(pl.rename_iname(knl, "i_outer", "b"), {"a": a}, expected)
        check(pl.tag_inames(knl, {"i_inner": "l.0"}), {"a": a}, expected)  # each thread collects its own terms


# }}}
# {{{ reductions beside other accesses of what they read


def test_a_reduction_reads_what_its_array_argument_holds_at_the_end() -> None:
    a = numbers(5)
    knl = make(LINE, "o[0] = a[i]\np[0] = sum(i, o[0])")
    check(knl, {"a": a}, {"o": a[-1:], "p": 5 * a[-1:]})


@pytest.mark.parametrize("index", ["i", "n - 1 - i", "0"])
def test_a_reduction_reads_before_a_later_write(index: str) -> None:
    a = numbers(5)
    knl = make(LINE, f"o[0] = sum(i, a[{index}]) {{id=s}}\na[i] = 0 {{id=w}}")
    assert tree(knl) == ["s", "for i", "w"]
    check(knl, {"a": a}, {"o": np.array([5 * a[0] if index == "0" else a.sum()]), "a": 0 * a})


def test_a_write_between_a_reduction_and_its_result_comes_after_both() -> None:
    a, b = numbers(6), numbers(6) + 1
    text = "c[i] = b[i] {id=first}\no[0] = sum(j, a[j]) + c[0] {id=s}\na[i] = 0 {id=w}"
    knl = make(SQUARE, text, assumptions="n >= 1")
    assert tree(knl).index("s") < tree(knl).index("w")
    check(knl, {"a": a, "b": b}, {"o": np.array([a.sum() + b[0]]), "a": 0 * a})


def test_two_reductions_of_inputs_still_share_their_loop() -> None:
    code = pl.generate_code(make(LINE, "o[0] = sum(i, a[i])\np[0] = sum(i, b[i])"), target=pl.CTarget()).device_code
    assert code.count("for (") == 1


def test_a_reduction_does_not_leave_its_start_in_an_earlier_loop() -> None:
    m, a = numbers(5, 5), numbers(5)
    text = "b[j] = a[j]\na[j] = sum(i, m[j, i] - 2*b[n - 1 - j]) {id=s}"
    check(make(SQUARE, text), {"m": m, "a": a}, {"a": m.sum(1) - 2 * 5 * a[::-1], "b": a})
    text = "b[j] = a[j]\no[0] = b[0] {id=x}\nc[j] = sum(i, m[j, i]*o[0])"
    check(make(SQUARE, text, assumptions="n >= 1"), {"m": m, "a": a}, {"c": m.sum(1) * a[0]})


# }}}
# {{{ loops


def test_a_stencil_of_what_was_just_written_is_a_loop_of_its_own() -> None:
    domain = "{[k]: 1 <= k < n - 1}"
    knl = make(domain, "c[k] = a[k] {id=w}\ne[k] = c[k + 1] + c[k - 1] {id=r}")
    assert tree(knl) == ["for k", "w", "for k", "r"]


def test_a_transposed_read_is_a_loop_of_its_own() -> None:
    knl = pl.make_kernel(
        SQUARE,
        "c[i, j] = 2*a[i, j] {id=w}\ne[i, j] = c[j, i] {id=r}",
        [pl.GlobalArg("a, c, e", F, shape="n, n"), ...],
    )
    assert tree(knl) == ["for i", "for j", "w", "for i", "for j", "r"]
    a = numbers(5, 5)
    check(knl, {"a": a}, {"c": 2 * a, "e": 2 * a.T})


def test_inames_that_overlap_in_part_share_the_common_loop() -> None:
    knl = make(SQUARE, "b[i] = 2*a[i] {id=w}\nm[i, j] = b[i] + a[j] {id=x}\nc[i] = b[i] {id=y}")
    assert tree(knl) == ["for i", "w", "for j", "x", "y"]
    a = numbers(4)
    check(knl, {"a": a}, {"m": 2 * a[:, None] + a, "c": 2 * a})


def test_an_update_in_place_reads_the_input_where_nothing_wrote_yet() -> None:
    a = numbers(6)
    knl = make("{[i]: 0 <= i < n - 1}", "a[i] = a[i] + a[i + 1]", assumptions="n >= 1")
    assert "a: float64[n] (in and out)" in str(knl)
    check(knl, {"a": a}, {"a": np.append(a[:-1] + a[1:], a[-1])})


# }}}
# {{{ ambiguity


def refused(domain: str | list[str], text: str, **options: Any) -> str:
    with pytest.raises(pl.KernelError) as caught:
        make(domain, text, name="k", **options)
    return str(caught.value)


def test_a_loop_that_is_opened_again_does_not_see_a_scalar_of_the_first() -> None:
    text = "<> v = 2*a[i] {id=set}\nc[i] = v\nb[i] = c[n - 1 - i] + v {id=use}"
    assert refused(LINE, text) == """\
make_kernel on kernel 'k': 'v' is read in another loop over 'i' than the one that sets it [ambiguous-loop]
  <> v = 2*a[i] {id=set}                               (line 1, instruction 'set')
  b[i] = c[n - 1 - i] + v {id=use}                     (line 3, instruction 'use')
                        ^
  Note: instance (i=0) of 'use' would read v as written by instance (i=1) of 'set'
  Note: they cannot share a loop over 'i': what is needed in between comes from all of its iterations
  Hint: write 'for i' ... 'end' to say what shares a loop, index 'v' by 'i', or use another iname for the second loop"""


@pytest.mark.parametrize(
    ("domain", "text", "why"),
    [
        (LINE, "for i\n<> v = a[i] {id=w}\nend\nb[i] = v", "the loop over 'i' around 'w' is written, and closed"),
        (LINE, "<> v = a[i]\nc[i] = v\no[0] = sum(i, c[n - 1 - i] + v)", "they cannot share a loop over 'i'"),
        (SQUARE, "for j\n<> v = a[j] {id=w}\nend\nb[i] = sum(j, v)", "the loop over 'j' around 'w' is written"),
        (SQUARE, "<> v = a[j]\nb[i] = sum(j, v)", "the one loop over 'j' lies inside of (), the other inside of (i)"),
        (LINE, "<> v = a[i] {if=a[i] > 0}\nc[i] = 1\nb[i] = c[n - 1 - i] + v", "would see one"),
    ],
)
def test_what_else_does_not_share_the_loop(domain: str, text: str, why: str) -> None:
    message = refused(domain, text)
    assert "[ambiguous-loop]" in message
    assert why in message


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("for i\n<> v = 2*a[i]\nend\nfor i\nb[i] = v\nend", {"b": [8, 8, 8]}),
        ("<> v = 2*a[i]\nc[i] = v\nv = 3*c[n - 1 - i]\nb[i] = c[n - 1 - i] + v", {"b": [32, 16, 8]}),
        ("<> v[i] = 2*a[i]\nc[i] = v[i]\nb[i] = c[n - 1 - i] + v[i]", None),
        ("<> s = 0 {id=z}\ns = s + a[i] {id=u, dep=z}\nb[i] = s {dep=u}", {"b": [1, 3, 7]}),
    ],
)
def test_what_says_which_loop_it_means_is_taken(text: str, outputs: dict[str, list[float]] | None) -> None:
    knl = make(LINE, text)
    a = np.array([1.0, 2, 4])
    if outputs is not None:
        check(knl, {"a": a}, {name: np.array(value, F) for name, value in outputs.items()})


STEP = "m[i, j] = m[i - 1, j + 1] {id=step}\nb[i] = a[i]"
INNER = "1 <= i < n and 0 <= j < n - 1"


def test_a_nest_that_only_counting_decides_is_refused_where_it_matters() -> None:
    assert refused(f"{{[j, i]: {INNER}}}", STEP) == """\
make_kernel on kernel 'k': the loops of 'step' could be nested as (i, j) or as (j, i), which makes a difference \
[ambiguous-nest]
  m[i, j] = m[i - 1, j + 1] {id=step}                  (line 1, instruction 'step')
  Note: nested as (j, i), instance (i=1, j=1) writes m[1, 1]; instance (i=2, j=0) reads it and would run first
  Note: (j, i) is the order of the domains; only how many instructions use each iname makes it (i, j)
  Hint: write 'for i, j' ... 'end' around it, pass loop_priority=["i, j"], \
or list the inames in the order that is meant"""


def test_a_nest_that_is_said_or_makes_no_difference_is_taken() -> None:
    assert tree(make(f"{{[i, j]: {INNER}}}", STEP))[:2] == ["for i", "for j"]
    assert tree(make(f"{{[j, i]: {INNER}}}", STEP, loop_priority=["i, j"]))[:2] == ["for i", "for j"]
    written = STEP.replace("m[i, j] =", "for i, j\nm[i, j] =").replace("{id=step}", "{id=step}\nend")
    assert tree(make(f"{{[j, i]: {INNER}}}", written))[:2] == ["for i", "for j"]
    assert tree(make(f"{{[j, i]: {INNER}}}", "m[i, j] = 2*m[i, j]\nb[i] = a[i]"))[:2] == ["for i", "for j"]


TURNED = "for j\n c[j] = c[j] + 1\nend\nfor i\n for j\n  b[j] = b[i] + c[j] {id=step}\n end\nend"


@pytest.mark.parametrize(
    "domain",
    ["{[i, j]: 0 <= i, j and i + j < n and (j <= 2 or j >= 3)}", ["{[j]: 0 <= j < n}", "{[i]: 0 <= i < n - j}"]],
)
def test_a_written_nest_that_bounds_turn_around_is_refused_where_it_matters(domain: str | list[str]) -> None:
    text = refused(domain, TURNED)
    assert "the loops of 'step' are written as (i, j), and nested as (j, i), which makes a difference" in text
    assert "nested as (i, j), instance (j=1, i=0) would read b[0] as written by instance (j=0, i=0)" in text
    assert tree(make(domain, TURNED.replace("b[j] = b[i] +", "m[i, j] ="))).count("for i") == 1
    said = TURNED.replace("for i\n for j", "for j\n for i")
    assert tree(make(domain, said))[-3:-1] == ["for j", "for i"]


def test_an_instruction_that_waits_does_not_pass_another_silently() -> None:
    text = "b[i] = t {id=x}\nc[i] = b[i] {id=y}\n<> t = a[i] {id=z}"
    assert refused(LINE, text) == """\
make_kernel on kernel 'k': 'x' stands before 'y' in the text, would run after it, and both touch 'b' [ambiguous-order]
  b[i] = t {id=x}                                      (line 1, instruction 'x')
  c[i] = b[i] {id=y}                                   (line 2, instruction 'y')
  Note: instance (i=0) of 'y' reads b[0]; instance (i=0) of 'x' writes it
  Note: 'x' waits for an instruction further down, and nothing says that 'y' waits for it
  Hint: say which comes first: {dep=x} on 'y', or the other way round; or reorder the text"""
    two_writers = "b[i] = 1 {id=x, dep=z}\nb[i] = 2 {id=y}\nc[i] = a[i] {id=z}"
    assert "instance (i=0) of 'y' writes b[0]; instance (i=0) of 'x' writes it" in refused(LINE, two_writers)


@pytest.mark.parametrize(
    "text",
    [
        "b[i] = t {id=x}\nc[i] = b[i] {id=y, dep=x}\n<> t = a[i] {id=z}",
        "b[i] = 1 {id=x, dep=z}\nb[i] = 2 {id=y, dep=x}\nc[i] = a[i] {id=z}",
        "b[0] = 1 {id=x, dep=z}\nb[n - 1] = 2 {id=y}\nc[i] = a[i] {id=z}",
        "b[i] = t {id=x}\nc[i] = a[i] {id=y}\n<> t = a[i] {id=z}",
    ],
)
def test_passing_is_fine_where_it_is_said_or_touches_nothing(text: str) -> None:
    make(LINE, text, assumptions="n >= 2")


# }}}


# {{{ what barriers and bounds order

ROTATION = "for i\n  <> t = a[i]\n  ... lbarrier\n  a[(i+1) % 16] = t\nend"
ON_16 = "{[i]: 0 <= i < 16}"


def rotation(text: str) -> pl.LoopKernel:
    return pl.make_kernel(ON_16, text, [pl.GlobalArg("a", F, shape="16"), ...], name="rotate")


def test_a_barrier_inside_for_makes_a_rotation_right() -> None:
    knl = rotation(ROTATION)
    assert tree(knl) == ["for i", "insn", "barrier", "for i", "insn_1"]
    a = np.arange(16, dtype=F)
    for run in (lambda: pl.interpret(knl, a=a), lambda: pl.compile(knl, target=pl.CTarget())):
        with pytest.raises(pl.VerificationError) as refusal:
            run()
        assert refusal.value.codes == ("divided-loop",)
    on_threads = pl.tag_inames(knl, "i:l.0")
    check(on_threads, {"a": a}, {"a": np.roll(a, 1)})
    text = pl.generate_code(on_threads, target=pl.CudaTarget()).device_code
    assert text.index("a[tx];") < text.index("__syncthreads();") < text.index("= t;")


def test_a_rotation_without_the_barrier_is_another_program_and_not_parallel() -> None:
    knl = rotation(ROTATION.replace("  ... lbarrier\n", ""))
    a = np.arange(1, 17, dtype=F)
    check(knl, {"a": a}, {"a": np.ones(16)})
    with pytest.raises(pl.TransformError) as refusal:
        pl.tag_inames(knl, "i:l.0")
    assert refusal.value.found[0].code == "illegal-parallel"
    assert refusal.value.found[0].notes == ("instance (i=0) writes a[1]; instance (i=1) reads it and would run first",)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_bound_is_computed_before_its_loop_wherever_its_only_writer_stands(n: int) -> None:
    """A bound is a read like any other: rule 1 takes its writer first."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m and j < 9}"],
        "for i\n  y[i] = sum(j, x[j]) {id=s}\n  <> m = length[i] {id=bound}\nend",
        [
            pl.GlobalArg("x", F, shape="9"),
            pl.GlobalArg("y", F, shape="n"),
            pl.GlobalArg("length", np.int32, shape="n"),
            ...,
        ],
    )
    steps = tree(knl)
    assert steps.index("bound") < steps.index("s")
    x, length = numbers(9), np.array([4, 0, 9], np.int32)[:n]
    check(knl, {"x": x, "length": length, "n": n}, {"y": np.array([x[:m].sum() for m in length])})


# }}}
