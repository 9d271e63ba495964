"""Random chains of transforms, as data: names and arguments."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pymbolic.primitives as p

from polyloop.expr.rewrite import accesses, variables
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.testing.drawing.drawers import DRAWERS
from polyloop.transform.registry import FUNCTIONS

__all__ = ["Step", "random_recipe", "random_step"]


@dataclass(frozen=True)
class Step:
    """One call of a transform."""

    name: str
    arguments: Mapping[str, Any]

    def __call__(self, kernel: LoopKernel) -> LoopKernel:
        """Return the transformed kernel; raise the transform's errors."""
        return FUNCTIONS[self.name](kernel, **self.arguments)

    def script(self, variable: str = "knl") -> str:
        """Return the call as a line of Python."""
        arguments = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        return f"{variable} = pl.{self.name}({variable}{arguments})"


_WEIGHTS: Final[Mapping[str, int]] = {
    "add_prefetch": 8, "add_barrier": 2, "precompute": 5, "prioritize_loops": 7, "reverse": 2, "shift": 2,
    "set_temporary_address_space": 2, "split_iname": 16, "tag_inames": 7,
    **dict.fromkeys(
        (
            "add_dependency", "add_dtypes", "add_inames_for_unused_hw_axes", "add_inames_to_insn", "add_nosync",
            "add_padding", "assume", "expand_subst", "fix_parameters", "fold_constants",
            "make_reduction_inames_unique", "remove_instructions", "remove_unused_arguments", "remove_unused_inames",
            "rename_argument", "rename_iname", "rename_inames_in_batch", "set_argument_order",
            "set_instruction_priority", "simplify_indices", "tag_array_axes", "tag_instructions", "unchecked",
        ),
        1,
    ),
}  # fmt: skip
_WEIGHT: Final = 4
"""Of a transform that has none above."""


def random_step(rng: random.Random, kernel: LoopKernel) -> Step:
    """Return one random call of a transform, which may be refused."""
    if not kernel.instructions:  # and most have nothing to draw from
        return Step("remove_unused_arguments", DRAWERS["remove_unused_arguments"](rng, kernel))
    names = list(DRAWERS)
    if not kernel.substitutions and rng.random() < 0.9:
        names.remove("precompute")
    if not kernel.temporaries and rng.random() < 0.9:
        names.remove("set_temporary_address_space")
    (name,) = rng.choices(names, [_WEIGHTS.get(name, _WEIGHT) for name in names])
    return Step(name, DRAWERS[name](rng, kernel))


def _subscript_inames(kernel: LoopKernel, name: str) -> frozenset[str]:
    """Return the inames in the subscripts of an array, rules left alone."""
    expressions = [*(i.expression for i in kernel.instructions)]
    nodes: list[Any] = [node for expr in expressions for node in accesses(expr) if isinstance(node, p.Subscript)]
    return frozenset[str]().union(*(variables(e) for n in nodes if n.aggregate.name == name for e in n.index_tuple))


def random_recipe(rng: random.Random, kernel: LoopKernel) -> Iterator[Step]:
    """Yield the usual first steps of a chain for a GPU: tiles, tags and prefetches."""
    inner: list[str] = []
    outer = list(dict.fromkeys(iname for i in kernel.instructions for iname in i.inames))[:2]
    reduced = list(dict.fromkeys(x for i in kernel.instructions for term in i.terms for x in term.inames))
    for axis, iname in enumerate(rng.sample(outer, len(outer))):
        tags: Sequence[str | None] = (
            rng.choice((f"g.{axis}", f"g.{axis}", None)), rng.choice((f"l.{axis}", f"l.{axis}", f"l.{axis}", None))
        )  # fmt: skip
        arguments: dict[str, Any] = {"split_iname": iname, "inner_length": rng.choice((2, 3, 4, 5))}
        arguments |= {k: tag for k, tag in zip(("outer_tag", "inner_tag"), tags, strict=True) if tag is not None}
        yield Step("split_iname", arguments)
        inner.append(f"{iname}_inner")
    if reduced and rng.random() < 0.7:
        spread = {"split_iname": reduced[0], "inner_length": rng.choice((2, 3, 4))}
        if rng.random() < 0.4:  # a reduction over threads
            side = rng.choice(("inner_tag", "outer_tag", "inner_tag"))
            spread[side] = rng.choice(("l.2", "l.2", "l.0", "l.1", "lane"))
        yield Step("split_iname", spread)
        inner.append(f"{reduced[0]}_inner")
    indices = {"idx", "cols", "rowptr"}
    arrays = {a.name for a in kernel.arguments if isinstance(a, ArrayArg) and a.shape} - indices
    read = sorted(name for name in arrays if any(name in i.reads for i in kernel.instructions))
    for name in rng.sample(read, min(len(read), rng.choice((0, 1, 1, 2)))):
        used = _subscript_inames(kernel, name)
        sweep = [iname for iname in inner if iname.removesuffix("_inner") in used and rng.random() < 0.9]
        yield Step("add_prefetch", {"var_name": name, "sweep_inames": sweep})
    if kernel.substitutions and rng.random() < 0.7:
        rules = sorted(kernel.substitutions)
        name = rng.choice(rules) if len(rules) > 1 else rules[0]
        yield Step("precompute", {"subst_use": name, "sweep_inames": [x for x in inner if rng.random() < 0.7]})
    if reduced and f"{reduced[0]}_inner" in inner and rng.random() < 0.4:
        names = ("split_reduction_inward", "split_reduction_outward", "stage_reduction", "reduce_atomically")
        yield Step(rng.choice(names), {"inames": f"{reduced[0]}_{rng.choice(('outer', 'inner'))}"})
