"""What ``make_kernel`` takes, what the kernel then is and computes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from tests.transform.checking import check, cuda

Golden = Callable[[str, str], None]
F = np.float32
SIZES = (1, 2, 17)
VECTORS = pl.GlobalArg("a, b", F, shape="n")
MATRIX = pl.GlobalArg("m", F, shape="n, n")


def vector_kernel(text: str, **options: Any) -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [VECTORS, ...], assumptions="n >= 1", **options)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(F)


def array_of(knl: pl.LoopKernel, name: str) -> ArrayArg:
    found = knl.argument(name)
    assert isinstance(found, ArrayArg)
    return found


@pytest.mark.parametrize(
    "domain",
    [
        "{[i]: 0 <= i < n}",
        "[n] -> {[i]: 0 <= i and i <= n - 1}",
        isl.Set("[n] -> {[i]: 0 <= i < n}"),
        isl.BasicSet("[n] -> {[i]: 0 <= i < n}"),
        ["{[i]: 0 <= i < n}"],
    ],
)
def test_domains_are_text_or_sets(domain: Any) -> None:
    knl = pl.make_kernel(domain, "b[i] = 2*a[i]", [VECTORS, ...])
    assert knl.inames == ("i",)
    assert knl.parameters == ("n",)
    for n in (0, *SIZES):
        a = numbers(n)
        check(knl, {"a": a, "n": n}, {"b": 2 * a})


def test_several_domains_one_inside_the_other() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"],
        "b[i] = sum(j, m[i, j])",
        [pl.GlobalArg("b", F, shape="n"), MATRIX, ...],
        assumptions="n >= 1",
    )
    for n in SIZES:
        m = numbers(n, n)
        check(knl, {"m": m}, {"b": np.tril(m, -1).sum(1)})


@pytest.mark.parametrize(
    ("domain", "chosen"),
    [
        ("{[i]: 0 <= i < n and i mod 3 = 1}", lambda i: i % 3 == 1),
        ("{[i]: 0 <= i < 4 or 8 <= i < n}", lambda i: (i < 4) | (i >= 8)),
    ],
)
def test_domains_with_holes(domain: str, chosen: Callable[[Any], Any]) -> None:
    knl = pl.make_kernel(domain, "b[i] = a[i]", [VECTORS, ...], assumptions="n >= 8")
    for n in (8, 9, 17):
        a, old = numbers(n), np.full(n, 9, F)
        check(knl, {"a": a, "b": old}, {"b": np.where(chosen(np.arange(n)), a, old)})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("b[i] = a[n - 1 - i]", lambda a, i: a[::-1]),
        ("b[i] = a[i//2] + a[(i + 1) % n]", lambda a, i: a[i // 2] + np.roll(a, -1)),
        ("b[i] = if(a[i] > 0, a[i], -a[i])", lambda a, i: np.abs(a)),
        ("b[i] = if(0 < a[i] < 3, 1, 2)", lambda a, i: np.where((a > 0) & (a < 3), 1, 2)),
        ("b[i] = if(a[i] > 0 and not (a[i] == 2 or i < 3), 1, 0)", lambda a, i: (a > 0) & ~((a == 2) | (i < 3))),
        ("b[i] = max(min(a[i], 2), -1)", lambda a, i: np.clip(a, -1, 2)),
        ("b[i] = a[i]**2 - 3*a[i] + i", lambda a, i: a**2 - 3 * a + i),
        ("<> t = 2*a[i]\nb[i] = t*t", lambda a, i: 4 * a * a),
        ("<float32> t[i] = 2*a[i]\nb[i] = t[i] + 1", lambda a, i: 2 * a + 1),
        ("f(x, y) := a[x]*y\nb[i] = f(i, 2) + f(n - 1 - i, 3)", lambda a, i: 2 * a + 3 * a[::-1]),
        ("b[i] = 0      {id=zero}\nb[i] = a[i]   {dep=zero, if=a[i] > 0}", lambda a, i: np.maximum(a, 0)),
        ("for i\n  b[i] = 0\n  if a[i] > 0\n    b[i] = a[i]\n  end\nend", lambda a, i: np.maximum(a, 0)),
    ],
)
def test_instructions(text: str, want: Callable[[Any, Any], Any]) -> None:
    if "t[i]" in text:
        knl = pl.fix_parameters(vector_kernel(text), n=17)
        sizes: tuple[int, ...] = (17,)
    else:
        knl, sizes = vector_kernel(text), SIZES
    for n in sizes:
        a = numbers(n)
        check(knl, {"a": a}, {"b": want(a, np.arange(n)).astype(F)})


def test_subscripts_need_not_be_affine() -> None:
    data: list[Any] = [VECTORS, pl.GlobalArg("p", np.int32, shape="n"), ...]
    gather = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[p[i]]", data, assumptions="n >= 1")
    scatter = pl.make_kernel("{[i]: 0 <= i < n}", "b[p[i]] = a[i]", data, assumptions="n >= 1")
    for n in SIZES:
        a, p = numbers(n), np.random.default_rng(n).permutation(n).astype(np.int32)
        check(gather, {"a": a, "p": p}, {"b": a[p]})
        want = np.zeros(n, F)
        want[p] = a
        check(scatter, {"a": a, "p": p, "b": np.zeros(n, F)}, {"b": want})


@pytest.mark.parametrize(
    ("operation", "want"), [("sum", np.sum), ("product", np.prod), ("min", np.min), ("max", np.max)]
)
def test_reductions(operation: str, want: Callable[..., Any]) -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        f"b[i] = {operation}(k, m[i, k]/2)",
        [pl.GlobalArg("b", F, shape="n"), MATRIX, ...],
        assumptions="n >= 1",
    )
    for n in SIZES:
        m = numbers(n, n)
        check(knl, {"m": m}, {"b": want(m / 2, axis=1)}, rtol=1e-5)


@pytest.mark.parametrize(("operation", "want"), [("any", np.any), ("all", np.all)])
def test_reductions_of_truth(operation: str, want: Callable[..., Any]) -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        f"b[i] = {operation}(k, m[i, k] > -2)",
        [pl.GlobalArg("b", np.bool_, shape="n"), MATRIX, ...],
        assumptions="n >= 1",
    )
    for n in SIZES:
        m = numbers(n, n)
        check(knl, {"m": m}, {"b": want(m > -2, axis=1)})


@pytest.mark.parametrize(
    "name",
    ["sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "floor", "ceil", "exp2", "log2", "fabs"],
)
def test_functions(name: str) -> None:
    a = np.linspace(0.1, 2, 17).astype(F)
    check(vector_kernel(f"b[i] = {name}(a[i])"), {"a": a}, {"b": getattr(np, name)(a)}, rtol=2e-6)


def test_for_blocks_are_loops() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            <float32> s = 0              {id=start}
            for j
                s = s + m[i, j]          {id=add, dep=start}
            end
            b[i] = s                     {id=store, dep=add}
        end
        """,
        [pl.GlobalArg("b", F, shape="n"), MATRIX, ...],
        assumptions="n >= 1",
    )
    assert str(knl.reference) == (
        "for i\n"
        "    s = 0    {id=start}\n"
        "    for j\n"
        "        s = s + m[i, j]    {id=add}\n"
        "    b[i] = s    {id=store}"
    )
    for n in SIZES:
        m = numbers(n, n)
        check(knl, {"m": m}, {"b": m.sum(1)})


