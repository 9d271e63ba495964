"""Updates of one element by many threads."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
BINS = 37


def _histogram_case(n: int, rng: np.random.Generator) -> Case:
    bins = rng.integers(0, BINS, n, dtype=np.int32)
    return {"bin": bins}, {"count": np.bincount(bins, minlength=BINS).astype(np.int32)}


@example(_histogram_case, sizes=(1, 63, 64, 300))
def histogram() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[b, i]: 0 <= b < 37 and 0 <= i < n}",
        """
        count[b] = 0 {id=clear}
        count[bin[i]] = count[bin[i]] + 1 {id=update, dep=clear, atomic}
        """,
        [pl.GlobalArg("bin", np.int32, shape="n"), pl.GlobalArg("count", np.int32, shape="37"), ...],
        name="histogram",
    )
    knl = pl.split_iname(knl, "b", 64, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def _block_histogram_case(n: int, rng: np.random.Generator) -> Case:
    bins = rng.integers(0, BINS, n, dtype=np.int32)
    count = np.zeros(BINS, np.int32)
    return {"bin": bins, "count": count}, {"count": np.bincount(bins, minlength=BINS).astype(np.int32)}


@example(_block_histogram_case, sizes=(1, 128, 1000))
def histogram_in_shared_memory() -> pl.LoopKernel:
    """Each block counts in shared memory, then adds its counts to those of all."""
    knl = pl.make_kernel(
        ["{[o]: 0 <= 128*o < n}", "{[b, c]: 0 <= b, c < 37}", "{[i]: 0 <= i < 128 and 128*o + i < n}"],
        """
        for o
            mine[b] = 0 {id=clear}
            mine[bin[128*o + i]] = mine[bin[128*o + i]] + 1 {id=update, dep=clear, atomic}
            count[c] = count[c] + mine[c] {dep=update, atomic}
        end
        """,
        [
            pl.GlobalArg("bin", np.int32, shape="n"),
            pl.GlobalArg("count", np.int32, shape="37"),
            pl.TemporaryVariable("mine", np.int32, shape="37", address_space="local"),
            ...,
        ],
        name="histogram_in_shared_memory",
    )
    return pl.tag_inames(knl, "o:g.0, i:l.0, b:l.0, c:l.0")


def _extremes_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.standard_normal((n, 5)).astype(F)
    start = {"low": np.full(5, 9, F), "high": np.full(5, -9, F), "product": np.ones(5, np.float64)}
    product = (1 + 0.01 * x.astype(np.float64)).prod(0)
    return {"x": x, **start}, {"low": x.min(0), "high": x.max(0), "product": product}


@example(_extremes_case, sizes=(1, 31, 65))
def extremes_by_compare_and_swap() -> pl.LoopKernel:
    """Operations that no device has as one instruction."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 5}",
        """
        low[k] = min(low[k], x[i, k]) {atomic}
        high[k] = max(high[k], x[i, k]) {atomic}
        product[k] = product[k]*cast(float64, 1 + 0.01*cast(float64, x[i, k])) {atomic}
        """,
        [pl.GlobalArg("x", F, shape="n, 5"), pl.GlobalArg("low, high", F, shape="5"),
         pl.GlobalArg("product", np.float64, shape="5"), ...],
        name="extremes_by_compare_and_swap",
    )  # fmt: skip
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _scatter_case(n: int, rng: np.random.Generator) -> Case:
    to = rng.integers(0, 4, n, dtype=np.int32)
    bits = rng.integers(0, 2**40, n, dtype=np.int64)
    x = rng.random(n, dtype=F)
    sums = np.zeros(4, F)
    np.add.at(sums, to, x)
    ored, anded, xored, total = (np.zeros(4, np.int64) for _ in range(4))
    anded[:] = -1
    for target, value in zip(to, bits, strict=True):
        ored[target] |= value
        anded[target] &= value
        xored[target] ^= value
        total[target] -= value
    start = np.zeros(4, np.int64)
    arguments = {"to": to, "bits": bits, "x": x, "sums": np.zeros(4, F), "ored": start, "xored": start}
    expected = {"sums": sums, "ored": ored, "anded": anded, "xored": xored, "total": total}
    return {**arguments, "anded": start - 1, "total": start}, expected


@example(_scatter_case, sizes=(1, 64, 200))
def scatter_of_sums_and_bits() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        sums[to[i]] += x[i] {atomic}
        ored[to[i]] |= bits[i] {atomic}
        anded[to[i]] &= bits[i] {atomic}
        xored[to[i]] ^= bits[i] {atomic}
        total[to[i]] -= bits[i] {atomic}
        """,
        [pl.GlobalArg("to", np.int32, shape="n"), pl.GlobalArg("bits", np.int64, shape="n"),
         pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("sums", F, shape="4"),
         pl.GlobalArg("ored, anded, xored, total", np.int64, shape="4"), ...],
        name="scatter_of_sums_and_bits",
    )  # fmt: skip
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
