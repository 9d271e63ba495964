"""Products of matrices, and what is made of them: bound by arithmetic, if tiles stay in registers."""

from __future__ import annotations

from typing import Final

import polyloop as pl
from benchmarks.polybench.program import LANES, D, Program, arguments, blocks, few_threads, in_panels, square
from benchmarks.polybench.skewed import skewed

__all__ = ["PRODUCTS"]

_ASSUMED: Final = "n >= 1"


def _gemm() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = 1.2*c[i, j] + 1.5*sum(k, a[i, k]*b[k, j])",
        arguments("a b c"), name="gemm", assumptions=_ASSUMED)  # fmt: skip
    return in_panels(knl, "i", "j", "k", "a", "b")


def _two() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, r, s, t]: 0 <= i, j, k, r, s, t < n}",
        """
        w[i, j] = 1.5*sum(k, a[i, k]*b[k, j])
        d[r, s] = 1.2*d[r, s] + sum(t, w[r, t]*c[t, s])
        """,
        arguments("a b c d w"), name="two_products", assumptions=_ASSUMED)  # fmt: skip
    return in_panels(in_panels(knl, "i", "j", "k", "a", "b"), "r", "s", "t", "w", "c")


def _three() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, r, s, t, x, y, z]: 0 <= i, j, k, r, s, t, x, y, z < n}",
        """
        e[i, j] = sum(k, a[i, k]*b[k, j])
        f[r, s] = sum(t, c[r, t]*d[t, s])
        g[x, y] = sum(z, e[x, z]*f[z, y])
        """,
        arguments("a b c d e f g"), name="three_products", assumptions=_ASSUMED)  # fmt: skip
    knl = in_panels(in_panels(knl, "i", "j", "k", "a", "b"), "r", "s", "t", "c", "d")
    return in_panels(knl, "x", "y", "z", "e", "f")


def _tiles(knl: pl.LoopKernel, i: str, j: str, k: str, rows: int = 4, columns: int = 4) -> pl.LoopKernel:
    """Return dot products of rows with rows: tiles of some of them at a time, each in the lanes of a vector."""
    knl = pl.split_iname(knl, i, 8*rows, outer_tag="g.0")
    knl = pl.split_iname(knl, f"{i}_inner", rows, inner_tag="ilp")
    knl = pl.split_iname(knl, j, columns, inner_tag="ilp")
    return pl.split_iname(knl, k, LANES, inner_tag="ilp")


def _syrk() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, k < n and 0 <= j <= i}", "c[i, j] = 1.2*c[i, j] + 1.5*sum(k, a[i, k]*a[j, k])",
        arguments("a c"), name="syrk", assumptions=_ASSUMED)  # fmt: skip
    return _tiles(knl, "i", "j", "k")


def _syr2k() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, k < n and 0 <= j <= i}",
        "c[i, j] = 1.2*c[i, j] + 1.5*sum(k, a[j, k]*b[i, k] + b[j, k]*a[i, k])",
        arguments("a b c"), name="syr2k", assumptions=_ASSUMED)  # fmt: skip
    return _tiles(knl, "i", "j", "k")


def _trmm() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < n and i < k < n}", "b[i, j] = 1.5*(b[i, j] + sum(k, a[k, i]*b[k, j]))",
        arguments("a b"), name="trmm", assumptions=_ASSUMED)  # fmt: skip
    knl = pl.split_iname(knl, "j", 16*LANES, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", LANES, outer_tag="ilp", inner_tag="vec")
    return pl.prioritize_loops(knl, "i, k")


def _covariance() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[j, i, r, s, x, y, z]: 0 <= i, j, r, s, x, z < n and 0 <= y < n}",
        """
        mean[j] = sum(i, data[i, j])/n
        away[r, s] = data[r, s] - mean[s]
        flip[s, r] = data[r, s] - mean[s]
        cov[x, y] = sum(z, flip[x, z]*away[z, y])/(n - 1.0)
        """,
        arguments("data away flip cov", "mean"), name="covariance", assumptions="n >= 2")  # fmt: skip
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", LANES, outer_tag="ilp", inner_tag="vec")
    knl = pl.split_iname(blocks(knl, "r", 32), "s", 32)
    knl = pl.prioritize_loops(knl, "s_outer, r_inner, s_inner")
    return in_panels(knl, "x", "y", "z", "flip", "away")


