"""Random arguments for each transform, by its declaration, or by a drawer of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from functools import partial
from typing import Any, Final, TypeAlias, get_origin

from polyloop.expr.dtypes import dtype_name
from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.printer import show
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.intrinsic import INTRINSICS
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import GroupAxis
from polyloop.proof.obligation import WAIVABLE
from polyloop.testing.drawing.hostile import HOSTILE
from polyloop.testing.drawing.random_kernels import INDICES
from polyloop.transform.declare import Names, fields_of
from polyloop.transform.registry import TRANSFORMS

__all__ = ["DRAWERS", "Drawer", "declared"]

Drawer: TypeAlias = Callable[[random.Random, LoopKernel], dict[str, Any]]
"""Draws arguments for a transform, which may be refused."""


def _inames(kernel: LoopKernel) -> list[str]:
    """Return the inames of instructions and reductions; one that is not there, if there are none."""
    found = dict.fromkeys(name for i in kernel.instructions for name in i.inames)
    found.update((name, None) for i in kernel.instructions for term in i.terms for name in term.inames)
    return list(found) or ["i"]


def _split(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    tags = (
        None, None, None, "g.0", "g.1", "l.0", "l.1", "l%4", "l/4%3", "l.2", "lane", "w", "unr", "ilp", "vec",
    )  # fmt: skip
    found = {"split_iname": rng.choice(_inames(kernel)), "inner_length": rng.choice((1, 2, 3, 4, 5, 7))}
    found |= {name: tag for name in ("outer_tag", "inner_tag") if (tag := rng.choice(tags)) is not None}
    slabs = rng.choice(((0, 0), (0, 0), (0, 0), (0, 1), (1, 1)))
    return found | ({"slabs": slabs} if any(slabs) else {})


def _tag(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    tag = rng.choice(("g.0", "g.1", "l.0", "l.0", "l.1", "l%2", "l/2%3", "l/4", "unr", "ord", "unr_hint", "ilp", "vec"))
    return {"iname_to_tag": {rng.choice(_inames(kernel)): tag}}


def _reorder(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    inames = _inames(kernel)
    return {"loop_priority": rng.sample(inames, min(len(inames), rng.choice((2, 2, 3))))}


def _new_name(rng: random.Random, letter: str) -> str:
    """Return a new name, or a name with a meaning elsewhere."""
    return rng.choice(HOSTILE) if rng.random() < 0.3 else f"{letter}{rng.randint(0, 99)}"


def _rename(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    old, new = rng.choice(_inames(kernel)), _new_name(rng, "r")
    parameters = [x for rule in kernel.substitutions.values() for x in rule.arguments]
    return {"old_iname": old, "new_iname": rng.choice(parameters) if parameters and rng.random() < 0.5 else new}


def _prefetch(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    arrays = kernel.arrays()
    read = sorted(name for name in arrays if any(name in i.reads for i in kernel.instructions) and arrays[name].shape)
    found: dict[str, Any] = {"var_name": rng.choice(read or ["x"])} | _placed(rng, kernel) | _made(rng)
    if rng.random() < 0.2:
        found["vec"] = rng.choice((2, 4))
    return found


def _sweep(rng: random.Random, kernel: LoopKernel) -> list[str]:
    inames = _inames(kernel)
    return rng.sample(inames, rng.randint(0, min(2, len(inames))))


def _placed(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    """Return the swept loops, and the storage of the temporary."""
    if rng.random() < 0.2:
        return {"compute_at": rng.choice((*_inames(kernel), "root"))}
    found: dict[str, Any] = {"sweep_inames": _sweep(rng, kernel)}
    if found["sweep_inames"] and rng.random() < 0.2:
        found["storage_axes"] = found["sweep_inames"]
    if rng.random() < 0.2:
        found |= {"dim_tags": rng.choice(("N0,N1", "F", "N0")), "pad": rng.choice((0, 1, 4))}
    if rng.random() < 0.15:
        found["fetch_bounding_box"] = rng.choice((True, False))
    return found | _within(rng, kernel, 0.15)


def _made(rng: random.Random) -> dict[str, Any]:
    """Return the way to fill a temporary, and its address space."""
    found: dict[str, Any] = {}
    if rng.random() < 0.35:
        found["default_tag"] = None
    if rng.random() < 0.15:
        found["temporary_address_space"] = rng.choice(("private", "local", "global"))
    return found


def _precompute(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    name = rng.choice(sorted(kernel.substitutions) or ["f"])
    found = {"subst_use": name} | _placed(rng, kernel) | _made(rng)
    if rng.random() < 0.15:
        found["precompute_inames"] = rng.sample(_inames(kernel), 1)
    return found


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
    """Draw a true ``nosync``: between instructions whose accesses are all known."""
    known = [i.id for i in kernel.instructions if not i.predicates and not INDICES & i.reads]
    first, second = rng.choice(known or ["none"]), rng.choice(known or ["none"])
    return {"scope": rng.choice(("local", "global", "any")), "source": first, "sink": second}


def _buffer(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    arrays = kernel.arrays()
    written = sorted(name for name in arrays if any(name in i.writes for i in kernel.instructions))
    found: dict[str, Any] = {"var_name": rng.choice(written), "buffer_inames": _sweep(rng, kernel)}
    return found | _made(rng) | ({"fetch_bounding_box": True} if rng.random() < 0.2 else {})


def _batch(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"batches": {f"b{rng.randint(0, 99)}": _some(rng, kernel, rng.choice((1, 2, 2, 2)))}}


def _shift(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    amounts: tuple[int | str, ...] = (1, 2, -1, -3, *(("n", "n - 1") if "n" in kernel.parameters else ()))
    return {"iname": rng.choice(_inames(kernel)), "amount": rng.choice(amounts)}


def _within(rng: random.Random, kernel: LoopKernel, chance: float) -> dict[str, Any]:
    return {"within": f"id:{rng.choice(kernel.instructions).id}"} if rng.random() < chance else {}


def _parts(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    found = rng.choice(kernel.instructions)
    inames = rng.sample(found.inames, min(len(found.inames), rng.choice((1, 1, 2)))) or ["i"]
    tests = [f"{name} {rng.choice(('<', '>=', '=', '>'))} {rng.randint(0, 4)}" for name in inames]
    condition = rng.choice((" and ", " or ")).join(tests)
    return {"within": f"id:{found.id}", "condition": rng.choice((condition, f"{inames[0]} mod 2 = 0"))}


def _chunk(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    found = _split(rng, kernel)
    del found["inner_length"]
    return found | {"num_chunks": rng.choice((1, 2, 3, 4))}


def _some(rng: random.Random, kernel: LoopKernel, most: int) -> list[str]:
    inames = _inames(kernel)
    return rng.sample(inames, min(len(inames), most))


def _pipeline(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    fillers = [i for i in kernel.instructions if i.id in kernel.evaluations.values()]
    inames = [x for i in fillers for x in i.inames] or _inames(kernel)
    found: dict[str, Any] = {"iname": rng.choice(inames), "stages": rng.choice((2, 2, 3, 4))}
    via = rng.choice(("shared", "registers", "cp.async"))
    if rng.random() < 0.3 and kernel.evaluations:
        found["producers"] = (rng.choice(sorted(kernel.evaluations)),)
    if rng.random() < 0.3:
        found["window"] = rng.choice((0, 0, 1))
    if via == "cp.async" and found["stages"] == 2 and rng.random() < 0.4:
        found["stages"] = 1
    return found | ({"via": via} if via != "shared" else {})


def _roles(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    tiles = sorted(kernel.evaluations) or sorted(kernel.temporaries) or ["t0"]
    found: dict[str, Any] = {"roles": {"load": rng.choice(tiles), "compute": "*"}}
    return found | ({"registers": {"load": 40, "compute": 232}} if rng.random() < 0.2 else {})


def _peel(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"iname": rng.choice(_inames(kernel)), "front": rng.choice((0, 1, 2)), "back": rng.choice((0, 1))}


def _same_name(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    old = _some(rng, kernel, rng.choice((1, 2)))
    if rng.random() < 0.5:
        return {"old_inames": old, "new_iname": f"s{rng.randint(0, 99)}"}
    return {"old_inames": old[:1], "new_iname": old[-1], "existing_ok": True}


def _mapped(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    old = _some(rng, kernel, 2)
    equations = [f"u = {old[0]} + {old[-1]}" if len(old) == 2 else f"u = {old[0]} + 1", f"v = {old[-1]}"]
    return {"old_inames": old, "new_inames": ["u", "v"][: len(old)], "equations": equations[: len(old)]}


def _temporaries(rng: random.Random, kernel: LoopKernel) -> list[str]:
    names = list(kernel.temporaries) or ["t0"]
    return rng.sample(names, min(len(names), 2))


def _tensorize(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    name = rng.choice(sorted(INTRINSICS))
    return {"insns": f"id:{rng.choice(kernel.instructions).id}", "intrinsic": name}


def _argument(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    """Draw an array with arbitrary contents, which no other drawer identifies by name."""
    names = [a.name for a in kernel.arguments if a.name not in {"n", "nnz", *INDICES}]
    return {"old_name": rng.choice(names or ["x"]), "new_name": _new_name(rng, "z")}


def _instruction_tag(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"new_tag": f"tag{rng.randint(0, 9)}"} | _within(rng, kernel, 0.7)


def _pad(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    name = _temporaries(rng, kernel)[0]
    return {"variable": name, "axis": rng.choice((0, 0, 1)), "align_bytes": rng.choice((24, 64))}


def _split_axis(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    name = _temporaries(rng, kernel)[0]
    found = {"array_names": name, "axis_nr": rng.choice((0, 0, 1)), "count": rng.choice((2, 3, 4))}
    return found | ({"order": "F"} if rng.random() < 0.3 else {})


def _tag_axes(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"ary_names": _temporaries(rng, kernel)[0], "dim_tags": rng.choice(("F", "N0,N1", "N1,N0", "C"))}


def _swizzle(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    found: dict[str, Any] = {"ary_name": _temporaries(rng, kernel)[0]}
    if rng.random() < 0.5:
        found |= {"bits": rng.choice((1, 2)), "base": rng.choice((0, 1))}
    return found


def _priority(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"insn_match": f"id:{rng.choice(kernel.instructions).id}", "priority": rng.choice((-1, 1, 2))}


def _ids(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"replacements": {rng.choice(kernel.instructions).id: f"id{rng.randint(0, 99)}"}}


def _written(kernel: LoopKernel) -> Sequence[Instruction]:
    """Return the instructions of the program."""
    return (kernel if kernel.reference is None else kernel.reference.kernel).instructions


def _setting(kernel: LoopKernel) -> list[Instruction]:
    """Return the instructions of the program that set no temporary."""
    names = (kernel if kernel.reference is None else kernel.reference.kernel).temporaries.keys()
    return [i for i in _written(kernel) if not any(array_name(t) in names for t in targets_of(i.assignee))]


def _predicate(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    """Draw a condition of an instruction of the program that sets an argument, of which some instances are left."""
    chosen = rng.choice(_setting(kernel) or _written(kernel)[:1] or kernel.instructions)
    first, second = (rng.choice([*sorted(chosen.inames), "1"]) for _ in range(2))
    text = rng.choice((f"{first} != {second}", f"{first} <= {second}", f"{first} > 0", f"{first} % 2 == 0"))
    return {"insn_match": f"id:{chosen.id}", "predicate": text, "reason": "drawn"}


def _instructions(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    """Draw another value for an instruction of the program that sets an argument.

    What temporaries hold may bound loops or be subscripts, and another value would lead outside of the arrays.
    """
    setting = _setting(kernel)
    chosen = rng.choice(setting or _written(kernel)[:1] or kernel.instructions)
    left, right = show(chosen.assignee), show(chosen.expression)
    if not setting:
        return {"instructions": {chosen.id: f"{left} = {right}"}}
    text = rng.choice((f"{left} = 2*({right})", f"{left} = {right} + {left}", f"{left} = -({right})"))
    return {"instructions": {chosen.id: text}}


def _tile(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    inames = _some(rng, kernel, rng.choice((1, 2, 2, 3)))
    found: dict[str, Any] = {"lengths": {iname: rng.choice((1, 2, 3, 4)) for iname in inames}}
    for side, axes in (("outer_tags", ("g.0", "g.1")), ("inner_tags", ("l.0", "l.1"))):
        if rng.random() < 0.4:
            found[side] = dict(zip(inames, axes, strict=False))
    return found | _within(rng, kernel, 0.1)


def _vectors(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    found: dict[str, Any] = {"iname": rng.choice(_inames(kernel))}
    found |= {"length": rng.choice((2, 4, 8))} if rng.random() < 0.5 else {}
    found |= {"outer_tag": rng.choice(("g.0", "l.0", "unr", "ilp"))} if rng.random() < 0.5 else {}
    return found | ({"slabs": (0, 1)} if rng.random() < 0.2 else {}) | _within(rng, kernel, 0.1)


def _concatenate(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    kinds = (list(kernel.temporaries), [a.name for a in kernel.arguments if a.name not in INDICES])
    names = rng.choice(kinds)
    found: dict[str, Any] = {"array_names": rng.sample(names, min(len(names), 2))}
    return found | ({"axis_nr": 1} if rng.random() < 0.3 else {})


def _batched(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    written = {name for instruction in kernel.instructions for name in instruction.writes}
    names = [a.name for a in kernel.arguments if a.name not in {"n", "nnz", *INDICES}]
    varying = [name for name in names if name in written or rng.random() < 0.5]
    found: dict[str, Any] = {"nbatches": rng.choice((1, 2, 3)), "batch_varying_args": varying}
    return found | ({"sequential": True} if rng.random() < 0.3 else {})


def _axis_names(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    arrays = kernel.arrays()
    name = rng.choice(list(arrays))
    return {"ary_names": name, "dim_names": [f"axis{number}" for number in range(len(arrays[name].shape or ()))]}


def _collect(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"var_name": _temporaries(rng, kernel)[0]} | ({"vary_by_axes": [0]} if rng.random() < 0.3 else {})


def _extract(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    del kernel
    template, parameters = rng.choice((("x[p]", "p"), ("y[p]", "p"), ("a[p, q]", "p, q"), ("2*x[p]", "p")))
    return {"subst_name": f"g{rng.randint(0, 9)}", "template": template, "parameters": parameters}


def _split_reduction(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    over = [x for i in kernel.instructions for r in i.terms for x in r.inames if x not in i.inames]
    return {"inames": rng.choice(over or _inames(kernel))} | _within(rng, kernel, 0.1)


def _realize_reduction(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {rng.choice(("automagic_scans_ok", "force_scan")): True}
    if rng.random() < 0.4:
        return {}
    inames = _split_reduction(rng, kernel)["inames"]
    return {"grid": rng.choice(("two launches", "atomics")), "grid_inames": inames + rng.choice(("", "", ":g.1"))}


def _stage_reduction(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    drawn = _split_reduction(rng, kernel)
    found = {**drawn, "temporary_name": f"part{rng.randint(0, 99)}"} | _made(rng)
    return found | ({"sweep_inames": _sweep(rng, kernel)} if rng.random() < 0.3 else {})


def _on_blocks(kernel: LoopKernel) -> list[str]:
    """Return the inames on block axes, or any if there are none: a refusal."""
    return [x for x in _inames(kernel) if isinstance(kernel.tag(x), GroupAxis)] or _inames(kernel)


def _panels(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"iname": rng.choice(_on_blocks(kernel)), "group": rng.choice((1, 2, 3, 8))}


def _joined(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"iname": rng.choice(_on_blocks(kernel))}


def _turns(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    return {"blocks": rng.choice((1, 2, 3, 132))}


def _waiver(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    found: dict[str, Any] = {"reason": "brute force judges it"}
    if rng.random() < 0.5:
        found["claims"] = ", ".join(rng.sample(WAIVABLE, rng.choice((1, 1, 2))))
    if rng.random() < 0.3:
        found["arrays"] = rng.choice(list(kernel.arrays()))
    return found


def _split_scan(rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    results = [name for i in kernel.instructions for name in i.inames if i.terms]
    found: dict[str, Any] = {"split_iname": rng.choice(results or _inames(kernel))}
    found["inner_length"] = rng.choice((1, 2, 3, 4))
    if rng.random() < 0.3:
        found["carry_iname"] = f"c{rng.randint(0, 9)}"
    if rng.random() < 0.3:
        found["local_iname"] = f"e{rng.randint(0, 9)}"
    tag = rng.choice((None, None, "g.0", "l.0"))
    return found if tag is None else {**found, "outer_tag": tag}


_TAGS: Final = ("g.0", "g.1", "l.0", "l.1", "unr", "ilp")
_KNOWN: Final[Mapping[Names | None, Callable[[LoopKernel], Sequence[str]]]] = {
    Names.INAME: _inames,
    Names.ARRAY: lambda kernel: list(kernel.arrays()),
    Names.TEMPORARY: lambda kernel: list(kernel.temporaries) or ["t0"],
    Names.ARGUMENT: lambda kernel: [argument.name for argument in kernel.arguments] or ["x"],
    Names.RULE: lambda kernel: sorted(kernel.substitutions) or ["f"],
    Names.INSTRUCTION: lambda kernel: [instruction.id for instruction in kernel.instructions],
    Names.MATCH: lambda kernel: [f"id:{instruction.id}" for instruction in kernel.instructions],
    Names.TAG: lambda _: _TAGS,
}
_LEFT_OUT: Final = 0.75
"""So often is an argument left out that may be."""


def declared(name: str, rng: random.Random, kernel: LoopKernel) -> dict[str, Any]:
    """Draw arguments from the fields of a transform, by the kinds of names in them."""
    found: dict[str, Any] = {}
    for entry in fields_of(TRANSFORMS[name]).values():
        is_needed = entry.default is MISSING
        if not is_needed and rng.random() < _LEFT_OUT:
            continue
        if entry.names in _KNOWN:
            known = _KNOWN[entry.names](kernel)
            known = [one for one in known if one not in found.values()] or known
            drawn = rng.sample(known, min(len(known), rng.choice((1, 2, 2))))
            found[entry.name] = drawn if get_origin(entry.kind) is tuple else drawn[0]
        elif entry.names is Names.NEW:
            found[entry.name] = _new_name(rng, "d")
        elif entry.kind is bool:
            found[entry.name] = rng.random() < 0.5
        else:
            assert not is_needed, f"the fields of {name} do not say enough: give it a drawer"
    return found


_OWN: Final[Mapping[str, Drawer]] = {
    "add_barrier": _barrier,
    "add_dependency": _dependency,
    "add_dtypes": _types,
    "add_nosync": _nosync,
    "add_padding": _pad,
    "add_prefetch": _prefetch,
    "affine_map_inames": _mapped,
    "assign_roles": _roles,
    "assume": _assume,
    "buffer_array": _buffer,
    "add_predicate_to_insn": _predicate,
    "chunk_iname": _chunk,
    "collect_common_factors_on_increment": _collect,
    "concatenate_arrays": _concatenate,
    "extract_subst": _extract,
    "fix_parameters": _fix,
    "join_launches": _joined,
    "map_domain": _map,
    "map_instructions": _instructions,
    "order_blocks": _panels,
    "peel": _peel,
    "persist_blocks": _turns,
    "pipeline": _pipeline,
    "precompute": _precompute,
    "prioritize_loops": _reorder,
    "realize_reduction": _realize_reduction,
    "reduce_atomically": _split_reduction,
    "rename_argument": _argument,
    "rename_iname": _rename,
    "rename_inames": _same_name,
    "rename_inames_in_batch": _batch,
    "replace_instruction_ids": _ids,
    "set_array_axis_names": _axis_names,
    "set_instruction_priority": _priority,
    "set_temporary_address_space": _space,
    "shift": _shift,
    "split_array_axis": _split_axis,
    "split_iname": _split,
    "split_instruction": _parts,
    "split_reduction_inward": _split_reduction,
    "split_reduction_outward": _split_reduction,
    "split_scan": _split_scan,
    "stage_reduction": _stage_reduction,
    "swizzle": _swizzle,
    "tag_array_axes": _tag_axes,
    "tag_inames": _tag,
    "tag_instructions": _instruction_tag,
    "tensorize": _tensorize,
    "tile": _tile,
    "to_batched": _batched,
    "unchecked": _waiver,
    "vectorize": _vectors,
}
"""Drawers of transforms whose arguments are more than names of what a kernel has, or have to fit one another."""

DRAWERS: Final[Mapping[str, Drawer]] = {name: _OWN.get(name) or partial(declared, name) for name in TRANSFORMS}
"""By the name of the transform."""
