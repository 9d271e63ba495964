"""Loops and reductions without iterations, at sizes 0 and 1 in every position: what is around them runs."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping import thread_mapping as placement
from polyloop.runtime.fibres import run_on_fibres
from polyloop.testing.brute import judge
from polyloop.transform.loops.auto_local import assign_auto

F = np.float32
SIZES = [(0, 0), (0, 1), (1, 0), (1, 1), (5, 0), (5, 1), (5, 7)]
DATA: list[Any] = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("y", F, shape="n"), ...]
BOX = "0 <= i < n and 0 <= k < m"


def matrix(n: int, m: int) -> Any:
    return np.arange(1, n * m + 1, dtype=F).reshape(n, m)


def check(kernel: LoopKernel, arguments: dict[str, Any], expected: dict[str, Any], *, fibres: bool = False) -> None:
    """Compare the interpreter, C, and CUDA C on fibres, with what was in the output before left to chance."""
    results: list[Any] = [pl.interpret(kernel, **arguments)]
    before = {name: np.full_like(value, 77) for name, value in expected.items()}
    results.append(pl.compile(kernel, target=pl.CTarget())(**arguments, **before))
    for result in results:
        for name, value in expected.items():
            np.testing.assert_array_equal(getattr(result, name), value)
    if fibres:
        given = {**arguments, **{name: np.full_like(value, 77) for name, value in expected.items()}}
        for outputs in run_on_fibres(pl.generate_code(kernel, target=pl.CudaTarget()), given).values():
            for name, value in expected.items():
                np.testing.assert_array_equal(outputs[name], value)


def on_threads(kernel: LoopKernel) -> LoopKernel:
    return pl.split_iname(kernel, "i", 4, outer_tag="g.0", inner_tag="l.0")


def in_pieces(kernel: LoopKernel) -> LoopKernel:
    return pl.split_iname(on_threads(kernel), "k", 2)


def over_threads(kernel: LoopKernel) -> LoopKernel:
    return pl.split_iname(pl.tag_inames(kernel, "i:g.0"), "k", 4, inner_tag="l.0")


# {{{ one domain for all inames

NEUTRAL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda a: a.sum(1),
    "product": lambda a: a.prod(1),
    "max": lambda a: a.max(1, initial=-np.inf),
    "min": lambda a: a.min(1, initial=np.inf),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("transform", [lambda knl: knl, in_pieces, over_threads])
@pytest.mark.parametrize("operation", NEUTRAL)
def test_a_reduction_over_no_terms_is_its_neutral_element(
    operation: str, transform: Callable[[LoopKernel], LoopKernel]
) -> None:
    knl = transform(pl.make_kernel(f"{{[i, k]: {BOX}}}", f"y[i] = {operation}(k, a[i, k])", DATA))
    for n, m in SIZES:
        a = matrix(n, m)
        check(knl, {"a": a}, {"y": NEUTRAL[operation](a).astype(F)}, fibres=(n, m) == (5, 0))


TEXTS = {
    "by hand": "for i\n<> s = 0.0f\nfor k\ns = s + a[i, k]\nend\ny[i] = s\nend",
    "in memory": "y[i] = 0 {id=begin}\ny[i] = y[i] + a[i, k] {dep=begin}",
    "nested": "y[i] = sum(k, a[i, k]*(1 + sum(l, 1)))",
    "two inames": "y[i] = sum((k, l), a[i, k]) + sum(q, a[i, q])",
}


@pytest.mark.parametrize("text", TEXTS)
def test_loops_around_empty_loops_run(text: str) -> None:
    inner = " and 0 <= l < k and 0 <= q < m" if "l" in TEXTS[text] else ""
    inames = "i, k, l, q" if inner else "i, k"
    knl = pl.make_kernel(f"{{[{inames}]: {BOX}{inner}}}", TEXTS[text], DATA, silenced_warnings="*")
    for kernel in (knl, on_threads(knl)):
        for n, m in SIZES:
            a = matrix(n, m)
            weights = np.arange(m) + 1 if inner else np.ones(m)
            check(kernel, {"a": a}, {"y": (a * weights).sum(1).astype(F)})


def test_a_product_of_matrices_with_an_empty_middle_is_zero() -> None:
    data = [pl.GlobalArg("a", F, shape="n, p"), pl.GlobalArg("b", F, shape="p, m"), pl.GlobalArg("c", F, shape="n, m")]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < p}", "c[i, j] = sum(k, a[i, k]*b[k, j])", [*data, ...]
    )
    tiled = pl.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    tiled = pl.split_iname(pl.split_iname(tiled, "j", 4, outer_tag="g.0", inner_tag="l.0"), "k", 4)
    tiled = pl.add_prefetch(tiled, "a", ["i_inner", "k_inner"])
    tiled = pl.add_prefetch(tiled, "b", ["k_inner", "j_inner"])
    for kernel in (knl, tiled):
        for n, m, p in itertools.product((0, 1, 3), repeat=3):
            a, b = matrix(n, p), matrix(p, m)
            check(kernel, {"a": a, "b": b}, {"c": a @ b}, fibres=(n, m, p) == (3, 3, 0) and kernel is tiled)


RANGES: dict[str, Callable[[int, int, int], Any]] = {
    "0 <= i < n and 0 <= k < i": lambda i, _n, _m: range(i),
    "0 <= k < i < n": lambda i, _n, _m: range(i) if i else None,
    "0 <= k <= i < n": lambda i, _n, _m: range(i + 1),
    "0 <= i < n and i <= k < m": lambda i, _n, m: range(i, m),
    "0 <= i and i <= k < n": lambda i, n, _m: range(i, n),
    "0 <= i < n and 0 <= k < m and (i + k) mod 2 = 0": lambda i, _n, m: range(i % 2, m, 2),
    "0 <= i < n and i mod 2 = 0 and 0 <= 2*k < i": lambda i, _n, _m: None if i % 2 else range(i // 2),
    "0 <= i < n and 0 <= k < m and k != i": lambda i, _n, m: [k for k in range(m) if k != i],
    "0 <= i < n and i = 2*k": lambda i, _n, _m: [i // 2] * (1 - i % 2),
    "(0 <= i < 2 and i < n and 0 <= k < i) or (2 <= i < n and 0 <= k < m)": (
        lambda i, _n, m: range(i) if i < 2 else range(m)
    ),
    "0 <= i < n and exists e: k = 3*e and 0 <= k < m": lambda i, _n, m: range(0, m, 3),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("condition", RANGES)
def test_the_outer_iname_ranges_over_its_own_bounds(condition: str) -> None:
    knl = pl.make_kernel(
        f"[n, m] -> {{[i, k]: {condition}}}", "y[i] = sum(k, 1 + k)", [pl.GlobalArg("y", np.int32, shape="n"), ...],
        assumptions="0 <= n <= 6 and 0 <= m <= 6",
    )  # fmt: skip
    names = {argument.name for argument in knl.arguments}
    for kernel in (knl, on_threads(knl)):
        for n, m in itertools.product((0, 1, 2, 5), (0, 1, 4)):
            wanted = np.full(n, -1, np.int32)
            for i in range(n):
                terms = RANGES[condition](i, n, m)
                wanted[i] = -1 if terms is None else sum(1 + k for k in terms)
            given = {name: value for name, value in {"n": n, "m": m}.items() if name in names}
            for result in (
                pl.interpret(kernel, y=np.full(n, -1, np.int32), **given),
                pl.compile(kernel, target=pl.CTarget())(y=np.full(n, -1, np.int32), **given),
            ):
                np.testing.assert_array_equal(result.y, wanted)


OUTER = ("0 <= i < n", "1 <= i < n", "0 <= i < n and i mod 2 = 0", "0 <= i < 4", "0 <= 3*i < n", "2 <= i <= n + 1")
INNER = (
    "0 <= k < m", "0 <= k < i", "0 <= k <= i", "i <= k < m", "1 <= k < i", "0 <= k < m and k mod 3 = 1", "0 <= k < 0",
    "i < k < m", "0 <= 2*k < i", "0 <= k < m and k != i", "0 <= k < floor(i/2)", "2 <= k < m - i",
)  # fmt: skip


@pytest.mark.few(12)
@pytest.mark.parametrize("seed", range(40))
def test_one_domain_and_two_mean_the_same(seed: int) -> None:
    rng = random.Random(seed)
    outer, inner = rng.choice(OUTER), rng.choice(INNER)
    text = rng.choice(
        (
            "y[i + 1] = sum(k, 2*k + i)",
            "y[i + 1] = max(k, 2*k + i)",
            "y[i + 1] = 1 {id=one}\ny[i + 1] = y[i + 1] + k {dep=one}",
            "<> t = i\ny[i + 1] = t + sum(k, t)",
        )
    )
    data = [pl.GlobalArg("y", np.int64, shape="n + 8"), ...]
    assumed = {"assumptions": "0 <= n <= 6 and 0 <= m <= 6", "silenced_warnings": "*"}
    one: LoopKernel = pl.make_kernel(f"[n, m] -> {{[i, k]: {outer} and {inner}}}", text, data, **assumed)  # type: ignore[arg-type]
    two: LoopKernel = pl.make_kernel([f"[n, m] -> {{[i]: {outer}}}", f"{{[k]: {inner}}}"], text, data, **assumed)  # type: ignore[arg-type]
    run = pl.compile(on_threads(one), target=pl.CTarget())
    for n, m in itertools.product((0, 1, 3, 5), (0, 1, 4)):
        given: dict[str, Any] = {name: value for name, value in {"n": n, "m": m}.items() if name in one.parameters}
        wanted = pl.interpret(two, y=np.full(n + 8, 5, np.int64), **given).y
        np.testing.assert_array_equal(pl.interpret(one, y=np.full(n + 8, 5, np.int64), **given).y, wanted)
        np.testing.assert_array_equal(run(y=np.full(n + 8, 5, np.int64), **given).y, wanted)


# }}}
# {{{ an iname beside another one that has no value

APART = {
    "one domain": ["[n] -> {[i, j]: 0 <= i < n and 0 <= j < 3 - n}"],
    "two domains": ["[n] -> {[i]: 0 <= i < n}", "[n] -> {[j]: 0 <= j < 3 - n}"],
}
"""Loops of which at most one has more than two iterations: together they have values for n = 1 and 2 alone."""

STEPS: dict[str, Callable[[Any], Any]] = {
    "blocks of threads": on_threads,
    "vectors": lambda knl: pl.vectorize(knl, "i", 4),
    "chunks": lambda knl: pl.chunk_iname(knl, "i", 3, outer_tag="l.0"),
    "reversed": lambda knl: pl.tag_inames(pl.reverse(knl, "i"), "i:l.0"),
    "private": lambda knl: pl.tag_inames(pl.privatize_temporaries_with_inames(knl, "i"), "i:l.0"),
    "mapped beside": lambda knl: pl.tag_inames(pl.map_domain(knl, "{[i, j] -> [p, q]: p = i and q = j}"), "p:l.0"),
    "skewed by": lambda knl: pl.tag_inames(pl.map_domain(knl, "{[i, j] -> [p, q]: p = i and q = i + j}"), "p:l.0"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("domains", APART)
def test_an_iname_has_its_own_range_on_threads(domains: str, step: str) -> None:
    """How many threads and lanes there are is decided by the instances that run, not by the kernel's domains."""
    inner = "b[j] = b[j] + i" if step == "skewed by" else "b[j] = 3"
    data: list[Any] = [pl.GlobalArg("a", np.int64, shape="n"), pl.GlobalArg("b", np.int64, shape=3), ...]
    text = f"for i\n<> t = 2*i\na[i] = t\nend\n{inner}"
    knl = pl.make_kernel(APART[domains], text, data, assumptions="0 <= n <= 8")
    knl = STEPS[step](knl)
    pl.verify(knl)
    for n in (0, 1, 2, 3, 5, 8):
        b = np.array([1, 1, 1])
        b[: max(0, 3 - n)] += sum(range(n)) if step == "skewed by" else 2
        given = {"a": np.full(n, 9), "b": np.array([1, 1, 1]), "n": n}
        results: list[Any] = [pl.interpret(knl, **{name: np.copy(value) for name, value in given.items()})]
        results += run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given).values()
        results.append(pl.compile(knl, target=pl.CTarget())(**given))
        for result in results:
            np.testing.assert_array_equal(result["a"], 2*np.arange(n))
            np.testing.assert_array_equal(result["b"], b)
        assert not list(judge(assign_auto(knl), {"n": n}, {}))


