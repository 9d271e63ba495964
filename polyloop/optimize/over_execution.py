"""Over-execution at the edges of arrays: blocks there run as full ones.

A tile that extends beyond an array has threads without work, and threads with elements without work.  A test of each
operation costs more than the operation.  So a statement may run for these elements too, in over-executed instances
(*phantoms*), if

* it writes private or shared storage, and an element that no instance of the program reads or writes;
* it reads private and shared storage alone, inside of its arrays, and elements that were written, by the program or by
  other phantoms, earlier in the same iteration of the loops around both; or that storage begins with zeros;
* it computes by ``+``, ``-``, ``*`` and ``/`` on floating-point numbers, which neither trap nor branch on a value.

Copies from global memory, statements that pass the copied values on, and sums of these have rules of their own
(:mod:`polyloop.optimize.zero_fill`).

Then every instance of the program sees the same values as before: all elements that it touches are touched by the same
instances, in the same order.  Conflicts between phantoms and other threads get barriers as all others do: races are
derived for the program with its phantoms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.dataflow.value_flow import writers_of
from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.dtypes import DType, is_floating
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import children
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable, ValueArg
from polyloop.kernel.instruction import CopyStep, Evaluation
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.tags import GroupAxis, Sequential, UnrollHint, axis_name
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, storage_map
from polyloop.optimize.zero_fill import Whole, extended_to, is_box, passed_on, unawaited, whole_copies, whole_products
from polyloop.poly.affine import Affine
from polyloop.poly.budget import NoAnswer, aside, looking_at
from polyloop.poly.sets import lex_relation, map_from_forms, project_onto
from polyloop.program.infer_types import accumulator_dtypes
from polyloop.program.ir import Access, Assign, Init, Lowered, Other, Update
from polyloop.proof.obligation import Claim, Obligation, left_open
from polyloop.sync.async_copy import copy_pairs
from polyloop.sync.races import needs, shared_arrays
from polyloop.sync.storage_aliasing import pool_needs, pool_obligations

__all__ = ["Edges", "at_edges", "edge_obligations"]

_SET: Final = isl.dim_type.set
_COMBINED: Final = frozenset({"sum", "product", "max", "min"})


@dataclass(frozen=True, eq=False)
class Edges:
    """A program with its phantoms.

    Attributes
    ----------
    placement
        The program in which the statements ``phantoms`` have more instances; the same one if nothing is gained.
    cleared
        Private temporaries that have to begin with zeros.
    filled
        Copies whose phantoms store zeros.
    unawaited
        Starts of asynchronous copies of which some instances have no wait.
    open
        That ISL gave up on the question, if it did.
    """

    placement: Placement
    cleared: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    unawaited: frozenset[str] = frozenset()
    open: Diagnostic | None = None


@memoised
def at_edges(placement: Placement) -> Edges:
    """Return the program in which blocks at an edge compute as others do, where a reduction in a loop gains by it.

    Copies from global memory run for whole tiles if that is legal, preferably until the end of their loop.  Copies of
    boxes are always of whole ones, so they do where nothing else gains by it.
    """
    try:
        with aside():
            for beyond in (True, False):
                copies = whole_copies(placement, beyond=beyond)
                if copies and (found := _with_phantoms(placement, copies, "beyond" if beyond else "filled")):
                    return found
            found = _with_phantoms(placement, {})
            if found is None:
                copies = whole_copies(placement, beyond=False)
                boxes = {name: placed for name, placed in copies.items() if is_box(placement, placed)}
                found = _with_phantoms(placement, boxes, "boxes") if boxes else None
            return found or Edges(placement)
    except NoAnswer as error:
        question = "whether blocks at the edge of an array can compute as full ones do"
        return Edges(placement, open=left_open(question, error))


def _with_phantoms(placement: Placement, copies: Mapping[str, Placed], attempt: str = "") -> Edges | None:
    """Return the program with over-executed instances, those of *copies* included, None if nothing is gained."""
    passing = passed_on(placement, copies)
    products = whole_products(placement, copies, passing)
    tiles = {**copies, **passing, **products}
    gains = [s for s in copies.values() if attempt == "boxes"]
    gains += [s for name, s in products.items() if not _is_same(s, placement.statements[name]) and _gains(placement, s)]
    left = {name: s for name, s in placement.statements.items() if name not in tiles and _is_plain(placement, s)}
    if not gains and not any(_pays(placement, placed) for placed in left.values()):
        return None
    plain = {name: s for name, placed in left.items() if (s := _extended(placement, placed)) is not None}
    if not gains and not any(_pays(placement, placed) for placed in plain.values()):
        return None
    users = _users(placement)
    plain = {name: s for name, s in plain.items() if _is_confined(placement, placement.statements[name], s, users)}
    cleared = _defined(placement, plain, tiles)
    if not gains and not any(_pays(placement, placed) for placed in plain.values()):
        return None
    wide = {**plain, **tiles}
    lowered = {name: placed.lowered for name, placed in wide.items()}
    program = replace(placement.program, statements={**placement.program.statements, **lowered})
    statements = {**placement.statements, **wide}
    found = replace(placement, program=program, statements=statements, phantoms=frozenset(wide), attempt=attempt)
    if not Whole(copies, passing, products).changes_nothing(placement, found) or not _is_ordered(found):
        return None
    late = frozenset(
        start.name for arrival, (start,) in copy_pairs(found)
        if start.name in copies and not unawaited(found, start, arrival).is_empty()
    )  # fmt: skip
    if not _share_storage(found, late):
        return None
    return Edges(found, frozenset(cleared), frozenset(copies), late)


def _is_ordered(placement: Placement) -> bool:
    """Return whether barriers can keep phantoms apart from everything else in shared memory."""
    written = {placement.statements[name].lowered.write.array for name in placement.phantoms}
    array = ""
    try:
        for array in shared_arrays(placement):
            scopes = {need.scope for need in needs(placement, array)} if array in written else set()
            if not scopes <= {Scope.WARP, Scope.BLOCK, Scope.CLUSTER}:
                return False
        return True
    except VerificationError as error:
        if any(finding.code == "not-proven" for finding in error.found):
            raise NoAnswer(f"gave up on barriers for '{array}'", ()) from error
        return False


def _share_storage(placement: Placement, late: Collection[str]) -> bool:
    """Return whether phantoms overwrite no value in storage that temporaries share, nor does a copy that is *late*."""
    kernel, arrays = placement.program.kernel, {placement.statements[name].lowered.write.array for name in late}
    if any(array in kernel.temporaries and kernel.temporaries[array].base_storage for array in arrays):
        return False  # no thread waits for such a copy, so it may write where another temporary is by then
    held = any(found for obligation in pool_obligations(placement) for found in obligation.find())
    return not held and {need.scope for need in pool_needs(placement)} <= {Scope.WARP, Scope.BLOCK}


def edge_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield, where blocks at an edge compute as others do, that this changes nothing: it was found to be so."""
    edges = at_edges(placement)
    found, filled = edges.placement.phantoms, edges.filled
    if found:
        names = ", ".join(repr(name) for name in sorted(found))
        says = f"over-executed instances of {names} touch no element that the program touches"
        by = "elements written and read, and writes in the same iteration of the loops around both"
        if filled:
            says = f"over-executed instances of {names} have no readers, or add products of zeros"
            by = "dataflow from copies, and the zeros that they store where there is nothing to copy"
        yield Obligation(Claim.VALUES, "phantoms", says, by, tuple, (found, edges.placement.attempt))


