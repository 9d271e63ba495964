"""Programs that tests divide, each with its inputs, and the comparison with the undivided kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import polyloop as pl

D = np.float64

_KERNELS: dict[str, pl.LoopKernel] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A kernel, its division, sizes, and what fills its arrays."""

    kernel: pl.LoopKernel
    arrays: Mapping[str, str]
    over: str
    sizes: Mapping[str, int]
    scalars: Mapping[str, Any] = field(default_factory=dict)
    hosts: str = ""
    fill: Callable[[np.random.Generator, str, tuple[int, ...], Any], Any] | None = None
    rows: tuple[str, Callable[..., tuple[dict[str, Any], dict[str, Any]]]] | None = None

    def __post_init__(self) -> None:  # of equal kernels one, which is divided and compiled once
        object.__setattr__(self, "kernel", _KERNELS.setdefault(self.kernel.fingerprint, self.kernel))

    def __repr__(self) -> str:  # the same in all processes that collect tests
        return f"{self.kernel.name} {', '.join(f'{name}={size}' for name, size in self.sizes.items())}"

    def divided(self, mesh: tuple[int, ...], **options: Any) -> pl.DistributedKernel:
        return pl.distribute(self.kernel, self.arrays, self.over, mesh=mesh, hosts=self.hosts, **options)

    def with_sizes(self, **sizes: int) -> Case:
        return Case(self.kernel, self.arrays, self.over, {**self.sizes, **sizes}, self.scalars, self.hosts, self.fill,
                    self.rows)

    def inputs(self) -> dict[str, Any]:
        rng = np.random.default_rng(7)
        found: dict[str, Any] = {}
        for entry in self.kernel.arguments:
            if entry.name in self.sizes or entry.name in self.scalars or not hasattr(entry, "shape"):
                continue
            shape = tuple(int(eval(str(extent), {}, dict(self.sizes))) for extent in entry.shape or ())
            assert entry.dtype is not None
            made = self.fill(rng, entry.name, shape, entry.dtype) if self.fill else None
            found[entry.name] = rng.random(shape).astype(entry.dtype) if made is None else made
        return found

    def expected(self) -> dict[str, Any]:
        arrays = {name: value.copy() for name, value in self.inputs().items()}
        undivided(self.kernel)(**arrays, **self.sizes, **self.scalars)
        return arrays

    def on_rank(self, run: pl.RankProgram, convert: Callable[[Any], Any] = lambda array: array) -> dict[str, Any]:
        """Return what the program leaves in whole arrays, run on this rank, with arrays of another library."""
        given, sizes = self.inputs(), dict(self.sizes)
        if self.rows is not None:
            array, own = self.rows
            given, local = own(given, *run.box(array, **sizes)[0])
            sizes["nnz"] = len(next(iter(local.values())))
        parts = {name: run.scatter(name, convert(value), **sizes) for name, value in given.items()}
        mine = {} if self.rows is None else {name: convert(value) for name, value in local.items()}
        run(**parts, **mine, **sizes, **self.scalars)
        return {name: run.gather(name, part, **sizes) for name, part in parts.items() if name not in _LOCAL}


_LOCAL = frozenset(("first", "last"))
"""Arrays in blocks whose values are indices of a rank's own arrays."""


@cache
def undivided(kernel: pl.LoopKernel) -> pl.CompiledKernel:
    return pl.compile(kernel, target=pl.CTarget())


def heat(**sizes: int) -> Case:
    kernel = pl.make_kernel(
        "{[t, i, j, k]: 0 <= t < steps and 1 <= i, j, k < n - 1}",
        """
        for t
            for i, j, k
                v[i, j, k] = u[i, j, k] + c*(u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                                             + u[i, j, k - 1] + u[i, j, k + 1] - 6*u[i, j, k])
            end
            for i, j, k
                u[i, j, k] = v[i, j, k]
            end
        end
        """,
        [pl.GlobalArg("u, v", D, shape="n, n, n"), pl.ValueArg("c", D), ...], name="heat",
        assumptions="n >= 3 and steps >= 0")
    return Case(kernel, {"u": "block, block, *", "v": "block, block, *"}, "i:mesh.0, j:mesh.1",
                {"n": 9, "steps": 3, **sizes}, {"c": 0.1})


def heat_1d_mesh(**sizes: int) -> Case:
    whole = heat(**sizes)
    return Case(whole.kernel, {"u": "block, *, *", "v": "block, *, *"}, "i:mesh.0", whole.sizes, whole.scalars)


