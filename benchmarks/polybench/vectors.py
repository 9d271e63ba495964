"""Matrices times vectors: bound by what memory delivers."""

from __future__ import annotations

from typing import Final

import polyloop as pl
from benchmarks.polybench.program import Program, arguments, blocks, square

__all__ = ["VECTORS"]

_PARTS: Final = 16
"""Sums side by side, in two vectors of float64."""
_ASSUMED: Final = "n >= 1"


def _along(knl: pl.LoopKernel, *inames: str) -> pl.LoopKernel:
    """Return *knl* with sums over rows in parts."""
    for iname in inames:
        knl = pl.split_iname(knl, iname, _PARTS, inner_tag="ilp")
    return knl


def _across(knl: pl.LoopKernel, iname: str) -> pl.LoopKernel:
    """Return *knl* with sums over columns: each thread has a strip of them, whose sums stay in its first cache."""
    knl = pl.split_iname(knl, iname, 256, outer_tag="g.0")
    return pl.split_iname(knl, f"{iname}_inner", 16, outer_tag="ilp.seq", inner_tag="vec")


def _atax() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        """
        t[i] = sum(j, a[i, j]*x[j])
        y[k] = sum(l, a[l, k]*t[l])
        """,
        arguments("a", "x t y"), name="atax", assumptions=_ASSUMED)  # fmt: skip
    return _across(_along(blocks(knl, "i", 32), "j"), "k")


def _bicg() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        """
        q[i] = sum(j, a[i, j]*p[j])
        s[k] = sum(l, a[l, k]*r[l])
        """,
        arguments("a", "p q r s"), name="bicg", assumptions=_ASSUMED)  # fmt: skip
    return _across(_along(blocks(knl, "i", 32), "j"), "k")


def _mvt() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        """
        x[i] = x[i] + sum(j, a[i, j]*y[j])
        z[k] = z[k] + sum(l, a[l, k]*w[l])
        """,
        arguments("a", "x y z w"), name="mvt", assumptions=_ASSUMED)  # fmt: skip
    return _across(_along(blocks(knl, "i", 32), "j"), "k")


def _gemver() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k, l, r, s]: 0 <= i, j, k, l, r, s < n}",
        """
        a[i, j] = a[i, j] + u[i]*v[j] + p[i]*q[j]
        x[k] = 1.2*sum(l, a[l, k]*y[l]) + z[k]
        w[r] = 1.5*sum(s, a[r, s]*x[s])
        """,
        arguments("a", "u v p q x y z w"), name="gemver", assumptions=_ASSUMED)  # fmt: skip
    return _along(blocks(_across(blocks(knl, "i", 32), "k"), "r", 32), "s")


def _gesummv() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "y[i] = sum(j, 1.5*a[i, j]*x[j] + 1.2*b[i, j]*x[j])",
        arguments("a b", "x y"), name="gesummv", assumptions=_ASSUMED)  # fmt: skip
    return _along(blocks(knl, "i", 32), "j")


_ROW: Final = """
static inline double row(const double *a, const double *x)
{
    double s = 0;
    #pragma omp simd reduction(+:s)
    for (int j = 0; j < N; ++j)
        s += a[j] * x[j];
    return s;
}
/* y[k] = scale * sum of a[l][k] * x[l] + base[k], by strips of columns that stay in the first cache. */
static inline void columns(double a[restrict N][N], const double *x, double *restrict y, double scale,
                           const double *base)
{
    #pragma omp for schedule(static)
    for (int b = 0; b < N; b += 256) {
        const int e = b + 256 < N ? b + 256 : N;
        double s[256] = {0};
        for (int l = 0; l < N; ++l)
            #pragma omp simd
            for (int k = b; k < e; ++k)
                s[k - b] += a[l][k] * x[l];
        for (int k = b; k < e; ++k)
            y[k] = scale * s[k - b] + (base ? base[k] : 0.0);
    }
}
"""

VECTORS: Final = (
    Program("atax", _atax, square("a", "x t y"), _ROW + """
void atax(double a[restrict N][N], double x[restrict N], double t[restrict N], double y[restrict N])
{
    #pragma omp parallel
    {
        #pragma omp for schedule(static)
        for (int i = 0; i < N; ++i)
            t[i] = row(a[i], x);
        columns(a, t, y, 1.0, 0);
    }
}
""", 1900),
    Program("bicg", _bicg, square("a", "p q r s"), _ROW + """
void bicg(double a[restrict N][N], double p[restrict N], double q[restrict N], double r[restrict N],
          double s[restrict N])
{
    #pragma omp parallel
    {
        #pragma omp for schedule(static) nowait
        for (int i = 0; i < N; ++i)
            q[i] = row(a[i], p);
        columns(a, r, s, 1.0, 0);
    }
}
""", 1900),
    Program("mvt", _mvt, square("a", "x y z w"), _ROW + """
void mvt(double a[restrict N][N], double x[restrict N], double y[restrict N], double z[restrict N],
         double w[restrict N])
{
    #pragma omp parallel
    {
        #pragma omp for schedule(static) nowait
        for (int i = 0; i < N; ++i)
            x[i] += row(a[i], y);
        columns(a, w, z, 1.0, z);
    }
}
""", 2000),
    Program("gemver", _gemver, square("a", "u v p q x y z w"), _ROW + """
void gemver(double a[restrict N][N], double u[restrict N], double v[restrict N], double p[restrict N],
            double q[restrict N], double x[restrict N], double y[restrict N], double z[restrict N],
            double w[restrict N])
{
    #pragma omp parallel
    {
        #pragma omp for schedule(static)
        for (int i = 0; i < N; ++i)
            #pragma omp simd
            for (int j = 0; j < N; ++j)
                a[i][j] += u[i] * v[j] + p[i] * q[j];
        columns(a, y, x, 1.2, z);
        #pragma omp for schedule(static)
        for (int i = 0; i < N; ++i)
            w[i] = 1.5 * row(a[i], x);
    }
}
""", 2000),
    Program("gesummv", _gesummv, square("a b", "x y"), """
void gesummv(double a[restrict N][N], double b[restrict N][N], double x[restrict N], double y[restrict N])
{
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < N; ++i) {
        double s = 0, t = 0;
        #pragma omp simd reduction(+:s, t)
        for (int j = 0; j < N; ++j) {
            s += a[i][j] * x[j];
            t += b[i][j] * x[j];
        }
        y[i] = 1.5 * s + 1.2 * t;
    }
}
""", 1300),
)  # fmt: skip
