"""The reference program: the tree of the instructions as the user wrote them (design, section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from polyloop.errors import VerificationError
from polyloop.expr.printer import show
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel, Reference
from polyloop.kernel.reads import with_reads
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Tree, runs
from polyloop.program.ir import Init, Lowered, Program
from polyloop.program.lower import lower

__all__ = ["accumulation_steps", "in_loops_of", "instruction_tree", "nests", "reference_of", "restated"]


def accumulation_steps(program: Program) -> dict[str, Lowered]:
    """Return the inits and updates that are steps of their own in the reference program, by name (rule 4)."""
    return {
        name: statement
        for name, statement in program.statements.items()
        if not statement.joined.keys().isdisjoint(statement.own)
    }


def reference_of(kernel: LoopKernel) -> Reference:
    """Return the reference program of *kernel*, as created."""
    kernel = with_reads(kernel)
    program = lower(kernel)
    steps = {}
    for name, statement in accumulation_steps(program).items():
        assert statement.number is not None, f"{name} belongs to no reduction"
        expanded = expand_rules(statement.instruction.expression, kernel.substitutions)
        reduction = show(reductions(expanded)[statement.number])
        steps[name] = f"{'start' if isinstance(statement.part, Init) else 'one term'} of {reduction}"
    return Reference(kernel, instruction_tree(program), steps)


def instruction_tree(program: Program) -> Tree:
    """Return the loop tree of whole instructions, in which a reduction is one step of its instruction.

    Only accumulations in a loop that also sets a temporary which they read are steps of their own.
    """
    ids = {instruction.id for instruction in program.kernel.instructions}
    ids.update(accumulation_steps(program))

    def kept(nodes: Tree) -> Tree:
        found: list[Node] = []
        for node in nodes:
            if isinstance(node, Loop):
                body = kept(node.body)
                if body:
                    found.append(Loop(node.iname, body))
            elif isinstance(node, Barrier) or node.name in ids:
                found.append(node)
        return tuple(found)

    return kept(program.tree)


def restated(reference: Reference, kernel: LoopKernel) -> Reference:
    """Return the reference program of *kernel*, that of *reference* with other sizes or layouts, in its loops.

    Loops that follow from one another stay in order.  Others may change places: where two arrays become one, more loops
    seem to.
    """
    found = reference_of(in_loops_of(kernel, reference.kernel))
    assert nests(found.tree) == nests(reference.tree), "the reference program has other loops"
    return found


def in_loops_of(after: LoopKernel, before: LoopKernel) -> LoopKernel:
    """Return *after*, *before* with other sizes, types, layouts or instructions, with the loops of *before*.

    Legality of sharing (rule 3c) is decided for all sizes of a kernel.  Statements that read too early for some sizes
    might share a loop where just the others are left, and might not any more where subscripts are no longer affine.
    Then each loop of *before* becomes a block of its own, as if it had been written as ``for``.
    """
    try:
        tree, present = instruction_tree(lower(before)), instruction_tree(lower(after))
    except VerificationError:
        return after  # it has no order yet
    both = frozenset(runs(tree)) & frozenset(runs(present))
    tree = _of(tree, both)
    if _of(present, both) == tree:
        return after
    written = [old.blocks for old in after.instructions] + [old.blocks for old in after.barriers]
    fresh = 1 + max((number for blocks in written for _, number in blocks), default=-1)
    own: dict[str, dict[str, int]] = {instruction.id: {} for instruction in after.instructions}
    for loop in _loops(tree):
        for name in runs(loop.body):
            own.get(name, {})[loop.iname] = fresh
        fresh += 1
    instructions = tuple(
        replace(old, blocks=tuple(
            (iname, number) for iname, number in {**own[old.id], **dict(old.blocks)}.items() if iname in old.inames))
        for old in after.instructions
    )  # fmt: skip
    return replace(after, instructions=instructions)


def nests(tree: Tree) -> Counter[tuple[object, ...]]:
    """Return the runs and loops at the top of *tree*, in any order, loops with their own."""
    return Counter(
        (node.iname, frozenset(nests(node.body).items())) if isinstance(node, Loop) else (node,) for node in tree
    )


def _of(tree: Tree, names: Collection[str]) -> Tree:
    """Return the runs of *names* in *tree*, in their loops."""
    found: list[Node] = []
    for node in tree:
        if not isinstance(node, Loop):
            found += [node] if isinstance(node, Run) and node.name in names else []
        elif body := _of(node.body, names):
            found.append(Loop(node.iname, body))
    return tuple(found)


def _loops(tree: Tree) -> Iterator[Loop]:
    """Yield the loops of *tree*, each before those inside."""
    for node in tree:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)
