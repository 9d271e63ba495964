"""The kernels of which the way to source is timed, written for polyloop and Loopy alike; `Library` has what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np

__all__ = ["PROGRAMS", "Library", "Program"]

_F32: Final = np.float32


@dataclass(frozen=True, slots=True)
class Library:
    """polyloop or Loopy.

    Attributes
    ----------
    module
        Where the functions are that both have.
    options
        What ``make_kernel`` is given besides.
    """

    name: str
    module: ModuleType
    options: Callable[[], dict[str, Any]]

    def make(self, domain: str, text: str, data: Sequence[Any], **options: Any) -> Any:  # noqa: ANN401 - either's kernel
        """Return a kernel."""
        return self.module.make_kernel(domain, text, [*data, ...], **self.options(), **options)

    def array(self, names: str, shape: str) -> Any:  # noqa: ANN401
        """Return an argument in global memory, or several."""
        return self.module.GlobalArg(names, _F32, shape=shape)

    def shared(self, name: str, length: int) -> Any:  # noqa: ANN401
        """Return a temporary in shared memory."""
        space = self.module.AddressSpace.LOCAL
        return self.module.TemporaryVariable(name, _F32, shape=(length,), address_space=space)

    def prefetch(self, knl: Any, array: str, sweep: Sequence[str], around: str | None = None) -> Any:  # noqa: ANN401
        """Return a kernel that copies what it uses of *array* to shared memory, all threads together.

        The copy stands inside of the loops *around*; Loopy has to be told where it would leave out blocks.
        """
        more = {} if around is None else {"fetch_outer_inames": around}
        return self.module.add_prefetch(knl, array, list(sweep), default_tag="l.auto", **more)


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in two steps: what is computed, and how."""

    name: str
    define: Callable[[Library], Any]
    transform: Callable[[Library, Any], Any]
    goal: float | None = None
    """Most milliseconds of polyloop from ``make_kernel`` to source."""


def _axpy(lib: Library) -> Any:  # noqa: ANN401
    data = [lib.array("x, y, z", "n"), lib.module.ValueArg("alpha", _F32)]
    return lib.make("{[i]: 0 <= i < n}", "z[i] = alpha * x[i] + y[i]", data, name="axpy", assumptions="n >= 1")


