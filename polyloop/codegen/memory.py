"""Memory of a launch: declarations of its temporaries, and dynamic shared memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from polyloop.codegen.device.entries import Threads
from polyloop.codegen.language import Language
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.branches import with_early_ends, with_joined_guards
from polyloop.codegen.tree.c_ast import Block, Carve, Declare, Sync, Union
from polyloop.codegen.tree.declare import declare_private, declare_shared
from polyloop.codegen.tree.fold_initial_value import begun
from polyloop.expr.dtypes import is_narrow
from polyloop.expr.records import is_record, is_vector
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.poly.axes import number_of
from polyloop.schedule.plan import Launch
from polyloop.schedule.storage import Storage, pool_spans, shared_bytes

__all__ = ["asks_for_shared", "declare_temporaries"]

_ALIGNMENT: Final = 16
"""Least alignment of an array in dynamic shared memory [bytes]."""


def asks_for_shared(launch: Launch, language: Language) -> bool:
    """Return True if *launch* needs more shared memory than can be declared statically."""
    limits, threads = language.limits, language.find(Threads)
    if limits is None or threads is None or not threads.dynamic_shared:
        return False
    at_end = any(storage.at_end for storage in launch.temporaries)  # which no union can say
    return at_end or shared_bytes(launch.temporaries) > limits.static_shared_bytes


def _unchanged(body: Block) -> Block:
    return body


def declare_temporaries(
    body: Block, launch: Launch, scope: Scope, around: Callable[[Block], Block] = _unchanged,
    kept: Collection[str] = (),
) -> tuple[Block, int]:  # fmt: skip
    """Return *body* with declarations of the temporaries that it uses, and its dynamic shared memory [bytes].

    Parameters
    ----------
    around
        Function that adds what is around *body*: a loop, each iteration of which has private variables of its own.
    kept
        Private variables that keep their values from one iteration of that loop to the next.
    """
    body = with_joined_guards(body)
    if not launch.temporaries:
        return around(begun(body)), 0
    declarations = {t.name: _declaration(t, scope, launch) for t in launch.temporaries}
    private = [
        t.name
        for t in launch.temporaries
        if t.address_space is AddressSpace.PRIVATE and t.name not in scope.memory.expanded
    ]
    body = with_early_ends(begun(body), private)
    body = declare_private(body, [name for name in private if name not in kept], declarations.__getitem__)
    body = declare_private(around(body), [name for name in private if name in kept], declarations.__getitem__)
    used = frozenset[str]().union(*(node.uses for node in body)).difference(private)
    others = [t for t in launch.temporaries if t.name in used]
    if asks_for_shared(launch, scope.language):
        return _carved(body, [t for t in others if t.address_space is AddressSpace.LOCAL], scope)
    pools = scope.memory.pools
    together: dict[str, list[str]] = {}
    for storage in others:
        together.setdefault(pools.get(storage.name, storage.name), []).append(storage.name)
    shared = [
        (frozenset(names), _union(pool, [declarations[name] for name in names], pools))
        for pool, names in together.items()
    ]
    if scope.language.has_axes:
        return (*(declaration for _, declaration in shared), *body), 0
    for names, declaration in shared:
        body = declare_shared(body, names, declaration)
    return body, 0


def _carved(body: Block, storages: Iterable[Storage], scope: Scope) -> tuple[Block, int]:
    """Return *body* with *storages* as parts of one array of dynamic shared memory, and its size [bytes]."""
    memory, storages = scope.names.fresh("shared_memory"), sorted(storages, key=lambda s: s.pool or "")
    spans, starts, alignments = pool_spans(storages), dict[str, int](), dict[str, int]()
    for storage in storages:
        own = max(_ALIGNMENT, scope.findings.aligned.get(storage.name, 0), storage.dtype.alignment)
        place = storage.pool or storage.name
        alignments[place] = max(own, alignments.get(place, 0))
    parts, size = list[Carve](), 0
    for storage in storages:
        place, (first, behind) = storage.pool or storage.name, spans[storage.name]
        start = starts.setdefault(place, -(-size // alignments[place]) * alignments[place])
        parts.append(Carve(scope.ctype(storage.dtype), storage.name, storage.dims, memory, start + first))
        size = max(size, start + behind)
    alignment = max(alignments.values(), default=0)
    text = scope.language.need(Threads).dynamic_shared.format(name=memory, bytes=alignment)
    return (Sync(text), *parts, *body), size


def _union(pool: str, members: Sequence[Declare], pools: Mapping[str, str]) -> Declare | Union:
    """Return the declaration of storage: of one variable, or of a union of several."""
    if pool not in pools.values():
        return members[0]
    return Union(pool, tuple(replace(member, storage="") for member in members), members[0].storage)


def _declaration(storage: Storage, scope: Scope, launch: Launch) -> Declare:
    threads = tuple(launch.local_size[number_of(axis)] for axis in scope.memory.expanded.get(storage.name, ()))
    device = scope.language.find(Threads)
    qualifier = "" if device is None or storage.address_space is not AddressSpace.LOCAL else device.shared
    if storage.address_space is not AddressSpace.GLOBAL and storage.name in scope.findings.aligned:
        qualifier += f"{scope.language.syntax.aligned.format(bytes=scope.findings.aligned[storage.name])} "
    dims = threads + storage.dims
    clearing = scope.language.constants.clearing if dims and storage.cleared and not _is_struct(storage.dtype) else ""
    if clearing:
        then = clearing.format(first=f"{storage.name}{'[0]' * len(dims)}", count=prod(dims))
        return Declare(scope.ctype(storage.dtype), storage.name, dims, None, qualifier, then=then)
    value = (c.Raw("{}") if dims else c.integer(0)) if storage.cleared else None
    return Declare(scope.ctype(storage.dtype), storage.name, dims, value, qualifier)


def _is_struct(dtype: np.dtype[np.generic]) -> bool:
    """Return True if a variable of a type cannot be assigned 0."""
    return is_narrow(dtype) or (is_record(dtype) and not is_vector(dtype))
