"""Reverse mode: the adjoints of a program's results, from the last statement to the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import islpy as isl
import pymbolic.primitives as p

from polyloop.derivatives.emitted import Emitted, Nest, NestNode, element, kernel_of, nested, plain_array
from polyloop.derivatives.flow import END, SEED, Flows, elements, index_forms
from polyloop.derivatives.gather import Contribution, Gathered, gathered
from polyloop.derivatives.partials import Part
from polyloop.derivatives.statements import Block, Node, Statement, element_for, extents_for
from polyloop.derivatives.values import Values, renamed
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import reductions, substitute
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.updates import update_of
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.sets import map_from_forms, preimage, project_onto, rows_of

__all__ = ["PREFIX", "reverse"]

PREFIX = "grad_"


def reverse(
    flow: Flows, wrt: Sequence[str], of: Sequence[str], saved: Sequence[str], recompute: bool, name: str
) -> LoopKernel:
    """Return the kernel that computes ``grad_x`` for each x in *wrt* from ``grad_y`` for each y in *of*."""
    return _Reverse(flow, tuple(wrt), tuple(of), tuple(saved), recompute).kernel(name)


@dataclass(eq=False)
class _Reverse:
    flow: Flows
    wrt: tuple[str, ...]
    of: tuple[str, ...]
    saved: tuple[str, ...]
    recompute: bool
    taken: set[str] = field(default_factory=set)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    adjoints: dict[str, Expression] = field(default_factory=dict)
    owned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.original = self.flow.program.kernel
        self.taken = {*self.flow.program.made, *(PREFIX + name for name in (*self.wrt, *self.of))}
        self.values = Values(self.flow, self.saved, self.recompute, self.fresh)

    def fresh(self, wish: str) -> str:
        found = self.original.fresh(wish, self.taken)
        self.taken.add(found)
        return found

    # {{{ which statements have an adjoint

    @cached_property
    def useful(self) -> frozenset[str]:
        """Names of the statements on whose results the outputs depend, and which depend on the inputs."""
        found: set[str] = set()
        waiting = [source.statement.name for name in self.of for source in self.flow.sources[END, p.Variable(name)]]
        waiting += [statement.name for statement in self.values.statements.values()
                    if statement.adds and statement.array in self.of]
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.flow.parts:
                found.add(name)
                waiting += [source.statement.name for part, _ in self.flow.parts[name]
                            for source in self.flow.sources.get((name, part.leaf), ())]
        return frozenset(found)

    def uses(self) -> Iterator[tuple[Statement, Part, isl.Set]]:
        """Yield the reads through which adjoints are passed on."""
        for statement in self.values.statements.values():
            if statement.name in self.useful:
                for part, domain in self.flow.parts[statement.name]:
                    yield statement, part, domain

    # }}}

    def kernel(self, name: str) -> LoopKernel:
        """Return the kernel."""
        backward = self.visited(self.flow.program.body, {})
        added = {statement.array for statement in self.values.statements.values() if statement.adds}
        order = sorted(self.wrt, key=lambda array: (array in self.of) + (array in added))  # what is replaced comes last
        gradients = [node for wanted in order for node in self.gradient(wanted)]
        forward = self.values.emitted()
        temporaries = self.values.temporaries | self.temporaries
        return kernel_of(self.original, name, [*forward, *backward, *gradients], self.arguments(), temporaries)

    def arguments(self) -> list[Argument]:
        found: list[Argument] = []
        for entry in self.original.arguments:
            if not isinstance(entry, ArrayArg):
                found.append(entry)
            elif entry.name not in self.values.temporaries:
                found.append(replace(entry, is_input=True, is_output=False))
        found += [self.array(name, is_output=name in self.wrt) for name in self.of]
        found += [self.array(name, is_output=True, is_input=False) for name in self.wrt if name not in self.of]
        return found

    def array(self, name: str, *, is_output: bool, is_input: bool = True) -> ArrayArg:
        entry = self.original.argument(name)
        if not isinstance(entry, ArrayArg):
            entry = ArrayArg(name, None if entry is None else entry.dtype, ())
        return plain_array(entry, PREFIX + name, is_input=is_input, is_output=is_output)

    # {{{ adjoints of statements

    def adjoint(self, statement: Statement) -> Expression:
        """Return the adjoint of a statement's result, over its loops."""
        if statement.adds:
            index = tuple(self.values.mapped(statement, each) for each in statement.target.index_tuple)
            return p.Subscript(p.Variable(PREFIX + statement.array), index[0] if len(index) == 1 else index)
        if statement.name not in self.adjoints:
            own = self.ends(statement)
            is_kept = statement.array not in self.wrt  # otherwise its grad_ is replaced
            direct = gathered(statement.dims, statement.domain, own, self.fresh) if (
                is_kept and self.is_last(statement)) else None
            if direct is not None and isinstance(direct.value, p.Variable | p.Subscript):
                self.adjoints[statement.name] = direct.value
            else:
                self.adjoints[statement.name] = self.stored(statement)
        return self.adjoints[statement.name]

    def is_last(self, statement: Statement) -> bool:
        """Return whether nothing but the caller reads the results of a statement."""
        return not any(source.statement is statement for reader, part, _ in self.uses()
                       for source in self.flow.sources.get((reader.name, part.leaf), ()))

    def stored(self, statement: Statement) -> Expression:
        """Return the element of a temporary for the adjoint of a statement."""
        array, program = statement.array, self.flow.program
        entry = self.original.arrays().get(array)
        dtype = None if entry is None else entry.dtype
        if array in self.values.single:
            name = f"{array}_bar"
            if name not in self.temporaries:
                self.temporaries[name] = TemporaryVariable(name, dtype, None if entry is None else entry.shape)
                self.taken.add(name)
            return renamed(statement.target, name)
        name = self.fresh(f"{array}_bar")
        shape = extents_for(self.original, statement.dims, statement.domain)
        self.temporaries[name] = TemporaryVariable(name, dtype, shape)
        return element_for(program.kernel, name, statement.dims, statement.domain)

    def is_stored(self, statement: Statement) -> bool:
        return array_name(self.adjoint(statement)) in self.temporaries

    def ends(self, statement: Statement) -> list[Contribution]:
        """Return the contributions of the caller: the adjoints of outputs."""
        if statement.array not in self.of:
            return []
        leaf = p.Variable(statement.array)
        dims = self.axes(statement.array)
        return [Contribution(dims, source.link, element(PREFIX + statement.array, dims))
                for source in self.flow.sources[END, leaf] if source.statement is statement]

    def axes(self, array: str) -> tuple[str, ...]:
        entry = self.original.arrays().get(array)
        return tuple(f"e{axis}" for axis in range(len((entry.shape if entry is not None else ()) or ())))

    def factor(self, statement: Statement, part: Part) -> Contribution:
        """Return the factor of a read, in terms of what the new kernel has; its link is set by the caller."""
        value = self.values.mapped(statement, part.factor)
        value = substitute(value, {SEED.name: self.adjoint(statement)})
        conditions = tuple((self.values.mapped(statement, test), holds) for test, holds in part.conditions)
        return Contribution(statement.inner, isl.Map("{ [] -> [] }"), value, conditions)

    def of_statement(self, statement: Statement) -> Iterator[Contribution]:
        """Yield all contributions to the adjoint of a statement."""
        yield from self.ends(statement)
        for reader, part, domain in self.uses():
            for source in self.flow.sources.get((reader.name, part.leaf), ()):
                link = source.link.intersect_domain(domain)
                if source.statement is statement and not link.is_empty():
                    yield replace(self.factor(reader, part), link=link)

    def visited(self, nodes: Sequence[Node], turned: Mapping[str, Affine]) -> tuple[NestNode, ...]:
        """Return the adjoint statements of *nodes*, the last one first."""
        found: list[NestNode] = []
        for node in reversed(nodes):
            if isinstance(node, Block):
                inside, iname = dict(turned), node.iname
                if self.carries(node):
                    iname = self.fresh(f"{node.iname}_back")
                    inside[node.iname] = self.limit(node).add(Affine.variable(iname), -1)
                if body := self.visited(node.body, inside):
                    found.append(Nest(iname, body))
            elif node.name in self.useful and self.is_stored(node):
                made = gathered(node.dims, node.domain, self.of_statement(node), self.fresh)
                found.append(_turned(self.emitted(
                    f"{node.name}_bar", node.dims, node.domain, self.adjoint(node), made), turned))
        return tuple(found)

    def emitted(
        self, name: str, dims: tuple[str, ...], domain: isl.Set, target: Expression, made: Gathered
    ) -> Emitted:  # fmt: skip
        """Return the statement of a sum."""
        return Emitted(name, dims, domain, target, made.value, made.terms)

    def carries(self, block: Block) -> bool:
        """Return whether an iteration of a loop reads what another one has written, so that adjoints flow back."""
        inside = {statement.name for statement in _statements(block)}
        for reader, part, domain in self.uses():
            if reader.name not in inside:
                continue
            for source in self.flow.sources.get((reader.name, part.leaf), ()):
                if source.statement.name not in inside:
                    continue
                depth = reader.dims.index(block.iname)
                link = source.link.intersect_domain(domain)
                for place in range(depth):
                    link = link.equate(isl.dim_type.in_, place, isl.dim_type.out, place)
                same = link.equate(isl.dim_type.in_, depth, isl.dim_type.out, depth)
                if not link.is_subset(same):
                    return True
        return False

    def limit(self, block: Block) -> Affine:
        """Return an upper bound of a loop: 0 where none is a form of outer loops."""
        best: Affine | None = None
        for statement in _statements(block):
            dims = statement.dims[: statement.dims.index(block.iname) + 1]
            domain = project_onto(statement.domain, statement.dims, dims)
            rows = rows_of(domain.simple_hull().remove_divs().detect_equalities(), dims)
            forms = [Affine(tuple(t for t in form.terms if t[0] != block.iname), form.const)
                     for form, is_equality in rows if form.coefficient(block.iname) == -1 and not is_equality]
            if not forms or (best is not None and best not in forms):
                return Affine((), 0)
            best = forms[0] if best is None else best
        return best or Affine((), 0)

    # }}}

    # {{{ gradients of inputs

    def gradient(self, name: str) -> Iterator[NestNode]:
        """Yield the statements that compute the gradient of an input."""
        leaves = [(reader, part, domain) for reader, part, domain in self.uses() if array_name(part.leaf) == name]
        dims = self.inames_for(name, [part.leaf for _, part, _ in leaves])
        whole = elements(self.original, name, dims)
        own: list[Contribution] = []
        scattered: list[tuple[Statement, Part, isl.Set]] = []
        for reader, part, domain in leaves:
            key = (reader.name, part.leaf)
            seen = domain if key not in self.flow.initial else domain.intersect(self.flow.initial[key])
            forms = index_forms(part.leaf, (*reader.inner, *self.original.parameters))
            if forms is None:
                scattered.append((reader, part, seen))
            else:
                link = map_from_forms(seen, reader.inner, forms)
                own.append(replace(self.factor(reader, part), link=link))
        if name in self.of:
            kept = self.flow.initial[END, p.Variable(name)]
            axes = self.axes(name)
            link = map_from_forms(kept, axes, [Affine.variable(axis) for axis in axes])
            own.append(Contribution(axes, link, element(PREFIX + name, axes)))
        made = gathered(dims, whole, own, self.fresh)
        target = element(PREFIX + name, dims)
        yield nested(dims, self.emitted(f"{PREFIX}{name}", dims, whole, target, made))
        for reader, part, domain in scattered:
            yield self.scatter(name, reader, part, domain)

    def inames_for(self, name: str, leaves: Sequence[Expression]) -> tuple[str, ...]:
        """Return inames for the axes of an array: those that a read of it has there, or new ones.

        No two gradients share a loop, so that each has a schedule of its own.
        """
        entry = self.original.arrays().get(name)
        rank = len((entry.shape if entry is not None else ()) or ())
        for leaf in leaves:
            index = leaf.index_tuple if isinstance(leaf, p.Subscript) else ()
            names = [part.name for part in index if isinstance(part, p.Variable) and part.name in self.original.inames]
            if len(names) == rank == len(set(names)):
                own = tuple(each if each not in self.owned else self.fresh(each) for each in names)
                self.owned.update(own)
                return own
        return tuple(self.fresh(f"{name}_{axis}") for axis in range(rank))

    def scatter(self, name: str, reader: Statement, part: Part, domain: isl.Set) -> NestNode:
        """Return the atomic updates of the elements that data selects."""
        found = self.factor(reader, part)
        leaf = renamed(part.leaf, PREFIX + name)
        index = tuple(self.values.mapped(reader, each) for each in part.leaf.index_tuple)
        target = p.Subscript(leaf.aggregate, index[0] if len(index) == 1 else index)
        value = p.Sum((target, found.factor))
        assert update_of(target, value) is not None, "an update of one element"
        tests = tuple(test if holds else p.LogicalNot(test) for test, holds in found.conditions)
        made = Emitted(f"{PREFIX}{name}_part", reader.inner, domain, target, value, {}, tests, atomic=True)
        return nested(reader.inner, made)

    # }}}