def test_what_was_mapped_beside_an_empty_loop_has_its_threads() -> None:
    """A constant empty range leaves nothing of a domain that another iname has come into."""
    data: list[Any] = [pl.GlobalArg("a", np.int64, shape=8), pl.GlobalArg("b", np.int64, shape=8), ...]
    knl = pl.make_kernel(["{[i]: 0 <= i < 8}", "{[j]: 0 <= j < 0}"], "a[i] = 2*i\nb[j] = 3", data)
    knl = pl.split_iname(knl, "i", 3, inner_tag="l.1")
    knl = pl.map_domain(knl, "{[j, i_outer] -> [p, q]: p = i_outer and q = j}")
    knl = pl.tag_inames(knl, "q:l.1")
    given = {"a": np.full(8, 9), "b": np.full(8, 9)}
    for outputs in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given).values():
        np.testing.assert_array_equal(outputs["a"], 2*np.arange(8))


def test_loops_that_are_mapped_beside_each_other_keep_their_domains() -> None:
    """What a footprint is made of, and where an instruction may run further, is not empty because another loop is."""
    data: list[Any] = [pl.GlobalArg("a", np.int64, shape="n"), pl.GlobalArg("b", np.int64, shape="n + 4"), ...]
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 0}", "{[r]: 0 <= r < 2}"]
    knl = pl.make_kernel(domains, "a[i] = 2*b[i] {id=a}\nb[j] = 3", data)
    knl = pl.map_domain(knl, "{[i, j] -> [p, q]: p = i + 1 and q = j}")
    assert {domain.inames for domain in knl.domains} == {("p",), ("q",), ("r",)}
    knl = pl.split_iname(pl.add_inames_to_insn(knl, "r", "id:a"), "p", 4, inner_tag="l.0")
    knl = pl.add_prefetch(knl, "b", ["p_inner"], footprint_subscripts=["p_inner + 4*p_outer - 1"])
    for n in (1, 3, 9):
        b = np.arange(n + 4)
        check(knl, {"b": b}, {"a": 2*b[:n]})


