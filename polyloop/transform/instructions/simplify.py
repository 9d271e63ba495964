"""``fold_constants``, ``simplify_indices``: equal expressions in shorter form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import affine_of, to_expression
from polyloop.transform.base import Transform

__all__ = ["FoldConstants", "SimplifyIndices"]

_EXACT: Final = 1 << 24
"""Integers up to this are exact in every type that a constant may take, but for half precision's."""


@dataclass(frozen=True)
class _Rewriting(Transform):
    """A transform that rewrites nodes of expressions without changing their values."""

    @abstractmethod
    def node(self, node: Expression) -> Expression:
        """Return the simplified form of a node, whose operands are simplified already."""

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def instruction(old: Instruction) -> Instruction:
            if old.is_c:
                return old
            return replace(
                old,
                assignee=map_nodes(old.assignee, self.node),
                expression=map_nodes(old.expression, self.node),
                predicates=tuple(map_nodes(predicate, self.node) for predicate in old.predicates),
            )

        rules = {
            name: rule.mapped(lambda value: map_nodes(value, self.node))
            for name, rule in kernel.substitutions.items()
        }
        instructions = tuple(map(instruction, kernel.instructions))
        return replace(kernel, instructions=instructions, substitutions=rules)


@dataclass(frozen=True)
class FoldConstants(_Rewriting):
    """Fold integer constants in sums, products and quotients.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*3*a[i + 4 // 2]")
    >>> print(*knl.fold_constants().instructions)
    b[i] = 6*a[i + 2]

    Raises
    ------
    TransformError
        Never.

    Notes
    -----
    Only integers are folded, and only where they come first in a sum or product: then the order of rounding stays.
    Source: Loopy's transform of the same name.
    """

    def node(self, node: Expression) -> Expression:
        match node:
            case p.Sum(children):
                return _folded(node, children, sum)
            case p.Product(children):
                return _folded(node, children, prod)
            case p.FloorDiv(int(top), int(bottom)) if bottom > 0:
                return top // bottom
            case p.Remainder(int(top), int(bottom)) if bottom > 0:
                return top % bottom
        return node


def _folded(node: Expression, children: Sequence[Expression], combine: Callable[[Sequence[int]], int]) -> Expression:
    """Return a sum or product with its leading integer operands folded into one."""
    leading = next((n for n, child in enumerate(children) if type(child) is not int), len(children))
    if leading < 2:
        return node
    value = combine(children[:leading])
    if abs(value) > _EXACT:
        return node
    return value if leading == len(children) else type(node)((value, *children[leading:]))


@dataclass(frozen=True)
class SimplifyIndices(_Rewriting):
    """Write affine subscripts as sums of multiples.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = a[2*(i + 1) - i]")
    >>> print(*knl.simplify_indices().instructions)
    b[i] = a[i + 2]

    Raises
    ------
    TransformError
        Never.

    Notes
    -----
    Generated code has simple subscripts anyway; this is for reading the kernel.  Source: Loopy's transform of the same
    name.
    """

    def node(self, node: Expression) -> Expression:
        if not isinstance(node, p.Subscript):
            return node
        indices = tuple(index if (form := affine_of(index)) is None else to_expression(form)
                        for index in node.index_tuple)  # fmt: skip
        return p.Subscript(node.aggregate, indices[0] if len(indices) == 1 else indices)
