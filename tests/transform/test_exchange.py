from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.scope import Memory
from polyloop.codegen.tree.c_ast import Assign, For, If
from polyloop.codegen.tree.divergence import refuse_divergent
from polyloop.codegen.tree.indices import Indices
from polyloop.errors import CodegenError
from polyloop.kernel.arrays import AddressSpace
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.schedule.storage import Lane, Storage
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.codegen.c_parser import parsed
from tests.transform.checking import check, cuda, refused, same_after_replay

Golden = Callable[[str, str], None]
ROWS = "{[b, lane, x]: 0 <= b < n and 0 <= lane, x < 32}"


def rows(
    value: str, tags: str = "b:g.0, lane:l.0, x:l.0", dtype: Any = np.float32, domain: str = ROWS
) -> pl.LoopKernel:
    """Return a kernel that computes elements of ``o`` from the row of ``a`` in a temporary."""
    knl = pl.make_kernel(
        domain, f"t[lane] = a[b, lane] {{id=load}}\no[b, x] = {value} {{id=use}}",
        [pl.GlobalArg("a", dtype, shape="n, 32"), pl.GlobalArg("o", dtype, shape="n, 32"),
         pl.TemporaryVariable("t", dtype, shape=(32,)), ...],
        name="exchanged",
    )  # fmt: skip
    return pl.tag_inames(knl, tags) if tags else knl


def numbers(n: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).integers(-9, 9, (n, 32)).astype(dtype)


def test_neighbours_and_a_broadcast(golden: Golden) -> None:
    base = rows("t[31 - x] + 2*t[x] + t[5]")
    knl = pl.exchange_by_shuffle(base, "t")
    golden("golden/exchange.cu", cuda(knl))
    assert "exchanged by shuffles" in str(knl)
    for n in (0, 1, 3):
        a = numbers(n)
        check(knl, {"a": a}, {"o": a[:, ::-1] + 2 * a + a[:, 5:6]})
    same_after_replay(rows("t[31 - x] + 2*t[x] + t[5]", ""), knl)
    assert cuda(base.exchange_by_shuffle("t")) == cuda(knl)
    assert "whole warps read" in str(pl.verify(knl))


def test_other_targets_keep_the_array() -> None:
    base = rows("t[31 - x]")
    code = [pl.generate_code(k, target=pl.CTarget()).device_code for k in (base, pl.exchange_by_shuffle(base, "t"))]
    assert code[0] == code[1]


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float64])
def test_numbers_of_four_and_eight_bytes(dtype: Any) -> None:
    a = np.abs(numbers(3, np.int32)).astype(dtype)
    check(pl.exchange_by_shuffle(rows("t[31 - x]", dtype=dtype), "t"), {"a": a}, {"o": a[:, ::-1]})


def test_a_broadcast_from_each_lane_in_turn() -> None:
    knl = pl.exchange_by_shuffle(
        pl.add_dtypes(rows("sum(j, t[j] * c[j, x])", domain=ROWS.replace("x", "x, j")), {"c": np.float32}), "t"
    )
    assert "__shfl_sync(0xffffffffu, t, j)" in cuda(knl)
    a, c = numbers(3), numbers(32)
    check(knl, {"a": a, "c": c}, {"o": a @ c})


def test_what_recurs_is_exchanged_once() -> None:
    knl = pl.exchange_by_shuffle(rows("t[31 - x]*t[31 - x] + t[5] + t[x]"), "t")
    text = cuda(knl)
    assert "const float t_other = __shfl_sync(0xffffffffu, t, 31 - tx);" in text
    assert "t_other * t_other + __shfl_sync(0xffffffffu, t, 5) + t;" in text
    a = numbers(3)
    check(knl, {"a": a}, {"o": a[:, ::-1] ** 2 + a[:, 5:6] + a})


def test_what_a_loop_does_not_change_is_exchanged_ahead_of_it() -> None:
    knl = rows("sum(j, (t[j] + t[7]) * c[j, x])", domain=ROWS.replace("x", "x, j"))
    knl = pl.exchange_by_shuffle(pl.add_dtypes(knl, {"c": np.float32}), "t")
    text = cuda(knl)
    assert text.index("const float t_7 = __shfl_sync(0xffffffffu, t, 7);") < text.index("for (int j = 0")
    assert text.count("__shfl_sync") == 2
    a, c = numbers(3), numbers(32)
    check(knl, {"a": a, "c": c}, {"o": (a[:, :, None] + a[:, None, 7:8].swapaxes(1, 2)).transpose(0, 2, 1)[:, 0] @ c})