def test_an_instance_without_a_thread_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """That there is a thread for each instance is proven, however the extents of the axes were found."""
    monkeypatch.setattr(placement, "iname_range", lambda _knl, _iname: (0, 1))
    data = [pl.GlobalArg("a", np.int64, shape=8), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "a[i] = 2*i", data)
    with pytest.raises(pl.VerificationError) as error:
        pl.verify(pl.tag_inames(knl, "i:l.0"))
    assert str(error.value) == (
        "schedule on kernel 'loop_kernel': instances of 'insn' would not be executed [instance-lost]\n"
        "  a[i] = 2*i                                           (line 1, instruction 'insn')\n"
        "  Note: they are on threads 0 to 7 of axis 'l.0', of which there are 2"
    )


# }}}
# {{{ numbers


def test_an_extent_of_zero_in_the_text_and_one_that_is_fixed() -> None:
    y = pl.GlobalArg("y", F, shape=5)
    text = pl.make_kernel("{[i, k]: 0 <= i < 5 and 0 <= k < 0}", "y[i] = sum(k, 1.0f)", [y, ...])
    box = pl.make_kernel(f"{{[i, k]: {BOX}}}", "y[i] = sum(k, 1.0f)", [y, ...], assumptions="n <= 5")
    given = pl.make_kernel(f"{{[i, k]: {BOX}}}", "y[i] = sum(k, 1.0f)", [y, ...], fixed_parameters={"n": 5, "m": 0})
    for knl in (text, given, pl.fix_parameters(box, n=5, m=0)):
        for kernel in (knl, on_threads(knl)):
            check(kernel, {}, {"y": np.zeros(5, F)}, fibres=kernel is not knl)


