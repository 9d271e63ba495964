"""Programs in the form that is differentiated: assignments without predicates, with at most one reduction each.

::

    y[i] = sqrt(sum(k, a[i, k]**2))    if x[i] > 0
    ->
    y_sum[i] = sum(k, if(x[i] > 0, a[i, k]**2, 0))
    y[i] = if(x[i] > 0, sqrt(y_sum[i]), y[i])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.derivatives.arithmetic import conjunction
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import CText, Expression, Operation, Reduction, Targets, Terms, array_name
from polyloop.expr.rewrite import children, rebuild_changed, reductions
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import condition_set, parameters_of
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Barrier, Loop, Run, Tree
from polyloop.kernel.updates import update_of
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import parametric_interval, project_onto

__all__ = [
    "NONZERO", "OWN", "TIES", "ZEROS", "Block", "Node", "Program", "Statement", "element_for", "extents_for",
    "program_of", "refuse", "restricted",
]  # fmt: skip

OWN: Final = "@own"
"""Stands for the value of the statement itself in factors of its operand: ``product(..)/x[k]``."""

TIES: Final = "@ties"
"""Stands there for the number of terms that equal the result of ``max`` or ``min``."""

ZEROS: Final = "@zeros"
"""Stands there for the number of factors of a ``product`` that are zero."""

NONZERO: Final = "@nonzero"
"""Stands there for the product of the factors that are not zero."""


def refuse(kernel: LoopKernel, message: str, *notes: str, hint: str) -> NoReturn:
    """Raise ``not-differentiable``.

    Raises
    ------
    KernelError
        ``not-differentiable``.
    """
    raise KernelError("differentiate", kernel.name, [Diagnostic("not-differentiable", message, notes, (hint,))])


@dataclass(frozen=True, eq=False)
class Reduced:
    """The reduction of a statement: its inames, its terms over the loops and these, and what combines them."""

    inames: tuple[str, ...]
    terms: isl.Set
    operation: Operation


@dataclass(frozen=True, eq=False)
class Statement:
    """``target = value``, or ``target = operation(inames, value)``, for every point of ``domain``.

    Attributes
    ----------
    dims, domain
        Loops from the outermost to the innermost, and the instances over these.
    reduced
        The reduction of which ``value`` is a term, None if there is none.
    companions
        For a reduction by max, min or product, the statements behind it that compute more of its terms, by what stands
        for their results in factors.
    source
        The instruction that it comes from.
    adds
        True if the value is added to the target, an element that data selects.
    """

    name: str
    dims: tuple[str, ...]
    domain: isl.Set
    target: Expression
    value: Expression
    source: Instruction
    reduced: Reduced | None = None
    companions: Mapping[str, Statement] = field(default_factory=dict)
    adds: bool = False

    @property
    def array(self) -> str:
        """The variable that is assigned."""
        return array_name(self.target)

    @property
    def over(self) -> tuple[str, ...]:
        """Inames of the reduction."""
        return () if self.reduced is None else self.reduced.inames

    @property
    def operation(self) -> Operation | None:
        """Operation of the reduction."""
        return None if self.reduced is None else self.reduced.operation

    @property
    def inner(self) -> tuple[str, ...]:
        """The inames of the instances of ``value``."""
        return (*self.dims, *self.over)

    @property
    def instances(self) -> isl.Set:
        """The instances of ``value``."""
        return self.domain if self.reduced is None else self.reduced.terms


@dataclass(frozen=True, eq=False)
class Block:
    """A loop of the program, with what is in it."""

    iname: str
    body: tuple[Node, ...]


Node: TypeAlias = "Block | Statement"


@dataclass(frozen=True, eq=False)
class Program:
    """The statements of a kernel's reference program, in its loops.

    Attributes
    ----------
    made
        Temporaries that hold the results of reductions, with their types where these are known.
    """

    kernel: LoopKernel
    body: tuple[Node, ...]
    made: dict[str, np.dtype[np.generic] | None]

    def statements(self) -> Iterator[Statement]:
        """Yield the statements in text order."""

        def visit(nodes: Sequence[Node]) -> Iterator[Statement]:
            for node in nodes:
                if isinstance(node, Statement):
                    yield node
                else:
                    yield from visit(node.body)

        yield from visit(self.body)

    def paths(self) -> dict[str, tuple[int | str, ...]]:
        """Return the place of each statement: positions and inames from the root, alternating."""
        found: dict[str, tuple[int | str, ...]] = {}

        def visit(nodes: Sequence[Node], prefix: tuple[int | str, ...]) -> None:
            for position, node in enumerate(nodes):
                if isinstance(node, Statement):
                    found[node.name] = (*prefix, position)
                else:
                    visit(node.body, (*prefix, position, node.iname))

        visit(self.body, ())
        return found

    def dtype(self, name: str) -> np.dtype[np.generic] | None:
        """Return the type of a variable, None for others and where it is open."""
        if name in self.made:
            return self.made[name]
        entry = self.kernel.arrays().get(name) or self.kernel.values().get(name)
        return None if entry is None else entry.dtype


def program_of(kernel: LoopKernel) -> Program:
    """Return the reference program of *kernel* in the form that is differentiated.

    Raises
    ------
    KernelError
        ``not-differentiable``: it has C text, results of several parts, or bounds that are read from memory.
    """
    reference = kernel.reference
    assert reference is not None, "a created kernel has a reference program"
    if reference.steps:
        refuse(kernel, "a reduction collects its terms in a loop that sets what it reads", *reference.steps.values(),
               hint="index the temporary by the iname of the reduction")
    return _Normalising(reference.kernel).program(reference.tree)


@dataclass(eq=False)
class _Normalising:
    kernel: LoopKernel
    made: dict[str, np.dtype[np.generic] | None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def program(self, tree: Tree) -> Program:
        self.names = {instruction.id for instruction in self.kernel.instructions}
        by_id = {instruction.id: instruction for instruction in self.kernel.instructions}

        def visit(nodes: Tree) -> tuple[Node, ...]:
            found: list[Node] = []
            for node in nodes:
                match node:
                    case Loop():
                        found.append(Block(node.iname, visit(node.body)))
                    case Run():
                        found += [_looped(made) for made in self.normalised(by_id[node.name])]
                    case Barrier():
                        pass
            return tuple(found)

        return Program(self.kernel, visit(tree), self.made)

    def normalised(self, instruction: Instruction) -> list[Statement]:
        """Return the statements of an instruction, its own one last."""
        kernel = self.kernel
        if isinstance(instruction.assignee, Targets) or isinstance(instruction.expression, CText):
            refuse(kernel, f"'{instruction.id}' is C text", hint="write it in the language of kernels")
        unknown = set(_used_parameters(instruction)) - set(kernel.parameters)
        if unknown:
            refuse(kernel, f"the bounds of '{instruction.id}' are read from memory: '{min(unknown)}'",
                   str(instruction), hint="differentiate it by hand: with atomics over the same loops")
        expand: Callable[[Expression], Expression] = lambda e: expand_rules(e, kernel.substitutions)  # noqa: E731
        whole = expand(instruction.expression)
        added = self.added(instruction, whole)
        if added is not None:
            whole = added
        if instruction.predicates:
            other = instruction.assignee if added is None else 0
            whole = p.If(conjunction(map(expand, instruction.predicates)), whole, other)
        found = _Hoisting(self, instruction, self.terms(instruction, whole))
        target, own = instruction.assignee, whole
        if isinstance(whole, Reduction) and added is None:
            return found.reduction(whole, target, instruction.id, instruction.inames, instruction.domain, ())
        own = found.hoisted(whole, instruction.inames, instruction.domain, ())
        return [*found.before, Statement(
            instruction.id, instruction.inames, instruction.domain, target, own, instruction,
            adds=added is not None)]

    def added(self, instruction: Instruction, whole: Expression) -> Expression | None:
        """Return the operand of an update ``a[idx[i]] = a[idx[i]] + operand``; None where subscripts are affine."""
        target = instruction.assignee
        known = {*instruction.inames, *self.kernel.parameters}
        forms = [affine_of(index) for index in (target.index_tuple if isinstance(target, p.Subscript) else ())]
        if all(form is not None and form.names() <= known for form in forms):
            return None
        update = update_of(target, whole)
        if update is None or update.operation != "sum":
            refuse(self.kernel, f"it depends on data which element of '{array_name(target)}' is assigned",
                   str(instruction), hint="make it a sum over all terms that each element gets, or an update by +=")
        return update.operand

    def terms(self, instruction: Instruction, whole: Expression) -> list[tuple[Reduction, isl.Set]]:
        """Return each reduction in *whole* with its terms."""
        inside = whole.then if isinstance(whole, p.If) and instruction.predicates else whole
        nodes = reductions(inside)
        assert len(nodes) == len(instruction.terms), "an instruction has terms for each reduction"
        if any(node is other for place, node in enumerate(nodes) for other in nodes[:place]):
            refuse(self.kernel, f"'{instruction.id}' uses a rule with a reduction twice", str(instruction),
                   hint="assign the rule's value to a temporary")
        return [(node, term.domain) for node, term in zip(nodes, instruction.terms, strict=True)]

    def fresh(self, wish: str) -> str:
        """Return an unused name of a temporary and its statement."""
        name = self.kernel.fresh(wish, (*self.made, *self.names))
        self.names.add(name)
        return name


def _looped(made: Statement) -> Node:
    """Return a statement in those of its loops that its instruction is not in."""
    node: Node = made
    for iname in reversed(made.dims[len(made.source.inames) :]):
        node = Block(iname, (node,))
    return node


def _used_parameters(instruction: Instruction) -> Iterator[str]:
    for domain in (instruction.domain, *(term.domain for term in instruction.terms)):
        for position, name in enumerate(parameters_of(domain)):
            if domain.involves_dims(isl.dim_type.param, position, 1):
                yield name


_Guards: TypeAlias = tuple[Expression, ...]
_NEUTRAL: Final = {"sum": 0, "product": 1}
_DIFFERENTIABLE: Final = frozenset(("sum", "product", "max", "min"))


@dataclass(eq=False)
class _Hoisting:
    """Makes statements of the reductions inside of an instruction."""

    owner: _Normalising
    instruction: Instruction
    terms: list[tuple[Reduction, isl.Set]]
    before: list[Statement] = field(default_factory=list)

    def hoisted(self, expr: Expression, dims: tuple[str, ...], domain: isl.Set, guards: _Guards) -> Expression:
        """Return *expr* without reductions, which become statements; *guards* are the data-dependent conditions."""
        if not reductions(expr):
            return expr
        if isinstance(expr, Reduction):
            target = self.temporary(f"{_base(self.instruction)}_{expr.operation.name}", dims, domain)
            self.before = self.reduction(expr, target, array_name(target), dims, domain, guards)
            return target
        if isinstance(expr, p.If):
            condition = self.hoisted(expr.condition, dims, domain, guards)
            branches = []
            for branch, negate in ((expr.then, False), (expr.else_, True)):
                part = condition_set(condition, domain, dims, negate)
                test = p.LogicalNot(condition) if negate else condition
                more = guards if part is not None else (*guards, test)
                branches.append(self.hoisted(branch, dims, domain if part is None else part, more))
            return p.If(condition, *branches)
        old = children(expr)
        return rebuild_changed(expr, old, tuple(self.hoisted(child, dims, domain, guards) for child in old))

    def reduction(
        self, node: Reduction, target: Expression, name: str, dims: tuple[str, ...], domain: isl.Set, guards: _Guards
    ) -> list[Statement]:
        """Return the statement ``target = node``, with those that it needs."""
        if isinstance(node.expr, Terms) or node.along or node.start is not None or node.operation.fields:
            refuse(self.owner.kernel, f"'{node.operation}' has a result of several parts", str(self.instruction),
                   hint="use sum, product, max or min")
        inner = (*dims, *node.inames)
        terms = next(domain for other, domain in self.terms if other is node)
        count = len(self.instruction.inames)
        if dims[:count] == self.instruction.inames and terms.dim(isl.dim_type.set) == len(inner):
            around = domain.insert_dims(isl.dim_type.set, len(dims), len(node.inames))
            terms = terms.intersect(around)
        operand = self.hoisted(node.expr, inner, terms, guards)
        operation = node.operation.name
        if guards:
            if operation not in _NEUTRAL:
                refuse(self.owner.kernel, f"'{node.operation}' is computed under a condition on data",
                       str(self.instruction), hint="compute the reduction before the condition, into a temporary")
            operand = p.If(conjunction(guards), operand, _NEUTRAL[operation])
        reduced = Reduced(node.inames, terms, node.operation)
        made = Statement(name, dims, domain, target, operand, self.instruction, reduced)
        if operation not in ("max", "min", "product"):
            return [*self._taken(), made]
        if not isinstance(operand, p.Variable | p.Subscript):
            element = self.temporary(f"{_base(self.instruction)}_term", inner, terms)
            self.before.append(Statement(array_name(element), inner, terms, element, operand, self.instruction))
            operand = element
        companions = {mark: self.companion(made, mark.removeprefix("@"), *more)
                      for mark, more in _more(operation, operand, target).items()}
        return [*self._taken(), replace(made, value=operand, companions=companions), *companions.values()]

    def companion(self, made: Statement, word: str, operation: Operation, value: Expression) -> Statement:
        """Return another reduction over the terms of *made*, into a temporary of the same type."""
        target = self.temporary(f"{_base(self.instruction)}_{word}", made.dims, made.domain)
        entry = self.owner.kernel.arrays().get(made.array)
        self.owner.made[array_name(target)] = None if entry is None else entry.dtype
        assert made.reduced is not None, "it goes over the terms of a reduction"
        reduced = replace(made.reduced, operation=operation)
        return replace(made, name=array_name(target), target=target, value=value, reduced=reduced)

    def _taken(self) -> list[Statement]:
        found, self.before = self.before, []
        return found

    def temporary(self, wish: str, dims: tuple[str, ...], domain: isl.Set) -> Expression:
        """Return the element of a new temporary that an instance of a nest over *dims* owns."""
        name = self.owner.fresh(wish)
        self.owner.made[name] = None
        return element_for(self.owner.kernel, name, dims, domain)


_SUM: Final = Operation("sum", (), (0,))
_PRODUCT: Final = Operation("product", (), (1,))


def _more(operation: str, term: Expression, result: Expression) -> dict[str, tuple[Operation, Expression]]:
    """Return the further reductions over the terms of a reduction that its derivative is made of."""
    if operation == "product":
        is_zero = p.Comparison(term, "==", 0)
        return {ZEROS: (_SUM, p.If(is_zero, 1.0, 0.0)), NONZERO: (_PRODUCT, p.If(is_zero, 1.0, term))}
    return {TIES: (_SUM, p.If(p.Comparison(term, "==", result), 1.0, 0.0))}


def _base(instruction: Instruction) -> str:
    return array_name(instruction.assignee)


def element_for(kernel: LoopKernel, name: str, dims: Sequence[str], domain: isl.Set) -> Expression:
    """Return the element of *name* that each point of a nest owns: its inames, less where they begin.

    Raises
    ------
    KernelError
        ``not-differentiable``: no form of the parameters is a lower bound of an iname.
    """
    if not dims:
        return p.Variable(name)
    index = []
    for iname in dims:
        interval = _interval(kernel, iname, dims, domain)
        if interval is None:
            refuse(kernel, f"values have to be stored, and no affine form bounds the loop over '{iname}'",
                   hint="let the loop begin at a number or a parameter")
        index.append(to_expression(Affine.variable(iname).add(interval[0], -1)))
    return p.Subscript(p.Variable(name), index[0] if len(index) == 1 else tuple(index))


def extents_for(kernel: LoopKernel, dims: Sequence[str], domain: isl.Set) -> tuple[Expression, ...] | None:
    """Return the shape of an array with the elements of :func:`element_for`, None where it has to be inferred."""
    found = [_interval(kernel, iname, dims, domain) for iname in dims]
    return None if None in found else tuple(to_expression(interval[1]) for interval in found if interval is not None)


def _interval(kernel: LoopKernel, iname: str, dims: Sequence[str], domain: isl.Set) -> tuple[Affine, Affine] | None:
    """Return the first index of an iname and the number of indices: from 0, unless it begins elsewhere."""
    own = project_onto(domain.intersect_params(kernel.assumptions), dims, (iname,))
    interval = parametric_interval(own, 0, (iname,))
    if interval is None:
        return None
    base, extent = interval
    if base.is_constant() and 0 <= base.const <= _FEW:
        return Affine((), 0), extent.add(base)
    return base, extent


_FEW: Final = 4
"""Elements at the beginning of an array that may stay unused, so that subscripts are inames."""


def restricted(
    domain: isl.Set, dims: Sequence[str], conditions: Sequence[tuple[Expression, bool]]
) -> tuple[isl.Set, list[tuple[Expression, bool]]]:
    """Return the part of *domain* where the affine *conditions* hold, and the others."""
    left = []
    for condition, holds in conditions:
        part = condition_set(condition, domain, dims, not holds)
        if part is None:
            left.append((condition, holds))
        else:
            domain = part
    return domain, left
