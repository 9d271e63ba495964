"""Neighbours, in steps of time, and recurrences along rows: bound by what the caches deliver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polyloop as pl
from benchmarks.polybench.program import LANES, D, Program, arguments, blocks, few_threads, in_fronts, square
from benchmarks.polybench.skewed import skewed

__all__ = ["STENCILS"]

_ASSUMED: Final = "n >= 3"
_STEPS: Final = 20


def _jacobi_1d() -> pl.LoopKernel:
    knl = pl.make_kernel(
        f"{{[t, i, j]: 0 <= t < {_STEPS} and 1 <= i, j < n - 1}}",
        """
        for t
            for i
                v[i] = 0.33333*(u[i - 1] + u[i] + u[i + 1])
            end
            for j
                u[j] = 0.33333*(v[j - 1] + v[j] + v[j + 1])
            end
        end
        """,
        arguments("", "u v"), name="jacobi_1d", assumptions=_ASSUMED)  # fmt: skip
    if few_threads():
        return in_fronts(knl, {"i": (2, 0), "j": (2, 1)}, steps=5, length=2048)
    return blocks(blocks(knl, "i", 8192), "j", 8192)


def _jacobi_2d() -> pl.LoopKernel:
    around = "0.2*({0}[{1}, {2}] + {0}[{1}, {2} - 1] + {0}[{1}, {2} + 1] + {0}[{1} + 1, {2}] + {0}[{1} - 1, {2}])"
    knl = pl.make_kernel(
        f"{{[t, i, j, r, s]: 0 <= t < {_STEPS} and 1 <= i, j, r, s < n - 1}}",
        f"""
        for t
            for i, j
                v[i, j] = {around.format("u", "i", "j")}
            end
            for r, s
                u[r, s] = {around.format("v", "r", "s")}
            end
        end
        """,
        arguments("u v"), name="jacobi_2d", assumptions=_ASSUMED)  # fmt: skip
    if few_threads():
        return in_fronts(knl, {"i": (2, 0), "r": (2, 1)}, steps=10, length=16)
    return blocks(blocks(knl, "i", 32), "r", 32)


def _second(of: str, *at: str) -> str:
    """Return the sum of second differences of an array along each axis, and the element itself."""
    terms = []
    for axis in range(len(at)):
        low, high = ((*at[:axis], f"{at[axis]} {sign} 1", *at[axis + 1 :]) for sign in "-+")
        terms.append(f"0.125*({of}[{', '.join(high)}] - 2.0*{of}[{', '.join(at)}] + {of}[{', '.join(low)}])")
    return " + ".join([*terms, f"{of}[{', '.join(at)}]"])


def _heat() -> pl.LoopKernel:
    knl = pl.make_kernel(
        f"{{[t, i, j, k, r, s, q]: 0 <= t < {_STEPS} and 1 <= i, j, k, r, s, q < n - 1}}",
        f"""
        for t
            for i, j, k
                v[i, j, k] = {_second("u", "i", "j", "k")}
            end
            for r, s, q
                u[r, s, q] = {_second("v", "r", "s", "q")}
            end
        end
        """,
        [pl.GlobalArg("u, v", D, shape="n, n, n"), ...], name="heat_3d", assumptions=_ASSUMED)  # fmt: skip
    return blocks(blocks(knl, "i", 4), "r", 4)


def _fdtd() -> pl.LoopKernel:
    knl = pl.make_kernel(
        [f"{{[t]: 0 <= t < {_STEPS}}}", "{[i, j]: 1 <= i < n and 0 <= j < n}", "{[r, s]: 0 <= r < n and 1 <= s < n}",
         "{[x, y]: 0 <= x, y < n - 1}", "{[z, e]: z = 0 and 0 <= e < n}"],
        """
        for t
            for z, e
                ey[z, e] = f[t]
            end
            for i, j
                ey[i, j] = ey[i, j] - 0.5*(hz[i, j] - hz[i - 1, j])
            end
            for r, s
                ex[r, s] = ex[r, s] - 0.5*(hz[r, s] - hz[r, s - 1])
            end
            for x, y
                hz[x, y] = hz[x, y] - 0.7*(ex[x, y + 1] - ex[x, y] + ey[x + 1, y] - ey[x, y])
            end
        end
        """,
        [pl.GlobalArg("ex, ey, hz", D, shape="n, n"), pl.GlobalArg("f", D, shape=_STEPS), ...],
        name="fdtd_2d", assumptions=_ASSUMED)  # fmt: skip
    if few_threads():
        return in_fronts(knl, {"z": (1, 0), "i": (1, 0), "r": (1, 0), "x": (1, 1)}, steps=10, length=16)
    knl = blocks(knl, "e", 4096)
    for iname in ("i", "r", "x"):
        knl = blocks(knl, iname, 32)
    return knl


def _recursive() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, r, s]: 0 <= i, j, r, s < n}",
        """
        for i
            <> low = 0.0 {id=first}
            for j
                low = 0.7*low + 0.3*u[i, j] {id=step}
                v[i, j] = low {id=keep}
            end
        end
        for s
            <> down = 0.0 {id=top}
            for r
                down = 0.7*down + 0.3*v[r, s] {id=fall}
                w[r, s] = down {id=store}
            end
        end
        """,
        arguments("u v w"), name="recursive", assumptions=_ASSUMED)  # fmt: skip
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="ilp")
    knl = pl.split_iname(knl, "s", 8*LANES, outer_tag="g.0")
    return pl.split_iname(knl, "s_inner", LANES, outer_tag="ilp", inner_tag="vec")


def _convolution() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j < n - 4 and 0 <= k, l < 5}",
        "v[i, j] = sum((k, l), m[k, l]*u[i + k, j + l])",
        [pl.GlobalArg("u, v", D, shape="n, n"), pl.GlobalArg("m", D, shape="5, 5"), ...],
        name="convolution", assumptions="n >= 6")  # fmt: skip
    knl = blocks(knl, "i", 16)
    knl = pl.split_iname(knl, "j", 2*LANES)
    knl = pl.split_iname(knl, "j_inner", LANES, outer_tag="ilp", inner_tag="vec")
    return pl.tag_inames(knl, "k:unr, l:unr")


def _fields(n: int) -> Mapping[str, tuple[int, ...]]:
    return {"ex": (n, n), "ey": (n, n), "hz": (n, n), "f": (_STEPS,)}


STENCILS: Final = (
    Program("jacobi_1d", _jacobi_1d, square("", "u v"), """