# }}}
# {{{ what stays open


BOUNDS = ["0 <= {} < n", "0 <= {} <= 4", "{} < n", "1 <= {} <= n - 5", "{} <= 2*n", "{} != 2", "{} < n - 2"]


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(40))
def test_an_iname_keeps_the_bounds_that_those_of_another_one_imply(seed: int) -> None:
    """ISL drops ``j < n`` of ``0 <= i <= n - 5 and 0 <= j <= 4 and j < n``."""
    rng = random.Random(seed)
    of_i, of_j = (["0 <= {} <= 9", *rng.sample(BOUNDS, rng.randrange(1, 4))] for _ in range(2))
    texts = [bound.format("i") for bound in of_i] + [bound.format("j") for bound in of_j]
    rng.shuffle(texts)
    kernel = pl.make_kernel(
        f"{{[i, j]: {' and '.join(texts)}}}",
        ["x[i] = 1", "y[j] = 2"],
        [pl.GlobalArg("x", F, shape="10"), pl.GlobalArg("y", F, shape="10"), ...],
    )
    later = pl.split_iname(pl.split_iname(kernel, "j", 4), "i", 3)
    for n in range(11):
        sizes = {"n": n} if "n" in kernel.parameters else {}
        expected = {
            name: np.array([value * all(eval(b.format(j), {"n": n}) for b in bounds) for j in range(10)], F)
            for name, value, bounds in (("x", 1, of_i), ("y", 2, of_j))
        }
        for made in (kernel, later):
            found = pl.interpret(made, **sizes, x=np.zeros(10, F), y=np.zeros(10, F))
            run = pl.compile(made, target=pl.CTarget())
            compiled = run(**sizes, x=np.zeros(10, F), y=np.zeros(10, F))
            for name, value in expected.items():
                np.testing.assert_array_equal(getattr(found, name), value)
                np.testing.assert_array_equal(getattr(compiled, name), value)