def _statements(block: Block) -> Iterator[Statement]:
    for node in block.body:
        if isinstance(node, Statement):
            yield node
        else:
            yield from _statements(node)


def _turned(made: Emitted, turned: Mapping[str, Affine]) -> Emitted:
    """Return a statement in loops of which some run the other way: ``t = T - t_back``."""
    own = {name: form for name, form in turned.items() if name in made.dims}
    if not own:
        return made
    new = {name: next(var for var in reversed([v for v, _ in form.terms]) if isinstance(var, str) and
                      var.startswith(f"{name}_back")) for name, form in own.items()}
    flat: dict[str, Affine] = {}
    for name in made.dims:
        if name in own:
            flat[name] = own[name].substitute(flat)
    values = {name: to_expression(form) for name, form in flat.items()}

    def change(expr: Expression) -> Expression:
        return substitute(expr, values)

    def moved(domain: isl.Set, names: Sequence[str]) -> isl.Set:
        renamed_dims = tuple(new.get(name, name) for name in names)
        return preimage(domain, renamed_dims, [flat.get(name, Affine.variable(name)) for name in names])

    terms = {inames: (tuple(new.get(name, name) for name in names), moved(domain, names))
             for inames, (names, domain) in made.terms.items()}
    assert len(reductions(made.value)) >= len(terms), "each reduction has terms"
    return Emitted(made.name, tuple(new.get(name, name) for name in made.dims), moved(made.domain, made.dims),
                   change(made.target), change(made.value), terms)
