"""Programs of launches: loops that carry a dependence between blocks, with what NumPy says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel

__all__ = ["PROGRAMS", "HostProgram"]

F = np.float64
Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class HostProgram:
    """A kernel on blocks, its inputs for a size, and what NumPy computes from them.

    Attributes
    ----------
    hosts
        Loops of the host around each launch.
    """

    kernel: Callable[[], LoopKernel]
    inputs: Callable[[int], dict[str, Any]]
    expected: Callable[..., Arrays]
    hosts: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...] = (0, 1, 2, 5, 37)


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).uniform(1, 2, shape)


# {{{ Jacobi


def jacobi() -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < steps and 1 <= i, j < n - 1}",
        """
        for t
            for i
                v[i] = 0.5*(u[i - 1] + u[i + 1])  {id=step}
            end
            for j
                u[j] = v[j]  {id=back}
            end
        end
        """,
        [pl.GlobalArg("u", F, shape="n"), pl.TemporaryVariable("v", F, shape="n", address_space="global"), ...],
        name="jacobi", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    for iname in ("i", "j"):
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
    return knl


def jacobi_inputs(n: int) -> dict[str, Any]:
    return {"u": _random(n), "steps": 4 if n % 2 else 3}


def jacobi_expected(u: np.ndarray[Any, Any], steps: int) -> Arrays:
    u = u.copy()
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:]) if len(u) > 1 else u[1:-1]
    return {"u": u}


def jacobi_plane() -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < steps and 1 <= i, j < n - 1}",
        "u[t + 1, i, j] = 0.25*(u[t, i - 1, j] + u[t, i + 1, j] + u[t, i, j - 1] + u[t, i, j + 1])",
        [pl.GlobalArg("u", F, shape="steps + 1, n, n"), ...],
        name="jacobi_plane", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 8, outer_tag="g.0", inner_tag="l.0")
    return knl.add_prefetch("u", ["i_inner", "j_inner"], default_tag="l.auto")


def jacobi_plane_inputs(n: int) -> dict[str, Any]:
    return {"u": _random(4, n, n), "steps": 3}


def jacobi_plane_expected(u: np.ndarray[Any, Any], steps: int) -> Arrays:
    u = u.copy()
    for t in range(steps if u.shape[1] > 2 else 0):
        u[t + 1, 1:-1, 1:-1] = 0.25 * (u[t, :-2, 1:-1] + u[t, 2:, 1:-1] + u[t, 1:-1, :-2] + u[t, 1:-1, 2:])
    return {"u": u}


# }}}
# {{{ linear algebra


def floyd() -> LoopKernel:
    knl = pl.make_kernel(
        "{[k, p, i, j]: 0 <= k, p, i, j < n}",
        """
        for k
            for p
                row[p] = d[k, p]  {id=row}
                col[p] = d[p, k]  {id=col}
            end
            for i, j
                d[i, j] = min(d[i, j], col[i] + row[j])  {id=relax}
            end
        end
        """,
        [
            pl.GlobalArg("d", F, shape="n, n"),
            *(pl.TemporaryVariable(x, F, shape="n", address_space="global") for x in ("row", "col")), ...,
        ],
        name="floyd", assumptions="n >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 8, outer_tag="g.0", inner_tag="l.0")
    return knl.split_iname("p", 8, outer_tag="g.0", inner_tag="l.0")


def floyd_expected(d: np.ndarray[Any, Any]) -> Arrays:
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return {"d": d}


def lu() -> LoopKernel:
    knl = pl.make_kernel(
        "{[k, p, i, j]: 0 <= k < n and k < p, i, j < n}",
        """
        for k
            for p
                a[p, k] = a[p, k] / a[k, k]  {id=scale}
            end
            for i, j
                a[i, j] = a[i, j] - a[i, k]*a[k, j]  {id=update}
            end
        end
        """,
        [pl.GlobalArg("a", F, shape="n, n"), ...], name="lu", assumptions="n >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 8, outer_tag="g.0", inner_tag="l.0")
    return knl.split_iname("p", 8, outer_tag="g.0", inner_tag="l.0")


def lu_inputs(n: int) -> dict[str, Any]:
    return {"a": _random(n, n) + 2 * n * np.eye(n)}


def lu_expected(a: np.ndarray[Any, Any]) -> Arrays:
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return {"a": a}


# }}}
# {{{ wavefronts, colours, stages


def wavefront() -> LoopKernel:
    knl = pl.make_kernel(
        "{[d, i]: 2 <= d < 2*n - 1 and 1 <= i < n and 1 <= d - i < n}",
        "x[i, d - i] = 0.5*x[i - 1, d - i] + 0.25*x[i, d - i - 1]",
        [pl.GlobalArg("x", F, shape="n, n"), ...], name="wavefront", assumptions="n >= 0",
    )  # fmt: skip
    return knl.split_iname("i", 4, outer_tag="g.0", inner_tag="l.0")


def wavefront_expected(x: np.ndarray[Any, Any]) -> Arrays:
    x = x.copy()
    for i in range(1, len(x)):
        for j in range(1, len(x)):
            x[i, j] = 0.5 * x[i - 1, j] + 0.25 * x[i, j - 1]
    return {"x": x}


def colours() -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, c, i]: 0 <= t < steps and 0 <= c < 2 and 1 <= 2*i + c < n - 1 and 0 <= i}",
        "for t, c, i\n  x[2*i + c] = 0.25*(x[2*i + c - 1] + x[2*i + c + 1]) + 0.5*x[2*i + c]\nend",
        [pl.GlobalArg("x", F, shape="n"), ...], name="colours", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    return knl.split_iname("i", 4, outer_tag="g.0", inner_tag="l.0")


def colours_expected(x: np.ndarray[Any, Any], steps: int) -> Arrays:
    x = x.copy()
    for _ in range(steps):
        for c in (0, 1):
            for at in range(c or 2, len(x) - 1, 2):
                x[at] = 0.25 * (x[at - 1] + x[at + 1]) + 0.5 * x[at]
    return {"x": x}


def relaxed() -> LoopKernel:
    """Before the loop a launch, inside one that sums in one block, and one that uses the sum; behind it another."""
    knl = pl.make_kernel(
        "{[t, h, i, j, k]: 0 <= t < steps and 0 <= h, i, j, k < n}",
        """
        for h
            x[h] = a[h]  {id=begin}
        end
        for t
            total[t] = sum(k, x[k])  {id=sum}
            for i
                x[i] = x[i] - total[t]/(n + t + 1)  {id=less}
            end
        end
        for j
            y[j] = 2*x[j]  {id=end}
        end
        """,
        [
            pl.GlobalArg("a, y", F, shape="n"), pl.GlobalArg("total", F, shape="steps"),
            pl.TemporaryVariable("x", F, shape="n", address_space="global"), ...,
        ],
        name="relaxed", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    for iname in ("h", "i", "j"):
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
    knl = knl.split_iname("k", 8, inner_tag="l.0")
    return knl


def relaxed_inputs(n: int) -> dict[str, Any]:
    return {"a": _random(n), "steps": 3}


def relaxed_expected(a: np.ndarray[Any, Any], steps: int) -> Arrays:
    x, n = a.copy(), len(a)
    total = np.zeros(steps)
    for t in range(steps):
        total[t] = x.sum()
        x -= total[t] / (n + t + 1)
    return {"y": 2 * x, "total": total}


def stages() -> LoopKernel:
    """Stages of a fast transform: tables say which two elements each one combines."""
    knl = pl.make_kernel(
        "{[s, i]: 0 <= s < m and 0 <= i < n}",
        "z[s + 1, i] = z[s, p[s, i]] + w[s, i]*z[s, q[s, i]]",
        [
            pl.GlobalArg("z", np.complex128, shape="m + 1, n"), pl.GlobalArg("w", np.complex128, shape="m, n"),
            pl.GlobalArg("p, q", np.int32, shape="m, n"), ...,
        ],
        name="stages", assumptions="n >= 1 and m >= 0",
    )  # fmt: skip
    return knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0")


def stages_inputs(n: int) -> dict[str, Any]:
    m = n.bit_length() - 1
    reverse = [int(f"{i:0{m}b}"[::-1], 2) if m else 0 for i in range(n)]
    z = np.zeros((m + 1, n), complex)
    z[0] = (_random(n) + 1j * _random(n))[reverse]
    i, s = np.arange(n)[None], np.arange(m)[:, None]
    half = 2**s
    low = i & ~half
    w = np.exp(-2j * np.pi * (i % (2 * half)) / (2 * half))
    return {"z": z, "w": w, "p": low.astype(np.int32), "q": (low | half).astype(np.int32)}


def stages_expected(z: np.ndarray[Any, Any], **tables: np.ndarray[Any, Any]) -> Arrays:
    z = z.copy()
    for s in range(len(z) - 1):
        z[s + 1] = z[s][tables["p"][s]] + tables["w"][s] * z[s][tables["q"][s]]
    m, n = len(z) - 1, z.shape[1]
    reverse = [int(f"{i:0{m}b}"[::-1], 2) if m else 0 for i in range(n)]
    np.testing.assert_allclose(z[m], np.fft.fft(z[0][reverse]), atol=1e-9)
    return {"z": z}


# }}}

PROGRAMS = {
    "jacobi": HostProgram(jacobi, jacobi_inputs, jacobi_expected, (("t",), ("t",))),
    "jacobi_plane": HostProgram(jacobi_plane, jacobi_plane_inputs, jacobi_plane_expected, (("t",),), (0, 1, 3, 13)),
    "floyd": HostProgram(floyd, lambda n: {"d": _random(n, n)}, floyd_expected, (("k",), ("k",)), (0, 1, 5, 13)),
    "lu": HostProgram(lu, lu_inputs, lu_expected, (("k",), ("k",)), (0, 1, 2, 5, 21)),
    "wavefront": HostProgram(wavefront, lambda n: {"x": _random(n, n)}, wavefront_expected, (("d",),), (0, 1, 2, 11)),
    "colours": HostProgram(
        colours, lambda n: {"x": _random(n), "steps": 3}, colours_expected, (("t", "c"),), (0, 1, 2, 3, 26)
    ),
    "relaxed": HostProgram(relaxed, relaxed_inputs, relaxed_expected, ((), ("t",), ("t",), ())),
    "stages": HostProgram(stages, stages_inputs, stages_expected, (("s",),), (1, 2, 16, 64)),
}
