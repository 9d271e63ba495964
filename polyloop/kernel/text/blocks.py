"""Stack of open ``for``, ``if`` and ``with`` blocks, while statements are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pymbolic.primitives as p

from polyloop.errors import Span
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import variables
from polyloop.kernel.text.headers import Header
from polyloop.kernel.text.logical_lines import fail
from polyloop.kernel.text.options import Options

__all__ = ["Blocks", "ForBlock", "IfBlock", "WithBlock"]


@dataclass(slots=True)
class ForBlock:
    """An open ``for`` block: its inames, and for each a number that identifies the loop."""

    span: Span
    inames: tuple[str, ...]
    numbers: tuple[int, ...]
    header: Header | None = None
    kind: ClassVar[str] = "for"


@dataclass(slots=True)
class WithBlock:
    """An open ``with`` block, with its options and those of the enclosing blocks."""

    span: Span
    options: Options
    kind: ClassVar[str] = "with"


@dataclass(slots=True)
class IfBlock:
    """An open ``if`` block: the condition of the current branch, and those of the branches before."""

    span: Span
    condition: Expression | None
    refused: list[Expression]
    depends: frozenset[str]
    loops_outside: int
    written: dict[str, Span] = field(default_factory=dict)
    kind: ClassVar[str] = "if"

    def predicates(self) -> tuple[Expression, ...]:
        """Return the condition of the current branch."""
        negated = tuple(_negated(condition) for condition in self.refused)
        return negated if self.condition is None else (*negated, self.condition)


def _negated(condition: Expression) -> Expression:
    return condition.child if isinstance(condition, p.LogicalNot) else p.LogicalNot(condition)


class Blocks:
    """The open blocks, outermost first."""

    def __init__(self) -> None:
        self.open: list[ForBlock | IfBlock | WithBlock] = []
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
        """Return the conditions of all open branches, outermost block first."""
        return tuple(c for block in self.open if isinstance(block, IfBlock) for c in block.predicates())

    def options(self) -> Options:
        """Return the options of the ``with`` blocks that are open."""
        return next((block.options for block in reversed(self.open) if isinstance(block, WithBlock)), Options())

    def open_with(self, span: Span, options: Options) -> None:
        """Open a ``with`` block."""
        self.open.append(WithBlock(span, options.inside(self.options())))

    def reopen(self) -> tuple[int, int]:
        """Close the innermost loop and open it again; return its old and its new number."""
        block = self.loops()[-1]
        old, new = block.numbers[-1], self.count
        block.numbers = (*block.numbers[:-1], new)
        self.count += 1
        return old, new

    def open_for(self, span: Span, inames: Sequence[str], header: Header | None = None) -> None:
        """Open one block that loops over *inames*, with the bounds that its line gives."""
        numbers = tuple(range(self.count, self.count + len(inames)))
        self.count += len(inames)
        self.open.append(ForBlock(span, tuple(inames), numbers, header))

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

    def close(self) -> ForBlock | IfBlock | WithBlock:
        """Close the innermost block."""
        return self.open.pop()

    def check_conditions(self, span: Span, *assignees: Expression) -> None:
        """Raise ``condition-changed`` if a statement in the block may change the condition of an enclosing ``if``."""
        names = [array_name(assignee) for assignee in assignees]
        loops = len(self.loops())
        for block in self.open:
            if not isinstance(block, IfBlock):
                continue
            changed = sorted(block.depends & block.written.keys())
            if loops > block.loops_outside:
                changed = [name for name in names if name in block.depends] or changed
            if changed:
                message = f"'{changed[0]}' is written inside an 'if' block whose condition reads it"
                hint = f"keep the condition of line {block.span.line} in a temporary assigned before it, and test that"
                fail("condition-changed", message, block.written.get(changed[0], span), hint)
            for name in names:
                block.written.setdefault(name, span)
