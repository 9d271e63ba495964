"""C by hand with tiles in time: parallelograms that threads take along a front, as Pluto divides such loops.

A tile has ``STEPS`` steps of time and ``ROWS`` rows of the outermost axis of space, which is skewed by the distance of
the dependences, so that a tile needs nothing of those behind it.  Tiles of one front are independent.  Source:
Bondhugula et al., "A practical automatic polyhedral parallelizer and locality optimizer", PLDI 2008,
https://doi.org/10.1145/1375581.1375595.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["skewed"]

_FRONTS: Final = """
static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }
/* Executes `body` for each step t of a tile; rows from `low` to `high` of the skewed axis are its own. */
#define IN_FRONTS(extent, body) \\
    _Pragma("omp parallel") \\
    for (int front = 0; front < 20 / STEPS + ((extent) + ROWS - 1) / ROWS; ++front) { \\
        _Pragma("omp for schedule(static)") \\
        for (int tile = 0; tile < 20 / STEPS; ++tile) \\
            for (int t = tile * STEPS; t < tile * STEPS + STEPS; ++t) { \\
                const int low = (front - tile) * ROWS, high = low + ROWS; \\
                if (low >= 0) { body } \\
            } \\
    }
"""

_TEXTS: Final[Mapping[str, str]] = {
    "jacobi_1d": _FRONTS + """
void jacobi_1d(double u[restrict N], double v[restrict N])
{
    IN_FRONTS(N + 40,
        for (int i = most(low - 2 * t, 1); i < least(high - 2 * t, N - 1); ++i)
            v[i] = 0.33333 * (u[i - 1] + u[i] + u[i + 1]);
        for (int i = most(low - 2 * t - 1, 1); i < least(high - 2 * t - 1, N - 1); ++i)
            u[i] = 0.33333 * (v[i - 1] + v[i] + v[i + 1]);
    )
}
""",
    "jacobi_2d": _FRONTS + """
static inline void rows(double u[restrict N][N], double v[restrict N][N], int low, int high)
{
    for (int i = most(low, 1); i < least(high, N - 1); ++i)
        for (int j = 1; j < N - 1; ++j)
            v[i][j] = 0.2 * (u[i][j] + u[i][j - 1] + u[i][j + 1] + u[i + 1][j] + u[i - 1][j]);
}
void jacobi_2d(double u[restrict N][N], double v[restrict N][N])
{
    IN_FRONTS(N + 40,
        rows(u, v, low - 2 * t, high - 2 * t);
        rows(v, u, low - 2 * t - 1, high - 2 * t - 1);
    )
}
""",
    "heat_3d": _FRONTS + """
static inline void planes(double u[restrict N][N][N], double v[restrict N][N][N], int low, int high)
{
    for (int i = most(low, 1); i < least(high, N - 1); ++i)
        for (int j = 1; j < N - 1; ++j)
            for (int k = 1; k < N - 1; ++k)
                v[i][j][k] = 0.125 * (u[i + 1][j][k] - 2.0 * u[i][j][k] + u[i - 1][j][k])
                    + 0.125 * (u[i][j + 1][k] - 2.0 * u[i][j][k] + u[i][j - 1][k])
                    + 0.125 * (u[i][j][k + 1] - 2.0 * u[i][j][k] + u[i][j][k - 1]) + u[i][j][k];
}
void heat_3d(double u[restrict N][N][N], double v[restrict N][N][N])
{
    IN_FRONTS(N + 40,
        planes(u, v, low - 2 * t, high - 2 * t);
        planes(v, u, low - 2 * t - 1, high - 2 * t - 1);
    )
}
""",
    "fdtd_2d": _FRONTS + """
void fdtd_2d(double ex[restrict N][N], double ey[restrict N][N], double hz[restrict N][N], double f[restrict 20])
{
    IN_FRONTS(N + 20,
        for (int i = most(low - t, 0); i < least(high - t, N); ++i) {
            if (i == 0)
                for (int j = 0; j < N; ++j)
                    ey[0][j] = f[t];
            else
                for (int j = 0; j < N; ++j)
                    ey[i][j] -= 0.5 * (hz[i][j] - hz[i - 1][j]);
            for (int j = 1; j < N; ++j)
                ex[i][j] -= 0.5 * (hz[i][j] - hz[i][j - 1]);
        }
        for (int i = most(low - t - 1, 0); i < least(high - t - 1, N - 1); ++i)
            for (int j = 0; j < N - 1; ++j)
                hz[i][j] -= 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    )
}
""",
    "lu": """
static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }
void lu(double a[restrict N][N])
{
    #pragma omp parallel
    for (int kb = 0; kb < N; kb += STEPS)
        for (int front = 2 * (kb / ROWS); front <= 2 * ((N - 1) / ROWS); ++front) {
            #pragma omp for schedule(static, 1)
            for (int ib = kb / ROWS; ib <= (N - 1) / ROWS; ++ib) {
                const int jb = front - ib;
                for (int k = kb; k < least(kb + STEPS, N) && jb >= 0; ++k)
                    for (int i = most(k + 1, ib * ROWS); i < least(ib * ROWS + ROWS, N); ++i) {
                        if (k / ROWS == jb)
                            a[i][k] /= a[k][k];
                        for (int j = most(k + 1, jb * ROWS); j < least(jb * ROWS + ROWS, N); ++j)
                            a[i][j] -= a[i][k] * a[k][j];
                    }
            }
        }
}
""",
}  # fmt: skip


def skewed(name: str, steps: int, rows: int) -> str:
    """Return the text of a program with tiles of some steps of time and rows."""
    return f"#define STEPS {steps}\n#define ROWS {rows}\n{_TEXTS[name]}"
