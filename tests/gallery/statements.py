"""Statement forms and options: several assignments, ``with``, ``dup``, barriers, ``nosync``, conditions, updates."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
LINE = "{[i]: 0 <= i < n}"


def _rotation_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.random((2, n), dtype=F)
    c, s = F(0.8), F(0.6)
    return {"x": x.copy(), "y": y.copy(), "c": c, "s": s}, {"x": c * x - s * y, "y": s * x + c * y}


@example(_rotation_case)
def givens_rotation() -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("c, s", F), ...]
    knl = pl.make_kernel(LINE, "x[i], y[i] = c*x[i] - s*y[i], s*x[i] + c*y[i]", data, name="givens_rotation")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _sorting_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(0, 99, (n, 8), dtype=np.int32)
    return {"a": a.copy()}, {"a": np.sort(a, axis=1)}


@example(_sorting_case)
def odd_even_sort_of_rows() -> pl.LoopKernel:
    text = """
    for row, step
        for j
            if (j + step) % 2 == 0
                if a[row, j] > a[row, j + 1]
                    a[row, j], a[row, j + 1] = a[row, j + 1], a[row, j]
                end
            end
        end
    end
    """
    domain = "{[row, step, j]: 0 <= row < n and 0 <= step < 8 and 0 <= j < 7}"
    knl = pl.make_kernel(domain, text, [pl.GlobalArg("a", np.int32, shape="n, 8"), ...], name="odd_even_sort_of_rows")
    return pl.split_iname(knl, "row", 32, outer_tag="g.0", inner_tag="l.0")


def _phases_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 9, n, dtype=np.int32)
    low, high = np.where(a > 0, a, 0), np.where(a > 0, 0, -a)
    empty = {"low": np.zeros(n, np.int32), "high": np.zeros(n, np.int32)}
    return {"a": a, **empty}, {"low": low, "high": high, "both": (low + high)[::-1]}


@example(_phases_case)
def phases_with_options() -> pl.LoopKernel:
    text = """
    with {id_prefix=fill, tags=first}
        if a[i] > 0
            low[i] = a[i]
            high[i] = 0
        else
            low[i] = 0
            high[i] = -a[i]
        end
    end
    ... nop {id=filled, dep=fill*}
    both[i] = low[n - 1 - i] + high[n - 1 - i] {dep=filled, dup=i:k}
    """
    data = [pl.GlobalArg("a, low, high, both", np.int32, shape="n"), ...]
    knl = pl.make_kernel(LINE, text, data, name="phases_with_options")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "k", 32, outer_tag="g.0", inner_tag="l.0")


def _reversal_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 16), dtype=F)
    return {"a": a.copy()}, {"a": a[:, ::-1]}


@example(_reversal_case)
def rows_reversed_in_place() -> pl.LoopKernel:
    text = """
    for row
        for i
            <> t = a[row, 15 - i]
            ... lbarrier
            a[row, i] = t
        end
    end
    """
    domain = "{[row, i]: 0 <= row < n and 0 <= i < 16}"
    knl = pl.make_kernel(domain, text, [pl.GlobalArg("a", F, shape="n, 16"), ...], name="rows_reversed_in_place")
    return pl.tag_inames(knl, "row:g.0, i:l.0")


def _scatter_case(n: int, rng: np.random.Generator) -> Case:
    to = rng.permutation(n).astype(np.int32)
    a = rng.random(n, dtype=F)
    out = np.empty(n, F)
    out[to] = a
    return {"a": a, "to": to, "out": np.zeros(n, F)}, {"out": out}


@example(_scatter_case)
def scatter_by_permutation() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, out", F, shape="n"), pl.GlobalArg("to", np.int32, shape="n"), ...]
    knl = pl.make_kernel(LINE, "out[to[i]] = a[i] {id=store, nosync=store}", data, name="scatter_by_permutation")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _chained_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-5, 9, n, dtype=np.int32)
    inside = (x > 0) & (x <= 3)
    return {"x": x}, {"y": np.where(inside, x, -1), "hits": np.where((x >= 0) & (x < 5) & (x + 3 >= 5), 1, 0)}


@example(_chained_case)
def chained_comparisons() -> pl.LoopKernel:
    text = """
    y[i] = -1
    if 0 < x[i] <= 3
        y[i] = x[i]
    end
    hits[i] = if(0 <= x[i] < 5 <= x[i] + 3, 1, 0)
    """
    data = [pl.GlobalArg("x, y, hits", np.int32, shape="n"), ...]
    knl = pl.make_kernel(LINE, text, data, name="chained_comparisons")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _updates_case(n: int, rng: np.random.Generator) -> Case:
    v = rng.integers(-50, 50, (10, n), dtype=np.int64)
    w = v.copy()
    w[0] += 3
    w[1] -= 3
    w[2] *= 3
    w[3] //= 3
    w[4] %= 3
    w[5] <<= 3
    w[6] >>= 3
    w[7] &= 3
    w[8] |= 3
    w[9] ^= 3
    f = rng.integers(1, 9, (2, n)).astype(np.float64)
    return {"v": v, "f": f.copy()}, {"v": w, "f": np.stack([f[0] / 4, f[1] ** 2])}


@example(_updates_case)
def every_update() -> pl.LoopKernel:
    operators = ["+=", "-=", "*=", "//=", "%=", "<<=", ">>=", "&=", "|=", "^="]
    lines = [f"v[{row}, i] {operator} 3" for row, operator in enumerate(operators)]
    lines += ["f[0, i] /= 4", "f[1, i] **= 2"]
    data = [pl.GlobalArg("v", np.int64, shape="10, n"), pl.GlobalArg("f", np.float64, shape="2, n"), ...]
    knl = pl.make_kernel(LINE, lines, data, name="every_update")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _nested_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 6, (n, n), dtype=np.int32)
    i, j = np.indices(a.shape)
    out = np.select([(i == j) & (a > 0), i == j, (i < j) & (a < 0), i < j], [1, 2, 3, 4], 5).astype(np.int32)
    return {"a": a}, {"out": out}


@example(_nested_case, sizes=(1, 7, 17))
def nested_conditions() -> pl.LoopKernel:
    text = """
    for i
        for j
            if i == j
                if a[i, j] > 0
                    out[i, j] = 1
                else
                    out[i, j] = 2
                end
            elif i < j
                if a[i, j] < 0
                    out[i, j] = 3
                else
                    out[i, j] = 4
                end
            else
                out[i, j] = 5
            end
        end
    end
    """
    data = [pl.GlobalArg("a, out", np.int32, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="nested_conditions")
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
