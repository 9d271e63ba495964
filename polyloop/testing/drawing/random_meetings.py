"""Random loops with sums and scans over the threads of a block, each under a condition, and exchanges beside them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg, TemporaryVariable
from polyloop.testing.drawing.random_chains import Step
from polyloop.testing.drawing.random_kernels import Source

__all__ = ["MEETINGS", "meeting_recipe", "meeting_source"]

MEETINGS: Final = "meetings"
"""The feature of a source of :func:`meeting_source`."""
_LOOPS: Final = ("0 <= t < n", "0 <= t < 4", "0 <= t < n and t mod 2 = 0")
_SECOND: Final = ("0 <= s < 2", "0 <= s <= t", "t <= s < n")
_CONDITIONS: Final = ("t < 2", "t % 2 == 0", "t % 2 == 1", "t % 3 <= 1", "t > 1", "t == 1", "t < n - 1", "t != 2")
_LENGTHS: Final = (3, 5, 33)


def meeting_source(seed: int) -> Source:
    """Return the text of a kernel with loops in which threads meet."""
    rng = random.Random(seed + 47)
    loops = ("t", "s") if rng.random() < 0.3 else ("t",)
    length, count = rng.choice(_LENGTHS), rng.randint(2, 3)
    conditions = [rng.choice(_LOOPS), *([rng.choice(_SECOND)] if len(loops) > 1 else [])]
    inames = [f"k{number}" for number in range(count)]
    conditions += [f"0 <= {iname} < {length}" for iname in inames]
    domain = f"[n] -> {{[{', '.join((*loops, *inames))}]: {' and '.join(conditions)}}}"
    opened = rng.randint(0, count - 1) if len(loops) > 1 else 0
    lines = ["for t"]
    for number, iname in enumerate(inames):
        if len(loops) > 1 and number == opened:
            lines.append("for s")
        lines += _lines(rng, iname, number, length)
    lines += ["end"] * len(loops)
    kind = np.dtype(rng.choice((np.int32, np.uint32)))
    data = (
        GlobalArg("a, b", kind, shape="2*n + 6"), GlobalArg("x", kind, shape=f"2*n + 6, {length}"),
        TemporaryVariable("w", kind, shape=(length,), address_space="local"),
    )  # fmt: skip
    options = (("seq_dependencies", True), ("silenced_warnings", "*"), ("assumptions", "n >= 0"))
    return Source(f"meetings_{seed}", (domain,), tuple(lines), data, options, (MEETINGS,))


def _lines(rng: random.Random, iname: str, number: int, length: int) -> Iterator[str]:
    """Yield an exchange between threads, or a sum whose result an element or a scalar keeps, under some condition."""
    holds = f"  {{if={rng.choice(_CONDITIONS)}}}" if rng.random() < 0.6 else ""
    row, other = rng.choice(("t", "t + 1", "0")), rng.choice(("a[t]", "b[t + 1]", "1"))
    if number and rng.random() < 0.3:
        yield f"w[{iname}] = x[{row}, {iname}] + {other}{holds}"
        yield f"x[t, {iname}] = w[{length - 1} - {iname}] + 1{holds}"
        return
    value = rng.choice((f"x[{row}, {iname}]", f"x[{row}, {iname}] + {other}", f"x[{row}, {iname}]*{iname}"))
    yield f"{rng.choice(('a[t]', 'b[t]', 'a[t + 1]'))} = sum({iname}, {value}) + {other}{holds}"


def meeting_recipe(seed: int) -> Iterator[Step]:
    """Yield steps for the kernel of *seed*: inner loops on threads of one axis."""
    rng = random.Random(seed + 53)
    axis = rng.choice(("l.0", "l.1", "l.1"))
    for number in range(3):
        if rng.random() < 0.9:
            yield Step("tag_inames", {"iname_to_tag": {f"k{number}": axis}})
    if rng.random() < 0.2:
        yield Step("split_iname", {"split_iname": "t", "inner_length": 2})