def test_a_priority_orders_the_reference_program() -> None:
    data: list[Any] = [MATRIX, ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "m[i, j] = i + j", data, loop_priority=("j, i",))
    assert str(knl.reference) == "for j\n    for i\n        m[i, j] = i + j    {id=insn}"


def test_options_are_kept() -> None:
    knl = vector_kernel("b[i] = a[i]   {id=one, tags=x:y}\na[i] = 1     {id=two, dep=one, inames=i}")
    assert [instruction.id for instruction in knl.instructions] == ["one", "two"]
    assert knl.instruction("two").inames == ("i",)


def test_what_is_not_given_is_inferred() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i + 2] = x*a[2*i]", assumptions="n >= 1")
    assert [argument.name for argument in knl.arguments] == ["b", "x", "a", "n"]
    assert [str(extent) for extent in array_of(knl, "b").shape or ()] == ["n + 2"]
    assert [str(extent) for extent in array_of(knl, "a").shape or ()] == ["2*n + -1"]
    knl = pl.add_dtypes(knl, {"a, x": F})
    assert array_of(knl, "b").dtype == F
    a, b = numbers(9), np.zeros(7, F)
    check(knl, {"a": a, "b": b, "x": 2.0, "n": 5}, {"b": np.concatenate([[0, 0], 2 * a[::2]])})


