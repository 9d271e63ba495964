"""Kernels, names and odd values that calls are drawn from (``api.py``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final

import numpy as np

import polyloop as pl

__all__ = ["kernels", "odd_values", "recipes_as_json", "texts_for"]

_F32: Final = np.float32


def _rows() -> pl.LoopKernel:
    data = [pl.GlobalArg("m", _F32, shape="n, p"), pl.GlobalArg("v", _F32, shape="p"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < p}", "w[i] = sum(j, m[i, j]*v[j])", data, name="rows")


def _tiled() -> pl.LoopKernel:
    knl = pl.split_iname(_rows(), "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 8)
    return pl.add_prefetch(knl, "v", ["j_inner"])


def _stencil() -> pl.LoopKernel:
    data = [pl.GlobalArg("u, out", _F32, shape="n"), pl.ValueArg("c", _F32), ...]
    lines = """
        near(k) := u[k] + u[k + 1] {id=rule}
        for t
            <> mean = 0.5*near(t) {id=average}
            <> kept[q] = mean + q {id=keep}
            out[t] = mean*c + sum(r, kept[r]) {id=store, tags=last}
        end
    """
    domains = ["{[t]: 0 <= t < n - 1}", "{[q]: 0 <= q < 8}", "{[r]: 0 <= r < 8}"]
    return pl.make_kernel(domains, lines.replace(" {id=rule}", ""), data, name="stencil", assumptions="n >= 2")


def _histogram() -> pl.LoopKernel:
    data = [pl.GlobalArg("key", np.int32, shape="n"), pl.GlobalArg("many", np.int32, shape="16"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "many[key[i]] += 1 {atomic, id=count}", data, name="histogram")


def _triangle() -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", np.float64, shape="n"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "y[i] = sum(j, x[j])", data, name="triangle")


def _small() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", np.int32, shape="4, 6"), pl.GlobalArg("b", np.int32, shape="6, 4"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 6}", "b[j, i] = a[i, j] {id=turn}", data, name="small")


_MAKERS: Final = (_rows, _tiled, _stencil, _histogram, _triangle, _small)


@cache
def kernels() -> Mapping[str, pl.LoopKernel]:
    """Return the kernels that calls are about, by name."""
    return {make.__name__: make() for make in _MAKERS}


@cache
def recipes_as_json() -> Sequence[str]:
    """Return texts that are traces or recipes."""
    small, rows, stencil = _small(), _rows(), _stencil()
    steps = (
        _tiled(),
        pl.tile(small, {"i": 2, "j": 3}, outer_tags={"i": "g.0"}),
        pl.tag_array_axes(pl.rename_iname(small, "i", "row"), "a", "N0,N1"),
        pl.map_domain(small, "{[i, j] -> [k, j]: k = i + 1}"),
        pl.precompute(pl.split_iname(stencil, "t", 16), "near", ["t_inner"]),
        pl.fix_parameters(pl.assume(rows, "p >= 4"), n=64),
        pl.duplicate_inames(rows, "j", "id:*"),
        pl.set_temporary_address_space(stencil, "kept", "private"),
        pl.stage_reduction(pl.split_iname(rows, "j", 8), "j_inner"),
    )
    found = [kernel.trace.to_json() for kernel in steps] + [pl.Recipe.of(kernel).to_json() for kernel in steps]
    return (*found, pl.Recipe.of(steps[0]).with_parameters(block="1.inner_length").to_json())


_ODD_TEXTS: Final = (
    "", " ", ",", "i", "j", "t", "i_inner", "n", "nosuch", "é", "i j", "a,,b", "\0", "\n", "\ud800", "%s", "{}",
    "{0}", "*",
    "?", "//", "/*",
    '"', "'", "\\", "id:*", "id:turn", "writes:y", "not tag:last", "id:(", "l.0", "g.0", "g.9", "l.auto",
    "unr", "vec", "ilp", "for", "w", "lane", "l/8%4", "x" * 300, "9" * 500, "-1", "0x10", "1e400", "n >= 1",
    "n mod 4 = 0",
    "n >", "0 <= i < n", "{[i]: 0 <= i < n}", "{[i, j] -> [k, l]: k = i + j and l = j}", "{ [", "i+1", "x[i]", "f(x)",
    "2*i + 1",
    "(" * 300, "not " * 300 + "i", "-" * 300 + "1", "y[i] = x[i] {id=one}", "<> q = 1", "for i\nend", "float32",
    "i:l.0", "i:l.0, j:g.0", "i:", ":l.0", "N0,N1", "stride:3", "sep", "C", "F", "local", "global", "shared",
    "cp.async",
    "sm_80", "H100", "int", "INFINITY", "threadIdx", "_", "__x", "i,i",
)  # fmt: skip
_NEW: Final = ("fresh", "other", "k2", "row")


def texts_for(name: str, kernel: pl.LoopKernel, rng: Random) -> Sequence[str]:
    """Return texts for a parameter called *name*: names in the kernel, new names, and odd texts."""
    inames = list(kernel.inames) or ["i"]
    arrays = [*kernel.arrays(), *kernel.substitutions, *kernel.parameters]
    ids = [instruction.id for instruction in kernel.instructions]
    several = ", ".join(rng.sample(inames, min(2, len(inames))))
    if "new" in name or "prefix" in name or name in ("outer_iname", "inner_iname", "temporary_name"):
        likely = [*_NEW]
    elif "iname" in name or name in ("first", "second", "loop_priority"):
        likely = [*inames, several]
    elif "var" in name or "ary" in name or "arr" in name or "arg" in name or "subst" in name or name == "names":
        likely = [*arrays]
    elif "insn" in name or name in ("within", "source", "sink", "depends_on"):
        likely = [*ids, *(f"id:{one}" for one in ids)]
    else:
        likely = [*inames, *arrays, *ids, *_NEW]
    return (*likely * (1 + 40 // len(likely)), *_ODD_TEXTS)


class _Hostile:
    """A value whose every method raises."""

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __iter__(self) -> Any:  # noqa: ANN401 - never returns
        raise TypeError("iter")


def _deep() -> object:
    found: list[object] = []
    for _ in range(2000):
        found = [found]
    return found


def _always(value: object) -> Callable[[], object]:
    return lambda: value


@cache
def odd_values() -> Sequence[Callable[[], object]]:
    """Return factories of values of all types; iterators are created at each call."""
    small = kernels()["_small"]
    fixed: tuple[object, ...] = (
        *_ODD_TEXTS, None, True, False, 0, 1, -1, 2, 16, 2**31, 2**63, 2**64, -(2**70), 10**30, 10**5000, 0.5,
        -1.5, -0.0,
        1e308, float("nan"), float("inf"), 1j, b"i", b"", bytearray(b"x"), memoryview(b"x"), [], (), {}, set(),
        frozenset("ij"), ["i"], ["i", "j"], ("i",), ["i", 3], [None], [[]], ["", ""], {"i": "l.0"}, {"i": None},
        {1: 2},
        {"n": 4}, {"n": -4}, {"n": 2**40}, {"n": "x"}, {"i": 16}, {"": ""}, [("i", "l.0")], [("i",)], ((),), object(),
        int, np.float32, np.dtype("f4"), np.dtype("f4,i4"), np.array([1, 2]), np.array(["i"]), np.array(1),
        np.zeros((0, 2)),
        np.int64(3), np.float32(2), np.bool_(True), np.void(b"ab"), np.ma.masked_array([1.0], [True]), ...,
        NotImplemented,
        print, len, lambda *_: None, lambda value: value, range(3), slice(1), Exception, pl, pl.auto, pl.CTarget(),
        pl.CudaTarget(), pl.CudaTarget, pl.GlobalArg("x", _F32), pl.ValueArg("n"), pl.TemporaryVariable("s", _F32),
        pl.AddressSpace.LOCAL, pl.CountGranularity.SUBGROUP, pl.Trace(), pl.Recipe(), small, small.trace,
        (small, small),
        [small], small.domains[0].set, small.instructions[0], pl.verify(small), pl.generate_code(small),
        pl.Assignment("y[i]", "x[i]"), pl.NoOpInstruction("wait"), pl.ForeignFunction("halfof", (_F32,)),
        pl.ReductionOperation("norm", "sqrt(a*a + b*b)", neutral=0), pl.Diagnostic("unknown-iname", "y"),
    )  # fmt: skip
    return (
        *map(_always, fixed), _Hostile, _deep, lambda: iter(["i"]), lambda: iter([]), lambda: (x for x in "ij"),
        lambda: itertools.repeat("i"),
    )  # fmt: skip
