"""Forward mode: each statement, with the one of its tangent in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pymbolic.primitives as p

from polyloop.derivatives.arithmetic import plus, where
from polyloop.derivatives.emitted import Emitted, Nest, NestNode, Reductions, element, kernel_of, nested, plain_array
from polyloop.derivatives.flow import END, SEED, Flows, elements
from polyloop.derivatives.relations import condition_of
from polyloop.derivatives.statements import OWN, Node, Statement, refuse
from polyloop.derivatives.values import renamed
from polyloop.expr.nodes import Expression, Operation, Reduction, array_name
from polyloop.expr.rewrite import map_nodes, variables
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.kernel import LoopKernel

__all__ = ["SUFFIX", "forward"]

SUFFIX = "_dot"
_SUM = Operation("sum", (), (0,))


def forward(flow: Flows, wrt: Sequence[str], of: Sequence[str], name: str) -> LoopKernel:
    """Return the kernel that computes the outputs, and ``y_dot`` of each y in *of* from ``x_dot`` of each in *wrt*."""
    return _Forward(flow, tuple(wrt), tuple(of)).kernel(name)


@dataclass(eq=False)
class _Forward:
    flow: Flows
    wrt: tuple[str, ...]
    of: tuple[str, ...]
    taken: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, Emitted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.original = self.flow.program.kernel
        self.taken = {*self.flow.program.made, *(name + SUFFIX for name in (*self.wrt, *self.of))}
        active = {statement.array for statement in self.flow.program.statements() if statement.name in self.flow.parts}
        for array in dict.fromkeys((*self.wrt, *self.of, *sorted(active))):
            is_argument = array in self.wrt or array in self.of
            self.names[array] = array + SUFFIX if is_argument else self.fresh(array + SUFFIX)

    def fresh(self, wish: str) -> str:
        found = self.original.fresh(wish, self.taken)
        self.taken.add(found)
        return found

    def kernel(self, name: str) -> LoopKernel:
        """Return the kernel."""
        nodes = (*self.zeros(), *self.visited(self.flow.program.body))
        temporaries = dict(self.original.temporaries)
        for made, dtype in self.flow.program.made.items():
            temporaries[made] = TemporaryVariable(made, dtype, None)
        for array, dot in self.names.items():
            if self.original.argument(array) is None:
                temporaries[dot] = replace(_plain(temporaries[array]), name=dot)
            elif array not in self.wrt and array not in self.of:
                entry = self.original.arrays()[array]
                temporaries[dot] = TemporaryVariable(dot, entry.dtype, entry.shape)
        return kernel_of(self.original, name, nodes, self.arguments(), temporaries)

    def arguments(self) -> list[Argument]:
        found = list[Argument](self.original.arguments)
        written = {statement.array for statement in self.flow.program.statements()}
        for array in dict.fromkeys((*self.wrt, *self.of)):
            entry = self.original.argument(array)
            if isinstance(entry, ArrayArg):
                is_input = array in self.wrt
                found.append(plain_array(entry, array + SUFFIX, is_input=is_input, is_output=array in written))
            else:
                found.append(ValueArg(array + SUFFIX, None if entry is None else entry.dtype))
        return found

    def zeros(self) -> Iterator[NestNode]:
        """Yield statements that set tangents to zero where a value is given that is not differentiated by."""
        for array, dot in self.names.items():
            entry = self.original.argument(array)
            if array in self.wrt or not isinstance(entry, ArrayArg):
                continue
            seen = [owner for (owner, leaf), initial in self.flow.initial.items()
                    if array_name(leaf) == array and not initial.is_empty()]
            if any(owner != END or entry.is_input for owner in seen):
                dims = tuple(self.fresh(f"{array}_{axis}") for axis in range(len(entry.shape or ())))
                target = renamed(element(array, dims), dot)
                yield nested(dims, Emitted(f"{dot}_zero", dims, elements(self.original, array, dims), target, 0))

    def visited(self, nodes: Sequence[Node]) -> tuple[NestNode, ...]:
        found: list[NestNode] = []
        for node in nodes:
            if not isinstance(node, Statement):
                found.append(Nest(node.iname, self.visited(node.body)))
            elif node.name not in self.companions:
                found += self.both(node)
            elif self.companions[node.name] in self.flow.parts:
                found.append(self.own(node))
                found += [self.waiting.pop(node.name)] if node.name in self.waiting else []
        return tuple(found)

    @cached_property
    def companions(self) -> Mapping[str, str]:
        """Names of companions of reductions, with those of the reductions."""
        return {other.name: statement.name for statement in self.flow.program.statements()
                for other in statement.companions.values()}

    def both(self, node: Statement) -> list[NestNode]:
        """Return a statement and its tangent, which may have to wait for companions."""
        own = self.own(node)
        if node.array not in self.names:
            return [own]
        tangent = self.tangent(node)
        if node.name not in self.flow.parts or not node.companions:
            return [tangent, own]
        if node.array in variables(node.value):
            refuse(self.original, f"'{node.source.id}' reduces an array by '{node.operation}' into itself",
                   str(node.source), hint="reduce it into a temporary")
        self.waiting[list(node.companions.values())[-1].name] = tangent
        return [own]

    def own(self, node: Statement) -> Emitted:
        """Return the statement itself."""
        value, predicates = _predicated(node)
        terms: Reductions = {}
        if node.adds:
            return Emitted(node.name, node.dims, node.domain, node.target, p.Sum((node.target, value)), terms,
                           predicates, atomic=node.source.atomic)
        if node.operation is not None:
            value = Reduction(node.operation, node.over, value)
            terms = {node.over: (node.inner, node.instances)}
        return Emitted(node.name, node.dims, node.domain, node.target, value, terms, predicates)

    def tangent(self, node: Statement) -> Emitted:
        """Return the statement for the tangent of a statement's result."""
        _, predicates = _predicated(node)
        parts: list[Expression] = []
        for part, domain in self.flow.parts.get(node.name, ()):
            tests = [(test, holds) for test, holds in part.conditions if test not in predicates]
            if len(tests) < len(part.conditions) and not dict(part.conditions)[predicates[0]]:
                continue
            dot = renamed(part.leaf, self.names[array_name(part.leaf)])
            marks = {mark: companion.target for mark, companion in node.companions.items()}
            term = _put(part.factor, {SEED.name: dot, OWN: node.target, **marks})
            inside = condition_of(domain, node.instances, node.inner)
            parts.append(where([*([] if inside is None else [(inside, True)]), *tests], term))
        value = plus(*parts)
        terms: Reductions = {}
        if node.operation is not None and parts:
            value = Reduction(_SUM, node.over, value)
            terms = {node.over: (node.inner, node.instances)}
        target = renamed(node.target, self.names[node.array])
        if node.adds:
            value = p.Sum((target, value))
        return Emitted(f"{node.name}{SUFFIX}", node.dims, node.domain, target, value, terms, predicates,
                       atomic=node.adds and node.source.atomic)


def _predicated(node: Statement) -> tuple[Expression, tuple[Expression, ...]]:
    """Return the value of a statement and its predicates, which the value has as a condition."""
    if node.name == node.source.id and node.source.predicates and isinstance(node.value, p.If):
        return node.value.then, (node.value.condition,)
    return node.value, ()


def _put(expr: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return *expr* with expressions in the place of names."""
    return map_nodes(expr, lambda node: values.get(node.name, node) if isinstance(node, p.Variable) else node)


def _plain(entry: TemporaryVariable) -> TemporaryVariable:
    return TemporaryVariable(entry.name, entry.dtype, entry.shape, entry.address_space)