def _doitgen() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[r, q, p, s]: 0 <= r, q, p, s < n}",
        """
        w[r, q, p] = sum(s, a[r, q, s]*c[s, p])
        """,
        [pl.GlobalArg("a, w", D, shape="n, n, n"), pl.GlobalArg("c", D, shape="n, n"), ...],
        name="doitgen", assumptions=_ASSUMED)  # fmt: skip
    knl = pl.tag_inames(knl, "r:g.0")
    knl = pl.split_iname(knl, "q", 12, inner_tag="ilp")
    knl = pl.split_iname(knl, "p", 2*LANES)
    knl = pl.split_iname(knl, "p_inner", LANES, outer_tag="ilp", inner_tag="vec")
    return pl.prioritize_loops(knl, "p_outer, q_outer")


def _lu() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[k, i, c, r, j]: 0 <= k < n and k < i, r, j < n and c = k}",
        """
        for k
            for i, c
                a[i, c] = a[i, c]/a[k, k] {id=scale}
            end
            for r, j
                a[r, j] = a[r, j] - a[r, k]*a[k, j] {id=update}
            end
        end
        """,
        arguments("a"), name="lu", assumptions=_ASSUMED)  # fmt: skip
    if not few_threads():
        return blocks(blocks(knl, "i", 16), "r", 16)
    for iname in ("k", "i", "c", "r", "j"):
        knl = pl.split_iname(knl, iname, 64, outer_iname=f"{iname}_tile", inner_iname=f"{iname}_in")
    knl = pl.fuse_loops(knl, "i_tile, r_tile", "row_tile")
    knl = pl.prioritize_loops(pl.prioritize_loops(knl, "row_tile, c_tile, i_in"), "row_tile, j_tile, r_in")
    knl = pl.fuse_loops(knl, "c_tile, j_tile", "column_tile")
    knl = pl.prioritize_loops(knl, "k_tile, row_tile, column_tile, k_in")
    knl = pl.map_domain(knl, "{[row_tile, column_tile] -> [front, row_tile]: front = row_tile + column_tile}")
    return pl.tag_inames(knl, "row_tile:g.0")


_TILE: Final = """
static inline int least(int a, int b) { return a < b ? a : b; }
/* c = scale * c + alpha * a b, by tiles of 4 rows and 32 x 512 of b, which stay in the caches. */
static inline void product(double a[restrict N][N], double b[restrict N][N], double c[restrict N][N], double alpha,
                           double scale)
{
    #pragma omp for schedule(static)
    for (int ib = 0; ib < N; ib += 32) {
        const int ie = least(ib + 32, N);
        for (int i = ib; i < ie; ++i)
            for (int j = 0; j < N; ++j)
                c[i][j] *= scale;
        for (int kb = 0; kb < N; kb += 64)
            for (int jb = 0; jb < N; jb += 512) {
                const int ke = least(kb + 64, N), je = least(jb + 512, N);
                int i = ib;
                for (; i + 4 <= ie; i += 4)
                    for (int k = kb; k < ke; ++k)
                        #pragma omp simd
                        for (int j = jb; j < je; ++j) {
                            c[i][j] += alpha * a[i][k] * b[k][j];
                            c[i + 1][j] += alpha * a[i + 1][k] * b[k][j];
                            c[i + 2][j] += alpha * a[i + 2][k] * b[k][j];
                            c[i + 3][j] += alpha * a[i + 3][k] * b[k][j];
                        }
                for (; i < ie; ++i)
                    for (int k = kb; k < ke; ++k)
                        #pragma omp simd
                        for (int j = jb; j < je; ++j)
                            c[i][j] += alpha * a[i][k] * b[k][j];
            }
    }
}
"""