# }}}
# {{{ conditions as they are written

Rows = list[tuple[str, str]]
"""What a condition says: the inames of each comparison, and the comparison in Python."""

CONDITIONS: dict[str, Rows] = {
    **{
        bound.format(x): [(x, bound.format(x))]
        for x in "ij"
        for bound in ("{} < n", "{} <= n - 5", "{} != 2", "2 <= {}")
    },
    "j = i": [("ij", "j == i")],
    "i <= j": [("ij", "i <= j")],
    "i = 2*j": [("ij", "i == 2*j")],
    "i + j < n": [("ij", "i + j < n")],
    "i != j": [("ij", "i != j")],
    "i <= j < n": [("ij", "i <= j"), ("j", "j < n")],
    "2 <= i = j < n": [("i", "2 <= i"), ("ij", "i == j"), ("j", "j < n")],
    "i <= j <= i": [("ij", "i <= j"), ("ij", "j <= i")],
    "i, j < n": [("i", "i < n"), ("j", "j < n")],
    "i mod 2 = 0": [("i", "i % 2 == 0")],
    "not j < n": [("j", "j >= n")],
    "not (i < 2 or j >= n)": [("i", "i >= 2"), ("j", "j < n")],
    "(exists e: i = 2*e)": [("i", "i % 2 == 0")],
    "exists (e: j = 3*e)": [("j", "j % 3 == 0")],
    "(exists e: i = e and j < n and e < n)": [("i", "i < n"), ("j", "j < n")],
    "exists (e = floor(i/2), f: i = 2*e and j = 2*f and 2 <= f)": [("i", "i % 2 == 0"), ("j", "j % 2 == 0 and j >= 4")],
    "not (exists e: i = 2*e)": [("i", "i % 2 == 1")],
    "(exists e: j = i + 2*e)": [("ij", "(j - i) % 2 == 0")],
}  # fmt: skip
LIMITS = {f"0 <= {x} <= 7": [(x, f"0 <= {x} <= 7")] for x in "ij"}


def joined(rng: random.Random, texts: list[str], word: str) -> str:
    """Return *texts* with *word* between them, some of them in brackets."""
    texts = [f"({text})" if rng.random() < 0.2 else text for text in texts]
    while len(texts) > 1:
        at = rng.randrange(len(texts) - 1)
        one = f"{texts[at]} {word} {texts[at + 1]}"
        texts[at : at + 2] = [f"({one})" if rng.random() < 0.3 else one]
    return texts[0]


def drawn_condition(rng: random.Random) -> tuple[str, list[Rows]]:
    """Return the text of a condition, and its alternatives."""
    common = [*LIMITS, *rng.sample(list(CONDITIONS), rng.randrange(1, 4))]
    rng.shuffle(common)
    choices = [rng.sample(list(CONDITIONS), rng.randrange(1, 3)) for _ in range(rng.choice((0, 0, 2)))]
    texts = {**CONDITIONS, **LIMITS}
    alternatives = [[row for text in (*common, *own) for row in texts[text]] for own in choices or [[]]]
    if not choices:
        return joined(rng, common, "and"), alternatives
    if rng.random() < 0.5:
        either = joined(rng, [joined(rng, own, "and") for own in choices], "or")
        return joined(rng, [*common, f"({either})"], "and"), alternatives
    return joined(rng, [joined(rng, [*common, *own], "and") for own in choices], "or"), alternatives


