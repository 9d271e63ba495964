"""Matrix products that run on while a thread goes ahead: each has an issue, and a completion some iterations later.

A product that is not waited for is two statements, the issue and its completion, each the whole update.  Operands may
be read, and sums written, at any time in between.  To the analysis both statements do both: so whatever overwrites an
operand, on any thread, is kept behind the completion by the barriers that separate it from a read there.  What is
particular to products is proven here: an operand holds the same value at the completion as at the issue, and nothing
else uses a sum while a product adds to it.  So a write that a completion reads is the one that its issue reads, and
stands before that already: barriers keep other threads behind a completion, and none stands ahead of it.

Products of one instruction add up in the order of their issues (PTX ISA, "wgmma.mma_async"), so another issue into the
same sums is no conflict, and a product is complete when a later one is.

A completion in the loop is ``lag`` iterations behind its issue.  Those that the loop does not reach are complete behind
it.  These statements are no part of the program, which adds a product where it is issued: they come to a program that
is placed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

import islpy as isl

from polyloop.dataflow.times import earlier
from polyloop.dataflow.value_flow import flow_of, is_exact, known_flow, writers_of
from polyloop.errors import Diagnostic
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Unroll, Vectorize
from polyloop.kernel.tree import Loop, Node, Run, Tree, paths, runs
from polyloop.mapping.thread_mapping import Placed, Placement, storage_map
from polyloop.memo import memoised
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import map_from_forms, preimage
from polyloop.program.ir import Access, Lowered, Program, Update
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair
from polyloop.sync.async_operations import changed_reads, is_untouched, pending_groups, step_of

__all__ = ["Completion", "UnderWay", "lag_in", "product_obligations", "sum_obligations", "under_way"]

_SET = isl.dim_type.set


@dataclass(frozen=True, eq=False)
class Completion:
    """A statement that waits for products.

    Attributes
    ----------
    link
        ``{ completion -> issue }``.
    pending
        Groups of products, issued after those waited for, that may still be under way; None behind the loop.
    """

    issue: Placed
    statement: Placed
    link: isl.Map
    pending: int | None


@dataclass(frozen=True, eq=False)
class UnderWay:
    """A program with the completions of its products, by name; the same program if it waits for each at once."""

    placement: Placement
    completions: Mapping[str, Completion] = field(default_factory=dict)

    def of(self, issue: Placed) -> list[Completion]:
        """Return the completions of one statement."""
        return [entry for entry in self.completions.values() if entry.issue.name == issue.name]


@memoised
def under_way(placement: Placement) -> UnderWay:
    """Return a program with the completions of its products."""
    found = UnderWay(placement)
    for issue in _issues(placement):
        found = _with_completions(found, issue)
    return found


def lag_in(program: Program, iname: str, array: str) -> int:
    """Return the number of iterations of a loop that products with an operand in *array* run on."""
    lags = [
        matrix.lag
        for lowered in program.statements.values()
        if _runs_on(lowered)
        and any(access.array == array for access in lowered.reads if access.leaf is not None)
        and _lag_loop(program, lowered) == iname
        and (matrix := lowered.instruction.matrix) is not None
    ]
    return max(lags, default=0)


def _runs_on(lowered: Lowered) -> bool:
    """Return whether a statement is a product that is not waited for at once."""
    matrix = lowered.instruction.matrix
    return matrix is not None and bool(matrix.lag) and isinstance(lowered.part, Update)


def _issues(placement: Placement) -> list[Placed]:
    """Return the products that are not waited for at once."""
    return [s for s in placement.statements.values() if _runs_on(s.lowered)]


def _operands(placed: Placed) -> list[Access]:
    return [read for read in placed.lowered.reads if read.leaf is not None]


# {{{ statements


def _with_completions(given: UnderWay, issue: Placed) -> UnderWay:
    """Return a program with the completions of one statement."""
    placement = given.placement
    matrix = issue.lowered.instruction.matrix
    assert matrix is not None, f"'{issue.name}' is no product"
    nest = _nest(placement.program.tree, issue.name)
    count = _outside(placement.program.kernel, nest, issue.lowered)
    loops = [loop.iname for loop in nest[:count]]
    left, names, found = issue.domain, dict[int, tuple[str, Mapping[str, str]]](), list[Completion]()
    if loops:
        step = step_of(placement, issue, loops)
        later = _later(issue, loops[-1], matrix.lag, step)
        link = map_from_forms(later.domain, later.dims, _back(later.dims, loops[-1], matrix.lag * step))
        found.append(Completion(issue, later, link, pending=0))
        names[0] = (later.name, {})
        left = left.subtract(link.range())
    own = {loop.iname: f"{loop.iname}'" for loop in nest[max(0, count - 1) :]}
    last = _last(issue, left.coalesce(), own)
    link = map_from_forms(last.domain, last.dims, [Affine.variable(x) for x in last.dims])
    found.append(Completion(issue, last, link, pending=None))
    names[min(1, count)] = (last.name, own)
    tree = _completed(placement.program.tree, count, issue.name, names)
    added = {entry.statement.name: entry.statement for entry in found}
    statements = {**placement.program.statements, **{name: placed.lowered for name, placed in added.items()}}
    program = replace(placement.program, statements=statements, tree=tree, places=paths(tree))
    placement = replace(
        placement, program=program, statements={**placement.statements, **added},
        completions=placement.completions.union(added),
    )  # fmt: skip
    counted = [
        entry if entry.pending is None
        else replace(entry, pending=pending_groups(placement, issue, entry.statement, entry.link))
        for entry in found
    ]  # fmt: skip
    return UnderWay(placement, {**given.completions, **{entry.statement.name: entry for entry in counted}})


def _lag_loop(program: Program, lowered: Lowered) -> str | None:
    """Return the loop in which a product runs on: the innermost one that is not part of the matrix instruction."""
    nest = _nest(program.tree, lowered.name)
    count = _outside(program.kernel, nest, lowered)
    return nest[count - 1].iname if count else None


def _nest(tree: Tree, name: str) -> list[Loop]:
    """Return the loops around a statement, from the outermost one."""
    for node in tree:
        if isinstance(node, Loop) and name in runs((node,)):
            return [node, *_nest(node.body, name)]
    return []


def _outside(kernel: LoopKernel, nest: Sequence[Loop], lowered: Lowered) -> int:
    """Return the number of loops outside of a matrix instruction; the others of *nest* are unrolled around it alone."""
    matrix = lowered.instruction.matrix
    assert matrix is not None, f"'{lowered.name}' is no product"
    registers = {iname for axis in "ijk" for iname, _ in matrix.of(axis)}
    count = len(nest)
    while count:
        loop = nest[count - 1]
        is_unrolled = loop.iname in registers or isinstance(kernel.tag(loop.iname), Unroll | Vectorize)
        if len(loop.body) > 1 or not is_unrolled:
            break
        count -= 1
    return count


def _back(names: Sequence[str], loop: str, distance: int) -> list[Affine]:
    """Return *names* as forms, with the value of a loop some distance before."""
    return [Affine.variable(x).add(Affine((), -distance if x == loop else 0)) for x in names]


def _later(issue: Placed, loop: str, lag: int, step: int) -> Placed:
    """Return the completions of a product some iterations later in a loop, if it issues products in each of them."""

    def moved(domain: isl.Set, names: Sequence[str]) -> isl.Set:
        places = (preimage(domain, names, _back(names, loop, step * number)) for number in range(lag + 1))
        return reduce(isl.Set.intersect, places)

    def accesses(given: Sequence[Access]) -> tuple[Access, ...]:
        values = {loop: Affine.variable(loop).add(Affine((), -lag * step))}
        return tuple(
            replace(access, indices=tuple(None if form is None else form.substitute(values) for form in access.indices))
            for access in given
        )

    lowered = issue.lowered
    lowered = replace(
        lowered, name=f"{lowered.name} completed", domain=moved(lowered.domain, lowered.inames),
        exact=moved(lowered.exact, lowered.inames), writes=accesses(lowered.writes), reads=accesses(lowered.reads),
    )  # fmt: skip
    domain = moved(issue.domain, issue.dims)
    return replace(issue, lowered=lowered, domain=domain, exact=domain)


def _last(issue: Placed, domain: isl.Set, own: Mapping[str, str]) -> Placed:
    """Return the completions of a product behind the loop; *own* are new names for loops: others run over them."""
    dims = tuple(own.get(x, x) for x in issue.dims)
    for position, name in enumerate(dims):
        domain = domain.set_dim_name(_SET, position, name)
    names = {x: Affine.variable(y) for x, y in own.items()}
    forms = {x: form.substitute(names) for x, form in issue.forms.items()} | names
    lowered = replace(issue.lowered, name=f"{issue.lowered.name} completed last")
    return replace(issue, lowered=lowered, dims=dims, domain=domain, exact=domain, forms=forms)


def _completed(tree: Tree, depth: int, issue: str, names: Mapping[int, tuple[str, Mapping[str, str]]]) -> Tree:
    """Return *tree* with the completions of a product, each behind the node at some distance from its instruction.

    The instruction is *depth* loops inside of *tree*.  *names* has the name of the completion, and new ones for loops.
    """
    out: list[Node] = []
    for node in tree:
        is_around = issue in runs((node,))
        if is_around and depth:
            assert isinstance(node, Loop), "a loop around the product"
            out.append(Loop(node.iname, _completed(node.body, depth - 1, issue, names)))
        else:
            out.append(node)
        if is_around and depth in names:
            out += _alone((node,), issue, *names[depth])
    return tuple(out)


def _alone(tree: Tree, issue: str, name: str, own: Mapping[str, str]) -> Tree:
    """Return the loops around a statement with nothing else, for a statement called *name* in its place."""
    (node,) = (node for node in tree if issue in runs((node,)))
    if isinstance(node, Loop):
        return (Loop(own.get(node.iname, node.iname), _alone(node.body, issue, name, own)),)
    return (Run(name),)


# }}}
# {{{ proof


def sum_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield the obligations of the sums to which products add that run on."""
    for issue in _issues(placement):
        name = issue.lowered.instruction.id
        says = f"nothing else uses a sum of '{name}' while products add to it"
        yield _obligation(placement, f"sums of '{name}'", says, partial(_sum_violations, under_way(placement), issue))