def history(**sizes: int) -> Case:
    """A wave in time, all steps of which are kept: an exchange has elements of one step alone."""
    kernel = pl.make_kernel(
        "{[t, i]: 1 <= t < steps and 2 <= i < n - 2}",
        "u[t + 1, i] = 2*u[t, i] - u[t - 1, i] + c*(u[t, i - 2] - 2*u[t, i] + u[t, i + 2])",
        [pl.GlobalArg("u", D, shape="steps + 1, n"), pl.ValueArg("c", D), ...], name="wave",
        assumptions="n >= 4 and steps >= 1")
    return Case(kernel, {"u": "*, block"}, "i:mesh.0", {"n": 13, "steps": 5, **sizes}, {"c": 0.2})


def product(**sizes: int) -> Case:
    kernel = pl.make_kernel(
        "{[i, j, panel, k]: 0 <= i < m and 0 <= j < n and 0 <= 8*panel < l and 0 <= k < 8 and 8*panel + k < l}",
        """
        for i, j
            c[i, j] = 0
        end
        for panel, i, j
            c[i, j] = c[i, j] + sum(k, a[i, 8*panel + k]*b[8*panel + k, j])
        end
        """,
        [pl.GlobalArg("a", D, shape="m, l"), pl.GlobalArg("b", D, shape="l, n"), pl.GlobalArg("c", D, shape="m, n"),
         ...], name="product", assumptions="m >= 1 and n >= 1 and l >= 1")
    blocks = dict.fromkeys("abc", "block, block")
    return Case(kernel, blocks, "i:mesh.0, j:mesh.1", {"m": 10, "n": 7, "l": 21, **sizes}, {}, "panel")


def layer_norm(**sizes: int) -> Case:
    kernel = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        """
        mean[i] = sum(j, x[i, j])/n
        var[i] = sum(j, (x[i, j] - mean[i])**2)/n
        y[i, j] = (x[i, j] - mean[i])/sqrt(var[i] + 1e-5)
        """,
        [pl.GlobalArg("x, y", D, shape="m, n"), pl.GlobalArg("mean, var", D, shape="m"), ...], name="norm",
        assumptions="m >= 1 and n >= 1")
    return Case(kernel, {"x": "*, block", "y": "*, block"}, "j:mesh.0", {"m": 5, "n": 11, **sizes})


def histogram(**sizes: int) -> Case:
    kernel = pl.make_kernel(
        "{[p]: 0 <= p < n}", "h[cell[p]] = h[cell[p]] + w[p]",
        [pl.GlobalArg("h", D, shape="m"), pl.GlobalArg("cell", np.int32, shape="n"), pl.GlobalArg("w", D, shape="n"),
         ...], name="histogram", assumptions="n >= 1 and m >= 1")

    def fill(rng: np.random.Generator, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        return rng.integers(0, 6, shape).astype(dtype) if name == "cell" else None

    return Case(kernel, {"cell": "block", "w": "block"}, "p:mesh.0", {"n": 23, "m": 6, **sizes}, {}, "", fill)


def columns(**sizes: int) -> Case:
    """A product with a matrix in blocks of columns: each rank has terms of all rows, and needs its block of sums."""
    kernel = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}", "y[i] = 2*sum(k, a[i, k]*x[k]) + y[i]",
        [pl.GlobalArg("a", D, shape="m, n"), pl.GlobalArg("x", D, shape="n"), pl.GlobalArg("y", D, shape="m"), ...],
        name="columns", assumptions="m >= 1 and n >= 1")
    return Case(kernel, {"a": "*, block", "x": "block", "y": "block"}, "i:mesh.0, k:mesh.0",
                {"m": 11, "n": 13, **sizes})


