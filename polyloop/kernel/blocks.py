"""The ``for`` and ``if`` blocks that are open at a statement, while statements are being read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pymbolic.primitives as p

from polyloop.errors import Span
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import variables
from polyloop.kernel.lines import fail

__all__ = ["Blocks", "ForBlock", "IfBlock"]


@dataclass(slots=True)
class ForBlock:
    """An open ``for`` block: its inames, and for each a number that identifies the loop."""

    span: Span
    inames: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(slots=True)
class IfBlock:
    """An open ``if`` block: the condition that holds now, and those of the branches before."""

    span: Span
    condition: Expression | None
    refused: list[Expression]
    depends: frozenset[str]
    loops_outside: int
    written: dict[str, Span] = field(default_factory=dict)

    def predicates(self) -> tuple[Expression, ...]:
        """Return what holds in the current branch."""
        negated = tuple(_negated(condition) for condition in self.refused)
        return negated if self.condition is None else (*negated, self.condition)


def _negated(condition: Expression) -> Expression:
    return condition.child if isinstance(condition, p.LogicalNot) else p.LogicalNot(condition)


class Blocks:
    """The open blocks, outermost first."""

    def __init__(self) -> None:
        self.open: list[ForBlock | IfBlock] = []
        self.count = 0

    def loops(self) -> list[ForBlock]:
        """Return the open ``for`` blocks."""
        return [block for block in self.open if isinstance(block, ForBlock)]

    def inames(self) -> tuple[str, ...]:
        """Return the inames of the open loops."""
        return tuple(iname for block in self.loops() for iname in block.inames)

    def numbers(self) -> tuple[int, ...]:
        """Return the number of each open loop."""
        return tuple(number for block in self.loops() for number in block.numbers)

    def conditions(self) -> tuple[Expression, ...]:
        """Return the conditions that hold, those of the outermost block first."""
        return tuple(c for block in self.open if isinstance(block, IfBlock) for c in block.predicates())

    def open_for(self, span: Span, inames: Sequence[str]) -> None:
        """Open one block that loops over *inames*."""
        numbers = tuple(range(self.count, self.count + len(inames)))
        self.count += len(inames)
        self.open.append(ForBlock(span, tuple(inames), numbers))

    def open_if(self, span: Span, condition: Expression) -> None:
        """Open an ``if`` block."""
        self.open.append(IfBlock(span, condition, [], variables(condition), len(self.loops())))

    def branch(self, condition: Expression | None) -> None:
        """Go on with the next branch of the innermost block, an ``if``; None is ``else``."""
        block = self.open[-1]
        assert isinstance(block, IfBlock), "a branch outside of 'if'"
        assert block.condition is not None, "a branch after 'else'"
        block.refused.append(block.condition)
        block.condition = condition
        if condition is not None:
            block.depends |= variables(condition)

    def close(self) -> ForBlock | IfBlock:
        """Close the innermost block."""
        return self.open.pop()

    def check_conditions(self, assignee: Expression, span: Span) -> None:
        """Refuse a statement whose condition would change between the line ``if`` and the statement."""
        name = array_name(assignee)
        loops = len(self.loops())
        for block in self.open:
            if not isinstance(block, IfBlock):
                continue
            changed = sorted(block.depends & block.written.keys())
            if name in block.depends and loops > block.loops_outside:
                changed = [name]
            if changed:
                message = f"'{changed[0]}' is written inside an 'if' block whose condition reads it"
                hint = f"keep the condition of line {block.span.line}: <> holds = ... before it, then 'if holds'"
                fail("condition-changed", message, block.written.get(changed[0], span), hint)
            block.written.setdefault(name, span)