def product_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield the obligations of products that run on."""
    yield from sum_obligations(placement)
    for issue in _issues(placement):
        name = issue.lowered.instruction.id
        says = f"operands of '{name}' have at its completion the values that they had at its issue"
        find = partial(_operand_violations, under_way(placement), issue)
        yield _obligation(placement, f"operands of '{name}'", says, find)


def _obligation(placement: Placement, subject: str, says: str, find: Callable[[], Iterator[Diagnostic]]) -> Obligation:
    by = "dataflow from issues and completions"
    return Obligation(Claim.VALUES, subject, says, by, find, (placement.phantoms, placement.attempt), is_strict=True)


def _sum_violations(found: UnderWay, issue: Placed) -> Iterator[Diagnostic]:
    """Yield an access to a sum behind the issue of a product, and not behind its completion."""
    placement, array = found.placement, issue.lowered.write.array
    completions = {entry.statement.name: entry for entry in found.of(issue)}
    waits = [entry.statement for entry in completions.values()]
    others = [s for s in placement.statements.values() if s.name != issue.name and s.name not in completions]
    reads = [(s, access) for s in others for access in s.lowered.reads]
    writes = [(s, access) for s in others for access in s.lowered.writes]
    for other, access in (*reads, *writes):
        if access.array != array:
            continue
        looking_at(other, access, issue)
        if _is_complete(found, issue, other, access):
            continue
        issued, _ = flow_of(placement, array, [(other, access)], [issue]).of(other, access)
        waited, _ = flow_of(placement, array, [(other, access)], waits).of(other, access)
        done = [link.apply_range(completions[wait.name].link) for wait, link in waited]
        for _, link in issued:
            if not (left := reduce(isl.Map.subtract, done, link)).is_empty():
                yield _used(issue, other, access, left)
                return


def _is_complete(found: UnderWay, issue: Placed, other: Placed, access: Access) -> bool:
    """Return True if a quick test proves that all products are complete that were issued before an access to a sum.

    Each issue has one completion, of the same sum.  So none may be issued before the access and complete behind it.
    """
    placement = found.placement
    begun = earlier(placement, issue, other, or_equal=True)
    for entry in found.of(issue):
        behind = earlier(placement, other, entry.statement, or_equal=True)
        if begun.plain_is_empty() or behind.plain_is_empty():
            continue  # by their places in the loop tree
        space = placement.spaces[access.array]
        sums = storage_map(placement, entry.statement, entry.statement.lowered.write, space)
        pairs = storage_map(placement, other, access, space).apply_range(sums.reverse())
        if not pairs.intersect(behind).intersect(entry.link.apply_range(begun).reverse()).is_empty():
            return False
    return True


def _used(issue: Placed, other: Placed, access: Access, left: isl.Map) -> Diagnostic:
    at, before = pair(left, other, issue)
    name, user = issue.lowered.instruction.id, other.lowered.instruction.id
    verb = "sets" if other.lowered.is_write(access) else "reads"
    return Diagnostic(
        "product-under-way",
        f"a sum of '{name}' is used while products add to it",
        (
            f"instance {instance(issue, before)} of '{name}' issues a product that adds to "
            f"{element(issue, issue.lowered.write, before)}",
            f"instance {instance(other, at)} of '{user}' {verb} {element(other, access, at)} before it is complete",
        ),
        ("wait for products where they are issued (lag=0), or let a loop inside of the sum be the innermost one",),
        sites=(issue.lowered.instruction.site(),),
    )


def _operand_violations(found: UnderWay, issue: Placed) -> Iterator[Diagnostic]:
    """Yield a write to an operand between the issue of a product and its completion."""
    placement = found.placement
    for entry in found.of(issue):
        for early, late in zip(_operands(issue), _operands(entry.statement), strict=True):
            array = early.array
            if not writers_of(placement, array):
                continue
            if not is_exact(placement, array):
                message = f"'{array}' is written and read by products that run on, and not all accesses are exact"
                hints = ("wait for products where they are issued: lag=0",)
                yield Diagnostic("not-proven", message, hints=hints, sites=(issue.lowered.instruction.site(),))
                return
            looking_at(entry.statement, late, issue, early)
            if is_untouched(placement, (issue, early), (entry.statement, late), entry.link):
                continue
            flow = known_flow(placement, array)
            for missing in changed_reads(flow, (issue, early), (entry.statement, late), entry.link):
                if not missing.is_empty():
                    yield _overwritten(entry, early, missing, flow.of(entry.statement, late)[0])
                    return


def _overwritten(
    entry: Completion, read: Access, missing: isl.Set, sources: Sequence[tuple[Placed, isl.Map]]
) -> Diagnostic:
    issue, name = entry.issue, entry.issue.lowered.instruction.id
    writer, seen = next((w, m) for w, m in sources if not m.intersect_domain(missing).is_empty())
    at, before = pair(entry.link.intersect_domain(missing).reverse().apply_range(seen), issue, writer)
    by = writer.lowered.instruction.id
    return Diagnostic(
        "product-under-way",
        f"'{read.array}' is overwritten while products of '{name}' may read it",
        (
            f"instance {instance(issue, at)} of '{name}' issues a product that reads {element(issue, read, at)}",
            f"instance {instance(writer, before)} of '{by}' writes it before the product is complete",
        ),
        (
            "hold more iterations in the buffer: pl.pipeline(knl, .., stages=..) with one stage more, called after "
            "tensorize; or wait for products where they are issued (lag=0)",
        ),
        sites=(issue.lowered.instruction.site(), writer.lowered.instruction.site()),
    )


# }}}