void jacobi_1d(double u[restrict N], double v[restrict N])
{
    #pragma omp parallel
    for (int t = 0; t < 20; ++t) {
        #pragma omp for simd schedule(static)
        for (int i = 1; i < N - 1; ++i)
            v[i] = 0.33333 * (u[i - 1] + u[i] + u[i + 1]);
        #pragma omp for simd schedule(static)
        for (int i = 1; i < N - 1; ++i)
            u[i] = 0.33333 * (v[i - 1] + v[i] + v[i + 1]);
    }
}
""", 400_000, skewed("jacobi_1d", 5, 2048)),
    Program("jacobi_2d", _jacobi_2d, square("u v"), """
static inline void step(double u[restrict N][N], double v[restrict N][N])
{
    #pragma omp for schedule(static)
    for (int ib = 1; ib < N - 1; ib += 32)
        for (int i = ib; i < ib + 32 && i < N - 1; ++i)
            #pragma omp simd
            for (int j = 1; j < N - 1; ++j)
                v[i][j] = 0.2 * (u[i][j] + u[i][j - 1] + u[i][j + 1] + u[i + 1][j] + u[i - 1][j]);
}
void jacobi_2d(double u[restrict N][N], double v[restrict N][N])
{
    #pragma omp parallel
    for (int t = 0; t < 20; ++t) {
        step(u, v);
        step(v, u);
    }
}
""", 700, skewed("jacobi_2d", 10, 32)),
    Program("heat_3d", _heat, lambda n: {"u": (n, n, n), "v": (n, n, n)}, """
