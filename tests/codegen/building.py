"""Schedules built by hand: statements from text, arrays with row-major strides."""
# types of elements and constants come in every spelling that NumPy takes

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
from pymbolic import parse

from polyloop.expr.operations import OPERATIONS
from polyloop.expr.rewrite import substitute
from polyloop.kernel.arrays import AddressSpace, Argument, ArrayArg, ValueArg
from polyloop.kernel.tags import InameTag
from polyloop.kernel.tree import Tree, runs
from polyloop.schedule.plan import Assign, Contract, Launch, LoopForms, Schedule, Statement, Update
from polyloop.schedule.storage import Packed, Storage

__all__ = ["F32", "array", "local", "private", "schedule", "statement", "value"]

F32 = np.dtype("float32")


def statement(
    name: str, dims: str, params: str, constraints: str, lhs: str, rhs: Any, update: str | None = None,
    predicates: Sequence[str] = (),
) -> Statement:  # fmt: skip
    """Return a statement; *dims* is like ``"io:g.0, ii:l.0, k"``."""
    pairs = [(part.strip().split(":") * 2)[:2] for part in dims.split(",") if part.strip()]
    names = [pair[0] for pair in pairs]
    domain = isl.Set(f"[{params}] -> {{ {name}[{', '.join(names)}] : {constraints} }}")
    axes = {short: p.Variable(long) for short, long in pairs if short != long}

    def expression(text: Any) -> Any:
        return substitute(parse(text), axes) if isinstance(text, str) else text

    return Statement(
        name,
        name.lower(),
        tuple(pair[1] for pair in pairs),
        domain,
        expression(lhs),
        expression(rhs),
        Assign() if update is None else Update(OPERATIONS[update]),
        tuple(expression(text) for text in predicates),
    )


def array(name: str, shape: str, dtype: Any = F32, *, output: bool = False) -> Argument:
    """Return a row-major array argument."""
    extents: tuple[Any, ...] = tuple(int(part) if part.strip().isdigit() else parse(part) for part in shape.split(","))
    strides: list[Any] = [1]
    for extent in reversed(extents[1:]):
        strides.insert(0, extent if len(strides) == 1 else extent * strides[0])
    return ArrayArg(name, np.dtype(dtype), extents, tuple(strides), is_input=True, is_output=output)


def value(name: str, dtype: Any = np.int32) -> Argument:
    """Return a scalar argument."""
    return ValueArg(name, np.dtype(dtype))


def local(name: str, *shape: int, padding: int = 0, dtype: Any = F32) -> Storage:
    """Return a temporary that a block shares."""
    return Storage(name, np.dtype(dtype), shape, AddressSpace.LOCAL, Packed(padding=padding))


def private(name: str, *shape: int, dtype: Any = F32) -> Storage:
    """Return a temporary of a thread."""
    return Storage(name, np.dtype(dtype), shape, AddressSpace.PRIVATE)


def schedule(
    name: str, params: str, assumptions: str, arguments: Sequence[Argument], statements: Sequence[Statement],
    tree: Tree, *, local_size: tuple[int, ...] = (), temporaries: Sequence[Storage] = (),
    tags: Mapping[str, InameTag] | None = None, tiles: Sequence[str] = (),
    slabs: Mapping[str, tuple[int, int]] | None = None,
) -> Schedule:  # fmt: skip
    """Return a schedule of one launch."""
    by_name = {s.name: s for s in statements}
    assert set(runs(tree)) == set(by_name)
    groups = sorted({dim for s in statements for dim in s.dims if dim.startswith("g.")})
    launch = Launch(name, tree, local_size, tuple(groups), tuple(temporaries))
    parameters = tuple(part.strip() for part in params.split(",") if part.strip())
    contract = Contract(parameters, isl.Set(f"[{params}] -> {{ : {assumptions} }}"), tuple(arguments))
    loops = LoopForms(dict(tags or {}), frozenset(tiles), dict(slabs or {}))
    return Schedule(name, contract, by_name, (launch,), loops)
