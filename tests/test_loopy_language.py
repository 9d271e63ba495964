"""Forms that scripts written for Loopy use: words, literals, slices, open shapes, types stated anew, footprints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.generated import bare
from tests.transform.checking import check, cuda, refused, same_after_replay

F = np.float32


def arrays(names: str, shape: Any = 8, dtype: Any = F) -> list[Any]:
    return [pl.GlobalArg(names, dtype, shape=shape), ...]


X = np.arange(8, dtype=F)


# {{{ words, literals, statements


def test_clamp_nan_and_inf_are_written_out() -> None:
    text = "y[i] = clamp(x[i], 2, 4.5)\nz[i] = -inf if i < 4 else inf"
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", text, arrays("x, y, z"))
    check(knl, {"x": X}, {"y": np.clip(X, 2, 4.5), "z": np.where(X < 4, -np.inf, np.inf)})
    nan = pl.make_kernel("{[i]: 0 <= i < 8}", "y[i] = nan*x[i]", arrays("x, y"))
    assert np.isnan(pl.compile(nan, target=pl.CTarget())(x=X).y).all()


def test_a_variable_or_a_rule_may_have_such_a_name() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "clamp(u, v, w) := u + v + w\ny[i] = clamp(x[i], inf, 1)",
                         [pl.ValueArg("inf", F), *arrays("x, y")])  # fmt: skip
    check(knl, {"x": X, "inf": 3.0}, {"y": X + 4})


def test_imaginary_numbers_with_suffixes() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "y[i] = 5jf*x[i]\nz[i] = 2jd*x[i]", arrays("x"))
    assert (knl.argument("y").dtype, knl.argument("z").dtype) == (np.complex64, np.complex128)  # type: ignore[union-attr]
    result = pl.compile(knl, target=pl.CTarget())(x=X)
    np.testing.assert_array_equal(result.y, 5j * X)


def test_each_target_may_be_declared() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", """
        a, <> b = make_tuple(x[i], 2)
        <> most, <int32> place = argmax(j, x[j], j)
        y[i] = a + b + most + place
        """, [pl.TemporaryVariable("a", F), *arrays("x, y")])  # fmt: skip
    check(knl, {"x": X}, {"y": X + 2 + 7 + 7})
    assert knl.temporaries["place"].dtype == np.int32


def test_a_nop_needs_no_id_and_a_kernel_no_assignment() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "... nop\ny[i] = x[i] {id=nop_1}\n... nop {dep=nop_1}", arrays("x, y"))
    check(knl, {"x": X}, {"y": X})
    empty = pl.make_kernel("{[i]: 0 <= i < 8}", "... nop", silenced_warnings="*")
    check(empty, {}, {})
    with pytest.raises(pl.KernelError, match="no-instructions"):
        pl.make_kernel("{[i]: 0 <= i < 8}", "")


def test_scalars_and_offsets_in_brackets() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "<> t = x[[i]] + s[()]\ny[[i]] = t",
                         [pl.GlobalArg("s", F, shape=()), *arrays("x, y")])  # fmt: skip
    check(knl, {"x": X, "s": np.array(2, F)}, {"y": X + 2})


def test_slices_have_steps() -> None:
    twice = pl.make_function("{[k]: 0 <= k < m}", "v[k] = 2*u[k]", [pl.GlobalArg("u, v", shape="m"), ...], name="twice")
    text = "y[0:8:2] = twice(x[1:8:2])\ny[1:8:2] = twice(x[0:7:2])"
    knl = pl.make_kernel("{:}", text, arrays("x, y"), functions=[twice])
    check(knl, {"x": X}, {"y": 2 * X.reshape(4, 2)[:, ::-1].ravel()})
    text = "y[0:4] = twice(x[7:-1:-2])\ny[::-2] = twice(x[0:4])"
    down = pl.make_kernel("{:}", text, arrays("x, y"), functions=[twice])
    expected = np.arange(8.0)
    expected[0:4] = 2 * X[7::-2]
    expected[::-2] = 2 * X[0:4]
    np.testing.assert_array_equal(pl.interpret(down, x=X, y=np.arange(8, dtype=F))["y"], expected)
    symbolic = pl.make_kernel("[n] -> {:}", "y[0:2*n:2] = twice(x[0:2*n:2])", arrays("x, y", "2*n"), functions=[twice])
    assert "2*twice_k" in str(symbolic)
    for text in ("y[0:n:2] = twice(x[0:n:2])", "y[0:8:0] = twice(x[0:8:2])"):
        with pytest.raises(pl.KernelError, match="bad-call"):
            pl.make_kernel("[n] -> {: n >= 0}", text, arrays("x, y", "n"), functions=[twice])
    with pytest.raises(pl.KernelError, match="a slice has a beginning, an end and a step"):
        pl.make_kernel("{:}", "y[0:8:2:1] = twice(x[:])", arrays("x, y"), functions=[twice])


def test_an_unknown_function_of_slices_is_named() -> None:
    with pytest.raises(pl.KernelError, match=r"no function 'gemv' \[unknown-function\]"):
        pl.make_kernel("{:}", "y[:] = gemv(a[:, :], x[:])", arrays("x, y"))


# }}}
# {{{ shapes and types


def test_open_extents_are_those_of_the_array_passed() -> None:
    data = [pl.GlobalArg("a, y", F), pl.GlobalArg("at", np.int32), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 3}", "y[i] = sum(j, a[at[i], j])", data)
    a, at = np.arange(30, dtype=F).reshape(10, 3), np.array([9, 0, 3], np.int32)
    check(knl, {"a": a, "at": at}, {"y": a[at].sum(axis=1)})
    assert str(knl.argument("a").shape[0]) == "a_shape0"  # type: ignore[union-attr,index]
    assert pl.LoopKernel.split_iname(knl, "i", 2).parameters == ("n", "a_shape0")


def test_a_computed_subscript_of_an_open_array_is_checked_at_the_call() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a[i*i]", [pl.GlobalArg("a, y", F), ...])
    run = pl.compile(knl, target=pl.CTarget())
    np.testing.assert_array_equal(run(a=np.arange(17, dtype=F), n=5).y, np.arange(5) ** 2)
    with pytest.raises(pl.ArgumentError):
        run(a=np.arange(16, dtype=F), n=5)


def test_a_temporary_keeps_its_shape_to_declare() -> None:
    with pytest.raises(pl.KernelError, match="shape-not-inferred"):
        pl.make_kernel("{[i]: 0 <= i < 8}", "<> t[i] = x[i]\ny[i] = t[at[i]]", arrays("x, y"))


def test_a_temporary_without_a_shape_has_that_of_its_accesses() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "for i\nt[i] = x[i]\nend\nfor i\ny[i] = t[7 - i] + s\nend",
                         [pl.TemporaryVariable("t"), pl.TemporaryVariable("s", initializer=F(1)),
                          *arrays("x, y")])  # fmt: skip
    assert knl.temporaries["t"].shape == (8,)
    check(knl, {"x": X}, {"y": X[::-1] + 1})


def test_shapes_may_stand_in_parentheses() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", [pl.GlobalArg("x, y", F, shape="(n,)"), ...])
    check(knl, {"x": X}, {"y": X})


def test_an_inferred_type_may_be_stated_otherwise() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "<> t = 2*x[i]\ny[i] = t", arrays("x"))
    wide = knl.add_dtypes({"t": np.float64})
    assert wide.temporaries["t"].dtype == np.float64
    assert wide.argument("y").dtype == np.float64  # type: ignore[union-attr]
    check(wide.split_iname("i", 4), {"x": X}, {"y": 2.0 * X})
    for known in (knl, wide.add_dtypes({"y": F})):
        with pytest.raises(pl.TransformError, match=r"'x' is float32 already.*type-conflict"):
            known.add_dtypes({"x": np.float64})
    with pytest.raises(pl.TransformError, match="type-conflict"):
        wide.add_dtypes({"t": F})


def test_types_of_vectors_come_from_the_call() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 4}", "y[i, j] = 2*x[i, j]",
                         [pl.GlobalArg("x, y", shape="n, 4", dim_tags="N0,vec"), ...])  # fmt: skip
    x = np.arange(12, dtype=F).reshape(3, 4)
    np.testing.assert_array_equal(pl.tag_inames(knl, "j:unr")(x=x).y, 2 * x)
    parts = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 2}", "y[i] = x[j, i]*j",
                           [pl.GlobalArg("x", shape="2, n", dim_tags="sep,N0"), ...])  # fmt: skip
    assert pl.tag_inames(parts, "j:unr")(x_s0=x[0], x_s1=x[1]).y.dtype == F


# }}}
# {{{ staging


def test_a_prefetch_names_its_subscripts() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 16}", "y[i, j] = a[j, i]", arrays("a, y", (16, 16)))
    knl = pl.tag_inames(knl, "i:g.0, j:l.0").add_prefetch("a[:, i]")
    assert knl.temporaries["a_fetch"].shape == (16, 1)
    a = np.arange(256, dtype=F).reshape(16, 16)
    check(knl, {"a": a}, {"y": a.T})
    with pytest.raises(pl.TransformError, match="is no subscript of 'a'"):
        knl.add_prefetch("a[:, q]")


def test_a_footprint_may_name_an_iname_that_was_split() -> None:
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j < n and 0 <= k < 3}", "y[i] = sum(j, sum(k, x[j, k]*x[i, k]))",
                         arrays("x", "n, 3"))  # fmt: skip
    knl = knl.split_iname("i", 16, outer_tag="g.0", inner_tag="l.0").split_iname("j", 16)
    knl = knl.add_prefetch("x[j, k]", "j_inner, k", fetch_outer_inames="i_outer, j_outer")
    x = np.arange(60, dtype=F).reshape(20, 3) % 5
    check(knl, {"x": x}, {"y": (x @ x.T).sum(axis=1)})


def rows_twice() -> pl.LoopKernel:
    text = """
    for i
        for j
            y[i, j] = x[i, 7 - j]
        end
        for k
            z[i, k] = 2*x[i, k]
        end
    end
    """
    return pl.make_kernel("{[i, j, k]: 0 <= i < 3 and 0 <= j, k < 8}", text, arrays("x, y, z", (3, 8)))


def test_reads_outside_of_the_sweep_stay_where_loops_around_are_given() -> None:
    knl = pl.add_prefetch(rows_twice(), "x", "j", fetch_outer_inames="i", temporary_name="row")
    assert [("row" in str(i), "= 2*x[i, k]" in str(i)) for i in knl.instructions[1:]] == [(True, False), (False, True)]
    x = np.arange(24, dtype=F).reshape(3, 8)
    check(knl, {"x": x}, {"y": x[:, ::-1], "z": 2 * x})
    with pytest.raises(pl.TransformError, match="outer-missing"):
        pl.add_prefetch(rows_twice(), "x", "j", fetch_outer_inames="")


def test_a_copy_goes_into_the_storage_of_an_existing_temporary() -> None:
    knl = pl.tag_inames(rows_twice(), "i:g.0, j:l.0, k:l.0")
    knl = pl.add_prefetch(knl, "x", "j", within="writes:y", temporary_name="row", temporary_address_space="local")
    knl = pl.add_prefetch(knl, "x", "k", within="writes:z", temporary_name="row", temporary_address_space="local")
    assert {t.base_storage for t in knl.temporaries.values()} == {"row_storage"}
    x = np.arange(24, dtype=F).reshape(3, 8)
    check(knl, {"x": x}, {"y": x[:, ::-1], "z": 2 * x})


def test_storage_that_is_in_use_is_refused() -> None:
    text = """
    for i
        for j
            y[i, j] = x[i, 7 - j] + w[i, 7 - j]
        end
    end
    """
    knl = pl.make_kernel("{[i, j]: 0 <= i < 3 and 0 <= j < 8}", text, arrays("x, y, w", (3, 8)))
    knl = pl.tag_inames(knl, "i:g.0, j:l.0")
    knl = pl.add_prefetch(knl, "x", "j", temporary_name="row", temporary_address_space="local")
    with pytest.raises(pl.TransformError, match="storage-in-use"):
        pl.add_prefetch(knl, "w", "j", temporary_name="row", temporary_address_space="local")


def test_loops_around_a_shared_copy() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "c[i, j] = a[i]*b[j]", arrays("a, b", "n"),
                         assumptions="n mod 16 = 0")  # fmt: skip
    knl = knl.split_iname("i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = knl.split_iname("j", 16, outer_tag="g.1", inner_tag="l.1")
    for name, sweep in (("a", "i_inner"), ("b", "j_inner")):
        knl = knl.add_prefetch(name, sweep, fetch_outer_inames="i_outer, j_outer, j_inner",
                               temporary_address_space="local", default_tag="l.0")  # fmt: skip
    a = np.arange(32, dtype=F)
    check(knl, {"a": a, "b": a}, {"c": np.outer(a, a)})


def test_a_rule_without_arguments_is_computed_ahead() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", "f := x[i]*2\ny[i, j] = f + 1", arrays("x"))
    knl = knl.precompute("f", compute_at="i", default_tag=None)
    check(knl, {"x": X}, {"y": np.repeat(2 * X[:, None] + 1, 8, axis=1)})


# }}}
# {{{ no longer refused


def test_the_nest_in_which_values_are_those_of_the_own_iteration() -> None:
    knl = pl.make_kernel(["{[i]: 0 <= i < 8}", "{[k]: 0 <= k < 8}"],
                         "c = k + 1 {inames=k, id=c}\na[i] = i % c {dep=c, inames=i:k}",
                         [pl.TemporaryVariable("c", np.int32), pl.GlobalArg("a", np.int32, shape=8)])  # fmt: skip
    assert knl.instructions[1].inames == ("k", "i")
    check(knl, {}, {"a": np.arange(8) % 8})


def test_a_triangle_of_two_domains_runs_on_the_grid() -> None:
    knl = pl.make_kernel(["{[i]: 0 <= i < 8}", "{[j]: i <= j < 8}"], "a[i, j] = 1", arrays("a", (8, 8)))
    a = np.zeros((8, 8), F)
    knl = pl.tag_inames(knl, "i:g.0, j:g.1")
    check(knl, {"a": a}, {"a": np.triu(np.ones((8, 8), F))})


def test_a_last_value_is_read_behind_the_end_of_its_loop() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "for i\nfor j\n<> t = x[i] + j\nend\ny[i] = t\nend",
                         arrays("x, y"))  # fmt: skip
    check(pl.tag_inames(knl, "i:l.0"), {"x": X}, {"y": X + 3})


def test_a_scalar_that_c_text_sets_is_one_of_each_thread() -> None:
    def made(code: str) -> pl.LoopKernel:
        text = pl.CInstruction("i", code, {"x"}, "t", id="set")
        data = [pl.TemporaryVariable("t", F), *arrays("x, y")]
        return pl.make_kernel("{[i]: 0 <= i < 8}", [text, "y[i] = t {dep=set}"], data)

    for code in ("t = x[i];", "int k = i; t = x[k] + 1 - 1;"):
        knl = pl.tag_inames(made(code), "i:l.0")
        np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=X).y, X)
    wrong = ("if (i > 2) t = x[i];", "t += x[i];", "t = t + x[i];", "while (0) { t = x[i]; }", "i > 2 && (t = x[i]);")
    for code in wrong:
        with pytest.raises(pl.PolyloopError):
            pl.tag_inames(made(code), "i:l.0")


def test_loops_on_threads_that_are_not_chosen_yet_are_joined() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "y[i, j] = x[i, j]", arrays("x, y", (8, 4)))
    joined = pl.tag_inames(knl, "i:l.auto, j:l.auto").join_inames("i, j", "k")
    assert str(joined.tag("k")) == "l.auto"
    with pytest.raises(pl.TransformError, match="iname-tagged"):
        pl.tag_inames(knl, "i:l.auto").join_inames("i, j", "k")


# }}}


def barred() -> pl.LoopKernel:
    text = "for i\ny[i] = 2*x[i] {id=set}\nend\n... gbarrier {id=wait}\nfor j\nz[j] = y[7 - j] {id=get}\nend"
    return pl.make_kernel("{[i, j]: 0 <= i, j < 8}", text, arrays("x, y, z"))


def test_dependences_on_barriers_are_what_the_text_says() -> None:
    knl = pl.add_dependency(pl.add_dependency(barred(), "id:wait", "writes:y"), "id:get", "id:wait")
    assert [line.split("(")[0] for line in str(knl.trace).splitlines()] == ["knl = pl.add_dependency"] * 2
    check(knl, {"x": X}, {"z": 2 * X[::-1]})
    for later, earlier in (("id:wait", "id:get"), ("id:set", "id:wait"), ("id:wait", "id:wait")):
        with pytest.raises(pl.TransformError, match="illegal-order"):
            pl.add_dependency(barred(), later, earlier)
    with pytest.raises(pl.TransformError, match="unknown-instruction"):
        pl.add_dependency(barred(), "id:wait", "id:nothing")


def test_a_scan_of_one_result() -> None:
    knl = pl.make_kernel(["{[i]: 0 <= i < 1}", "[i] -> {[j]: 0 <= j <= i}"], "y[i] = sum(j, x[j])", arrays("x, y", 1))
    knl = pl.tag_inames(pl.realize_reduction(knl, force_scan=True), "i:l.0")
    check(knl, {"x": X[3:4]}, {"y": X[3:4]})
    two = pl.make_kernel("{[i, j]: 0 <= i < 1 and 0 <= j < 8}", "y[i] = sum(j, x[j])",
                         [pl.GlobalArg("x", F, 8), pl.GlobalArg("y", F, 1), ...])  # fmt: skip
    with pytest.raises(pl.TransformError, match="not-a-scan"):
        pl.realize_reduction(two, force_scan=True)


def test_sizes_that_later_steps_mend_are_conditions() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i + m]", arrays("x, y"))
    fixed = pl.fix_parameters(knl, n=8, m=0)
    check(fixed, {"x": X}, {"y": X})
    with pytest.raises(pl.ArgumentError, match="n"):
        pl.compile(knl, target=pl.CTarget())(x=X, n=9, m=0)
    with pytest.raises(pl.KernelError, match="out-of-bounds"):
        pl.make_kernel("{[i]: 0 <= i < 9}", "y[i] = x[i]", arrays("x, y"))
    with pytest.raises(pl.KernelError, match="out-of-bounds"):
        pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i + 1]", arrays("x, y", "n"))


# }}}
# {{{ tagged names, offsets, products of vectors


def test_steps_are_told_some_uses_of_a_name() -> None:
    text = "g(x) := x + a$mid[x]\nb$res[i] = a$left[i] + a[i - 1] + g$two(i) + g(i)"
    knl = pl.make_kernel("{[i]: 1 <= i < 8}", text, arrays("a, b"))
    assert str(knl.substitutions["a_left"]) == "a_left(x0) := a[x0]"
    assert str(knl.substitutions["g_two"]) == "g_two(x0) := g(x0)"
    expected = np.zeros(8, F)
    expected[1:] = X[1:] + X[:-1] + 2 * (np.arange(1, 8) + X[1:])
    fetched = pl.add_prefetch(pl.precompute(knl, "g$two", "i", default_tag=None), "a$left[:]", default_tag=None)
    assert {*fetched.temporaries} == {"g_two_value", "a_left_fetch"}
    assert "a[i - 1]" in str(fetched)
    check(fetched, {"a": X, "b": np.zeros(8, F)}, {"b": expected})
    same_after_replay(knl, fetched)


@pytest.mark.parametrize(
    ("text", "data", "code"),
    [
        ("a_left(u) := u\ny[i] = a$left[i]", arrays("a, y"), "name-taken"),
        ("y[i] = a$[i]", arrays("a, y"), "syntax"),
        ("y[i] = a[[i]]", [pl.GlobalArg("a", F, shape=(4, 4), strides=(8, 1)), ...], "bad-layout"),
        ("y[i] = a[[i]] + a[i, i]", [pl.GlobalArg("y", F, shape=8), ...], "wrong-rank"),
        ("y[i] = indexof(a[i, 0])", arrays("y"), "wrong-rank"),
        ("y[i] = dot(a[i], a[i])", arrays("a, y"), "type-conflict"),
    ],
)
def test_words_that_lack_something_are_refused(text: str, data: Any, code: str) -> None:
    with pytest.raises(pl.KernelError) as error:
        pl.make_kernel("{[i]: 0 <= i < 8}", text, data)
    assert error.value.codes[0] == code


@pytest.mark.parametrize("order", ["C", "F"])
def test_elements_at_offsets_of_several_axes(order: Any) -> None:
    a = np.asarray(np.arange(12, dtype=F).reshape(3, 4), order=order)
    text = "b[[i]] = 2*a[[i]] + indexof(a[i % 3, i // 3])"
    knl = pl.make_kernel("{[i]: 0 <= i < 12}", text, [pl.GlobalArg("a, b", F, shape=(3, 4), order=order)])
    number = np.arange(12).reshape((3, 4), order=order)
    at = np.empty((3, 4), F, order=order)
    for i in range(12):
        at[number == i] = number[i % 3, i // 3]
    check(knl, {"a": a}, {"b": 2 * a + at}, fibres=order == "C")


def test_offsets_of_symbolic_axes() -> None:
    data = [pl.GlobalArg("a", F, shape=("n", "n")), pl.GlobalArg("p", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[[i*n + i]] = 1\nc[i] = a[[p[i]]]", data)
    assert "a[i, i] = 1" in str(knl)
    a, places = np.arange(9, dtype=F).reshape(3, 3), np.array([4, 2, 8], np.int32)
    whole = a * (1 - np.eye(3, dtype=F)) + np.eye(3, dtype=F)
    check(knl, {"a": a, "p": places}, {"a": whole, "c": whole.ravel()[places]})


def test_products_of_vectors() -> None:
    text = "<float4> t = 2*b[i]\nc[i] = dot(a[i], t) + dot(a[i], b[i])"
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", text, [pl.GlobalArg("a, b", pl.vec.float4, shape=8), ...])
    a, b = (np.arange(k, k + 32, dtype=F).reshape(8, 4) for k in (0, 5))
    check(knl, {name: value.view(pl.vec.float4).reshape(8) for name, value in {"a": a, "b": b}.items()},
          {"c": 3 * (a * b).sum(1)})  # fmt: skip


def test_vectors_of_3_and_of_8() -> None:
    for count in (3, 8, 16):
        domain = f"{{[i, c]: 0 <= i < 4 and 0 <= c < {count}}}"
        knl = pl.make_kernel(domain, "y[i, c] = 2*x[i, c]", arrays("x, y", (4, count)),
                             silenced_warnings="not-vectorized")  # fmt: skip
        knl = pl.tag_inames(pl.tag_array_axes(knl, "x, y", "N0,vec"), {"c": "vec"})
        x = np.arange(4 * count, dtype=F).reshape(4, count)
        check(knl, {"x": x}, {"y": 2 * x})
        assert ("float3" if count == 3 else f"float32x{count}") in cuda(knl)


# }}}
# {{{ lives of scalars, branches inside of branches, barriers between threads and loops


@pytest.mark.parametrize("tags", [{"i": "g.0", "j": "g.0"}, {"i": "l.0", "j": "g.0"}])
def test_a_name_has_a_life_in_each_launch(tags: dict[str, str]) -> None:
    text = """
        for i
          <> t = 2*x[i]
          t = t + x[7 - i]
          y[i] = t
        end
        for j
          t = 1
          t = t + y[7 - j]
          z[j] = t*j
        end"""
    knl = pl.tag_inames(pl.make_kernel("{[i, j]: 0 <= i, j < 8}", text, arrays("x, y, z")), tags)
    y = 2 * X + X[::-1]
    check(knl, {"x": X}, {"y": y, "z": (1 + y[::-1]) * np.arange(8)})
    assert len(pl.generate_code(knl, target=pl.CudaTarget()).launches) == 2


def test_branches_by_inames_inside_of_branches_by_data() -> None:
    text = """
        if x[i] > 4
          <> t = 2*x[i]
        elif x[i] < 2
          if i > 3
            t = 7
          elif x[i] > 0
            t = 3
          else
            t = x[i]
          end
        else
          if i > 2
            t = 9
          else
            t = 5
          end
        end
        y[i] = t + 1"""
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", text, arrays("x, y"))
    x = np.array([0, 5, 3, 1, 1, 2, 6, 4], F)
    check(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), {"x": x}, {"y": [1, 11, 6, 4, 8, 10, 13, 10]})
    text = text.replace("<> t", "t").replace("          else\n            t = x[i]\n", "")
    open_ = pl.make_kernel("{[i]: 0 <= i < 8}", f"<> t = 0\n{text}", arrays("x, y"), silenced_warnings="*")
    refused(open_, lambda k: pl.tag_inames(k, "i:l.0"), "illegal-parallel")


@pytest.mark.parametrize("barriers", [1, 3])
def test_a_barrier_in_a_loop_with_threads_around_it(barriers: int) -> None:
    wait = "\n... lbarrier\n"
    lines = ["s[i] = x[i] + t", "y[i] = s[7 - i] {if=t == 2}"]
    if barriers == 3:
        lines[1:] = ["<> u = s[7 - i]", "s[i] = 2*u", "y[i] = s[i]"]
    text = f"for i\nfor t\n{wait.join(lines)}\nend\nend"
    data = [pl.TemporaryVariable("s", F, shape=(8,), address_space=pl.AddressSpace.LOCAL), *arrays("x, y")]
    knl = pl.tag_inames(pl.make_kernel("{[i, t]: 0 <= i < 8 and 0 <= t < 3}", text, data), "i:l.0")
    check(knl, {"x": X}, {"y": (X[::-1] + 2) * (1 if barriers == 1 else 2)})


def test_a_denial_within_one_iteration_is_harmless() -> None:
    text = "for i\n y[i] = 0 {id=z}\n for j\n  y[i] = y[i] + x[j] {id=u, dep=z, nosync=z}\n end\nend"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", text, arrays("x, y"), silenced_warnings="*")
    check(pl.tag_inames(knl, "i:l.0"), {"x": X}, {"y": np.full(8, X.sum())})


def test_products_of_sizes_in_subscripts_are_mended_later() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "y[m*i + j] = x[j]", arrays("x, y", "12"))
    fixed = pl.fix_parameters(knl, n=3, m=4)
    check(fixed, {"x": np.arange(12, dtype=F)}, {"y": np.tile(np.arange(4), 3)})
    with pytest.raises(pl.ArgumentError):
        pl.compile(knl, target=pl.CTarget())(x=np.zeros(12, F), n=4, m=4)


def test_full_tiles_of_a_loop_from_1_have_no_test() -> None:
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "y[i] = x[i - 1]", arrays("x, y", "n"))
    knl = pl.split_iname(knl, "i", 4, inner_tag="unr")
    code = bare(pl.generate_code(knl, target=pl.CTarget()).device_code)
    assert "i >= 1" not in code
    for n in (1, 3, 4, 9):
        x = np.arange(n, dtype=F)
        y = np.full(n, 9, F)
        check(knl, {"x": x, "y": y}, {"y": np.concatenate([y[:1], x[:-1]])}, fibres=False)


def test_updates_of_a_scalar_are_where_it_is_set() -> None:
    text = "<> t = a[i, 0] {id=s}\nt = t + 1 {id=u, dep=s}\nt = 2*t {id=v, dep=u}\nb[i] = t {dep=v}"
    knl = pl.make_kernel("{[i]: 0 <= i < 4}", text, [pl.GlobalArg("a", F, shape=(4, 2)), pl.GlobalArg("b", F, shape=4)])
    a = np.arange(8, dtype=F).reshape(4, 2)
    check(pl.tag_inames(knl, "i:l.0"), {"a": a}, {"b": 2 * (a[:, 0] + 1)})
    sums = pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 2}", "for i\n<> t = 0\nt = t + a[i, j]\nb[i] = t\nend",
                          [pl.GlobalArg("a", F, shape=(4, 2)), pl.GlobalArg("b", F, shape=4)])  # fmt: skip
    check(sums, {"a": a}, {"b": a.sum(1)}, fibres=False)


def test_an_array_may_be_larger_than_its_accesses_need() -> None:
    data = [pl.GlobalArg("a, c", F, shape=None), pl.GlobalArg("b", F), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = a[i, j] + c[i + 1]", data)
    a, c = np.arange(70, dtype=F).reshape(10, 7), np.arange(9, dtype=F)
    check(knl, {"a": a, "c": c, "n": 4, "m": 5}, {"b": a[:4, :5] + c[1:5, None]})
    with pytest.raises(pl.ArgumentError, match="out-of-bounds"):
        knl(a=a, c=c[:4], n=4, m=5)
    with pytest.raises(pl.ArgumentError, match="'m' follows from no array"):
        knl(a=a, c=c)


def test_an_array_that_is_updated_may_be_larger_than_its_accesses_need() -> None:
    text = "a[i] = a[i] + 1\nb[i] = a[i]\nc[i] = b[i]"
    knl = pl.make_kernel("{[i]: k <= i < n}", text, [pl.GlobalArg("a, b", np.int32, shape=None), ...],
                         assumptions="0 <= k <= n")  # fmt: skip
    a = np.arange(8, dtype=np.int32)
    knl(a=a, k=1, n=4)
    assert a.tolist() == [0, 2, 3, 4, 4, 5, 6, 7]


# }}}


def test_a_reduction_over_nothing_is_its_term() -> None:
    result = pl.interpret(pl.make_kernel("{:}", "out = reduce(any, [], 5)\nother = sum([], 3) + sum((), 4)"))
    assert (int(result["out"]), int(result["other"])) == (5, 7)


def test_numbers_and_integers_of_inames_are_conditions() -> None:
    text = "y[i] = x[i] if 0 else 2\nif i\nz[i] = x[i - 1] if i % 3 else 3\nend"
    data = [pl.GlobalArg("x", F, shape=7), pl.GlobalArg("z", F, shape=8), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", text, data)
    x = np.arange(1, 8, dtype=F)
    expected = np.array([9, 1, 2, 3, 4, 5, 3, 7], F)
    expected[3] = 3
    check(knl, {"x": x, "z": np.full(8, 9, F)}, {"y": np.full(8, 2, F), "z": expected})
    with pytest.raises(pl.KernelError, match="out-of-bounds"):
        pl.make_kernel("{[i]: 0 <= i < 8}", "y[i] = x[i] if 1 else 2", data[:1] + data[2:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_atomic_store_converts_its_value(dtype: Any) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 100}", "y[i % 4] = 3 {atomic}", [pl.GlobalArg("y", dtype, shape=4), ...])
    check(pl.split_iname(knl, "i", 4, inner_tag="l.0"), {}, {"y": np.full(4, 3, dtype)})


@pytest.mark.parametrize(("text", "size"), [
    ("y[j] = j", 5), ("y[j] = sqrt(cast(float64, j)) + n", 5), ("y[2*i + j] = 4*i + 2*j + 1", 19), ("y[i % 4] = n", 4),
])  # fmt: skip
def test_threads_store_what_the_subscripts_say(text: str, size: int) -> None:
    data = [pl.GlobalArg("y", F, shape=size), pl.ValueArg("n", np.int32), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 5}", f"{text} {{inames=i:j}}", data)
    expected = pl.interpret(knl, n=3)["y"]
    check(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), {"n": 3}, {"y": expected})


@pytest.mark.parametrize("text", [
    "y[j] = i", "y[i % 4] = i", "y[i // 2] = i", "y[2*i + j] = 4*i + j", "y[j] = j + y[j]",
])  # fmt: skip
def test_threads_that_store_other_numbers_are_refused(text: str) -> None:
    data = [pl.GlobalArg("y", F, shape=20), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 5}", f"{text} {{inames=i:j}}", data)
    with pytest.raises(pl.TransformError, match=r"\[(write-race|illegal-parallel|illegal-order)\]"):
        pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
