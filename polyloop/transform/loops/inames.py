"""Replacement of an iname by others in a whole kernel, for splits and renames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import children, rebuild_changed, substitute
from polyloop.frozen import replace
from polyloop.kernel.domains import substitute_iname
from polyloop.kernel.instruction import Instruction, Origin, Term
from polyloop.kernel.intrinsic import Matrix
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.memo import memoised
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import Row

__all__ = ["Replacement", "replace_iname"]


class Replacement:
    """``old`` becomes ``form`` over ``names``, which also fulfil ``box``.

    ``inner`` is one of the names with the number of its values, which begin at 0: quotients that it does not change are
    divided out, ``(4*i_outer + i_inner) // 4``.
    """

    def __init__(
        self, old: str, names: tuple[str, ...], form: Affine, box: Iterable[Row] = (), text: Expression = None,
        inner: tuple[str, int] | None = None,
    ) -> None:
        self.old = old
        self.names = names
        self.form = form
        self.box = tuple(box)
        self.inner = inner
        self.text = to_expression(form) if text is None else text
        self._last: tuple[isl.Set, tuple[str, ...], isl.Set] | None = None

    def dims(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        """Return *dims* with the new names in the place of the old one."""
        if self.old not in dims:
            return dims
        position = dims.index(self.old)
        return (*dims[:position], *self.names, *dims[position + 1 :])

    def domain(self, domain: isl.Set, dims: Sequence[str]) -> isl.Set:
        """Return *domain* over the new dimensions."""
        if self.old not in dims:
            return domain
        return self._domain(domain, tuple(dims))

    @memoised
    def _domain(self, domain: isl.Set, dims: tuple[str, ...]) -> isl.Set:
        found = self._same(domain, dims)
        if found is None:
            found = substitute_iname(domain, dims.index(self.old), self.names, self.form, self.box)
            self._last = (domain, dims, found)
        return found

    def _same(self, domain: isl.Set, dims: tuple[str, ...]) -> isl.Set | None:
        """Return the last result if *domain* equals the last argument: a statement's domain is often the kernel's."""
        if self._last is None:
            return None
        other, others, found = self._last
        names = [domain.get_dim_name(isl.dim_type.set, n) for n in range(len(dims))]
        same = dims == others and names == [other.get_dim_name(isl.dim_type.set, n) for n in range(len(dims))]
        return found if same and domain.plain_is_equal(other) else None

    def expression(self, expr: Expression) -> Expression:
        """Return *expr* with the iname replaced, as a loop variable and as a reduction iname."""
        new = substitute(expr, {self.old: self.text}, {self.old: self.names})
        return new if new is expr or self.inner is None else _divided(new, *self.inner)

    def origin(self, origin: Origin) -> Origin:
        """Return *origin* in terms of the new names."""
        values = {self.old: self.form}
        return replace(origin, forms={name: form.substitute(values) for name, form in origin.forms.items()})

    def instruction(self, instruction: Instruction) -> Instruction:
        """Return *instruction* over the new names."""
        if self.old not in instruction.inames and all(self.old not in term.inames for term in instruction.terms):
            return instruction
        block = dict(instruction.blocks).get(self.old)
        blocks = tuple(entry for entry in instruction.blocks if entry[0] != self.old)
        if block is not None:
            blocks += tuple((name, block) for name in self.names)
        return replace(
            instruction,
            inames=self.dims(instruction.inames),
            domain=self.domain(instruction.domain, instruction.inames),
            assignee=self.expression(instruction.assignee),
            expression=self.expression(instruction.expression),
            predicates=tuple(self.expression(predicate) for predicate in instruction.predicates),
            terms=tuple(Term(self.dims(t.inames), self.domain(t.domain, t.inames)) for t in instruction.terms),
            origin=self.origin(instruction.origin),
            blocks=blocks,
            matrix=self._matrix(instruction.matrix),
        )

    def _matrix(self, matrix: Matrix | None) -> Matrix | None:
        """Return a matrix instruction over a renamed iname; of one that is divided it cannot know, which is checked."""
        if matrix is None or self.form != Affine.variable(self.names[0]):
            return matrix
        return matrix.renamed({self.old: self.names[0]})

    def piece(self, piece: Domain) -> Domain:
        """Return a domain of the kernel over the new names."""
        if self.old in piece.inames:
            return Domain(self.dims(piece.inames), self.domain(piece.set, piece.inames))
        position = piece.set.find_dim_by_name(isl.dim_type.param, self.old)
        if position < 0:
            return piece
        inside = piece.set.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        inside = inside.set_dim_name(isl.dim_type.set, 0, self.old)
        inside = substitute_iname(inside, 0, self.names, self.form, self.box)
        count = inside.dim(isl.dim_type.param)
        moved = inside.move_dims(isl.dim_type.param, count, isl.dim_type.set, 0, len(self.names))
        return Domain(piece.inames, moved)


def _divided(expr: Expression, inner: str, length: int) -> Expression:
    """Return *expr* without the quotients and remainders that do not depend on *inner*, of values 0 to *length* - 1."""

    def visit(node: Expression) -> Expression:
        kind = type(node)
        if kind is p.Variable or kind is int or not issubclass(kind, p.ExpressionNode):
            return node
        if kind is p.Subscript:
            old = node.index_tuple
            new = tuple([_index(index, inner, length) for index in old])
            return node if all(map(is_, old, new)) else p.Subscript(node.aggregate, new[0] if len(new) == 1 else new)
        old = children(node)
        node = rebuild_changed(node, old, tuple(map(visit, old))) if old else node
        return _quotient(node, inner, length) if kind is p.FloorDiv or kind is p.Remainder else node

    return visit(expr)


def _index(node: Expression, inner: str, length: int) -> Expression:
    """Return a subscript with its quotients and remainders simplified, and without terms that cancel."""
    is_leaf = isinstance(node, p.Variable) or not isinstance(node, p.ExpressionNode)
    return node if is_leaf else _shorter(node, inner, length)


@memoised
def _shorter(node: p.ExpressionNode, inner: str, length: int) -> Expression:
    return _cancelled(_divided(node, inner, length))


def _quotient(node: p.FloorDiv | p.Remainder, inner: str, length: int) -> Expression:
    """Return a quotient or remainder, simplified under ``0 <= inner < length`` where possible."""
    if type(node.denominator) is not int or node.denominator < 1:
        return node
    den, form = node.denominator, affine_of(node.numerator)
    if form is None or inner not in form.names():
        return node
    rest = Affine.make([(var, coefficient % den) for var, coefficient in form.terms], form.const % den)
    if {var for var, _ in rest.terms} <= {inner} and rest.const + rest.coefficient(inner) * (length - 1) < den:
        return to_expression(form.add(rest, -1).floordiv(den) if isinstance(node, p.FloorDiv) else rest)
    return to_expression(form.floordiv(den)) if isinstance(node, p.FloorDiv) else node


def _cancelled(index: Expression) -> Expression:
    """Return a subscript without terms that cancel each other: ``4*i_outer + i_inner - 4*i_outer``."""
    form = affine_of(index) if isinstance(index, p.Sum) else None
    if form is None or any(not isinstance(var, str) for var, _ in form.terms) or len(form.terms) >= len(index.children):
        return index
    return to_expression(form)


def replace_iname(kernel: LoopKernel, change: Replacement) -> LoopKernel:
    """Return *kernel* with one iname replaced."""
    rules = {
        name: rule.mapped(change.expression)
        for name, rule in kernel.substitutions.items()
    }
    return replace(
        kernel,
        domains=tuple(change.piece(piece) for piece in kernel.domains),
        instructions=tuple(change.instruction(instruction) for instruction in kernel.instructions),
        substitutions=rules,
        loop_priority=tuple(change.dims(chain) for chain in kernel.loop_priority),
        iname_tags={name: tag for name, tag in kernel.iname_tags.items() if name != change.old},
    )