def test_inputs_and_outputs_are_found() -> None:
    data: list[Any] = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = 2*a[i]\nb[i] = a[i]\nc[i] = b[i]", data)
    found = {name: (array_of(knl, name).is_input, array_of(knl, name).is_output) for name in "abc"}
    assert found == {"a": (True, True), "b": (False, True), "c": (False, True)}


def test_types_are_inferred() -> None:
    knl = vector_kernel("<> t = a[i] + 1\nb[i] = 0.1*t")
    assert knl.temporaries["t"].dtype == F
    assert array_of(knl, "b").dtype == F
    assert "double" not in cuda(knl)


def test_storage_order() -> None:
    data: list[Any] = [pl.GlobalArg("m", F, shape="n, n"), pl.GlobalArg("b", F, shape="n, n", order="F"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = m[i, j]", data, assumptions="n >= 1")
    for n in SIZES:
        m = numbers(n, n)
        check(knl, {"m": m}, {"b": m})


def test_fixed_parameters() -> None:
    knl = vector_kernel("b[i] = a[i]", fixed_parameters={"n": 17})
    assert knl.parameters == ()
    check(knl, {"a": numbers(17)}, {"b": numbers(17)})


def test_a_kernel_without_loops() -> None:
    knl = pl.make_kernel("{ : }", "b[0] = 3", [pl.GlobalArg("b", F, shape="1"), ...])
    check(knl, {}, {"b": np.array([3])})


def make(domain: Any = "{[i]: 0 <= i < n}", text: Any = "a[i] = b[i]", data: Any = None, **options: Any) -> object:
    return pl.make_kernel(domain, text, [VECTORS, ...] if data is None else data, **options)


@pytest.mark.parametrize(
    "condition",
    [
        "0 <= i and i mod 2 = 0", "i <= 4 and i mod 2 = 0", "0 <= i and exists(e: i = 3*e)", "i <= j <= i + 3",
        "i = j", "0 <= j < 4 and i >= j and (i + j) mod 2 = 0", "(0 <= i, j < 4) or (j = 0 and i >= 0 and i mod 5 = 0)",
    ],
)  # fmt: skip
def test_no_other_iname_and_no_stride_bounds_a_loop(condition: str) -> None:
    with pytest.raises(pl.KernelError, match="iname 'i' is not bounded") as refusal:
        pl.make_kernel(f"{{[i, j]: {condition}}}", "b[0] = sum((i, j), 1)", [pl.GlobalArg("b", F, shape="1")])
    assert refusal.value.codes == ("unbounded-domain",) * len(refusal.value.codes)


REFUSALS: dict[str, tuple[str, Callable[[], object]]] = {
    "iname_in_two_domains": ("iname-twice", lambda: make(["{[i]: 0 <= i < n}", "{[i]: 0 <= i < m}"])),
    "unbounded": ("unbounded-domain", lambda: make("{[i]: 0 <= i}")),
    "domain_syntax": ("syntax-domain", lambda: make("{[i]: 0 <= i < n and}")),
    "domain_brace": ("syntax-domain", lambda: make("[i]: 0 <= i < n")),
    "instruction_syntax": ("syntax", lambda: make(text="a[i] = 1 +* 2")),
    "no_instruction": ("no-instructions", lambda: make(text="")),
    "undeclared": ("undeclared-name", lambda: make(data=[pl.GlobalArg("a", F, shape="n")])),
    "rank": (
        "wrong-rank",
        lambda: make(data=[pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("b", F, shape="n, n"), ...]),
    ),
    "axes_of_a_shape": (
        "too-many-axes",
        lambda: make(data=[pl.GlobalArg("a", F, shape=",".join(10_000 * "n")), pl.GlobalArg("b", F, shape="n")]),
    ),
    "axes_of_a_temporary": ("too-many-axes", lambda: make(data=[pl.TemporaryVariable("t", F, shape=65 * (2,)), ...])),
    "axes_of_a_subscript": ("too-many-axes", lambda: make(text=f"a[i] = c[{','.join(65 * 'i')}]")),
    "out_of_bounds": ("out-of-bounds", lambda: make(text="a[i] = b[i + 1]")),
    "output_not_written": (
        "output-not-written",
        lambda: make(data=[VECTORS, pl.GlobalArg("c", F, shape="n", is_output=True), ...]),
    ),
    "keyword": ("reserved-name", lambda: make(name="float")),
    "not_a_name": ("bad-identifier", lambda: make(name="my kernel")),
    "never_written_elements": (
        "read-before-write",
        lambda: make(
            text="t[i] = b[i] {if=b[i] > 0}\na[i] = t[n - 1 - i + 1]",
            data=[VECTORS, pl.TemporaryVariable("t", F, shape="n + 1"), ...],
        ),
    ),
    "atomic_update_of_nothing": (
        "read-before-write",
        lambda: make(
            text="t = t + b[i] {atomic}\na[i] = t", data=[VECTORS, pl.TemporaryVariable("t", F, shape=()), ...]
        ),
    ),
    "update_of_nothing_where_data_says": (
        "read-before-write",
        lambda: make(
            text="t[c[i]] = t[c[i]] + b[i]\na[0] = t[0] {inames=}",
            data=[VECTORS, pl.GlobalArg("c", np.int32, shape="n"), pl.TemporaryVariable("t", F, shape="n"), ...],
        ),
    ),
    "unwritten_temporary": (
        "read-before-write",
        lambda: make(text="a[i] = t", data=[pl.TemporaryVariable("t", F), ...]),
    ),
    "cycle": ("dependency-cycle", lambda: make(text="a[i] = 1 {id=x, dep=y}\nb[i] = 2 {id=y, dep=x}")),
    "parameter_assigned": ("not-assignable", lambda: make(text="n = 2\na[i] = 1")),
    "iname_assigned": ("assignment-to-iname", lambda: make(text="i = 1")),
    "unknown_reduction_iname": ("unknown-iname", lambda: make(text="a[i] = sum(ii, b[i])")),
    "unknown_option_iname": ("unknown-iname", lambda: make(text="a[i] = 1 {inames=j}")),
    "unknown_dependency": ("unknown-instruction", lambda: make(text="a[i] = 1 {dep=first}")),
    "id_twice": ("name-taken", lambda: make(text="a[i] = 1 {id=x}\nb[i] = 1 {id=x}")),
    "argument_twice": ("name-taken", lambda: make(data=[VECTORS, VECTORS, ...])),
    "recursive_rule": ("recursive-rule", lambda: make(text="f(x) := f(x)\na[i] = f(i)")),
    "kernel_data": ("bad-kernel-data", lambda: make(data=[3])),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    code, call = REFUSALS[case]
    with pytest.raises(pl.KernelError) as caught:
        call()
    assert set(caught.value.codes) == {code}
    golden(f"messages/make_kernel_{case}.txt", str(caught.value))


def test_a_doubled_comparison_is_a_syntax_error() -> None:
    with pytest.raises(pl.KernelError):
        make("{[i]: 0 <= i << n}")


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "missing_array": ("missing-argument", {}),
    "wrong_dtype": ("wrong-dtype", {"a": np.zeros(17)}),
    "wrong_rank": ("wrong-shape", {"a": np.zeros((17, 17), F)}),
    "wrong_shape": ("wrong-shape", {"a": np.zeros(17, F), "n": 4}),
    "shapes_disagree": ("inconsistent-size", {"a": np.zeros(17, F), "b": np.zeros(3, F)}),
    "wrong_strides": ("wrong-strides", {"a": np.zeros(34, F)[::2]}),
    "unknown_argument": ("unknown-argument", {"a": np.zeros(17, F), "aa": 1}),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_that_do_not_fit(case: str, golden: Golden) -> None:
    code, arguments = CALLS[case]
    run = pl.compile(vector_kernel("b[i] = a[i]", name="copy"), target=pl.CTarget())
    with pytest.raises(pl.ArgumentError) as caught:
        run(**arguments)
    assert caught.value.codes == (code,)
    golden(f"messages/call_{case}.txt", str(caught.value))


def test_an_element_that_is_not_written_shows() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n - 1}", "b[i] = a[i]", [VECTORS, ...], assumptions="n >= 1")
    result = pl.compile(knl, target=pl.CTarget())(a=numbers(4), b=np.full(4, np.nan, F))
    assert np.isnan(result.b[3])
    assert not np.isnan(result.b[:3]).any()


@pytest.mark.parametrize("kind", [pl.GlobalArg, pl.TemporaryVariable])
def test_a_shape_of_auto_may_be_text(kind: type[pl.GlobalArg | pl.TemporaryVariable]) -> None:
    for shape in (pl.auto, "auto"):
        knl = pl.make_kernel(
            "{[i]: 0 <= i < 8}",
            "t[i] = 2*x[i]\ny[i] = t[i] + 1",
            [kind("t", np.float32, shape=shape), pl.GlobalArg("x, y", np.float32)],
        )
        assert knl.arrays()["t"].shape == (8,)
