"""Random branches that set temporaries in loops of their own, and reads behind them: which values are private."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg, TemporaryVariable
from polyloop.testing.drawing.random_chains import Step
from polyloop.testing.drawing.random_kernels import Source

__all__ = ["BRANCHES", "branch_recipe", "branch_source"]

BRANCHES: Final = "loops in branches"
"""The feature of a source of :func:`branch_source`."""
_EXTENT: Final = 3
_CONDITIONS: Final = (
    "a[i] > 0", "a[i] > 1", "b[i] > 0", "a[i] > 0 and b[i] > 1", "i > 2", "a[i] > b[i]", "not b[i] > 1",
)  # fmt: skip
_CHANGES: Final = ("a[i] = a[i] - 1", "b[i] = w[1]", "a[0] = 2", "out[i] = w[0]")
_WHOLE: Final = ("w[{k}] = {value}", "w[2 - {k}] = {value}")
_PART: Final = ("w[{k}] = {value} {{if=a[{k}] > 0}}", "w[0] = {value}", "w[{k}*{k} % 3] = {value}")


def branch_source(seed: int) -> Source:
    """Return the text of a loop with choices in it, in most of which all branches set the same elements."""
    rng = random.Random(seed + 59)
    text = _Text(rng)
    text.inames["k0"] = _EXTENT
    lines = ["for k0", "w[k0] = k0", "end", "for i"]
    for _ in range(rng.randint(1, 2)):
        lines += text.choice(rng.randint(1, 2)) if rng.random() < 0.8 else text.parted()
        lines += text.read()
        if rng.random() < 0.2:
            lines.append(rng.choice(_CHANGES))
    lines.append("end")
    domains = ["{[i]: 0 <= i < n}", *(f"{{[{name}]: 0 <= {name} < {extent}}}" for name, extent in text.inames.items())]
    kind = np.dtype(np.int32)
    data = (GlobalArg("a, b, out", kind, shape="n + 3"), TemporaryVariable("w", kind, shape=(_EXTENT,)))
    options = (("seq_dependencies", True), ("silenced_warnings", "*"), ("assumptions", "n >= 0"))
    return Source(f"branches_{seed}", tuple(domains), tuple(lines), data, options, (BRANCHES,))


@dataclass
class _Text:
    """Draws lines; ``inames`` are those drawn so far, with their extents."""

    rng: random.Random
    inames: dict[str, int] = field(default_factory=dict)

    def choice(self, depth: int) -> Iterator[str]:
        """Yield the lines of an ``if``, now and then without ``else``."""
        rng = self.rng
        yield f"if {rng.choice(_CONDITIONS)}"
        yield from self.branch(depth)
        for _ in range(rng.choice((0, 1, 1, 2))):
            yield f"elif {rng.choice(_CONDITIONS)}"
            yield from self.branch(depth)
        if rng.random() < 0.9:
            yield "else"
            yield from self.branch(depth)
        yield "end"

    def branch(self, depth: int) -> Iterator[str]:
        """Yield the lines of one branch: a choice in it, or writes."""
        rng = self.rng
        if depth > 1 and rng.random() < 0.3:
            yield from self.choice(depth - 1)
            return
        if rng.random() < 0.06:
            yield "out[i] = w[0]"
        yield from self.writes()

    def writes(self, holds: str = "") -> Iterator[str]:
        """Yield a loop that sets elements, under a condition that the statement has of its own."""
        rng = self.rng
        name, is_whole = f"k{len(self.inames)}", rng.random() < 0.92
        self.inames[name] = _EXTENT if rng.random() < 0.95 else _EXTENT - 1
        value = rng.choice((f"a[i] + {name}", f"{name}*b[i]", "a[i]", f"b[{name}] + 1", f"{len(self.inames)}"))
        yield f"for {name}"
        yield rng.choice(_WHOLE if is_whole or holds else _PART).format(k=name, value=value) + holds
        yield "end"

    def parted(self) -> Iterator[str]:
        """Yield the two branches of a choice as statements with conditions, of which something between may change."""
        rng, condition = self.rng, self.rng.choice(_CONDITIONS)
        yield from self.writes(f" {{if={condition}}}")
        if rng.random() < 0.5:
            yield rng.choice(_CHANGES)
        yield from self.writes(f" {{if=not ({condition})}}")

    def read(self) -> Iterator[str]:
        """Yield a read of what was set, in a loop of its own or not."""
        rng = self.rng
        holds = f" {{if={rng.choice(_CONDITIONS)}}}" if rng.random() < 0.2 else ""
        yield f"out[i] = out[i] + w[0] + 2*w[{_EXTENT - 1}]{holds}"
        if rng.random() < 0.3:
            name = f"k{len(self.inames)}"
            self.inames[name] = _EXTENT
            yield f"for {name}"
            yield f"out[i] = 3*out[i] + w[{name}]"
            yield "end"


def branch_recipe(seed: int) -> Iterator[Step]:
    """Yield steps for the kernel of *seed*: its loop on blocks and threads."""
    rng = random.Random(seed + 61)
    tags = rng.choice(({"outer_tag": "g.0", "inner_tag": "l.0"}, {"inner_tag": "l.0"}, {"outer_tag": "g.0"}))
    yield Step("split_iname", {"split_iname": "i", "inner_length": rng.choice((2, 3)), **tags})