def _gains(placement: Placement, placed: Placed) -> bool:
    return placed.lowered.instruction.matrix is not None or _pays(placement, placed)


def _pays(placement: Placement, placed: Placed) -> bool:
    """Return whether *placed* collects terms in a loop that is really one."""
    kernel = placement.program.kernel
    part = placed.lowered.part
    if not isinstance(part, Update):
        return False
    loops = (x for x in part.reduction.inames if axis_name(kernel.tag(x)) is None)
    return any(isinstance(kernel.tag(x), Sequential | UnrollHint) for x in loops)


# {{{ properties of statements


def _is_plain(placement: Placement, placed: Placed) -> bool:
    """Return whether nothing but floating-point arithmetic within a block happens, whatever the values."""
    lowered = placed.lowered
    if not isinstance(lowered.part, Assign | Init | Update) or len(lowered.writes) != 1:
        return False
    if lowered.instruction.matrix is not None and not isinstance(lowered.part, Assign):  # optimize/zero_fill.py
        return False
    if lowered.atomic or lowered.across or lowered.along or lowered.fixed or lowered.instruction.step:
        return False
    operation = None if lowered.reduction is None else lowered.reduction.operation
    if operation is not None and (operation.name not in _COMBINED or operation.combine):
        return False
    accesses = lowered.accesses
    if not all(lowered.is_unconditional(access) and _is_within_block(placement, access) for access in accesses):
        return False
    return lowered.rhs is None or _is_arithmetic(placement, lowered.rhs)


def _is_within_block(placement: Placement, access: Access) -> bool:
    """Return whether *access* goes to a known element of floating-point storage within the block."""
    kernel = placement.program.kernel
    if access.array in placement.program.accumulators:
        dtype: DType | None = accumulator_dtypes(kernel)[access.array]
    else:
        temporary = kernel.temporaries.get(access.array)
        if temporary is None or placement.spaces[access.array] is AddressSpace.GLOBAL or not _is_memory(temporary):
            return False
        dtype = temporary.dtype
    is_simple = not access.fields and access.kind is not Other.START
    return is_simple and dtype is not None and is_floating(dtype)


def _is_memory(temporary: TemporaryVariable) -> bool:
    return temporary.initializer is None and not temporary.is_shuffled


def _is_arithmetic(placement: Placement, expr: Expression) -> bool:
    """Return whether *expr* is made of numbers, elements and the four operations."""
    match expr:
        case int() | float() | np.floating():
            return not isinstance(expr, bool)
        case p.Subscript():
            return True  # of an array that is looked at as an access
        case p.Variable(name):
            if name in placement.program.accumulators or name in placement.program.kernel.temporaries:
                return True
            found = next((a for a in placement.program.kernel.arguments if a.name == name), None)
            return isinstance(found, ValueArg) and found.dtype is not None and found.dtype.kind == "f"
        case p.Sum() | p.Product() | p.Quotient():
            return all(_is_arithmetic(placement, child) for child in children(expr))
        case _:
            return False