def holds(alternatives: list[Rows], point: dict[str, int]) -> bool:
    """Return whether an alternative holds, as far as it is about the inames in *point*."""
    known = [[row for names, row in rows if all(name in point for name in names)] for rows in alternatives]
    return any(all(eval(row, {}, point) for row in rows) for rows in known)


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(80))
def test_a_domain_means_the_conditions_that_are_written(seed: int) -> None:
    """However they are put in brackets, what ISL makes of them, and whether sizes are numbers."""
    rng = random.Random(seed)
    condition, alternatives = drawn_condition(rng)
    outer, inner = rng.choice(("ij", "ji"))
    dims = rng.choice(("i, j", "j, i"))
    text = rng.choice((f"y[{outer}] = 1 + sum({inner}, 1)", f"y[{outer}] = 1"))
    data = [pl.GlobalArg("y", np.int64, shape="8"), ...]
    domain = f"[n] -> {{[{dims}]: {condition}}}"

    def made(n: int, how: str) -> LoopKernel:
        fixed = {"n": n} if how == "fixed" else {}
        whole = re.sub(r"\bn\b(?! *\])", str(n), domain).replace("[n] -> ", "") if how == "number" else domain
        knl: LoopKernel = pl.make_kernel(whole, text, data, fixed_parameters=fixed, silenced_warnings="*")
        return pl.fix_parameters(knl, n=n) if how == "fixed later" and "n" in knl.parameters else knl

    for n, how in itertools.product((0, 1, 3, 6, 9), ("symbolic", "fixed", "number", "fixed later")):
        try:
            knl = made(n, how)
        except pl.KernelError as error:
            if len(alternatives) > 1 and "[open-range]" in str(error):
                continue
            raise
        expected = np.zeros(8, np.int64)
        for value in range(8):
            if holds(alternatives, {outer: value, "n": n}):
                points = [{outer: value, inner: other, "n": n} for other in range(8)]
                terms = sum(holds(alternatives, point) for point in points)
                expected[value] = 1 + terms * ("sum" in text)
        sizes = {"n": n} if "n" in knl.parameters else {}
        np.testing.assert_array_equal(pl.interpret(knl, y=np.zeros(8, np.int64), **sizes).y, expected)


WRITTEN = {
    "0 <= i < 4 and j = i and j < n": [2, 2, 1, 1],
    "(0 <= i < 4 and j = i and j < n)": [2, 2, 1, 1],
    "0 <= i < 4 and j = i and j < n and exists e: i = e": [2, 2, 1, 1],
    "0 <= i < 4 and j < n and i <= j <= i": [2, 2, 1, 1],
    "not (i < 0 or i >= 4 or j != i or j >= n)": [2, 2, 1, 1],
    "(i <= 9 implies i < 4) and 0 <= i < 10 and j = i and j < n": [2, 2, 1, 1],
    "(0 <= i < 2 and j = i and j < n) or (2 <= i < 4 and 0 <= j < n - 2)": [2, 2, 1, 1],
    "0 <= i < 4 and j = i and 5 < 3": [0, 0, 0, 0],
}


@pytest.mark.parametrize("condition", WRITTEN)
def test_brackets_and_exists_do_not_change_the_ranges(condition: str) -> None:
    data = [pl.GlobalArg("y", np.int64, shape="4"), ...]
    for domain in (f"[n] -> {{[i, j]: {condition}}}", f"[n] -> {{[j, i]: {condition}}}"):
        knl = pl.make_kernel(domain, "y[i] = 1 + sum(j, 1)", data, silenced_warnings="*")
        sizes = {"n": 2} if "n" in knl.parameters else {}
        np.testing.assert_array_equal(pl.interpret(knl, y=np.zeros(4, np.int64), **sizes).y, WRITTEN[condition])


def test_inames_that_are_defined_in_their_list_are_conditions() -> None:
    data = [pl.GlobalArg("y", np.int64, shape="4"), ...]
    knl = pl.make_kernel("{[i, j = i]: 0 <= i < 4 and j < n}", "y[i] = 1 + sum(j, 1)", data)
    np.testing.assert_array_equal(pl.interpret(knl, n=2, y=np.zeros(4, np.int64)).y, [2, 2, 1, 1])