def _split_axpy(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    return lib.module.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")


def _matmul(lib: Library) -> Any:  # noqa: ANN401
    domain = "{[i, j, k]: 0 <= i < n and 0 <= j < n and 0 <= k < n}"
    data = [lib.array("a, b, c", "n, n")]
    return lib.make(domain, "c[i, j] = sum(k, a[i, k] * b[k, j])", data, name="matmul", assumptions="n >= 1")


def _tiled(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    split = lib.module.split_iname
    knl = split(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = split(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = split(knl, "k", 16)
    knl = lib.prefetch(knl, "a", ["i_inner", "k_inner"], "i_outer, j_outer, k_outer")
    return lib.prefetch(knl, "b", ["k_inner", "j_inner"], "i_outer, j_outer, k_outer")


def _any_matmul(lib: Library) -> Any:  # noqa: ANN401
    domain = "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}"
    data = [lib.array("a", "m, p"), lib.array("b", "p, n"), lib.array("c", "m, n")]
    known = "m >= 1 and n >= 1 and p >= 1"
    return lib.make(domain, "c[i, j] = sum(k, a[i, k] * b[k, j])", data, name="matmul", assumptions=known)


def _in_registers(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    split = lib.module.split_iname
    knl = split(knl, "i", 64, outer_tag="g.1")
    knl = split(knl, "i_inner", 16, outer_tag="ilp", inner_tag="l.1")
    knl = split(knl, "j", 64, outer_tag="g.0")
    knl = split(knl, "j_inner", 16, outer_tag="ilp", inner_tag="l.0")
    knl = split(knl, "k", 16)
    knl = lib.prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"], "i_outer, j_outer, k_outer")
    return lib.prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"], "i_outer, j_outer, k_outer")


def _stencil(lib: Library) -> Any:  # noqa: ANN401
    text = "lap[i, j] = u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2] - 4*u[i+1, j+1]"
    data = [lib.array("u", "h, w"), lib.array("lap", "h - 2, w - 2")]
    domain = "{[i, j]: 0 <= i < h - 2 and 0 <= j < w - 2}"
    return lib.make(domain, text, data, name="stencil", assumptions="h >= 3 and w >= 3")


def _halo(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    split = lib.module.split_iname
    knl = split(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = split(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return lib.prefetch(knl, "u", ["i_inner", "j_inner"])


def _spectral(lib: Library) -> Any:  # noqa: ANN401
    text = """
    for e
        for i, j
            <> du_r = sum(k, d[i, k]*u[e, k, j])
            <> du_s = sum(l, d[j, l]*u[e, i, l])
            flux_r[i, j] = g[e, 0, i, j]*du_r + g[e, 1, i, j]*du_s  {id=r}
            flux_s[i, j] = g[e, 1, i, j]*du_r + g[e, 2, i, j]*du_s  {id=s}
        end
        for ii, jj
            lap[e, ii, jj] = sum(q, d[q, ii]*flux_r[q, jj] + d[q, jj]*flux_s[ii, q])  {dep=r:s}
        end
    end
    """
    domain = "{[e, i, j, k, l, ii, jj, q]: 0 <= e < elements and 0 <= i, j, k, l, ii, jj, q < 8}"
    space = lib.module.AddressSpace.LOCAL
    flux = [lib.module.TemporaryVariable(x, _F32, shape=(8, 8), address_space=space) for x in ("flux_r", "flux_s")]
    arrays = [lib.array("u, lap", "elements, 8, 8"), lib.array("g", "elements, 3, 8, 8"), lib.array("d", "8, 8")]
    return lib.make(domain, text, [*arrays, *flux], name="laplacian", assumptions="elements >= 1")


def _on_nodes(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    return lib.module.tag_inames(knl, "e:g.0, i:l.1, j:l.0, ii:l.1, jj:l.0, k:unr, l:unr, q:unr")


def _dg_volume(lib: Library) -> Any:  # noqa: ANN401
    text = "grad[x, e, i] = sum([r, j], drdx[x, r, e]*d[r, i, j]*u[e, j])"
    domain = "{[e, i, j, r, x]: 0 <= e < elements and 0 <= i, j < 20 and 0 <= r, x < 3}"
    data = [
        lib.array("d", "3, 20, 20"), lib.array("u", "elements, 20"), lib.array("drdx", "3, 3, elements"),
        lib.array("grad", "3, elements, 20"),
    ]  # fmt: skip
    return lib.make(domain, text, data, name="dg_volume", assumptions="elements >= 1")


def _on_elements(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    knl = lib.module.split_iname(knl, "e", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lib.module.tag_inames(knl, "i:l.0, r:unr, x:unr")
    return lib.prefetch(knl, "u", ["e_inner", "j"])


def _pipeline(stages: int) -> Program:
    """Return a chain in which each instruction reads what other threads wrote in the one before, in shared memory."""

    def define(lib: Library) -> Any:  # noqa: ANN401
        lines = ["t0[x] = a[b, x] {id=stage_0}"]
        lines += [f"t{k}[x] = t{k - 1}[63 - x] + {k} {{id=stage_{k},dep=stage_{k - 1}}}" for k in range(1, stages - 1)]
        lines += [f"c[b, x] = t{stages - 2}[63 - x] {{id=stage_{stages - 1},dep=stage_{stages - 2}}}"]
        text = "\n".join(["for b", *(f"for x\n{line}\nend" for line in lines), "end"])
        tiles = [lib.shared(f"t{k}", 64) for k in range(stages - 1)]
        domain = "{[b, x]: 0 <= b < n and 0 <= x < 64}"
        return lib.make(domain, text, [lib.array("a, c", "n, 64"), *tiles], name="pipeline", assumptions="n >= 1")

    def transform(lib: Library, knl: Any) -> Any:  # noqa: ANN401
        return lib.module.tag_inames(knl, "b:g.0, x:l.0")

    return Program(f"pipeline of {stages}", define, transform)


def _chain(length: int) -> Program:
    """Return a chain of instructions over arrays, each reading what the one before wrote in the same iteration."""

    def define(lib: Library) -> Any:  # noqa: ANN401
        lines = [f"t{k}[i] = 2*t{k - 1}[i] + x[i] {{id=link_{k},dep=link_{k - 1}}}" for k in range(1, length)]
        text = "\n".join(["for i", "t0[i] = x[i] + 1 {id=link_0}", *lines, "end"])
        arrays = ", ".join(["x", *(f"t{k}" for k in range(length))])
        return lib.make("{[i]: 0 <= i < n}", text, [lib.array(arrays, "n")], name="chain", assumptions="n >= 1")

    return Program(f"chain of {length}", define, _split_chain)


def _split_chain(lib: Library, knl: Any) -> Any:  # noqa: ANN401
    return lib.module.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


PROGRAMS: Final = (
    Program("axpy", _axpy, _split_axpy, 2.0),
    Program("matmul, tiled", _matmul, _tiled, 13.0),
    Program("matmul, in registers", _any_matmul, _in_registers),
    Program("stencil, halo", _stencil, _halo),
    Program("spectral element", _spectral, _on_nodes),
    Program("DG volume", _dg_volume, _on_elements),
    _pipeline(30),
    _pipeline(120),
    *(_chain(length) for length in (15, 30, 60, 120, 240)),
)