# }}}
# {{{ more instances


def _extended(placement: Placement, placed: Placed) -> Placed | None:
    """Return *placed* extended to all instances for which its blocks have room, None if there are no more."""
    kernel, lowered = placement.program.kernel, placed.lowered
    wide = _wide(kernel, lowered)
    return None if wide is None else extended_to(placement, placed, wide, lowered.accesses)


def _is_same(wide: Placed, placed: Placed) -> bool:
    return bool(wide.domain.is_subset(placed.domain))


def _wide(kernel: LoopKernel, lowered: Lowered) -> isl.Set | None:
    """Return the domain without bounds that depend on the block, for blocks with an instance; None if unchanged."""
    domain, inames = lowered.domain.intersect_params(kernel.assumptions), lowered.inames
    blocks = [x for x in inames if isinstance(kernel.tag(x), GroupAxis)]
    if not blocks:
        return None
    whole = domain
    for iname in blocks:
        whole = whole.drop_constraints_involving_dims(_SET, inames.index(iname), 1)
    to_blocks = map_from_forms(isl.Set.universe(domain.get_space()), inames, [Affine.variable(x) for x in blocks])
    wide = whole.intersect(to_blocks.intersect_range(project_onto(domain, inames, blocks)).domain())
    return None if wide.is_subset(domain) else wide.coalesce()


def _users(placement: Placement) -> dict[str, list[tuple[Placed, Access]]]:
    """Return the accesses to each array, one for all with the same subscripts in a statement."""
    found: dict[str, list[tuple[Placed, Access]]] = {}
    for placed in placement.statements.values():
        for access in {(a.array, a.indices): a for a in placed.lowered.accesses}.values():
            found.setdefault(access.array, []).append((placed, access))
    return found


def _is_confined(
    placement: Placement, placed: Placed, wide: Placed, users: Mapping[str, Sequence[tuple[Placed, Access]]]
) -> bool:
    """Return whether the added instances of *wide* write no element that the program accesses."""
    array = wide.lowered.write.array
    space = placement.spaces[array]
    written = storage_map(placement, wide, wide.lowered.write, space)
    for other, access in users.get(array, ()):
        looking_at(other, access, wide, wide.lowered.write)
        touched = storage_map(placement, other, access, space).range()
        if not written.intersect_range(touched).domain().is_subset(placed.domain):
            return False
    return True


# }}}
# {{{ values that phantoms read


def _defined(placement: Placement, wide: dict[str, Placed], copies: Mapping[str, Placed]) -> set[str]:
    """Take from *wide* the readers of unwritten elements; return the temporaries that begin with zeros."""
    while True:
        read = {array for placed in wide.values() for array in _read_arrays(placed)}
        cleared = {name for name in read if _is_fetched(placement, wide, name)}
        bad = [
            name
            for name, placed in wide.items()
            if not all(
                access.array in cleared or _is_written(placement, {**wide, **copies}, placed, access)
                for access in placed.lowered.reads
            )
        ]
        if not bad:
            return cleared
        for name in bad:
            del wide[name]


def _read_arrays(placed: Placed) -> Iterator[str]:
    yield from (access.array for access in placed.lowered.reads)


def _is_fetched(placement: Placement, wide: Mapping[str, Placed], array: str) -> bool:
    """Return whether *array* is private, and each write to it copies an element of global memory."""
    if placement.spaces[array] is not AddressSpace.PRIVATE or array in placement.program.accumulators:
        return False
    return all(
        writer.name not in wide
        and isinstance(writer.lowered.instruction.origin, Evaluation)
        and any(placement.spaces[access.array] is AddressSpace.GLOBAL for access in writer.lowered.reads)
        for writer in writers_of(placement, array)
    )


def _is_written(placement: Placement, wide: Mapping[str, Placed], reader: Placed, access: Access) -> bool:
    """Return whether each element that *reader* reads was written earlier in the same iteration of the common loops."""
    left = reader.domain
    for original in writers_of(placement, access.array):
        writer = wide.get(original.name, original)
        loops, earlier = common_loops(placement, writer, reader)
        step = writer.lowered.instruction.step
        is_there = step is None or (step is CopyStep.ARRIVAL and writer is not original)
        if not earlier or writer.lowered.is_conditional or not is_there:
            continue
        looking_at(reader, access, writer, writer.lowered.write)
        space = placement.spaces[access.array]
        read = storage_map(placement, reader, access, space)
        link = read.apply_range(storage_map(placement, writer, writer.lowered.write, space).reverse())
        pairs = [(reader.dims.index(loop), writer.dims.index(loop)) for loop in loops]
        left = left.subtract(link.intersect(lex_relation(link.get_space(), pairs, None)).domain())
        if left.is_empty():
            return True
    return bool(left.is_empty())


# }}}