def test_what_changes_is_exchanged_again() -> None:
    knl = pl.make_kernel(
        "{[b, x0, k, x, y, z]: 0 <= b < n and 0 <= x0, x, y, z < 32 and 0 <= k < 3}",
        """
        for b
            t[x0] = a[b, x0]
            for k
                o[b, x] = o[b, x] + t[3]*t[3]
                t[y] = 2*t[y]
            end
            o[b, z] = o[b, z] + t[3]
        end
        """,
        [pl.GlobalArg("a, o", np.float32, shape="n, 32"), pl.TemporaryVariable("t", np.float32, shape=(32,)), ...],
        name="again",
    )  # fmt: skip
    knl = pl.exchange_by_shuffle(pl.tag_inames(knl, "b:g.0, x0:l.0, x:l.0, y:l.0, z:l.0"), "t")
    text = cuda(knl)
    assert text.count("__shfl_sync") == 2
    assert text.index("for (int k") < text.index("const float t_3 = __shfl_sync(0xffffffffu, t, 3);")
    a = numbers(2)
    third = a[:, 3:4]
    want = np.broadcast_to(third**2 + (2 * third) ** 2 + (4 * third) ** 2 + 8 * third, a.shape)
    check(knl, {"a": a, "o": np.zeros_like(a)}, {"o": np.ascontiguousarray(want)})


def steps(count: str = "m") -> pl.LoopKernel:
    """Return a kernel that turns each row by one place in every step, through two temporaries."""
    knl = pl.make_kernel(
        f"{{[b, x0, k, x, y, z]: 0 <= b < n and 0 <= x0, x, y, z < 32 and 0 <= k < {count}}}",
        """
        for b
            t[x0] = a[b, x0]
            for k
                u[x] = t[(x + 1) % 32] + k
                t[y] = u[31 - y]
            end
            o[b, z] = t[z]
        end
        """,
        [pl.GlobalArg("a", np.float32, shape="n, 32"), pl.GlobalArg("o", np.float32, shape="n, 32"),
         pl.TemporaryVariable("t", np.float32, shape=(32,)), pl.TemporaryVariable("u", np.float32, shape=(32,)), ...],
        name="steps",
    )  # fmt: skip
    return pl.tag_inames(knl, "b:g.0, x0:l.0, x:l.0, y:l.0, z:l.0")


def test_steps_of_a_loop(golden: Golden) -> None:
    knl = pl.exchange_by_shuffle(pl.exchange_by_shuffle(steps(), "t"), "u")
    golden("golden/exchange_in_a_loop.cu", cuda(knl))
    for n, m in ((1, 0), (1, 1), (2, 2), (2, 5)):
        a = numbers(n)
        want = a
        for k in range(m):
            want = (np.roll(want, -1, axis=1) + np.float32(k))[:, ::-1]
        check(knl, {"a": a, "m": m}, {"o": np.ascontiguousarray(want)})


def warps(read: str, shape: tuple[int, ...] = (4, 32)) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[b, w, lane, v, x]: 0 <= b < n and 0 <= w, v < 4 and 0 <= lane, x < 32}",
        f"t[w, lane] = a[b, w, lane]\no[b, v, x] = {read}",
        [pl.GlobalArg("a", np.float32, shape="n, 4, 32"), pl.GlobalArg("o", np.float32, shape="n, 4, 32"),
         pl.TemporaryVariable("t", np.float32, shape=shape), ...],
        name="warps",
    )  # fmt: skip
    return pl.tag_inames(knl, "b:g.0, w:w, lane:lane, v:w, x:lane")


def test_each_warp_by_itself() -> None:
    knl = pl.exchange_by_shuffle(warps("t[v, 31 - x]"), "t")
    code = cuda(knl)
    assert "__shared__" not in code
    assert "__sync" not in code
    a = numbers(8).reshape(2, 4, 32)
    check(knl, {"a": a}, {"o": np.ascontiguousarray(a[:, :, ::-1])})
    text = refused(warps("t[3 - v, x]"), lambda k: pl.exchange_by_shuffle(k, "t"), "bad-exchange")
    assert "not known to be in its warp" in text


