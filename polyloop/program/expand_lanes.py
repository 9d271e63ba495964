"""Expansion of lanes: inames tagged ``ilp`` or ``vec``, whose iterations run side by side, statement by statement.

::

    for i: for v: {t = a[i, v]; b[i, v] = 2*t}
    ->
    for i: {for v: t[v] = a[i, v]};  {for v: b[i, v] = 2*t[v]}

Each statement gets a loop over lanes of its own, inside of all its other loops (loop distribution).  A temporary that
passes a value from one statement to another gets an axis for the lanes (scalar expansion).  A reduction over lanes
(``ilp``) and other inames has an accumulator for each lane, and these are combined in the end.  None of this is
trusted: the order of the result is compared with the reference program like that of any transform.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction, array_name
from polyloop.expr.rewrite import accesses, map_nodes, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.domains import bound_variables, iname_range
from polyloop.kernel.instruction import Instruction, Term, renested
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.stages import in_stages
from polyloop.kernel.tags import Interleave, Vectorize, axis_name, is_lane
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import Row, add_rows, constant_bounds, insert_dims
from polyloop.program.digits_to_axes import with_digit_axes

__all__ = ["VECTOR_LENGTHS", "lane_violations", "lanes_last", "with_lanes"]

VECTOR_LENGTHS = (2, 4, 8, 16)
_LANE_COUNTS = (2, 3, 4, 8, 16)
"""Three lanes run one by one, on the components of a vector."""


@dataclass(frozen=True)
class _Extent:
    """The values of a lane iname: ``count`` of them, from ``low`` on."""

    low: int
    count: int


def lanes_last(kernel: LoopKernel, inames: Sequence[str]) -> tuple[str, ...]:
    """Return *inames* in their order, but lanes innermost, and lanes of vectors last."""
    lanes = [x for x in inames if is_lane(kernel.tag(x))]
    lanes.sort(key=lambda x: isinstance(kernel.tag(x), Vectorize))
    return (*(x for x in inames if x not in lanes), *lanes) if lanes else tuple(inames)


@memoised
def _extents(kernel: LoopKernel) -> Mapping[str, _Extent | None]:
    """Return the values of each lane iname, None where their number depends on parameters."""
    found: dict[str, _Extent | None] = {}
    for iname in kernel.inames:
        if is_lane(kernel.tag(iname)):
            low, high = iname_range(kernel, iname)
            found[iname] = None if low is None or high is None else _Extent(low, high - low + 1)
    return found


def lane_violations(kernel: LoopKernel, inames: Collection[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each of *inames* that cannot be lanes because of the number of its values."""
    for iname, extent in _extents(kernel).items():
        if iname not in inames:
            continue
        tag = kernel.tag(iname)
        if extent is None:
            yield Diagnostic(
                "bad-lanes",
                f"iname '{iname}' cannot be '{tag}': its number of values is not a constant",
                ("each of its values becomes a lane of every statement",),
                (f'split it: pl.split_iname(knl, "{iname}", 4, inner_tag="{tag}")',),
            )
        elif isinstance(tag, Vectorize) and extent.count not in _LANE_COUNTS:
            yield Diagnostic(
                "bad-lanes",
                f"iname '{iname}' cannot be '{tag}': it has {extent.count} values",
                (f"vectors have {', '.join(map(str, _LANE_COUNTS[:-1]))} or {_LANE_COUNTS[-1]} lanes",),
                ("split by one of these lengths",),
            )