@pytest.mark.parametrize(
    "condition",
    [
        "0 <= i < 4 and 0 <= j and (exists e: i = e and j = e and e < n)",
        " and ".join(["0 <= i < 4 and 0 <= j < n", *(f"(i != {k} or j != {k + 1})" for k in range(10))]),
    ],
)
def test_what_isl_alone_can_read_is_refused_where_it_decides_the_ranges(condition: str) -> None:
    """Whether ``i`` or ``j`` is below ``n``, where an ``exists`` says it of both; and very many alternatives."""
    data = [pl.GlobalArg("y", np.int64, shape="4"), ...]
    with pytest.raises(pl.KernelError, match="open-range"):
        pl.make_kernel(f"{{[i, j]: {condition}}}", "y[j] = 1 + sum(i, 1)", [pl.GlobalArg("y", shape="n"), *data[1:]])
    pl.make_kernel(f"{{[i, j]: {condition}}}", "y[i, j] = 1", [pl.GlobalArg("y", np.int64, shape="4, n + 4"), ...])


@pytest.mark.parametrize("dims", ["i, j", "j, i"])
def test_an_empty_domain_has_the_ranges_of_the_statements(dims: str) -> None:
    domain, text = f"{{[{dims}]: 0 <= i, j < 4 and i + j < n}}", "y[j] = 1 + sum(i, 1)"
    data = [pl.GlobalArg("y", np.int64, shape="4"), ...]
    symbolic = pl.make_kernel(domain, text, data)
    for knl, sizes in (
        (symbolic, {"n": 0}),
        (pl.fix_parameters(symbolic, n=0), {}),
        (pl.make_kernel(domain, text, data, fixed_parameters={"n": 0}), {}),
        (pl.make_kernel(domain.replace("< n}", "< 0}"), text, data), {}),
    ):
        np.testing.assert_array_equal(pl.interpret(knl, y=np.zeros(4, np.int64), **sizes).y, [1, 1, 1, 1])
    both = [pl.GlobalArg("x, y", np.int64, shape="4"), ...]
    for given in (None, {"n": 0}):
        with pytest.raises(pl.KernelError, match="open-range"):
            pl.make_kernel(domain, ["x[i] = 1", "y[j] = 2"], both, fixed_parameters=given or {})


def test_a_size_that_is_fixed_leaves_the_bounds_that_it_implies() -> None:
    """For m = 4, ``0 <= i <= n - 5`` says that ``j < n``: ISL drops it, and a statement over j alone needs it."""
    domain = "{[i, j]: 0 <= i <= n - 5 and i <= 9 and 0 <= j <= m and j < n}"
    data = [pl.GlobalArg("x, y", np.int64, shape="10"), ...]
    knl = pl.make_kernel(domain, ["x[i] = 1", "y[j] = 1"], data, assumptions="m < 10")
    given = pl.make_kernel(domain, ["x[i] = 1", "y[j] = 1"], data, fixed_parameters={"m": 4})
    for fixed in (given, pl.fix_parameters(knl, m=4), pl.split_iname(pl.fix_parameters(knl, m=4), "j", 2)):
        found = pl.interpret(fixed, n=3, x=np.zeros(10, np.int64), y=np.zeros(10, np.int64))
        np.testing.assert_array_equal(found.y, [1, 1, 1] + [0]*7)


def test_alternatives_that_isl_has_shortened_are_refused() -> None:
    whole = isl.Set("[n] -> {[i, k]: (0 <= i < n and 0 <= k < i) or (n + 2 <= i < 2n and 0 <= k < i)}")
    with pytest.raises(pl.KernelError) as error:
        pl.make_kernel(whole, "y[i] = sum(k, k)", [pl.GlobalArg("y", np.int32, shape="2*n"), ...])
    assert str(error.value) == (
        "make_kernel: the domain does not say whether 'insn' runs where k has no value [open-range]\n"
        "  y[i] = sum(k, k)                                     (line 1, instruction 'insn')\n"
        "  Note: its alternatives bound i and k by each other\n"
        "  Hint: write two domains: one of i, and one of k, the bounds of which may use i"
    )


# }}}
