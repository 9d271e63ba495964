"""Operations of reductions: how they are written, what they give, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from tests.transform.checking import check

Operation = pl.ReductionOperation
F = np.float32
ROWS = "{[i, j]: 0 <= i < m and 0 <= j < n}"


def rows(
    text: str,
    dtype: Any = F,
    domain: str | Sequence[str] = ROWS,
    operations: Sequence[pl.ReductionOperation] = (),
    **options: Any,
) -> pl.LoopKernel:
    """Return a kernel that reduces the rows of x into w."""
    data = [pl.GlobalArg("x", dtype, shape="m, n"), pl.GlobalArg("w", shape="m"), ...]
    return pl.make_kernel(domain, text, data, name="rows", reductions=operations, **options)


def refused(code: str, call: Any) -> str:
    with pytest.raises(pl.PolyloopError) as error:
        call()
    assert error.value.codes == (code,), str(error.value)
    return str(error.value)


# {{{ spelling


@pytest.mark.parametrize(
    "text",
    [
        "argmax(j, x[j], j)",
        "argmin((i, j), abs(x[i, j]), 8*i + j).index",
        "reduce(ordered(sum), j, x[j])",
        "reduce(segmented(max), j, x[j], f[j]).value",
    ],
)
def test_what_is_printed_is_read_back(text: str) -> None:
    expr = parse_expression(text)
    assert show(expr) == text
    assert parse_expression(show(expr)) == expr


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("argmax(j, x[j], j)", "reduce(argmax, j, (x[j], j))"),
        ("reduce(argmax, [j], x[j], j)", "simul_reduce(argmax, (j,), (x[j], j))"),
        ("reduce(ordered(ordered(sum)), j, x)", "reduce(ordered(sum), j, x)"),
    ],
)
def test_spellings_of_one_reduction(one: str, other: str) -> None:
    assert parse_expression(one) == parse_expression(other)


def test_ordered_and_plain_differ() -> None:
    assert parse_expression("reduce(ordered(sum), j, x)") != parse_expression("sum(j, x)")
    in_stages = parse_expression("reduce(segmented(sum), j, x, f)")  # in the order of its terms, but in any grouping
    assert parse_expression("reduce(ordered(segmented(sum)), j, x, f)") != in_stages


# }}}
# {{{ results


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_the_first_of_equal_values_wins(dtype: Any, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 2, (3, n)).astype(dtype)
    wide = x.astype(np.float64)
    knl = rows("v[i], w[i] = argmax(j, x[i, j], j)\nu[i] = argmin(j, x[i, j], j).index", dtype)
    first, last = wide.argmax(1), wide.argmin(1)
    check(knl, {"x": x}, {"v": x.max(1), "w": first, "u": last})
    backwards = rows("w[i] = argmax(j, x[i, n - 1 - j], n - 1 - j).index", dtype)
    check(backwards, {"x": x}, {"w": first}, fibres=False)


def test_arg_max_leaves_out_nan() -> None:
    x = np.array([[np.nan, 1, 2, np.nan], [np.nan] * 4, [-np.inf] * 4], F)
    knl = rows("v[i], w[i] = argmax(j, x[i, j], j)")
    check(knl, {"x": x}, {"w": np.array([2, 2**31 - 1, 0]), "v": np.array([2, -np.inf, -np.inf])})


def test_arg_max_over_a_matrix() -> None:
    x = np.random.default_rng(0).integers(0, 9, (5, 7)).astype(np.int32)
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        "k[0] = argmax((i, j), x[i, j], n*i + j).index",
        [pl.GlobalArg("x", np.int32, shape="m, n"), pl.GlobalArg("k", shape="1"), ...],
    )
    check(knl, {"x": x}, {"k": np.array([x.argmax()])})


def test_the_kind_of_index_is_that_of_its_term() -> None:
    knl = rows("w[i] = argmax(j, x[i, j], cast(int64, j)).index")
    assert {argument.name: argument.dtype for argument in knl.arguments}["w"] == np.int64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.float64])
def test_sums_have_the_type_of_their_terms(dtype: Any) -> None:
    x = np.full((2, 3), 100, dtype)
    knl = rows("w[i] = sum(j, x[i, j])\nv[i] = reduce(ordered(sum), j, x[i, j])", dtype)
    total = x.sum(1, dtype=dtype)
    check(knl, {"x": x}, {"w": total, "v": total}, fibres=False)
    assert pl.interpret(knl, x=x).w.dtype == dtype


@pytest.mark.parametrize("n", [0, 1, 4])
def test_bools_are_counted_and_compared(n: int) -> None:
    x = np.random.default_rng(n).integers(0, 2, (6, n)).astype(np.bool_)
    text = """
    s[i] = sum(j, x[i, j])
    p[i] = product(j, x[i, j])
    u[i] = max(j, x[i, j])
    v[i] = min(j, x[i, j])
    w[i] = reduce(segmented(sum), j, x[i, j], False).value
    """
    expected = {"s": x.sum(1), "p": x.prod(1), "u": x.any(1), "v": x.all(1), "w": x.sum(1)}
    result = pl.interpret(rows(text, np.bool_, ["{[i]: 0 <= i < m}", "{[j]: 0 <= j < n}"]), x=x)
    assert [result[name].dtype.name for name in "spuvw"] == ["int32", "int32", "bool", "bool", "int32"]
    check(rows(text, np.bool_, ["{[i]: 0 <= i < m}", "{[j]: 0 <= j < n}"]), {"x": x}, expected)


@pytest.mark.parametrize(
    ("operation", "each"),
    [("sum", np.add), ("product", np.multiply), ("max", np.maximum), ("min", np.minimum)],
)
def test_segmented_operations(operation: str, each: Any) -> None:
    rng = np.random.default_rng(5)
    x, begins = rng.integers(-3, 4, (9, 6)).astype(np.int32), rng.integers(0, 2, (9, 6)).astype(np.int32)
    data = [pl.GlobalArg("x, f", np.int32, shape="m, n"), pl.GlobalArg("v, w", shape="m"), ...]
    text = f"v[i], w[i] = reduce(segmented({operation}), j, x[i, j], f[i, j])"
    starts = [np.flatnonzero(row)[-1] if row.any() else 0 for row in begins]
    expected = [each.reduce(row[start:]) for row, start in zip(x, starts, strict=True)]
    knl = pl.make_kernel(ROWS, text, data)
    check(knl, {"x": x, "f": begins}, {"v": np.array(expected), "w": begins.any(1)})


def test_user_operations_of_every_shape() -> None:
    compose = Operation(
        "compose", ("a.k*b.k", "b.k*a.c + b.c"), neutral=(1, 0), fields=("k", "c"), ordered=True
    )
    last = Operation("last", "if(b.seen, b, a)", (0, False), ("value", "seen"), ordered=True)
    either = Operation("either", "a | b", 0)
    text = """
    v[i] = compose(j, x[i, j], 1).c
    u[i] = last(j, x[i, j], x[i, j] > 0).value
    w[i] = either(j, x[i, j])
    z[i] = reduce(segmented(either), j, x[i, j], j == 2).value
    """
    x = np.random.default_rng(8).integers(-2, 3, (7, 5)).astype(np.int32)
    value = np.zeros(7, np.int32)
    for column in x.T:
        value = column * value + 1
    positive = [row[row > 0][-1] if (row > 0).any() else 0 for row in x]
    bits = np.bitwise_or.reduce(x, 1)
    expected = {"v": value, "u": np.array(positive), "w": bits, "z": np.bitwise_or.reduce(x[:, 2:], 1)}
    knl = rows(text, np.int32, operations=[compose, last, either])
    check(pl.split_iname(knl, "j", 2), {"x": x}, expected)


def test_two_operations_of_one_name_in_one_program_are_two_functions() -> None:
    def one(name: str, combine: str, out: str) -> pl.LoopKernel:
        operation = Operation("mine", combine, 0)
        data = [pl.GlobalArg("x", np.int32, shape="n"), pl.GlobalArg(out, shape="1"), ...]
        return pl.make_kernel("{[j]: 0 <= j < n}", f"{out}[0] = mine(j, x[j])", data, name=name, reductions=[operation])

    fused = pl.fuse_kernels([one("first", "a + b", "s"), one("second", "a | b", "t")])
    x = np.array([1, 2, 3, 5], np.int32)
    check(fused, {"x": x}, {"s": np.array([11]), "t": np.array([7])})


def test_a_parsed_text_is_not_reused_with_other_operations() -> None:
    x = np.array([[1, 2, 3]], np.int32)
    for combine, total in (("a + b", 6), ("a | b", 3)):
        knl = rows("w[i] = mine(j, x[i, j])", np.int32, operations=[Operation("mine", combine, 0)])
        assert pl.interpret(knl, x=x).w.tolist() == [total]


def test_a_script_has_the_operations() -> None:
    operation = Operation("last", "if(b.seen, b, a)", (0, False), ("value", "seen"), ordered=True)
    knl = rows("w[i] = last(j, x[i, j], x[i, j] > 0).value", operations=[operation])
    script = pl.kernel_to_python(knl)
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["knl"] == knl or str(names["knl"]) == str(knl)
    assert "reductions=[pl.ReductionOperation('last', combine='if(b.seen, b, a)', neutral=(0, False), " in script


# }}}
# {{{ order


@pytest.mark.parametrize("operation", ["ordered(sum)", "segmented(sum)"])
def test_ordered_terms_keep_their_order(operation: str) -> None:
    terms = "x[i, j], x[i, j] > 2).value" if operation[0] == "s" else "x[i, j])"
    knl = pl.split_iname(rows(f"w[i] = reduce({operation}, j, {terms}"), "j", 8)
    message = refused("illegal-order", lambda: pl.prioritize_loops(knl, "j_inner, j_outer"))
    assert "loop 'j_inner' cannot be outside 'j_outer'" in message
    assert "the term of instance (i=0, j=1) comes before that of instance (i=0, j=8) in the program" in message
    pl.generate_code(pl.prioritize_loops(knl, "j_outer, j_inner"), target=pl.CudaTarget())
    plain = pl.split_iname(rows("w[i] = sum(j, x[i, j])"), "j", 8)
    pl.generate_code(pl.prioritize_loops(plain, "j_inner, j_outer"), target=pl.CudaTarget())


def test_the_last_iname_of_an_ordered_reduction_runs_fastest() -> None:
    domain = "{[i, j, k]: 0 <= i < m and 0 <= j, k < n}"
    text = "w[i] = reduce(ordered(sum), (j, k), x[i, j]*x[i, k])"
    message = refused("illegal-order", lambda: pl.prioritize_loops(rows(text, domain=domain), "k, j"))
    assert "(i=0, j=0, k=1) comes before that of instance (i=0, j=1, k=0)" in message
    contrary = rows(text, domain=domain, loop_priority=["k, j"])
    message = refused("illegal-order", lambda: pl.generate_code(contrary, target=pl.CTarget()))
    assert "terms of 'ordered(sum)' would be combined in another order" in message


def test_ordered_terms_may_be_prefetched_and_run_on_threads() -> None:
    x = np.random.default_rng(3).standard_normal((20, 13)).astype(F)
    knl = rows("w[i] = reduce(ordered(sum), j, x[i, j])")
    knl = pl.split_iname(pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0"), "j", 4)
    knl = pl.add_prefetch(knl, "x", ["i_inner", "j_inner"])
    total = np.zeros(20, F)
    for column in x.T:
        total += column
    check(knl, {"x": x}, {"w": total})


def test_loops_around_an_ordered_reduction_may_be_interchanged() -> None:
    knl = rows("w[i] = reduce(ordered(sum), j, x[i, j])", domain="{[i, j]: 0 <= i < 6 and 0 <= j < 4}")
    x = np.random.default_rng(4).standard_normal((6, 4)).astype(F)
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 6 and 0 <= j < 4}",
        "w[i] = reduce(ordered(sum), j, x[i, j])",
        [pl.GlobalArg("x", F, shape="6, 4"), pl.GlobalArg("w", shape="6"), ...],
    )
    total = np.zeros(6, F)
    for column in x.T:
        total += column
    check(pl.prioritize_loops(knl, "j, i"), {"x": x}, {"w": total})


def test_an_ordered_reduction_is_not_computed_ahead() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 32 and 0 <= j < 4}",
        "t(k) := reduce(ordered(sum), j, x[k, j])\nw[i] = t(i)",
        [pl.GlobalArg("x", F, shape="32, 4"), pl.GlobalArg("w", shape="32"), ...],
    )
    knl = pl.split_iname(knl, "i", 8)
    ahead = pl.precompute(knl, "t", ["i_inner"])
    message = refused("not-proven", lambda: pl.generate_code(ahead, target=pl.CTarget()))
    assert "the order of the terms of 'ordered(sum)' would change where they are computed ahead" in message


@pytest.mark.parametrize("operation", ["ordered(sum)", "segmented(sum)"])
def test_terms_in_their_order_are_not_spread_over_threads(operation: str) -> None:
    terms = "(x[i, j], j == 3)" if "segmented" in operation else "x[i, j]"
    knl = rows(f"w[i] = reduce({operation}, j, {terms}){'.value' if 'segmented' in operation else ''}")
    message = refused("parallel-reduction", lambda: pl.tag_inames(knl, "j:l.0"))
    assert f"the terms of '{operation}' are combined in their order, one after the other" in message


# }}}
# {{{ refusals


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("w[i] = argmax(j, x[i, j])", "wrong-argument-count", "write argmax(k, value, index) or argmax((i, j), value,"),
        ("w[i] = reduce(segmented(argmax), j, x[i, j], j)", "syntax", "'argmax' cannot be segmented"),
        ("w[i] = reduce(segmented, j, x[i, j], j)", "syntax", "this is not a reduction operation"),
        ("w[i] = reduce(mean, j, x[i, j])", "syntax", "product, sum, ordered(...), segmented(...)"),
        ("w[i] = argmax(j, x[i, j], j).place", "unknown-field", "no field 'place'"),
        ("w[i] = argmax(j, x[i, j], j) + 1", "type-conflict", "compute with its fields"),
        ("a, b, c = argmax(j, x[i, j], j)", "unsupported-statement", "has 2 results"),
        ("argmax(y) := y\nw[i] = 1", "reserved-name", "'argmax' already means something in expressions"),
    ],
)
def test_a_wrong_reduction_is_refused(text: str, code: str, message: str) -> None:
    assert message in refused(code, lambda: rows(text))


def test_terms_that_have_no_order_are_refused() -> None:
    text = "w[i] = argmax(j, x[i, j], j).index"
    message = refused("type-conflict", lambda: rows(text, np.complex64))
    assert "'argmax' cannot combine terms of complex64 and int32: complex numbers have no order" in message
    message = refused("type-conflict", lambda: rows(text, pl.vec.float4))
    assert "'argmax' cannot combine terms of float4 and int32" in message


@pytest.mark.parametrize(
    ("combine", "neutral", "dtype", "message"),
    [
        ("a + b", 0.5, np.int32, "the neutral element 0.5 is no int32"),
        ("a & b", -1, np.uint8, "the neutral element -1 is no uint8"),
        ("a & b", 0, np.float32, "bit operation on 'a', which is float32"),
        ("a + b", "least", np.complex64, "the neutral element least is no complex64"),
    ],
)
def test_terms_that_do_not_fit_the_operation_are_refused(combine: str, neutral: Any, dtype: Any, message: str) -> None:
    operation = Operation("mine", combine, neutral)
    found = refused("type-conflict", lambda: rows("w[i] = mine(j, x[i, j])", dtype, operations=[operation]))
    assert f"'mine' cannot combine terms of {np.dtype(dtype).name}: {message}" in found


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("sum", "a + b", 0), "name-taken", "there is a reduction operation 'sum' already"),
        (("float", "a + b", 0), "reserved-name", "'float' is a keyword of C or C++"),
        (("exp", "a + b", 0), "reserved-name", "'exp' is a function that expressions can call"),
        (("a b", "a + b", 0), "bad-identifier", "'a b' is not a valid name of an operation"),
        (("mine", "a + c", 0), "bad-reduction", "'mine' combines by an expression of more than a and b: a + c"),
        (("mine", "a + b[0]", 0), "bad-reduction", "of more than a and b"),
        (("mine", "a +", 0), "syntax", "the expression ends too early"),
        (("mine", "f(a)", 0), "unknown-function", "no function 'f'"),
        (("mine", "a.x", 0), "bad-reduction", "'mine' has no field 'x'"),
        (("mine", "a.y", (0, 0), ("x", "z")), "unknown-field", "no field 'y'"),
        (("mine", "if(a.x > 0, a, b)", 0, ("x", "z")), "bad-reduction", "'mine' needs 2 neutral elements, and has 1"),
        (("mine", ("a", "b"), 0), "bad-reduction", "'mine' has 2 expressions that combine"),
        (("mine", "a + b", "zero"), "bad-reduction", "give a number, 'least' or 'greatest'"),
        (("mine", "a + b", float("nan")), "bad-reduction", "'mine' has the neutral element nan"),
        (("mine", max, 0), "bad-reduction", "write an expression of a and b"),
        (("mine", "a", (0, 0), "xz"), "bad-reduction", "the fields of 'mine' are 'xz'"),
        (("mine", "if(a.x > 0, a, b)", (0, 0), ("x", "x")), "bad-reduction", "two fields of 'mine' have one name"),
    ],
)
def test_a_wrong_operation_is_refused(arguments: tuple[Any, ...], code: str, message: str) -> None:
    assert message in refused(code, lambda: Operation(*arguments))


def test_what_is_given_as_operations_is_checked() -> None:
    mine = Operation("mine", "a + b", 0)
    text = "w[i] = sum(j, x[i, j])"
    assert "two reduction operations are called 'mine'" in refused(
        "name-taken", lambda: rows(text, operations=[mine, mine])
    )
    wrong: Any = "a + b"
    assert "'a + b' is no operation" in refused("bad-reduction", lambda: rows(text, operations=[wrong]))
    x = Operation("x", "a + b", 0)
    assert "a reduction operation and something else are called 'x'" in refused(
        "name-taken", lambda: rows(text, operations=[x])
    )


# }}}


# {{{ in company


def table(text: str, domain: str = "{[i, j]: 0 <= i < 20 and 0 <= j < 13}") -> tuple[pl.LoopKernel, Any]:
    x = np.random.default_rng(11).integers(-5, 6, (20, 13)).astype(F)
    return pl.make_kernel(domain, text, [pl.GlobalArg("x", F, shape="20, 13"), ...]), x


def test_accumulators_of_a_register_tile() -> None:
    text = "w[i], v[i] = reduce(segmented(max), j, abs(x[i, j]), x[i, j] > 3)\nu[i] = argmin(j, x[i, j], j).index"
    knl, x = table(text)
    knl = pl.split_iname(knl, "i", 4, inner_tag="unr")
    knl = pl.tag_inames(pl.prioritize_loops(knl, "i_outer, j, i_inner"), "i_outer:l.0")
    starts = [np.flatnonzero(row > 3)[-1] if (row > 3).any() else 0 for row in x]
    expected = np.array([abs(row[start:]).max() for row, start in zip(x, starts, strict=True)])
    check(knl, {"x": x}, {"w": expected, "v": (x > 3).any(1), "u": x.argmin(1)})


def test_reductions_inside_each_other() -> None:
    domain = "{[i, j, l]: 0 <= i < 20 and 0 <= j < 13 and 0 <= l <= j}"
    knl, x = table("w[i] = argmax(j, sum(l, x[i, l]), j).index", domain)
    check(pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0"), {"x": x}, {"w": np.cumsum(x, 1).argmax(1)})
    row = "w[0] = argmax(i, argmax(j, x[i, j], j).value, i).index"
    knl, x = table(f"{row}\nv[0] = sum(i, x[i, argmin(j, x[i, j], j).index])")
    check(knl, {"x": x}, {"w": np.array([x.max(1).argmax()]), "v": np.array([x.min(1).sum()])})


def test_arg_max_of_a_rule_ahead_of_its_use() -> None:
    knl, x = table("best(k) := argmax(j, x[k, j], j)\nw[i] = best(i).index")
    knl = pl.precompute(pl.split_iname(knl, "i", 4), "best", ["i_inner"])
    check(knl, {"x": x}, {"w": x.argmax(1)})


def test_terms_from_a_temporary_of_the_loop_keep_their_order() -> None:
    knl, x = table("<> t = x[i, j]*2\nw[i] = reduce(ordered(sum), j, t)\nu[i] = argmax(j, t, j).index")
    check(knl, {"x": x}, {"w": 2 * x.sum(1), "u": x.argmax(1)})


def test_arg_max_of_half_precision_is_collected_in_float32() -> None:
    half = pl.GlobalArg("x", np.float16, shape="m, n")
    knl = pl.make_kernel(ROWS, "v[i], w[i] = argmax(j, x[i, j], j)", [half, ...])
    assert {argument.name: argument.dtype for argument in knl.arguments}["v"] == np.float32
    x = np.random.default_rng(12).standard_normal((6, 5)).astype(np.float16)
    check(knl, {"x": x}, {"v": x.max(1), "w": x.argmax(1)}, fibres=False)


def test_segments_of_vectors() -> None:
    x = np.zeros((20, 13), pl.vec.float2)
    x["x"] = np.random.default_rng(13).integers(-5, 6, (20, 13))
    knl = rows("<> s = reduce(segmented(sum), j, x[i, j], j == 4)\nw[i] = s.value.x", pl.vec.float2)
    check(knl, {"x": x}, {"w": x["x"][:, 4:].sum(1)})


# }}}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["a", "b", "result"])
def test_inames_have_the_names_that_operations_use(name: str) -> None:
    """Seed 80802987: the type of an iname ``b`` was that of the second operand, ``b``."""
    rows_of = f"{{[i, {name}]: 0 <= i < m and 0 <= {name} < n}}"
    x = np.array([[1.5, 4.25, 4.25, 0.5], [-1.5, 0.25, 9.5, -7.0]])
    found = rows(f"w[i] = argmax({name}, x[i, {name}], {name}).index", np.float64, rows_of)
    check(found, {"x": x}, {"w": np.array([1, 2], np.int32)})
    own = Operation("plus", "a + b/2", neutral=0)
    summed = rows(f"w[i] = reduce(plus, {name}, x[i, {name}])", np.float64, rows_of, [own])
    check(summed, {"x": x}, {"w": x.sum(axis=1) / 2})