def with_lanes(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with lanes innermost in every instruction, and an axis for lanes in its temporaries.

    Digits of the thread number along which threads combine terms are replaced by axes (:func:`with_digit_axes`).
    """
    kernel = with_digit_axes(kernel)
    if not any(map(is_lane, kernel.iname_tags.values())):
        return kernel
    return _with_lanes(kernel)


@memoised
def _with_lanes(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with its lanes as innermost loops, and with axes of temporaries for them."""
    extents = _extents(kernel)
    users = _users(kernel)
    chosen: dict[str, tuple[str, ...]] = {}
    for name, temporary in kernel.temporaries.items():
        if name in users and _may_grow(temporary):
            own = tuple(x for x in _own_lanes(kernel, name, users[name]) if extents.get(x) is not None)
            if own:
                chosen[name] = own
    if chosen:
        kernel = _expanded(kernel, chosen, users)
    instructions = tuple(_arranged(_by_lanes(i, kernel), kernel) for i in kernel.instructions)
    if all(a is b for a, b in zip(instructions, kernel.instructions, strict=True)):
        return kernel
    return replace(kernel, instructions=instructions)


def _arranged(instruction: Instruction, kernel: LoopKernel) -> Instruction:
    """Return *instruction* with its lanes as the innermost loops."""
    return renested(instruction, lanes_last(kernel, instruction.inames))


# {{{ reductions


def _by_lanes(instruction: Instruction, kernel: LoopKernel) -> Instruction:
    """Return *instruction* with a partial result for each lane, for reductions over lanes (``ilp``).

    So no lane depends on the sum of another one; the partial results are combined in the end.
    """
    inner = {x for term in instruction.terms for x in term.inames if isinstance(kernel.tag(x), Interleave)}
    inner = {x for x in inner if x not in instruction.inames and _extents(kernel).get(x) is not None}
    if not inner or instruction.is_c or _bounds(kernel, instruction):
        return instruction
    read = instruction.reads & (kernel.temporaries.keys() - kernel.evaluations.keys())
    set_inside = {x for i in kernel.instructions if not read.isdisjoint(i.writes) for x in i.inames}

    count = len(instruction.inames)
    heads = reductions(expand_rules(instruction.expression, kernel.substitutions))
    alone = {head.inames for head, term in zip(heads, instruction.terms, strict=True)
             if term.inames[count:] == head.inames and not reductions(head.expr)}  # fmt: skip

    def outer(reduction: Reduction) -> tuple[str, ...]:
        if reduction.operation.ordered or set_inside & {*reduction.inames} or reduction.inames not in alone:
            return ()
        if inner.isdisjoint(reduction.inames) or reduction.along or reduction.start is not None:
            return ()
        return tuple(x for x in reduction.inames if x in inner or axis_name(kernel.tag(x)) is not None)

    staged = in_stages(instruction, kernel.substitutions, outer)
    if staged is instruction:
        return instruction
    heads = reductions(expand_rules(staged.expression, kernel.substitutions))
    terms: list[Term] = []
    for head, term in zip(heads, staged.terms, strict=True):
        is_stage = head.operation.of_states and isinstance(head.expr, Reduction)
        is_over_lanes = is_stage and not inner.isdisjoint(head.inames)
        terms.append(_on_all_lanes(term, head.inames, staged, terms) if is_over_lanes else term)
    return replace(staged, terms=tuple(terms))


def _on_all_lanes(term: Term, own: tuple[str, ...], instruction: Instruction, around: Sequence[Term]) -> Term:
    """Return *term*, of a reduction over the lanes and threads *own*, for all of these: some may have no terms."""
    outer = term.inames[: -len(own)]
    domain = next((other.domain for other in around if other.inames == outer), instruction.domain)
    rows = []
    for position, iname in enumerate(own, len(outer)):
        low, high = constant_bounds(term.domain, position)
        if low is None or high is None:
            return term
        rows += [Row(Affine(((iname, 1),), -low)), Row(Affine(((iname, -1),), high))]
    return Term(term.inames, add_rows(insert_dims(domain, len(outer), own), term.inames, rows))


# }}}
# {{{ temporaries


def _may_grow(temporary: TemporaryVariable) -> bool:
    """Return True if a temporary can get an axis: the user does not determine its layout or put it in global memory."""
    return (
        temporary.shape is not None
        and temporary.address_space is not AddressSpace.GLOBAL
        and temporary.initializer is None
        and temporary.dim_tags is None
        and temporary.base_storage is None
    )


def _users(kernel: LoopKernel) -> dict[str, list[Instruction]]:
    """Return the instructions that read or write each temporary."""
    found: dict[str, list[Instruction]] = {}
    for instruction in kernel.instructions:
        names = _bounds(kernel, instruction).union(instruction.reads, instruction.writes)
        for name in names & kernel.temporaries.keys():
            found.setdefault(name, []).append(instruction)
    return found


def _bounds(kernel: LoopKernel, instruction: Instruction) -> set[str]:
    """Return the bound variables of the loops of an instruction."""
    domains = (instruction.domain, *(term.domain for term in instruction.terms))
    return {name for domain in domains for name in bound_variables(domain, kernel.parameters)}


def _own_lanes(kernel: LoopKernel, name: str, users: Sequence[Instruction]) -> tuple[str, ...]:
    """Return the lanes that are loops of all *users* of a temporary and occur in none of its subscripts."""
    first = users[0]
    found = [x for x in first.inames if is_lane(kernel.tag(x)) and all(x in other.inames for other in users)]
    if not found or any(instruction.is_c for instruction in users):
        return ()
    for instruction in users:
        if name in _bounds(kernel, instruction):
            return ()
        for expr in _parts(kernel, instruction):
            for access in accesses(expr):
                if array_name(access) == name and isinstance(access, p.Subscript):
                    used = frozenset[str]().union(*map(_names, access.index_tuple))
                    found = [x for x in found if x not in used]
    return tuple(found)


def _names(subscript: Expression) -> frozenset[str]:
    """Return the variables that a subscript depends on: what cancels, in a rule that reads a copy, is none of them."""
    form = affine_of(subscript)
    return variables(subscript) if form is None else form.names()


def _parts(kernel: LoopKernel, instruction: Instruction) -> Iterator[Expression]:
    yield instruction.assignee
    for expr in (instruction.expression, *instruction.predicates):
        yield expand_rules(expr, kernel.substitutions)


def _expanded(
    kernel: LoopKernel, chosen: Mapping[str, tuple[str, ...]], users: Mapping[str, Iterable[Instruction]]
) -> LoopKernel:
    """Return *kernel* with a leading axis for each of its lanes in each of the temporaries *chosen*."""
    extents = _extents(kernel)
    leading: dict[str, tuple[Expression, ...]] = {}
    temporaries = dict(kernel.temporaries)
    for name, lanes in chosen.items():
        own = [(iname, extent) for iname in lanes if (extent := extents[iname]) is not None]
        leading[name] = tuple(
            p.Variable(iname) if extent.low == 0 else p.Sum((p.Variable(iname), -extent.low)) for iname, extent in own
        )
        old = temporaries[name]
        assert old.shape is not None, f"the shape of '{name}' is unknown"
        temporaries[name] = replace(old, shape=(*(extent.count for _, extent in own), *old.shape))
    change = _indexed(leading)
    concerned = {instruction.id for name in chosen for instruction in users[name]}

    def rewritten(expr: Expression) -> Expression:
        return map_nodes(expand_rules(expr, kernel.substitutions), change)

    instructions = tuple(
        replace(
            instruction,
            assignee=map_nodes(instruction.assignee, change),
            expression=rewritten(instruction.expression),
            predicates=tuple(map(rewritten, instruction.predicates)),
        )
        if instruction.id in concerned
        else instruction
        for instruction in kernel.instructions
    )
    return replace(kernel, instructions=instructions, temporaries=temporaries)


def _indexed(leading: Mapping[str, tuple[Expression, ...]]) -> Callable[[Expression], Expression]:
    """Return a rewrite of nodes that puts the indices *leading* in front of the subscripts of some arrays."""

    def change(node: Expression) -> Expression:
        if not isinstance(node, p.Variable | p.Subscript) or array_name(node) not in leading:
            return node
        name = array_name(node)
        indices = leading[name] if isinstance(node, p.Variable) else (*leading[name], *node.index_tuple)
        return p.Subscript(p.Variable(name), indices[0] if len(indices) == 1 else indices)

    return change


# }}}
