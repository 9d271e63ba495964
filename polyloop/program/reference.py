"""The reference program: the tree of the instructions as the user wrote them (design, section 3)."""

from __future__ import annotations

from polyloop.expr.printer import show
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.kernel.kernel import LoopKernel, Reference
from polyloop.kernel.tree import Barrier, Loop, Node, Tree
from polyloop.program.ir import Init, Lowered, Program
from polyloop.program.lower import lower

__all__ = ["accumulation_steps", "reference_of"]


def accumulation_steps(program: Program) -> dict[str, Lowered]:
    """Return the inits and updates that are steps of their own in the reference program, by name (rule 4)."""
    return {
        name: statement
        for name, statement in program.statements.items()
        if not statement.joined.keys().isdisjoint(statement.own)
    }


def reference_of(kernel: LoopKernel) -> Reference:
    """Return the reference program of *kernel*, as created."""
    program = lower(kernel)
    steps = {}
    for name, statement in accumulation_steps(program).items():
        assert statement.number is not None, f"{name} belongs to no reduction"
        expanded = expand_rules(statement.instruction.expression, kernel.substitutions)
        reduction = show(reductions(expanded)[statement.number])
        steps[name] = f"{'start' if isinstance(statement.part, Init) else 'one term'} of {reduction}"
    return Reference(kernel, _instruction_tree(program), steps)


def _instruction_tree(program: Program) -> Tree:
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
