"""A histogram: each block counts in shared memory, by atomic updates of its own copy, and adds that to the result."""

from typing import Any

import numpy as np

import polyloop as pl

BINS = 256
BLOCK = 256
EACH = 16
"""Values that a thread counts."""
SIZES = [{"n": 1}, {"n": 255}, {"n": BLOCK * EACH}, {"n": 2 * BLOCK * EACH + 257}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        [
            f"{{[bin]: 0 <= bin < {BINS}}}",
            f"{{[block, i]: 0 <= block and 0 <= i < {BLOCK * EACH} and {BLOCK * EACH}*block + i < n}}",
            f"{{[b]: 0 <= b < {BINS}}}",
            f"{{[c]: 0 <= c < {BINS}}}",
        ],
        f"""
        count[bin] = 0                                        {{id=clear}}
        for block
            own[b] = 0                                        {{id=start}}
            for i
                <> at = cast(int32, x[{BLOCK * EACH}*block + i])
                own[at] = own[at] + 1                         {{id=tally, atomic}}
            end
            count[c] = count[c] + own[c]                      {{id=merge, atomic}}
        end
        """,
        [
            pl.GlobalArg("x", np.uint8, shape="n"),
            pl.GlobalArg("count", np.int32, shape=BINS),
            pl.TemporaryVariable("own", np.int32, shape=(BINS,), address_space="local"),
            ...,
        ],
        name="histogram",
        assumptions="n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", BLOCK, inner_tag="l.0")
    return pl.tag_inames(knl, "block:g.0, bin:l.0, b:l.0, c:l.0")


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.integers(0, BINS, n, np.uint8)}


def expected(x: Any) -> dict[str, Any]:
    return {"count": np.bincount(x, minlength=BINS).astype(np.int32)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1_000_000)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_array_equal(result.count, expected(**arrays)["count"])
    print("histogram: 1000000 values in 256 bins agree with NumPy")
