"""``set_argument_order``, ``rename_argument``, ``remove_unused_arguments``, and transforms of instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.generated import flat
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, blur, matmul, spread

Golden = Callable[[str, str], None]


def scaled() -> pl.LoopKernel:
    data = [
        pl.GlobalArg("a, out", F, shape="n"),
        pl.GlobalArg("spare", F, shape="m"),
        pl.ValueArg("s", F),
        pl.ValueArg("m", np.int32),
        ...,
    ]
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", "f(x) := s*x\nout[i] = f(a[i])", data, name="scaled", silenced_warnings=["unused-variable"]
    )


def check_scaled(knl: pl.LoopKernel, array: str = "a", size: str = "n") -> None:
    for n in (1, 4, 9):
        a = np.arange(n, dtype=F)
        check(knl, {array: a, "s": F(3), size: n}, {"out": 3 * a})


def test_arguments_in_order() -> None:
    base = blur()
    knl = spread(pl.set_argument_order(base, "n, out"))
    assert "blur(int n, float *__restrict__ out, const float *__restrict__ a)" in flat(cuda(knl))
    same_after_replay(base, knl)
    assert [argument.name for argument in base.arguments] == ["a", "out", "n"]
    refused(base, lambda k: pl.set_argument_order(k, "n, x"), "unknown-argument")
    refused(base, lambda k: pl.set_argument_order(k, "n, n"), "name-taken")


def test_an_array_and_a_size_are_renamed() -> None:
    base = scaled()
    knl = spread(pl.remove_unused_arguments(base), length=4)
    knl = pl.rename_argument(pl.rename_argument(knl, "a", "y"), "n", "count")
    assert "const float *__restrict__ y" in cuda(knl)
    assert "int count" in cuda(knl)
    check_scaled(knl, "y", "count")
    same_after_replay(base, knl)
    renamed = pl.rename_argument(pl.remove_unused_arguments(base), "n", "count")
    check_scaled(spread(renamed, length=4), size="count")


def test_a_buffered_and_a_fetched_array_are_renamed() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("c", F, shape="n"), ...]
    base = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", "c[i] = c[i] + a[i, k]", data, name="rows")
    knl = spread(pl.split_iname(base, "k", 4), length=4)
    knl = pl.buffer_array(knl, "c", "k_outer, k_inner")
    knl = pl.add_prefetch(knl, "a", "i_inner, k_inner")
    for old, new in (("c", "sums"), ("a", "rows_of"), ("n", "count")):
        knl = pl.rename_argument(knl, old, new)
    for n, m in ((1, 1), (5, 6)):
        a, c = np.arange(n * m, dtype=F).reshape(n, m), np.arange(n, dtype=F)
        check(knl, {"rows_of": a, "sums": c}, {"sums": c + a.sum(1)})
    same_after_replay(base, knl)


def test_names_that_cannot_be(golden: Golden) -> None:
    knl = scaled()
    text = refused(knl, lambda k: pl.rename_argument(k, "b", "y"), "unknown-argument")
    golden("messages/rename_argument_unknown.txt", text)
    refused(knl, lambda k: pl.rename_argument(k, "a", "out"), "name-taken")
    refused(knl, lambda k: pl.rename_argument(k, "a", "for"), "reserved-name")


def test_the_name_of_a_parameter_of_a_rule_is_free() -> None:
    base = scaled()
    knl = pl.rename_argument(pl.rename_argument(pl.remove_unused_arguments(base), "a", "y"), "s", "x")
    assert str(knl.substitutions["f"]) == "f(x_0) := x*x_0"
    for n in (1, 5):
        y = np.arange(n, dtype=F)
        check(knl, {"y": y, "x": F(3)}, {"out": 3 * y})
    same_after_replay(base, knl)


def test_what_nothing_uses_is_dropped() -> None:
    base = scaled()
    knl = pl.remove_unused_arguments(spread(base, length=4))
    assert [argument.name for argument in knl.arguments] == ["a", "out", "s", "n"]
    assert knl.parameters == ("n",)
    check_scaled(knl)
    same_after_replay(base, knl)
    assert "removed spare, m" in str(knl.trace)
    assert cuda(pl.remove_unused_arguments(matmul())) == cuda(matmul())


def steps() -> pl.LoopKernel:
    text = """
        for i
            t = a[i] {id=load}
            b[i] = t {id=copy_b, tags=copies}
            c[i] = 2*t {id=copy_c, tags=copies, dep=copy_b}
            d[i] = c[i] {id=last, dep=copy_c}
        end
        """
    data = [pl.GlobalArg("a, b, c, d", F, shape="n"), pl.TemporaryVariable("t", F), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="steps")


def test_instructions_are_found_and_tagged() -> None:
    knl = steps()
    assert [i.id for i in pl.find_instructions(knl, "tag:copies and not id:*_c")] == ["copy_b"]
    assert len(pl.find_instructions(knl)) == 4
    tagged = pl.tag_instructions(knl, "reads_t", "reads:t")
    assert [i.id for i in pl.find_instructions(tagged, "tag:reads_t")] == ["copy_b", "copy_c"]
    assert all("every" in i.tags for i in pl.tag_instructions(knl, "every").instructions)
    assert cuda(tagged) == cuda(knl)
    same_after_replay(knl, tagged)
    refused(knl, lambda k: pl.tag_instructions(k, "x", "id:nobody"), "unknown-instruction")
    refused(knl, lambda k: pl.tag_instructions(k, "2x"), "bad-identifier")


def test_instructions_are_removed(golden: Golden) -> None:
    base = steps()
    knl = spread(pl.remove_instructions(base, "copy_c"), length=4)
    assert knl.instruction("last").depends_on == {"copy_b"}
    assert knl.argument("c").is_input  # type: ignore[union-attr] # it is there
    for n in (1, 5):
        a, c = np.arange(n, dtype=F), np.full(n, 7, F)
        check(knl, {"a": a, "c": c}, {"b": a, "d": c})
    same_after_replay(base, knl)
    text = refused(base, lambda k: pl.remove_instructions(k, "load, copy_b"), "read-before-write")
    golden("messages/remove_instructions_needed.txt", text)
    refused(base, lambda k: pl.remove_instructions(k, "lode"), "unknown-instruction")
    refused(base, lambda k: pl.remove_instructions(k, [i.id for i in k.instructions]), "no-instructions")
    fetched = pl.add_prefetch(base, "a", "")
    refused(fetched, lambda k: pl.remove_instructions(k, "fetch_a"), "bad-instructions")


@pytest.mark.parametrize("call", [pl.remove_unused_arguments, lambda k: pl.set_argument_order(k, "out")])
def test_transforms_go_on_after_them(call: Callable[[pl.LoopKernel], pl.LoopKernel]) -> None:
    knl = pl.add_prefetch(spread(call(blur())), "a", "i_inner")
    assert "__shared__ float a_fetch[18]" in cuda(knl)


def test_an_argument_is_not_called_like_a_loop_of_the_program() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    with pytest.raises(pl.TransformError, match="'i' is an iname of the program as it was written"):
        pl.rename_argument(pl.split_iname(knl, "i", 16), "y", "i")