static inline void step(double u[restrict N][N][N], double v[restrict N][N][N])
{
    #pragma omp for schedule(static)
    for (int i = 1; i < N - 1; ++i)
        for (int jb = 1; jb < N - 1; jb += 16)
            for (int j = jb; j < jb + 16 && j < N - 1; ++j)
                #pragma omp simd
                for (int k = 1; k < N - 1; ++k)
                    v[i][j][k] = 0.125 * (u[i + 1][j][k] - 2.0 * u[i][j][k] + u[i - 1][j][k])
                        + 0.125 * (u[i][j + 1][k] - 2.0 * u[i][j][k] + u[i][j - 1][k])
                        + 0.125 * (u[i][j][k + 1] - 2.0 * u[i][j][k] + u[i][j][k - 1]) + u[i][j][k];
}
void heat_3d(double u[restrict N][N][N], double v[restrict N][N][N])
{
    #pragma omp parallel
    for (int t = 0; t < 20; ++t) {
        step(u, v);
        step(v, u);
    }
}
""", 80, skewed("heat_3d", 5, 4)),
    Program("fdtd_2d", _fdtd, _fields, """
void fdtd_2d(double ex[restrict N][N], double ey[restrict N][N], double hz[restrict N][N], double f[restrict 20])
{
    #pragma omp parallel
    for (int t = 0; t < 20; ++t) {
        #pragma omp for schedule(static)
        for (int i = 0; i < N; ++i) {
            if (i == 0)
                for (int j = 0; j < N; ++j)
                    ey[0][j] = f[t];
            else
                #pragma omp simd
                for (int j = 0; j < N; ++j)
                    ey[i][j] -= 0.5 * (hz[i][j] - hz[i - 1][j]);
            #pragma omp simd
            for (int j = 1; j < N; ++j)
                ex[i][j] -= 0.5 * (hz[i][j] - hz[i][j - 1]);
        }
        #pragma omp for schedule(static)
        for (int i = 0; i < N - 1; ++i)
            #pragma omp simd
            for (int j = 0; j < N - 1; ++j)
                hz[i][j] -= 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    }
}
""", 600, skewed("fdtd_2d", 10, 16)),
    Program("recursive", _recursive, square("u v w"), """
void recursive(double u[restrict N][N], double v[restrict N][N], double w[restrict N][N])
{
    #pragma omp parallel
    {
        #pragma omp for schedule(static)
        for (int i = 0; i < N; i += 4) {
            double s[4] = {0};
            const int e = i + 4 < N ? i + 4 : N;
            for (int j = 0; j < N; ++j)
                for (int r = i; r < e; ++r)
                    v[r][j] = s[r - i] = 0.7 * s[r - i] + 0.3 * u[r][j];
        }
        #pragma omp for schedule(static)
        for (int b = 0; b < N; b += 64) {
            const int e = b + 64 < N ? b + 64 : N;
            double s[64] = {0};
            for (int r = 0; r < N; ++r)
                #pragma omp simd
                for (int j = b; j < e; ++j)
                    w[r][j] = s[j - b] = 0.7 * s[j - b] + 0.3 * v[r][j];
        }
    }
}
""", 1500),
    Program("convolution", _convolution, lambda n: {"u": (n, n), "v": (n, n), "m": (5, 5)}, """
void convolution(double u[restrict N][N], double v[restrict N][N], double m[restrict 5][5])
{
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < N - 4; ++i)
        for (int jb = 0; jb < N - 4; jb += 256)
            #pragma omp simd
            for (int j = jb; j < (jb + 256 < N - 4 ? jb + 256 : N - 4); ++j) {
                double s = 0;
                for (int k = 0; k < 5; ++k)
                    for (int l = 0; l < 5; ++l)
                        s += m[k][l] * u[i + k][j + l];
                v[i][j] = s;
            }
}
""", 1500),
)  # fmt: skip
