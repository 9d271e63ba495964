"""Values of a program's statements in a kernel that needs them: stored, computed anew where used, or passed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.derivatives.emitted import Emitted, Nest, NestNode, element, nested
from polyloop.derivatives.flow import END, Flows, Source, index_forms
from polyloop.derivatives.relations import condition_of, pairs_of, solved
from polyloop.derivatives.statements import OWN, Node, Program, Statement, element_for, extents_for
from polyloop.expr.nodes import Expression, Reduction, array_name
from polyloop.expr.rewrite import children, rebuild_changed, substitute
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable
from polyloop.poly.affine import to_expression
from polyloop.poly.sets import map_from_forms

__all__ = ["Values", "assigned_once", "renamed"]

@dataclass(eq=False)
class Values:
    """Gives each read of a program an expression in the new kernel.

    Attributes
    ----------
    saved
        Outputs that are passed to the new kernel.
    recompute
        Whether values are computed where they are used, as far as that takes no reduction and no recurrence.
    needed
        Names of the statements whose results the new kernel stores.
    temporaries
        Where it stores them.
    kept
        Variables whose given elements it copies there.
    """

    flow: Flows
    saved: Collection[str]
    recompute: bool
    fresh: Callable[[str], str]
    needed: dict[str, None] = field(default_factory=dict)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    kept: dict[str, None] = field(default_factory=dict)
    _places: dict[str, Expression] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    @cached_property
    def statements(self) -> dict[str, Statement]:
        """The statements of the program, by name."""
        return {statement.name: statement for statement in self.flow.program.statements()}

    @cached_property
    def single(self) -> frozenset[str]:
        """The variables each of whose elements is assigned at most once."""
        return assigned_once(self.flow.program)

    # {{{ places

    def place(self, statement: Statement) -> Expression:
        """Return the element, over the statement's loops, in which its result is stored."""
        self.needed.setdefault(statement.name)
        if statement.name not in self._places:
            self._places[statement.name] = self._place(statement)
        return self._places[statement.name]

    def _place(self, statement: Statement) -> Expression:
        program, array = self.flow.program, statement.array
        if array in self.single:
            return renamed(statement.target, self._whole(array))
        name = self._temporary(array, is_whole=False)
        shape = extents_for(program.kernel, statement.dims, statement.domain)
        self.temporaries[name] = replace(self.temporaries[name], shape=shape)
        return element_for(program.kernel, name, statement.dims, statement.domain)

    def _whole(self, array: str) -> str:
        """Return the temporary that has the elements of a variable each of which is assigned once."""
        if array not in self._names:
            self._names[array] = self._temporary(array, is_whole=True)
        return self._names[array]

    @cached_property
    def copied(self) -> dict[str, isl.Set]:
        """The given elements of variables that are read and never assigned, while others are."""
        found: dict[str, isl.Set] = {}
        written: dict[str, isl.Set] = {}
        parameters = self.flow.program.kernel.parameters
        for statement in self.statements.values():
            if statement.adds:
                continue
            forms = index_forms(statement.target, (*statement.dims, *parameters))
            assert forms is not None, "assigned elements are affine"
            elements = map_from_forms(statement.domain, statement.dims, forms).range()
            known = written.get(statement.array)
            written[statement.array] = elements if known is None else known.union(elements)
        for (owner, leaf), initial in self.flow.initial.items():
            array = array_name(leaf)
            if array not in self.single or owner == END or initial.is_empty() or not self._is_given(array):
                continue
            reader = self.statements[owner]
            forms = index_forms(leaf, (*reader.inner, *parameters))
            assert forms is not None, "elements of assigned variables are read by affine subscripts"
            elements = map_from_forms(initial, reader.inner, forms).range()
            found[array] = elements.union(found[array]) if array in found else elements
        return {array: elements.coalesce() for array, elements in found.items() if elements.is_disjoint(written[array])}

    def _temporary(self, array: str, *, is_whole: bool) -> str:
        kernel = self.flow.program.kernel
        entry = kernel.arrays().get(array)
        is_read = isinstance(entry, ArrayArg) and entry.is_input
        name = self.fresh(f"{array}_value") if is_read or array in self.temporaries else array
        shape = entry.shape if entry is not None and is_whole else None
        self.temporaries[name] = TemporaryVariable(name, None if entry is None else entry.dtype, shape)
        return name

    # }}}

    def mapped(self, statement: Statement, expr: Expression) -> Expression:
        """Return *expr*, which a statement evaluates, in terms of what the new kernel has."""
        if isinstance(expr, p.Variable):
            if expr.name == OWN:
                return self.place(statement)
            if expr.name in statement.companions:
                return self.place(statement.companions[expr.name])
        if (statement.name, expr) in self.flow.sources and isinstance(expr, p.Variable | p.Subscript):
            return self._read(statement, expr)
        old = children(expr)
        if not old:
            return expr
        return rebuild_changed(expr, old, tuple(self.mapped(statement, child) for child in old))

    def _read(self, statement: Statement, leaf: Expression) -> Expression:
        name = array_name(leaf)
        sources, initial = self.flow.sources[statement.name, leaf], self.flow.initial[statement.name, leaf]
        mapped = self._with_mapped_subscripts(statement, leaf)
        if name in self.saved:
            return mapped
        if name in self.copied and not self.recompute:
            self.kept.setdefault(name)
            for source in sources:
                self.place(source.statement)
            return renamed(mapped, self._whole(name))
        if not sources:
            return mapped if self._is_given(name) else 0
        whole = statement.instances
        found: Expression | None = None
        for source in reversed(sources):
            for part, value in self._seen(statement, leaf, source):
                condition = condition_of(part, whole, statement.inner)
                found = value if found in (None, value) or condition is None else p.If(condition, value, found)
        assert found is not None, "a read with sources sees one"
        if not initial.is_empty() and self._is_given(name):
            condition = condition_of(initial, whole, statement.inner)
            return mapped if condition is None else p.If(condition, mapped, found)
        return found

    def _is_given(self, name: str) -> bool:
        """Return whether a variable has a value before the program."""
        if name not in {statement.array for statement in self.statements.values()}:
            return True
        entry = self.flow.program.kernel.argument(name)
        return isinstance(entry, ArrayArg) and entry.is_input

    def _with_mapped_subscripts(self, statement: Statement, leaf: Expression) -> Expression:
        old = children(leaf)
        return rebuild_changed(leaf, old, tuple(self.mapped(statement, child) for child in old)) if old else leaf

    def _seen(self, statement: Statement, leaf: Expression, source: Source) -> Iterator[tuple[isl.Set, Expression]]:
        """Yield instances of a read, with the expression of the value that they see."""
        writer = source.statement
        inline = self.recompute and writer.operation is None and not self._recurs(writer)
        if array_name(leaf) in self.single and not inline:
            yield source.link.domain(), renamed(leaf, array_name(self.place(writer)))
            return
        apart = tuple(f"{name}@w" for name in writer.dims)
        value = self.mapped(writer, writer.value) if inline else self.place(writer)
        value = substitute(value, {name: p.Variable(new) for name, new in zip(writer.dims, apart, strict=True)})
        for part in solved(pairs_of(source.link, statement.inner, apart), statement.inner, apart):
            forms = {name: to_expression(form) for name, form in part.forms.items()}
            yield part.domain, substitute(value, forms)

    def _recurs(self, statement: Statement) -> bool:
        """Return whether the result of a statement depends on another of its results."""
        seen: set[str] = set()
        waiting = [statement.name]
        while waiting:
            name = waiting.pop()
            for (reader, _), sources in self.flow.sources.items():
                if reader == name:
                    waiting += [s.statement.name for s in sources if s.statement.name not in seen]
                    seen |= {s.statement.name for s in sources}
        return statement.name in seen

    def emitted(self) -> tuple[NestNode, ...]:
        """Return the statements that are needed, in their loops; to map them may need more."""
        made: dict[str, Emitted] = {}
        while missing := [name for name in self.needed if name not in made]:
            for name in missing:
                made[name] = self._emitted(self.statements[name])

        def visit(nodes: tuple[Node, ...]) -> tuple[NestNode, ...]:
            found: list[NestNode] = []
            for node in nodes:
                if isinstance(node, Statement):
                    found += [made[node.name]] if node.name in made else []
                elif inside := visit(node.body):
                    found.append(Nest(node.iname, inside))
            return tuple(found)

        return (*self._copies(), *visit(self.flow.program.body))

    def _copies(self) -> Iterator[NestNode]:
        """Yield statements that copy given elements to those that are computed."""
        for array in self.kept:
            elements = self.copied[array]
            dims = tuple(self.fresh(f"{array}_{axis}") for axis in range(elements.dim(isl.dim_type.set)))
            for position, name in enumerate(dims):
                elements = elements.set_dim_name(isl.dim_type.set, position, name)
            yield nested(dims, Emitted(
                f"{array}_copy", dims, elements, element(self._whole(array), dims), element(array, dims)))

    def _emitted(self, statement: Statement) -> Emitted:
        value = self.mapped(statement, statement.value)
        terms = {}
        if statement.operation is not None:
            value = Reduction(statement.operation, statement.over, value)
            terms = {statement.over: (statement.inner, statement.instances)}
        return Emitted(statement.name, statement.dims, statement.domain, self.place(statement), value, terms)


def assigned_once(program: Program) -> frozenset[str]:
    """Return the variables each of whose elements is assigned at most once, by affine subscripts."""
    found: dict[str, isl.Set | None] = {}
    for statement in program.statements():
        forms = None if statement.adds else index_forms(
            statement.target, (*statement.dims, *program.kernel.parameters))
        known = found.get(statement.array, _NOTHING)
        if forms is None or known is None:
            found[statement.array] = None
            continue
        writes = map_from_forms(statement.domain, statement.dims, forms)
        elements = writes.range()
        if not writes.is_injective() or not (known is _NOTHING or known.is_disjoint(elements)):
            found[statement.array] = None
        else:
            found[statement.array] = elements if known is _NOTHING else known.union(elements)
    return frozenset(name for name, elements in found.items() if elements is not None)


_NOTHING: Final = isl.Set("{ : false }")


def renamed(leaf: Expression, name: str) -> Expression:
    """Return a variable or element under another name of its variable."""
    if isinstance(leaf, p.Variable):
        return p.Variable(name)
    return p.Subscript(p.Variable(name), leaf.index)