PRODUCTS: Final = (
    Program("gemm", _gemm, square("a b c"), _TILE + """
void gemm(double a[restrict N][N], double b[restrict N][N], double c[restrict N][N])
{
    #pragma omp parallel
    product(a, b, c, 1.5, 1.2);
}
""", 500),
    Program("two_products", _two, square("a b c d w"), _TILE + """
void two_products(double a[restrict N][N], double b[restrict N][N], double c[restrict N][N], double d[restrict N][N],
                  double w[restrict N][N])
{
    #pragma omp parallel
    {
        product(a, b, w, 1.5, 0.0);
        product(w, c, d, 1.0, 1.2);
    }
}
""", 500),
    Program("three_products", _three, square("a b c d e f g"), _TILE + """
void three_products(double a[restrict N][N], double b[restrict N][N], double c[restrict N][N], double d[restrict N][N],
                    double e[restrict N][N], double f[restrict N][N], double g[restrict N][N])
{
    #pragma omp parallel
    {
        product(a, b, e, 1.0, 0.0);
        product(c, d, f, 1.0, 0.0);
        product(e, f, g, 1.0, 0.0);
    }
}
""", 400),
    Program("syrk", _syrk, square("a c"), """
void syrk(double a[restrict N][N], double c[restrict N][N])
{
    #pragma omp parallel for schedule(dynamic)
    for (int ib = 0; ib < N; ib += 16)
        for (int jb = 0; jb < ib + 16; jb += 16)
            for (int i = ib; i < ib + 16 && i < N; ++i)
                for (int j = jb; j < jb + 16 && j <= i; ++j) {
                    double s = 0;
                    #pragma omp simd reduction(+:s)
                    for (int k = 0; k < N; ++k)
                        s += a[i][k] * a[j][k];
                    c[i][j] = 1.2 * c[i][j] + 1.5 * s;
                }
}
""", 500),
    Program("syr2k", _syr2k, square("a b c"), """
void syr2k(double a[restrict N][N], double b[restrict N][N], double c[restrict N][N])
{
    #pragma omp parallel for schedule(dynamic)
    for (int ib = 0; ib < N; ib += 16)
        for (int jb = 0; jb < ib + 16; jb += 16)
            for (int i = ib; i < ib + 16 && i < N; ++i)
                for (int j = jb; j < jb + 16 && j <= i; ++j) {
                    double s = 0;
                    #pragma omp simd reduction(+:s)
                    for (int k = 0; k < N; ++k)
                        s += a[j][k] * b[i][k] + b[j][k] * a[i][k];
                    c[i][j] = 1.2 * c[i][j] + 1.5 * s;
                }
}
""", 400),
    Program("trmm", _trmm, square("a b"), """
void trmm(double a[restrict N][N], double b[restrict N][N])
{
    #pragma omp parallel for schedule(static)
    for (int jb = 0; jb < N; jb += 128) {
        const int je = jb + 128 < N ? jb + 128 : N;
        for (int i = 0; i < N; ++i) {
            double s[128];
            for (int j = jb; j < je; ++j)
                s[j - jb] = b[i][j];
            for (int k = i + 1; k < N; ++k)
                #pragma omp simd
                for (int j = jb; j < je; ++j)
                    s[j - jb] += a[k][i] * b[k][j];
            for (int j = jb; j < je; ++j)
                b[i][j] = 1.5 * s[j - jb];
        }
    }
}
""", 500),
    Program("covariance", _covariance, square("data away flip cov", "mean"), _TILE + """
void covariance(double data[restrict N][N], double away[restrict N][N], double flip[restrict N][N],
                double cov[restrict N][N], double mean[restrict N])
{
    #pragma omp parallel
    {
        #pragma omp for schedule(static)
        for (int b = 0; b < N; b += 64) {
            const int e = least(b + 64, N);
            double s[64] = {0};
            for (int i = 0; i < N; ++i)
                #pragma omp simd
                for (int j = b; j < e; ++j)
                    s[j - b] += data[i][j];
            for (int j = b; j < e; ++j)
                mean[j] = s[j - b] / N;
        }
        #pragma omp for schedule(static)
        for (int rb = 0; rb < N; rb += 32)
            for (int sb = 0; sb < N; sb += 32)
                for (int r = rb; r < least(rb + 32, N); ++r)
                    for (int s = sb; s < least(sb + 32, N); ++s)
                        flip[s][r] = away[r][s] = data[r][s] - mean[s];
        product(flip, away, cov, 1.0 / (N - 1.0), 0.0);
    }
}
""", 500),
    Program("doitgen", _doitgen, lambda n: {"a": (n, n, n), "w": (n, n, n), "c": (n, n)}, """
void doitgen(double a[restrict N][N][N], double w[restrict N][N][N], double c[restrict N][N])
{
    #pragma omp parallel for schedule(static)
    for (int r = 0; r < N; ++r)
        for (int qb = 0; qb < N; qb += 4) {
            for (int q = qb; q < qb + 4 && q < N; ++q)
                for (int p = 0; p < N; ++p)
                    w[r][q][p] = 0;
            for (int s = 0; s < N; ++s)
                for (int q = qb; q < qb + 4 && q < N; ++q)
                    #pragma omp simd
                    for (int p = 0; p < N; ++p)
                        w[r][q][p] += a[r][q][s] * c[s][p];
        }
}
""", 120),
    Program("lu", _lu, square("a"), """
void lu(double a[restrict N][N])
{
    #pragma omp parallel
    for (int k = 0; k < N; ++k) {
        #pragma omp for schedule(static)
        for (int i = k + 1; i < N; ++i) {
            const double f = a[i][k] /= a[k][k];
            #pragma omp simd
            for (int j = k + 1; j < N; ++j)
                a[i][j] -= f * a[k][j];
        }
    }
}
""", 600, skewed("lu", 64, 64)),
)  # fmt: skip
