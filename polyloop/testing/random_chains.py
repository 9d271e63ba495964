"""Random chains of transforms, as data: which transform, with which arguments.

Every registered transform has a drawer here; a test asks for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pymbolic.primitives as p

from polyloop.expr.dtypes import dtype_name
from polyloop.expr.rewrite import accesses, variables
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.registry import FUNCTIONS

__all__ = ["DRAWERS", "Step", "random_recipe", "random_step"]


@dataclass(frozen=True)
class Step:
    """One call of a transform."""

    name: str
    arguments: Mapping[str, Any]

    def __call__(self, kernel: LoopKernel) -> LoopKernel:
        """Return the transformed kernel, or raise what the transform raises."""
        return FUNCTIONS[self.name](kernel, **self.arguments)

    def script(self, variable: str = "knl") -> str:
        """Return the call as a line of Python."""
        arguments = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        return f"{variable} = pl.{self.name}({variable}{arguments})"


Drawer: TypeAlias = Callable[[random.Random, LoopKernel], dict[str, Any]]
"""Draws arguments for a transform, which may be refused."""


def _inames(kernel: LoopKernel) -> list[str]:
    found = dict.fromkeys(name for i in kernel.instructions for name in i.inames)
    found.update((name, None) for i in kernel.instructions for term in i.terms for name in term.inames)
    return list(found)


def _split(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    tags = (None, None, None, "g.0", "g.1", "l.0", "l.1", "unr", "ilp", "vec")
    found = {"split_iname": rng.choice(_inames(kernel)), "inner_length": rng.choice((1, 2, 3, 4, 5, 7))}
    found |= {name: tag for name in ("outer_tag", "inner_tag") if (tag := rng.choice(tags)) is not None}
    slabs = rng.choice(((0, 0), (0, 0), (0, 0), (0, 1), (1, 1)))
    return found | ({"slabs": slabs} if any(slabs) else {})


def _tag(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    tag = rng.choice(("g.0", "g.1", "l.0", "l.0", "l.1", "unr", "ord", "unr_hint", "ilp", "vec"))
    return {"iname_to_tag": {rng.choice(_inames(kernel)): tag}}


def _reorder(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    inames = _inames(kernel)
    return {"loop_priority": rng.sample(inames, min(len(inames), rng.choice((2, 2, 3))))}


def _rename(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"old_iname": rng.choice(_inames(kernel)), "new_iname": f"r{rng.randint(0, 99)}"}


def _prefetch(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    arrays = kernel.arrays()
    read = sorted(name for name in arrays if any(name in i.reads for i in kernel.instructions) and arrays[name].shape)
    found: dict[str, Any] = {"var_name": rng.choice(read or ["x"]), "sweep_inames": _sweep(rng, kernel)}
    return found | _made(rng)


def _sweep(rng: random.Random, kernel: LoopKernel) -> list[str]:
    inames = _inames(kernel)
    return rng.sample(inames, rng.randint(0, min(2, len(inames))))


def _made(rng: random.Random) -> dict[str, Any]:
    """Return how a temporary is filled, and where it lives."""
    found: dict[str, Any] = {}
    if rng.random() < 0.35:
        found["default_tag"] = None
    if rng.random() < 0.15:
        found["temporary_address_space"] = rng.choice(("private", "local", "global"))
    return found


def _precompute(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    name = rng.choice(sorted(kernel.substitutions) or ["f"])
    return {"subst_use": name, "sweep_inames": _sweep(rng, kernel)} | _made(rng)


def _assume(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    del kernel
    return {"assumptions": rng.choice(("n >= 1", "n >= 3", "n mod 2 = 0", "n mod 4 = 0 and n >= 4", "n <= 30"))}


def _fix(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    del kernel
    return {"n": rng.randint(1, 9)}


def _types(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    arrays = kernel.arrays()
    name = rng.choice(list(arrays))
    dtype = arrays[name].dtype
    known = "float64" if dtype is None or rng.random() < 0.1 else dtype_name(dtype)
    return {"dtypes": {name: known}}


def _space(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    name = rng.choice(list(kernel.temporaries) or ["t0"])
    return {"temp_var_names": name, "address_space": rng.choice(("auto", "private", "local", "global"))}


def _map(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    inames = _inames(kernel)
    i, j = rng.sample(inames, 2) if len(inames) > 1 else (inames[0], inames[0])
    maps = [f"{{[{i}] -> [{i}r]: {i}r = {rng.choice((6, 11))} - {i}}}", f"{{[{i}] -> [{i}s]: {i}s = {i} + 2}}"]
    if i != j:
        maps += [
            f"{{[{i}, {j}] -> [{i}, {j} + {rng.choice(('', '-', '2*'))}{i}]}}",
            f"{{[{i}, {j}] -> [{i}{j}, {j}]: {i}{j} = {i} + {j}}}",
            f"{{[{i}, {j}] -> [{j}q, {i}q]: {j}q = {j} and {i}q = {i}}}",
        ]
    return {"transform_map": rng.choice(maps)}


def _barrier(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    ids = [instruction.id for instruction in kernel.instructions]
    first, second = (*ids, *ids)[:2] if rng.random() < 0.6 else (rng.choice(ids), rng.choice(ids))
    found = {"insn_before": first, "insn_after": second}
    return found | ({"synchronization_kind": "local"} if rng.random() < 0.6 else {})


def _dependency(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    ids = [instruction.id for instruction in kernel.instructions]
    return {"insn_match": rng.choice(ids), "depends_on": rng.choice(ids)}


def _nosync(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    """Draw what is no lie: between instructions of which none has accesses that can only be supposed."""
    known = [i.id for i in kernel.instructions if not i.predicates and not {"idx", "cols", "rowptr"} & i.reads]
    first, second = rng.choice(known or ["none"]), rng.choice(known or ["none"])
    return {"scope": rng.choice(("local", "global", "any")), "source": first, "sink": second}


def _buffer(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    arrays = kernel.arrays()
    written = sorted(name for name in arrays if any(name in i.writes for i in kernel.instructions))
    found: dict[str, Any] = {"var_name": rng.choice(written), "buffer_inames": _sweep(rng, kernel)}
    return found | _made(rng) | ({"fetch_bounding_box": True} if rng.random() < 0.2 else {})


def _distribute(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    ids = [instruction.id for instruction in kernel.instructions]
    return {"iname": rng.choice(_inames(kernel)), "groups": f"id:{rng.choice(ids)}"}


def _duplicate(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    inames = _inames(kernel)
    found: dict[str, Any] = {"inames": rng.sample(inames, min(len(inames), rng.choice((1, 1, 2))))}
    if rng.random() < 0.7:
        found["within"] = f"id:{rng.choice(kernel.instructions).id}"
    return found


def _fuse(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    inames = _inames(kernel)
    return {"inames": rng.sample(inames, min(len(inames), rng.choice((1, 2, 2, 2))))}


def _batch(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"batches": {f"b{rng.randint(0, 99)}": _fuse(rng, kernel)["inames"]}}


def _reverse(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"iname": rng.choice(_inames(kernel))}


def _shift(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    amounts: tuple[int | str, ...] = (1, 2, -1, -3, *(("n", "n - 1") if "n" in kernel.parameters else ()))
    return {"iname": rng.choice(_inames(kernel)), "amount": rng.choice(amounts)}


DRAWERS: Final[Mapping[str, Drawer]] = {
    "add_barrier": _barrier,
    "add_dependency": _dependency,
    "add_dtypes": _types,
    "add_nosync": _nosync,
    "add_prefetch": _prefetch,
    "assume": _assume,
    "buffer_array": _buffer,
    "distribute_loops": _distribute,
    "duplicate_inames": _duplicate,
    "fix_parameters": _fix,
    "fuse_loops": _fuse,
    "map_domain": _map,
    "precompute": _precompute,
    "prioritize_loops": _reorder,
    "rename_iname": _rename,
    "rename_inames_in_batch": _batch,
    "reverse": _reverse,
    "set_temporary_address_space": _space,
    "shift": _shift,
    "split_iname": _split,
    "tag_inames": _tag,
}
"""By the name of the transform."""

_WEIGHTS: Final[Mapping[str, int]] = {
    "add_barrier": 2, "add_dependency": 1, "add_dtypes": 1, "add_nosync": 1, "add_prefetch": 8, "assume": 1,
    "fix_parameters": 1, "precompute": 5, "prioritize_loops": 7, "rename_iname": 1,
    "rename_inames_in_batch": 1, "reverse": 2, "shift": 2, "set_temporary_address_space": 2,
    "split_iname": 16, "tag_inames": 7,
}  # fmt: skip
_WEIGHT: Final = 4
"""Of a transform that has none above."""


def random_step(rng: random.Random, kernel: LoopKernel) -> Step:
    """Return one random call of a transform, which may be refused."""
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
    """Yield the beginning of a chain as people write it for a GPU: tiles, and what the threads read kept near them."""
    inner: list[str] = []
    for axis, iname in enumerate(rng.sample(("i", "j"), 2) if "j" in kernel.inames else ("i",)):
        tags: Sequence[str | None] = (
            rng.choice((f"g.{axis}", f"g.{axis}", None)), rng.choice((f"l.{axis}", f"l.{axis}", f"l.{axis}", None))
        )  # fmt: skip
        arguments: dict[str, Any] = {"split_iname": iname, "inner_length": rng.choice((2, 3, 4, 5))}
        arguments |= {k: tag for k, tag in zip(("outer_tag", "inner_tag"), tags, strict=True) if tag is not None}
        yield Step("split_iname", arguments)
        inner.append(f"{iname}_inner")
    if "k" in kernel.inames and rng.random() < 0.7:
        yield Step("split_iname", {"split_iname": "k", "inner_length": rng.choice((2, 3, 4))})
        inner.append("k_inner")
    read = sorted(name for name in ("x", "y", "a", "b") if any(name in i.reads for i in kernel.instructions))
    for name in rng.sample(read, min(len(read), rng.choice((0, 1, 1, 2)))):
        used = _subscript_inames(kernel, name)
        sweep = [iname for iname in inner if iname.removesuffix("_inner") in used and rng.random() < 0.9]
        yield Step("add_prefetch", {"var_name": name, "sweep_inames": sweep})
    if kernel.substitutions and rng.random() < 0.7:
        yield Step("precompute", {"subst_use": "f", "sweep_inames": [x for x in inner if rng.random() < 0.7]})