def cells(**sizes: int) -> Case:
    """Particles of a rank in cells of any rank, and what neighbouring cells have."""
    kernel = pl.make_kernel(
        "{[p, i]: 0 <= p < n and 1 <= i < m - 1}",
        """
        for p
            h[cell[p]] = h[cell[p]] + w[p]
        end
        for i
            g[i] = h[i - 1] - h[i + 1]
        end
        """,
        [pl.GlobalArg("h, g", D, shape="m"), pl.GlobalArg("cell", np.int32, shape="n"),
         pl.GlobalArg("w", D, shape="n"), ...], name="cells", assumptions="n >= 1 and m >= 3")
    m = {"m": 10, **sizes}["m"]

    def fill(rng: np.random.Generator, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        return rng.integers(0, m, shape).astype(dtype) if name == "cell" else None

    return Case(kernel, dict.fromkeys(("h", "g", "cell", "w"), "block"), "p:mesh.0, i:mesh.0",
                {"n": 23, "m": 10, **sizes}, {}, "", fill)


_GRADIENTS = """
for i
    r[i] = b[i]
    p[i] = b[i]
    x[i] = 0
end
rr[0] = sum(j, b[j]*b[j])
for it
    for i
        PRODUCT
    end
    alpha[0] = rr[0]/sum(j, p[j]*q[j])
    for i
        x[i] = x[i] + alpha[0]*p[i]
        r[i] = r[i] - alpha[0]*q[i]
    end
    rnew[0] = sum(j, r[j]*r[j])
    for i
        p[i] = r[i] + rnew[0]/rr[0]*p[i]
    end
    rr[0] = rnew[0]
end
"""
"""Conjugate gradients; PRODUCT sets ``q[i]``, a row of the matrix times p."""


def conjugate_gradients(**sizes: int) -> Case:
    """Conjugate gradients for a tridiagonal matrix: a halo and two sums in each iteration."""
    kernel = pl.make_kernel(
        "{[it, i, j]: 0 <= it < most and 0 <= i, j < n}",
        _GRADIENTS.replace("PRODUCT", "q[i] = 2.5*p[i] - if(i > 0, p[i - 1], 0.0) - if(i < n - 1, p[i + 1], 0.0)"),
        [pl.GlobalArg("x, b, r, p, q", D, shape="n"), pl.GlobalArg("rr, alpha, rnew", D, shape="1"), ...], name="cg",
        assumptions="n >= 1 and most >= 0")
    blocks = dict.fromkeys(("x", "b", "r", "p", "q"), "block")
    return Case(kernel, blocks, "i:mesh.0, j:mesh.0", {"n": 17, "most": 6, **sizes})


def sparse(**sizes: int) -> Case:
    """Powers of a sparse matrix with as many elements in each row: data says which elements of x are read."""
    kernel = pl.make_kernel(
        "{[it, i, k]: 0 <= it < most and 0 <= i < n and 0 <= k < w}",
        """
        for it
            for i
                y[i] = sum(k, val[i, k]*x[col[i, k]])
            end
            for i
                x[i] = y[i]
            end
        end
        """,
        [pl.GlobalArg("x, y", D, shape="n"), pl.GlobalArg("val", D, shape="n, w"),
         pl.GlobalArg("col", np.int32, shape="n, w"), ...], name="sparse",
        assumptions="n >= 1 and w >= 1 and most >= 0")
    n = {"n": 14, **sizes}["n"]

    def fill(rng: np.random.Generator, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        return rng.integers(0, n, shape).astype(dtype) if name == "col" else None

    blocks = {"x": "block", "y": "block", "val": "block, *", "col": "block, *"}
    return Case(kernel, blocks, "i:mesh.0", {"n": 14, "w": 3, "most": 4, **sizes}, {}, "", fill)


def sparse_gradients(**sizes: int) -> Case:
    """Conjugate gradients for a matrix by rows: each rank has its rows, and data says which elements of p they read."""
    n = {"n": 19, **sizes}["n"]
    rng = np.random.default_rng(3)
    matrix = np.where(rng.random((n, n)) < 0.2, rng.random((n, n)), 0)
    matrix = matrix + matrix.T + n*np.eye(n)
    kernel = pl.make_kernel(
        ["{[it, i, j]: 0 <= it < most and 0 <= i, j < n}", "{[e]: begin <= e < stop}"],
        _GRADIENTS.replace("PRODUCT", "<> begin = first[i]\n<> stop = last[i]\nq[i] = sum(e, val[e]*p[col[e]])"),
        [pl.GlobalArg("x, b, r, p, q", D, shape="n"), pl.GlobalArg("rr, alpha, rnew", D, shape="1"),
         pl.GlobalArg("val", D, shape="nnz"), pl.GlobalArg("col", np.int32, shape="nnz"),
         pl.GlobalArg("first, last", np.int32, shape="n"), ...], name="csr", assumptions="n >= 1 and most >= 0")
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype(np.int32)
    known = {"val": matrix[matrix != 0], "col": np.nonzero(matrix)[1].astype(np.int32),
             "first": starts[:-1], "last": starts[1:]}

    def fill(rng: np.random.Generator, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        del rng, shape, dtype
        return known.get(name)

    def rows(given: dict[str, Any], low: int, high: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays in blocks, and the rank's own elements of the matrix."""
        begin = starts[low]
        local = {name: given[name][begin : starts[high]].copy() for name in ("val", "col")}
        rest = {name: value - begin if name in _LOCAL else value for name, value in given.items() if name not in local}
        return rest, local

    blocks = dict.fromkeys(("x", "b", "r", "p", "q", "first", "last"), "block")
    return Case(kernel, {**blocks, "val": "local", "col": "local"}, "i:mesh.0, j:mesh.0",
                {"n": n, "most": 5, "nnz": int(starts[-1]), **sizes}, {}, "", fill, ("x", rows))


def attention(**sizes: int) -> Case:
    """Attention over a divided sequence: blocks of keys and values come one after the other, as on a ring."""
    kernel = pl.make_kernel(
        "{[i, d, e, panel, j]: 0 <= i < n and 0 <= d, e < w and 0 <= 4*panel < n and 0 <= j < 4 and 4*panel + j < n}",
        """
        for i
            m[i] = -1e30
            l[i] = 0
            for d
                o[i, d] = 0
            end
        end
        for panel
            for i
                for j
                    s[i, j] = sum(e, q[i, e]*k[4*panel + j, e])
                end
                top[i] = max(j, s[i, j])
                top[i] = if(top[i] > m[i], top[i], m[i])
                c[i] = exp(m[i] - top[i])
                l[i] = l[i]*c[i] + sum(j, exp(s[i, j] - top[i]))
                for d
                    o[i, d] = o[i, d]*c[i] + sum(j, exp(s[i, j] - top[i])*v[4*panel + j, d])
                end
                m[i] = top[i]
            end
        end
        for i, d
            o[i, d] = o[i, d]/l[i]
        end
        """,
        [pl.GlobalArg("q, k, v, o", D, shape="n, w"), pl.GlobalArg("s", D, shape="n, 4"),
         pl.GlobalArg("m, l, top, c", D, shape="n"), ...], name="attention", assumptions="n >= 1 and w >= 1",
        silenced_warnings="*")
    rows = dict.fromkeys(("q", "k", "v", "o", "s"), "block, *")
    return Case(kernel, {**rows, **dict.fromkeys(("m", "l", "top", "c"), "block")}, "i:mesh.0",
                {"n": 14, "w": 3, **sizes}, {}, "panel")


def boundaries(**sizes: int) -> Case:
    """Statements on single elements run where their owner is."""
    kernel = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 1 <= i < n - 1}",
        """
        for t
            u[0] = u[n - 1] + 1 {id=first}
            for i
                v[i] = u[i - 1] + u[i + 1]
            end
            for i
                u[i] = 0.5*v[i]
            end
            u[n - 1] = u[1] {id=last}
        end
        """,
        [pl.GlobalArg("u, v", D, shape="n"), ...], name="edges", assumptions="n >= 3 and steps >= 0")
    return Case(kernel, {"u": "block", "v": "block"}, "i:mesh.0", {"n": 11, "steps": 4, **sizes})


def norms(**sizes: int) -> Case:
    """Sums and maxima along one axis of a mesh, of rows that the other one divides, and over both."""
    kernel = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        """
        mean[i] = sum(j, x[i, j])/n
        top[i] = max(j, x[i, j])
        y[i, j] = (x[i, j] - mean[i])/top[i]
        s[0] = sum([i, j], y[i, j]**2)
        """,
        [pl.GlobalArg("x, y", D, shape="m, n"), pl.GlobalArg("mean, top", D, shape="m"),
         pl.GlobalArg("s", D, shape="1"), ...], name="norms", assumptions="m >= 1 and n >= 1")
    arrays = {"x": "block, block", "y": "block, block", "mean": "block", "top": "block"}
    return Case(kernel, arrays, "i:mesh.0, j:mesh.1", {"m": 7, "n": 9, **sizes})


def extremes(**sizes: int) -> Case:
    """Updates by max and min of arrays that are whole on each rank."""
    kernel = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        top[0] = max(top[0], x[i])
        low[k[i]] = min(low[k[i]], x[i])
        """,
        [pl.GlobalArg("x", D, shape="n"), pl.GlobalArg("k", np.int32, shape="n"), pl.GlobalArg("top", D, shape="1"),
         pl.GlobalArg("low", D, shape="q"), ...], name="extremes", assumptions="q >= 1 and n >= 1")

    def fill(rng: np.random.Generator, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        return rng.integers(0, 4, shape).astype(dtype) if name == "k" else None

    return Case(kernel, {"x": "block", "k": "block"}, "i:mesh.0", {"n": 9, "q": 4, **sizes}, {}, "", fill)


def transpose(**sizes: int) -> Case:
    kernel = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i, j] = x[j, i]",
        [pl.GlobalArg("y", D, shape="n, m"), pl.GlobalArg("x", D, shape="m, n"), ...], name="turn",
        assumptions="n >= 1 and m >= 1")
    return Case(kernel, {"x": "block, *", "y": "block, *"}, "i:mesh.0", {"n": 9, "m": 7, **sizes})


def two_grids(**sizes: int) -> Case:
    """A cycle of a multigrid method: coarse coordinates are on other ranks than the fine ones under them."""
    kernel = pl.make_kernel(
        ["{[i]: 1 <= i < n - 1}", "{[a]: 1 <= a < q - 1}", "{[it, b, d]: 0 <= it < 3 and 1 <= b, d < q - 1}",
         "{[k]: 1 <= k < n - 1}"],
        """
        for i
            r[i] = f[i] - 2*u[i] + u[i - 1] + u[i + 1]
        end
        for a
            g[a] = 0.25*r[2*a - 1] + 0.5*r[2*a] + 0.25*r[2*a + 1]
        end
        for it
            for b
                h[b] = 0.5*(e[b - 1] + e[b + 1] + 4*g[b])
            end
            for d
                e[d] = h[d]
            end
        end
        for k
            u[k] = u[k] + if(k % 2 == 0, e[k // 2], 0.5*(e[k // 2] + e[k // 2 + 1]))
        end
        """,
        [pl.GlobalArg("u, f, r", D, shape="n"), pl.GlobalArg("g, h, e", D, shape="q"), ...], name="grids",
        assumptions="q >= 3 and n = 2*q - 1", silenced_warnings="*")
    over = ", ".join(f"{iname}:mesh.0" for iname in "iabdk")
    return Case(kernel, dict.fromkeys("ufrghe", "block"), over, {"n": 17, "q": 9, **sizes})


def sorting(**sizes: int) -> Case:
    """Neighbours are compared and exchanged, even and odd ones in turn."""
    kernel = pl.make_kernel(
        "{[t, i, k]: 0 <= t < n and 0 <= i, k < n}",
        """
        for t
            for i
                b[i] = if((i + t) % 2 == 0, if(i + 1 < n, min(a[i], a[i + 1]), a[i]),
                          if(i >= 1, max(a[i - 1], a[i]), a[i]))
            end
            for k
                a[k] = b[k]
            end
        end
        """,
        [pl.GlobalArg("a, b", D, shape="n"), ...], name="sorting", assumptions="n >= 1", silenced_warnings="*")
    return Case(kernel, dict.fromkeys("ab", "block"), "i:mesh.0, k:mesh.0", {"n": 11, **sizes})


def odd(**sizes: int) -> Case:
    """Every other element: blocks begin and end between the coordinates that are computed."""
    kernel = pl.make_kernel(
        "{[i]: 0 <= i and 2*i + 1 < n}", "y[2*i + 1] = x[2*i] + x[2*i + 1]", [pl.GlobalArg("x, y", D, shape="n"), ...],
        name="odd", assumptions="n >= 1")
    return Case(kernel, {"x": "block", "y": "block"}, "i:mesh.0", {"n": 9, **sizes})


def compare(case: Case, mesh: tuple[int, ...], *, exact: bool = True, **options: Any) -> list[int]:
    """Run a case on ranks that are threads, compare it with the undivided kernel, and return the bytes sent."""
    divided = case.divided(mesh, **options)

    def program(engine: pl.Engine) -> tuple[dict[str, Any], int]:
        run = divided.compile(engine, pl.CTarget())
        return case.on_rank(run), run.sent

    found = pl.run_ranks(int(np.prod(mesh)), program, timeout=60)
    expected = case.expected()
    for arrays, _ in found:
        for name, value in arrays.items():
            if exact:
                np.testing.assert_array_equal(value, expected[name], err_msg=name)
            else:
                np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)
    return [sent for _, sent in found]