def parts(lanes: int, rows: str = "3", order: str = "y:l.1", guard: str = "") -> pl.LoopKernel:
    """Return a kernel in which groups of lanes, several in a warp, turn rows around."""
    knl = pl.make_kernel(
        f"{{[g, y, z, x]: 0 <= g < n and 0 <= y < {rows} and 0 <= z < 2 and 0 <= x < {lanes}}}",
        f"""
        for g
            for y, z, x
                <> t[y, z, x] = a[g, y, z, x]
            end
            for y, z, x
                b[g, y, z, x] = t[y, z, {lanes - 1} - x] + t[y, z, 1]   {{{guard}}}
            end
        end
        """,
        [pl.GlobalArg("a, b", np.float32, shape=f"n, {rows}, 2, {lanes}"), ...],
        name="parts",
    )
    return pl.exchange_by_shuffle(pl.tag_inames(knl, f"g:g.0, x:l.0, {order}"), "t")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("lanes", "rows", "order", "mask"),
    [
        (8, "3", "y:l.1, z:l.2", "0xffu << 8 * ((3 * tz + ty) % 4)"),
        (16, "3", "y:l.1, z:l.2", "0xffffu << 16 * ((3 * tz + ty) % 2)"),
        (4, "2", "y:l.2, z:l.1", "0xfu << 4 * (2 * tz + ty)"),
        (2, "5", "y:l.1, z:l.2", "0x3u << 2 * (5 * tz + ty)"),
        (32, "2", "y:l.1, z:l.2", "0xffffffffu"),
    ],
)
def test_parts_of_a_warp(lanes: int, rows: str, order: str, mask: str) -> None:
    knl = parts(lanes, rows, order)
    width = f", {lanes}" if lanes < 32 else ""
    assert f"__shfl_sync({mask}, t, {lanes - 1} - tx{width})" in cuda(knl)
    assert "__shared__" not in cuda(knl)
    for n in (1, 2):
        a = np.random.default_rng(n).integers(-9, 9, (n, int(rows), 2, lanes)).astype(np.float32)
        check(knl, {"a": a}, {"b": a[..., ::-1] + a[..., 1:2]})
    if lanes < 32:
        assert f"all {lanes} lanes of a part of a warp read" in str(pl.verify(knl))


def test_a_condition_that_is_one_for_all_lanes_of_a_part() -> None:
    knl = parts(8, "3", "y:l.1, z:l.2", "if=y < g")
    assert "if (ty < bx)" in cuda(knl)
    a = np.random.default_rng(1).integers(-9, 9, (4, 3, 2, 8)).astype(np.float32)
    want = a[..., ::-1] + a[..., 1:2]
    for g in range(4):
        want[g, g:] = 0
    check(knl, {"a": a, "b": np.zeros_like(a)}, {"b": want})


def test_groups_that_share_their_elements() -> None:
    knl = pl.make_kernel(
        "{[g, y, x]: 0 <= g < n and 0 <= y < 4 and 0 <= x < 8}",
        "t[x] = a[g, x]\nb[g, y, x] = t[7 - x]",
        [pl.GlobalArg("a", np.float32, shape="n, 8"), pl.GlobalArg("b", np.float32, shape="n, 4, 8"),
         pl.TemporaryVariable("t", np.float32, shape=(8,)), ...],
        name="shared",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "g:g.0, y:l.1, x:l.0")
    assert "of different groups of 8" in refused(knl, lambda k: pl.exchange_by_shuffle(k, "t"), "bad-exchange")


def test_a_guard_that_all_lanes_pass_or_none() -> None:
    knl = pl.make_kernel(
        "{[g, x, y]: 0 <= g < m and 0 <= x, y < 32}",
        """
        for g
            t[x] = a[32*g + x]                  {if=32*g + x < n}
            b[32*g + y] = t[31 - y]             {if=32*g + y < n}
            c[32*g + y] = a[32*g + y]
        end
        """,
        [pl.GlobalArg("a, b, c", np.float32, shape="32*m"), pl.ValueArg("n", np.int32),
         pl.TemporaryVariable("t", np.float32, shape=(32,)), ...],
        name="whole",
        assumptions="n mod 32 = 0 and 0 <= n <= 32*m",
    )
    knl = pl.exchange_by_shuffle(pl.tag_inames(knl, "g:g.0, x:l.0, y:l.0"), "t")
    assert "if (32 * bx + 31 < n)" in cuda(knl)
    a = np.arange(96, dtype=np.float32)
    for n in (0, 32, 64, 96):
        want = np.where(np.arange(96) < n, a.reshape(3, 32)[:, ::-1].ravel(), np.float32(0))
        check(knl, {"a": a, "b": np.zeros_like(a), "n": n}, {"b": want})


def test_a_lane_reads_its_own_element_under_any_condition() -> None:
    knl = pl.exchange_by_shuffle(rows("t[31 - x] + (t[x] if x < 7 else 0)"), "t")
    a = numbers(2)
    check(knl, {"a": a}, {"o": a[:, ::-1] + np.where(np.arange(32) < 7, a, np.float32(0))})


