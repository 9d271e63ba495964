"""``collect_common_factors_on_increment``: common factors of all increments of a temporary, moved to its reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.dtypes import is_inexact
from polyloop.expr.nodes import Expression, Reduction, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children, map_nodes, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.updates import EXCHANGE, update_of
from polyloop.program.conditions import may_fail
from polyloop.program.infer_types import dtype_table
from polyloop.transform.base import Transform
from polyloop.transform.declare import Takes
from polyloop.transform.instructions.replacing import MapInstructions
from polyloop.transform.parameters import TemporaryName

__all__ = ["CollectCommonFactorsOnIncrement"]


def _axes(given: int | Collection[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


@dataclass(frozen=True)
class CollectCommonFactorsOnIncrement(Transform):
    """Move a common factor of all increments of a temporary to its reads.

    >>> knl = pl.make_kernel(
    ...     "{[i, k]: 0 <= i < 8 and 0 <= k < 9}",
    ...     ["<f4> t = 0 {id=init}", "t = t + s*a[i, k] {id=add, dep=init}", "y[i] = t {dep=add}"],
    ...     [pl.ValueArg("s", np.float32), ...],
    ... )
    >>> print(knl.collect_common_factors_on_increment("t"))
    kernel loop_kernel
    ...
    instructions:
        t = 0    {id=init}
        [i, k]  t = t + a[i, k]    {id=add}
        [i]  y[i] = s*t    {id=insn}

    Parameters
    ----------
    var_name
        A temporary, which is only assigned and added to.
    vary_by_axes
        Its axes along which the factors may differ: ``c[i]`` is one of ``t[i] = t[i] + c[i]*a[i, k]`` for axis 0.

    Raises
    ------
    TransformError
        ``unknown-temporary``, ``wrong-rank``, ``bad-value``, ``bad-instructions``, ``staged-by-c``;
        ``no-common-factor``, with the terms.

    Notes
    -----
    Changes the meaning on purpose: sums are rounded otherwise.  Factors are numbers and arguments that no instruction
    writes, and nothing that may fail where no increment runs.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    var_name: TemporaryName
    vary_by_axes: Annotated[tuple[int, ...], Takes(int | Collection[int], _axes)] = ()

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        base = _written(kernel)
        temporary = base.temporaries.get(self.var_name)
        if temporary is None:
            yield unknown_name("temporary", self.var_name, base.temporaries)
            return
        rank = len(temporary.shape or ())
        if any(type(axis) is not int or not 0 <= axis < rank for axis in self.vary_by_axes):
            message = f"'{self.var_name}' has {rank} axes, and not all of {list(self.vary_by_axes)}"
            yield Diagnostic("wrong-rank", message, hints=("axes count from 0",))
            return
        if temporary.dtype is None or not is_inexact(temporary.dtype):
            hints = ("only floating-point and complex numbers may be multiplied later",)
            yield Diagnostic("bad-value", f"'{self.var_name}' is no floating-point number", hints=hints)
            return
        if found := [*_use_violations(base, self.var_name)]:
            yield from found
            return
        collection = _Collection(base, self.var_name, self.vary_by_axes)
        if not collection.common:
            yield collection.nothing()
            return
        yield from self._mapping(kernel).violations(kernel)

    def _mapping(self, kernel: LoopKernel) -> MapInstructions:
        collection = _Collection(_written(kernel), self.var_name, self.vary_by_axes)
        return MapInstructions(tuple(collection.texts().items()))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return self._mapping(kernel).rewrite(kernel)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return self._mapping(before).consequences(before, after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        del after
        common = _Collection(_written(before), self.var_name, self.vary_by_axes).common
        return f"collected {', '.join(show(factor) for factor in common.elements())}"


def _written(kernel: LoopKernel) -> LoopKernel:
    return kernel if kernel.reference is None else kernel.reference.kernel


def _use_violations(kernel: LoopKernel, name: str) -> Iterator[Diagnostic]:
    """Yield uses of a temporary that are no increments, and no reads in plain sight."""
    for rule in kernel.substitutions.values():
        if name in variables(rule.value):
            hints = ("pl.expand_subst(knl) first",)
            yield Diagnostic("bad-instructions", f"rule '{rule.name}' reads '{name}'", hints=hints)
    for instruction in kernel.instructions:
        if instruction.is_c and name in {*instruction.reads, *instruction.writes}:
            hints = ("the text is not changed",)
            yield Diagnostic("staged-by-c", f"the C text of '{instruction.id}' names '{name}'", hints=hints)
        elif name in instruction.writes:
            update = update_of(instruction.assignee, instruction.expression)
            if update is None or update.operation not in {EXCHANGE, "sum"}:
                yield Diagnostic(
                    "bad-instructions",
                    f"'{instruction.id}' neither assigns '{name}' nor adds to it",
                    hints=(f"increments are written {name} = {name} + ..",),
                    sites=(instruction.site(),),
                )
        elif any(name in variables(predicate) for predicate in instruction.predicates):
            hints = ("keep the condition in a temporary that is assigned from it",)
            yield Diagnostic("bad-instructions", f"a condition of '{instruction.id}' reads '{name}'", hints=hints)


class _Collection:
    """The common factors of all terms of a temporary, the place of an axis written ``$0``, ``$1``, .."""

    def __init__(self, kernel: LoopKernel, name: str, axes: Sequence[int]) -> None:
        self.kernel = kernel
        self.name = name
        self.axes = axes
        self.terms = [i for i in kernel.instructions if name in i.writes and not _is_zero(self._added(i))]
        written = {array for instruction in kernel.instructions for array in instruction.writes}
        known = {a.name for a in kernel.arguments if a.name not in written} | {*kernel.parameters}
        known |= {table.name for table in kernel.temporaries.values() if table.initializer is not None}
        self.known = known | {f"${axis}" for axis in axes}
        found: Counter[Expression] | None = None
        for instruction in self.terms:
            mine = Counter(self._placed(instruction, factor) for factor in _factors(self._added(instruction)))
            found = mine if found is None else found & mine
        allowed = {factor: count for factor, count in (found or Counter()).items() if self._is_invariant(factor)}
        self.common: Counter[Expression] = Counter(allowed)
        if not all(map(self._keeps_types, self.terms)):
            self.common = Counter()

    def _added(self, instruction: Instruction) -> Expression:
        update = update_of(instruction.assignee, instruction.expression)
        assert update is not None, "updates were looked at"
        return update.operand

    def _keeps_types(self, instruction: Instruction) -> bool:
        """Return True if each operation that is left is one of before, or is computed in the type of the whole."""
        added = self._added(instruction)
        gone = Counter(self._here(instruction.assignee, factor) for factor in self.common.elements())
        before, whole = set(_operations(added)), self._type(added)
        changed = [node for node in _operations(_without(added, gone)) if node not in before]
        return all(self._type(part) == whole for node in changed for part in _partial_results(node))

    def _type(self, expr: Expression) -> np.dtype[np.generic] | None:
        return infer(expand_rules(expr, self.kernel.substitutions), dtype_table(self.kernel).get)

    def _indices(self, access: Expression) -> tuple[Expression, ...]:
        return access.index_tuple if isinstance(access, p.Subscript) else ()

    def _placed(self, instruction: Instruction, factor: Expression) -> Expression:
        """Return *factor* with the axes in the places of the inames that subscript them."""
        indices = self._indices(instruction.assignee)
        places = {
            index.name: p.Variable(f"${axis}")
            for axis in self.axes
            if isinstance(index := indices[axis], p.Variable) and index.name in instruction.inames
        }
        return substitute(factor, places)

    def _is_invariant(self, factor: Expression) -> bool:
        if _is_one(factor) or not variables(factor) <= self.known:
            return False
        return not may_fail(self.kernel, self._here(self.terms[0].assignee, factor))

    def nothing(self) -> Diagnostic:
        """Return ``no-common-factor``, with the terms."""
        shown = [f"'{i.id}' adds {show(self._added(i))}" for i in self.terms]
        hint = "factors have to be the same for all elements: numbers, arguments that nothing writes"
        if not self.axes:
            hint += "; vary_by_axes names axes along which they may differ"
        sites = tuple(instruction.site() for instruction in self.terms)
        message = f"the terms of '{self.name}' have no factor in common"
        return Diagnostic("no-common-factor", message, tuple(shown), (hint,), sites=sites)

    def texts(self) -> Mapping[str, str]:
        """Return the new forms of the instructions that assign or read the temporary."""
        found = {}
        for instruction in self.kernel.instructions:
            right = self._read(instruction) if self.name not in instruction.writes else instruction.expression
            left = instruction.assignee
            if instruction in self.terms:
                gone = Counter(self._here(instruction.assignee, factor) for factor in self.common.elements())
                rest = _without(self._added(instruction), gone)
                right = rest if self._is_assigned(instruction) else p.Sum((left, rest))
            if right is not instruction.expression:
                found[instruction.id] = f"{show(left)} = {show(right)}"
        return found

    def _is_assigned(self, instruction: Instruction) -> bool:
        update = update_of(instruction.assignee, instruction.expression)
        return update is not None and update.operation == EXCHANGE

    def _here(self, access: Expression, factor: Expression) -> Expression:
        indices = self._indices(access)
        return substitute(factor, {f"${axis}": indices[axis] for axis in self.axes})

    def _read(self, instruction: Instruction) -> Expression:
        def change(node: Expression) -> Expression:
            if not isinstance(node, p.Variable | p.Subscript) or array_name(node) != self.name:
                return node
            return p.Product((*(self._here(node, factor) for factor in self.common.elements()), node))

        if self.name not in instruction.reads:
            return instruction.expression
        return map_nodes(instruction.expression, change)


def _operations(expr: Expression) -> list[Expression]:
    """Return the nodes of *expr* that have operands."""
    inside = [node for child in children(expr) for node in _operations(child)]
    return [expr, *inside] if children(expr) else inside


def _partial_results(expr: Expression) -> list[Expression]:
    """Return the sums or products of the first operands of *expr*, from left to right, and *expr* itself."""
    if not isinstance(expr, p.Sum | p.Product):
        return [expr]
    return [type(expr)(expr.children[:count]) for count in range(2, len(expr.children) + 1)]


def _is_zero(expr: Expression) -> bool:
    return isinstance(expr, int | float | np.number) and expr == 0


def _is_one(expr: Expression) -> bool:
    return isinstance(expr, int | float | np.number) and expr == 1


def _factors(expr: Expression) -> list[Expression]:
    """Return the factors of *expr*; those of a sum are the factors that all its terms have in common."""
    match expr:
        case p.Product():
            return [factor for child in expr.children for factor in _factors(child)]
        case p.Sum():
            common: Counter[Expression] | None = None
            for child in expr.children:
                mine = Counter(_factors(child))
                common = mine if common is None else common & mine
            return [*(common or Counter()).elements()]
        case Reduction() if expr.operation.name == "sum" and not isinstance(expr.expr, tuple):
            return [f for f in _factors(expr.expr) if variables(f).isdisjoint(expr.inames)]
        case p.Quotient():
            return _factors(expr.numerator)
    return [expr]


def _without(expr: Expression, gone: Counter[Expression]) -> Expression:
    """Return *expr* divided by factors that it has."""
    if not gone:
        return expr
    match expr:
        case p.Product():
            left, rest = Counter(gone), list[Expression]()
            for child in expr.children:
                mine = Counter(_factors(child)) & left
                left -= mine
                rest.append(_without(child, mine))
            rest = [child for child in rest if not _is_one(child)]
            return 1 if not rest else rest[0] if len(rest) == 1 else p.Product(tuple(rest))
        case p.Sum():
            return p.Sum(tuple(_without(child, gone) for child in expr.children))
        case Reduction():
            return Reduction(expr.operation, expr.inames, _without(expr.expr, gone))
        case p.Quotient():
            return p.Quotient(_without(expr.numerator, gone), expr.denominator)
    assert gone == Counter([expr]), f"{expr} has no other factors"
    return 1
