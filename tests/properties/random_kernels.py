"""Random kernels and random transforms of them, from a seed.

All arrays have a margin, so that shifted subscripts stay inside.  Written values are only added up, never multiplied
with each other, and inputs are small integers: sums are exact in any order as long as values stay small.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pymbolic.primitives as p
from pymbolic import parse

import polyloop as pl
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import accesses, variables
from polyloop.kernel.kernel import LoopKernel

__all__ = ["Source", "Step", "random_recipe", "random_source", "random_step"]

Step: TypeAlias = Callable[[LoopKernel], LoopKernel]

MARGIN = 3
"""Elements before the first and after the last that a plain subscript touches."""

FIXED = ("0 <= i < 10", "0 <= i < 9 and 0 <= j < 6", "0 <= i < 7 and 0 <= j <= i")
"""Domains whose extents are numbers, so that temporaries fit into shared memory."""
ONE = ("0 <= i < n", "1 <= i < n", "0 <= i < n - 1", "0 <= i < n and i mod 2 = 0", "2 <= i <= n + 1", "0 <= i < 6")
TWO = (
    "0 <= i, j < n",
    "0 <= i, j < n",
    "0 <= i < n and 0 <= j <= i",
    "0 <= i < n and i <= j < n",
    "1 <= i < n and 0 <= j < n - 1",
    "0 <= i < n and 0 <= j < 5",
    "0 <= i < 4 and 1 <= j < n",
    "0 <= i, j and i + j < n",
)
TERMS = ("0 <= k < n", "0 <= k < 5", "0 <= k <= i", "1 <= k < i", "i <= k < n")


@dataclass
class Source:
    """The text of a kernel, to be passed to ``make_kernel`` and to be printed when something is wrong."""

    name: str
    domains: list[str]
    instructions: list[str]
    dtype: str
    data: list[object] = field(default_factory=list)

    def script(self) -> str:
        """Return the creation of the kernel as Python text."""
        lines = "\n".join(f"    {line}" for line in self.instructions)
        return f'pl.make_kernel({self.domains!r}, """\n{lines}\n""", {self.data!r}, name={self.name!r})'

    def make(self) -> LoopKernel:
        """Create the kernel."""
        return pl.make_kernel(self.domains, "\n".join(self.instructions), [*self.data, ...], name=self.name)


class _Writer:
    """Writes the instructions of one kernel."""

    def __init__(self, rng: random.Random, dims: int, *, is_plain: bool) -> None:
        self.rng = rng
        self.is_plain = is_plain
        self.inames = ("i", "j")[:dims]
        self.one = ["x", "y"]
        self.two = ["a", "b"]
        self.scalars: list[str] = []
        self.rules: list[str] = []
        self.has_reduction = False

    def shift(self, iname: str) -> str:
        rng = self.rng
        if rng.random() < 0.08:
            return f"n - 1 - {iname} + {MARGIN}"
        if rng.random() < 0.05:
            return f"({iname} // 2) + {MARGIN}"
        return f"{iname} + {MARGIN + rng.choice((0, 0, 0, 0, 1, -1, 2))}"

    def element(self, name: str, inames: tuple[str, ...]) -> str:
        if self.is_plain and name[0] in "ot" and "k" not in inames:
            return f"{name}[{', '.join(f'{iname} + {MARGIN}' for iname in self.inames)}]"
        rank = 2 if name in self.two else 1
        chosen = [self.rng.choice(inames) for _ in range(rank)]
        if rank == 2 and len(inames) >= 2 and self.rng.random() < 0.85:
            chosen = self.rng.sample(inames, 2)
            if self.rng.random() < 0.7:
                chosen.sort(key=inames.index)
        return f"{name}[{', '.join(self.shift(iname) for iname in chosen)}]"

    def read(self, inames: tuple[str, ...]) -> str:
        rng = self.rng
        if self.scalars and rng.random() < 0.4:
            return rng.choice(self.scalars)
        if self.rules and rng.random() < 0.5:
            return f"{rng.choice(self.rules)}({rng.choice(inames)} + {rng.choice((0, 0, 1))})"
        return self.element(rng.choice((*self.one, *self.two, *self.two[2:], *self.one[2:])), inames)

    def expression(self, inames: tuple[str, ...], depth: int = 0) -> str:
        rng, draw = self.rng, self.rng.random()
        if draw < 0.45 or depth > 2:
            return self.read(inames)
        if draw < 0.70:
            return f"{self.expression(inames, depth + 1)} {rng.choice('+-')} ({self.expression(inames, depth + 1)})"
        if draw < 0.78:
            return f"{rng.choice((2, 3))} * x[{rng.choice(inames)} + {MARGIN}] * {rng.choice(inames)}"
        if draw < 0.84:
            left, right = self.expression(inames, depth + 1), self.read(inames)
            return f"if({rng.choice(inames)} {rng.choice(('<', '>', '=='))} {rng.randint(0, 5)}, {left}, {right})"
        if draw < 0.90:
            return f"{rng.choice(('min', 'max'))}({self.read(inames)}, {self.read(inames)})"
        if draw < 0.95 and "k" not in inames and not self.has_reduction:
            self.has_reduction = True
            operation = rng.choice(("sum", "sum", "sum", "max", "min"))
            return f"{operation}(k, {self.expression((*inames, 'k'), 3)} + {self.element('a', (*inames, 'k'))})"
        return f"{rng.choice(inames)} + {rng.randint(0, 3)}"


def _declared(writer: _Writer, dtype: str, outputs: list[str], extent: str) -> list[object]:
    size = f"n + {2 * MARGIN + 2}"
    kind = np.dtype(dtype)
    data: list[object] = []
    for name in (*writer.one, *writer.two):
        shape = (size, size) if name in writer.two else (size,)
        if name in outputs and name.startswith("t"):
            data.append(pl.TemporaryVariable(name, kind, shape=_parsed((extent,) * len(shape))))
        else:
            data.append(pl.GlobalArg(name, kind, shape=", ".join(shape)))
    return data


def _parsed(shape: tuple[str, ...]) -> tuple[Expression, ...]:
    return tuple(parse(extent) for extent in shape)


def random_source(seed: int) -> Source:
    """Return the text of a random kernel of one to three statements."""
    rng = random.Random(seed)
    dims = rng.choice((1, 2, 2))
    is_plain, is_fixed = rng.random() < 0.6, rng.random() < 0.25
    domain = rng.choice(ONE if dims == 1 else TWO)
    if is_fixed:
        domain = FIXED[0] if dims == 1 else rng.choice(FIXED[1:])
    writer = _Writer(rng, dims, is_plain=is_plain)
    inames = writer.inames
    lines: list[str] = []
    if rng.random() < 0.35:
        lines.append(f"f(p) := {rng.choice((1, 2))} * x[p + {MARGIN}] + y[p + {MARGIN + rng.choice((0, 1))}]")
        writer.rules.append("f")
    targets: list[str] = []
    count = rng.choice((1, 1, 2, 2, 3))
    for number in range(count):
        draw = rng.random()
        if number + 1 < count and draw < 0.25:
            lines.append(f"<> s{number} = {writer.expression(inames)}")
            writer.scalars.append(f"s{number}")
            continue
        if targets and draw < 0.35:
            name = rng.choice(targets)
        else:
            letter = "t" if number + 1 < count and draw < 0.5 else "o"
            name = f"{letter}{number}"
            (writer.two if dims == 2 and (is_plain or rng.random() < 0.7) else writer.one).append(name)
            targets.append(name)
        rank = 2 if name in writer.two else 1
        place = ", ".join(f"{iname} + {MARGIN}" for iname in inames[:rank])
        guard = f" {{if={rng.choice(inames)} < {rng.randint(2, 6)}}}" if rng.random() < 0.1 else ""
        lines.append(f"{name}[{place}] = {writer.expression(inames)}{guard}")
    dtype = rng.choice(("float64", "float64", "float64", "float32", "uint32"))
    domains = [f"[n] -> {{[{', '.join(inames)}]: {domain}}}"]
    if writer.has_reduction:
        terms = rng.choice(TERMS)
        domains.append(f"[n, i] -> {{[k]: {terms}}}" if "i" in terms else f"[n] -> {{[k]: {terms}}}")
    data = _declared(writer, dtype, targets, "24" if is_fixed else f"n + {2 * MARGIN + 2}")
    return Source(f"random_{seed}", domains, lines, dtype, data)


# {{{ transforms


def _inames(kernel: LoopKernel) -> list[str]:
    found = dict.fromkeys(name for i in kernel.instructions for name in i.inames)
    found.update((name, None) for i in kernel.instructions for term in i.terms for name in term.inames)
    return list(found)


def _split(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    tags = (None, None, None, "g.0", "g.1", "l.0", "l.1", "unr", "ilp", "vec")
    outer, inner = rng.choice(tags), rng.choice(tags)
    inames = _inames(kernel)
    slabs = rng.choice(((0, 0), (0, 0), (0, 0), (0, 1), (1, 1)))
    return pl.split_iname(
        kernel, rng.choice(inames), rng.choice((1, 2, 3, 4, 5, 7)), outer_tag=outer, inner_tag=inner, slabs=slabs
    )


def _tag(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    tag = rng.choice(("g.0", "g.1", "l.0", "l.1", "unr", "ord", "ilp", "vec"))
    return pl.tag_inames(kernel, {rng.choice(_inames(kernel)): tag})


def _reorder(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    inames = _inames(kernel)
    return pl.prioritize_loops(kernel, rng.sample(inames, min(len(inames), rng.choice((2, 2, 3)))))


def _rename(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    return pl.rename_iname(kernel, rng.choice(_inames(kernel)), f"r{rng.randint(0, 99)}")


def _prefetch(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    read = sorted(name for name in ("x", "y", "a", "b") if any(name in i.reads for i in kernel.instructions))
    inames = _inames(kernel)
    name = rng.choice(read or ["x"])
    sweep = rng.sample(inames, rng.randint(0, min(2, len(inames))))
    return pl.add_prefetch(kernel, name, sweep, default_tag=rng.choice(("l.auto", "l.auto", None)))


def _precompute(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    inames = _inames(kernel)
    sweep = rng.sample(inames, rng.randint(0, min(2, len(inames))))
    name = rng.choice(sorted(kernel.substitutions) or ["f"])
    return pl.precompute(kernel, name, sweep, default_tag=rng.choice(("l.auto", None)))


def _assume(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    return pl.assume(kernel, rng.choice(("n >= 1", "n >= 3", "n mod 2 = 0", "n mod 4 = 0 and n >= 4", "n <= 30")))


def _fix(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    return pl.fix_parameters(kernel, n=rng.randint(1, 13))


_STEPS: tuple[Callable[[random.Random, LoopKernel], LoopKernel], ...] = (
    *[_split] * 8, *[_tag] * 3, *[_reorder] * 3, _rename, *[_prefetch] * 4, *[_precompute] * 2, _assume, _fix,
)  # fmt: skip


def _subscript_inames(kernel: LoopKernel, name: str) -> frozenset[str]:
    """Return the inames in the subscripts of an array, rules left alone."""
    expressions = [*(i.expression for i in kernel.instructions)]
    nodes: list[Any] = [node for expr in expressions for node in accesses(expr) if isinstance(node, p.Subscript)]
    return frozenset[str]().union(*(variables(e) for n in nodes if n.aggregate.name == name for e in n.index_tuple))


def random_recipe(rng: random.Random, kernel: LoopKernel) -> list[Step]:
    """Return the beginning of a chain as people write it for a GPU: tiles, and what the threads read kept near them."""
    steps: list[Step] = []
    inner: list[str] = []
    for axis, iname in enumerate(rng.sample(("i", "j"), 2) if "j" in kernel.inames else ("i",)):
        length, outer_tag = rng.choice((2, 3, 4, 5)), rng.choice((f"g.{axis}", f"g.{axis}", None))
        inner_tag = rng.choice((f"l.{axis}", f"l.{axis}", f"l.{axis}", None))
        split = partial(pl.split_iname, split_iname=iname, inner_length=length)
        steps.append(partial(split, outer_tag=outer_tag, inner_tag=inner_tag))
        inner.append(f"{iname}_inner")
    if "k" in kernel.inames and rng.random() < 0.7:
        steps.append(partial(pl.split_iname, split_iname="k", inner_length=rng.choice((2, 3, 4))))
        inner.append("k_inner")
    read = sorted(name for name in ("x", "y", "a", "b") if any(name in i.reads for i in kernel.instructions))
    for name in rng.sample(read, min(len(read), rng.choice((0, 1, 1, 2)))):
        used = _subscript_inames(kernel, name)
        sweep = [iname for iname in inner if iname.removesuffix("_inner") in used and rng.random() < 0.9]
        steps.append(partial(pl.add_prefetch, var_name=name, sweep_inames=sweep))
    if kernel.substitutions and rng.random() < 0.7:
        steps.append(partial(pl.precompute, subst_use="f", sweep_inames=[x for x in inner if rng.random() < 0.7]))
    return steps


def random_step(rng: random.Random, kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* after one random transform, which may be refused."""
    return rng.choice(_STEPS)(rng, kernel)


# }}}