def test_a_value_taken_outside_of_the_condition() -> None:
    knl = pl.make_kernel(
        "{[b, lane, x]: 0 <= b < n and 0 <= lane, x < 32}",
        """
        t[lane] = a[b, lane]
        <float32> r = t[31 - x]
        o[b, x] = r if x < 7 else 0
        """,
        [pl.GlobalArg("a", np.float32, shape="n, 32"), pl.GlobalArg("o", np.float32, shape="n, 32"),
         pl.TemporaryVariable("t", np.float32, shape=(32,)), ...],
        name="outside",
    )  # fmt: skip
    knl = pl.exchange_by_shuffle(pl.tag_inames(knl, "b:g.0, lane:l.0, x:l.0"), "t")
    a = numbers(2)
    check(knl, {"a": a}, {"o": np.where(np.arange(32) < 7, a[:, ::-1], np.float32(0))})


PARTLY = "{[b, lane, x]: 0 <= b < n and 0 <= lane < 32 and 0 <= x < 31}"
SIZED = "{[b, lane, x]: 0 <= b < n and 0 <= lane < 32 and 0 <= x < min(m, 32)}"


@pytest.mark.parametrize(
    ("knl", "says"),
    [
        (rows("t[31 - x] if x < 7 else 0"), "'use' reads 't' under a condition"),
        (rows("t[31 - x] if a[b, x] > 0 else 0"), "'use' reads 't' under a condition"),
        (rows("t[x + 1]", domain=PARTLY), "'use' reads 't' on some lanes of a warp only"),
        (rows("t[31 - x]", domain=SIZED), "'use' reads 't' on some lanes of a warp only"),
        (rows("t[31 - x]", dtype=np.float16), "its type is float16"),
        (rows("t[11 - x]", domain=ROWS.replace("32", "12")), "axis 'l.0' is 12 threads long"),
        (rows("t[31 - x]", "b:g.0, lane:l.1, x:l.1"), "axis 'l.0' is"),
        (rows("t[31 - x]", "b:g.0"), "it is private"),
    ],
)  # fmt: skip
def test_what_cannot_be_exchanged(knl: pl.LoopKernel, says: str) -> None:
    assert says in refused(knl, lambda k: pl.exchange_by_shuffle(k, "t"), "bad-exchange")


def test_an_element_that_another_thread_writes() -> None:
    knl = pl.make_kernel(
        ROWS, "t[31 - lane] = a[b, lane]\no[b, x] = t[x]",
        [pl.GlobalArg("a", np.float32, shape="n, 32"), pl.GlobalArg("o", np.float32, shape="n, 32"),
         pl.TemporaryVariable("t", np.float32, shape=(32,)), ...],
    )  # fmt: skip
    knl = pl.tag_inames(knl, "b:g.0, lane:l.0, x:l.0")
    assert "not the lane itself" in refused(knl, lambda k: pl.exchange_by_shuffle(k, "t"), "bad-exchange")


def test_what_comes_after_is_checked_too() -> None:
    refused(rows("t[31 - x]"), lambda k: pl.exchange_by_shuffle(k, "s"), "unknown-temporary")
    base = rows("t[x + 1]", domain=PARTLY)
    shuffled = replace(base.temporaries["t"], is_shuffled=True)
    text = refused(replace(base, temporaries={"t": shuffled}), cuda, "bad-exchange", pl.VerificationError)
    assert "on some lanes of a warp only" in text


def test_no_shuffle_stands_where_lanes_are_missing() -> None:
    storage = Storage("t", np.dtype("float32"), (), AddressSpace.PRIVATE, lane=Lane(0, ()))
    scope: Any = SimpleNamespace(memory=Memory(storage={"t": storage}), values={"l.0": "tx"}, language=CUDA_LANGUAGE)
    scope.indices, scope.definitions = Indices(), SimpleNamespace(foreign_functions={}, helper_names={})
    scope.error = lambda problem: CodegenError("generate_code", "k", [problem])
    shuffle = Assign(parsed("r"), "=", parsed("__shfl_sync(0xffffffffu, t, 3)"), "use")
    zero, left = parsed("0"), parsed("k < n")
    refuse_divergent((If(parsed("bx < n"), (shuffle,)), For("int", "k", zero, left, (shuffle,))), scope)
    for block in (
        If(parsed("tx < n"), (shuffle,)), If(parsed("bx < n"), (If(parsed("k < n - tx"), (shuffle,)),)),
        For("int", "k", parsed("tx"), left, (shuffle,)), If(parsed("r > 0.0f", {"r"}), (), (shuffle,)),
    ):  # fmt: skip
        with pytest.raises(CodegenError, match="divergent-exchange"):
            refuse_divergent((block,), scope)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_compiler_takes_it(arch: str) -> None:
    for dtype in (np.float32, np.int64, np.uint64, np.float64, np.uint32):
        compile_cuda(cuda(pl.exchange_by_shuffle(rows("t[31 - x] + t[5]", dtype=dtype), "t")), arch)
    compile_cuda(cuda(pl.exchange_by_shuffle(steps(), "u")), arch)
