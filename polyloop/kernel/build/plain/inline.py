"""Inlining of calls: the statements of a function, with the caller's names, replace the call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, array_name, function_name
from polyloop.expr.rewrite import calls, map_nodes, reductions, substitute, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, TemporaryVariable
from polyloop.kernel.build.domains.shared_domains import Written, written
from polyloop.kernel.build.draft import Draft, fail, site_of
from polyloop.kernel.build.function import Function, Program
from polyloop.kernel.build.plain.bind import Binding, bind_arguments, fail_call
from polyloop.kernel.build.plain.foreign import mapped_call
from polyloop.kernel.build.text_order import nest_order
from polyloop.kernel.domains import outer_inames, parameters_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.match import Glob, Subject
from polyloop.kernel.text.options import Loops, NoSync, Options, Order
from polyloop.kernel.text.parser import Parsed, ParsedBarrier, ParsedCall, ParsedInstruction, ParsedNop, ParsedRule
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows, rename_dims

__all__ = ["Inlined", "check_calls", "fixed_call", "inline_calls"]

_PARAM = isl.dim_type.param

_Statement: TypeAlias = ParsedInstruction | ParsedRule


@dataclass(frozen=True)
class Inlined:
    """The program without calls; ``aliases`` has the ids of the statements that each call became."""

    program: Program
    groups: tuple[tuple[str, ...], ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inames: frozenset[str] = frozenset()
    """Those of the caller."""
    dtypes: Mapping[str, np.dtype[np.generic]] = field(default_factory=dict)
    """Types that functions declare of what they are passed."""

    def typed(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        """Return *arguments*, with the types that functions declare where the caller declares none."""
        return tuple(
            replace(entry, dtype=self.dtypes.get(entry.name)) if entry.dtype is None else entry for entry in arguments
        )


def check_calls(drafts: Sequence[Draft], inlined: Inlined, functions: Mapping[str, Function]) -> None:
    """Check calls: none inside an expression, and all statements of one call in the same loops of the caller.

    Raises
    ------
    KernelError
        ``call-in-expression``, ``call-needs-loop``.
    """
    by_id = {draft.id: draft for draft in drafts}
    for draft in drafts if functions else ():
        for node in calls(draft.expanded):
            if (name := function_name(node)) in functions:
                hint = f"call it in a statement of its own: {functions[name].form()}"
                message = f"'{name}' has statements, and cannot be called inside an expression"
                raise fail("call-in-expression", message, hints=(hint,), site=site_of(draft.parsed, draft.id))
    for group in inlined.groups:
        found = [by_id[name] for name in group]
        theirs = [draft.inames & inlined.inames for draft in found]
        if lost := frozenset().union(*theirs) - frozenset.intersection(*theirs):
            iname = min(lost)
            message = f"only a part of the call would run in the loop over '{iname}'"
            hint = f"put the call into 'for {iname}' ... 'end'"
            raise fail("call-needs-loop", message, hints=(hint,), site=site_of(found[0].parsed, found[0].id))


def inline_calls(
    parsed: Sequence[Parsed],
    domains: tuple[Domain, ...],
    arguments: Sequence[Argument],
    temporaries: Mapping[str, TemporaryVariable],
    functions: Mapping[str, Function],
    fixed: Mapping[str, int],
) -> Inlined:
    """Return the statements with every call replaced by the statements of its function.

    Inames, temporaries, rules and instructions of the function get names of their own.  All statements of one call run
    in the same loops of the caller, so that one call is over before the next begins.

    Raises
    ------
    KernelError
        ``wrong-argument-count``, ``bad-call``, ``shape-mismatch``, ``type-conflict``.
    """
    inliner = _Inliner(parsed, domains, arguments, temporaries)
    statements: list[Parsed] = []
    for entry in parsed:
        if isinstance(entry, ParsedCall):
            statements.extend(inliner.call(fixed_call(entry, fixed), functions[entry.function]))
        else:
            statements.append(entry)
    program = Program(inliner.domains_in_use(statements), tuple(statements), inliner.temporaries)
    aliases = {name: ids for name, ids in inliner.ids.items() if ids != (name,)}
    return Inlined(program, tuple(inliner.ids.values()), aliases, frozenset(inliner.inames), inliner.dtypes)


class _Inliner:
    """State of inlining: the names in use, and domains, arrays and statements added so far."""

    def __init__(
        self,
        parsed: Sequence[Parsed],
        domains: tuple[Domain, ...],
        arguments: Sequence[Argument],
        temporaries: Mapping[str, TemporaryVariable],
    ) -> None:
        self.domains = list(domains)
        self.own_domains = domains
        self.inames = tuple(iname for domain in domains for iname in domain.inames)
        self.arrays: dict[str, Argument | TemporaryVariable] = {entry.name: entry for entry in arguments}
        self.arrays.update(temporaries)
        self.temporaries = dict(temporaries)
        self.dtypes: dict[str, np.dtype[np.generic]] = {}
        self.taken = {*self.arrays, *self.inames, *(name for d in domains for name in parameters_of(d.set))}
        self.blocks = 0
        self.swept: set[str] = set()
        self.ids: dict[str, tuple[str, ...]] = {}
        self.used_ids: set[str] = set()
        for entry in parsed:
            self.note(entry)

    def note(self, entry: Parsed) -> None:
        """Take the names of a statement of the caller."""
        if isinstance(entry, ParsedRule):
            self.taken |= {entry.rule.name, *variables(entry.rule.value)}
            return
        if isinstance(entry, ParsedNop | ParsedBarrier):
            self.used_ids |= {entry.options.id or ""}
            if isinstance(entry, ParsedBarrier):
                numbers = (*entry.loops.numbers, *(entry.closed or ())[1:])
                self.blocks = max([self.blocks, *(number + 1 for number in numbers if isinstance(number, int))])
            return
        frame = entry.frame if isinstance(entry, ParsedCall) else entry
        self.taken |= variables(frame.assignee) | variables(frame.expression)
        for predicate in frame.predicates:
            self.taken |= variables(predicate)
        if isinstance(entry, ParsedCall):
            self.taken |= entry.names()
        self.number(frame)
        if frame.id is not None:
            self.used_ids.add(frame.id)

    def number(self, entry: ParsedInstruction) -> None:
        """Take the numbers of the blocks around a statement."""
        self.blocks = max([self.blocks, *(number + 1 for number in entry.loops.numbers)])

    def fresh(self, wish: str, taken: set[str], avoided: Collection[str] = ()) -> str:
        """Return *wish*, with a number if it is taken or to be *avoided*, and mark the result as taken."""
        name = wish
        number = 0
        while name in taken or name in avoided:
            number += 1
            name = f"{wish}_{number}"
        taken.add(name)
        return name

    def call(self, call: ParsedCall, function: Function) -> list[_Statement]:
        """Return the statements that replace *call*."""
        binding = bind_arguments(call, function, self.own_domains, self.arrays)
        self.check_conditions(call)
        self.swept.update(name for part in binding.parts.values() for name, _ in part.axes)
        self.dtypes.update(binding.dtypes)
        own = _Names(function, self, binding)
        domains = tuple(own.domain(domain) for domain in function.program.domains)
        self.domains.extend(domain for domain in domains if domain.inames)
        for temporary in function.program.temporaries.values():
            name = own.names[temporary.name]
            shape = None if temporary.shape is None else tuple(own.expression(extent) for extent in temporary.shape)
            self.temporaries[name] = replace(temporary, name=name, shape=shape)
        loops = self.loops(call, binding)
        blocks = self.blocks
        self.blocks += len(loops) - len(call.frame.loops.written)
        around = Loops(loops, (*call.frame.loops.numbers, *range(blocks, self.blocks)))
        inside = self.blocks
        statements: list[ParsedInstruction | ParsedRule] = []
        for statement in function.program.statements:
            if isinstance(statement, ParsedRule):
                statements.append(own.rule(statement))
            elif isinstance(statement, ParsedInstruction):
                new = own.statement(statement, call.frame, around, inside)
                self.number(new)
                statements.append(new)
        self.ids[own.call_id] = tuple(own.ids.values())
        return statements

    def domains_in_use(self, statements: Sequence[Parsed]) -> tuple[Domain, ...]:
        """Return the domains without the inames that did nothing but sweep in calls."""
        used = {name for statement in statements for name in _names_of(statement)}
        found = []
        for domain in self.domains:
            kept = tuple(iname for iname in domain.inames if iname in used or iname not in self.swept)
            if kept == domain.inames:
                found.append(domain)
            elif kept:
                rest = written(domain).restricted(kept)
                found.append(rest if isinstance(rest, Written) or used.issuperset(kept) else domain)
        return tuple(found)

    def check_conditions(self, call: ParsedCall) -> None:
        written = {output.array for output in call.outputs}
        for predicate in call.frame.predicates:
            if found := sorted(written & variables(predicate)):
                message = f"the call writes '{found[0]}', which its condition reads"
                raise fail_call("condition-changed", call, message, "keep the condition: <> holds = ... before it")

    def loops(self, call: ParsedCall, binding: Binding) -> tuple[str, ...]:
        """Return the loops of the caller around the call, outermost first."""
        frame = call.frame
        used = binding.names() | {name for predicate in frame.predicates for name in variables(predicate)}
        inames = frame.loops.named()
        if frame.loops.only is None:
            inames |= used & set(self.inames)
        position = {iname: number for number, iname in enumerate(self.inames)}
        outside = outer_inames(self.own_domains)
        rest = nest_order(inames.difference(frame.loops.written), (), (), {}, position, outside)
        return (*frame.loops.written, *rest)


def _names_of(statement: Parsed) -> set[str]:
    if isinstance(statement, ParsedNop | ParsedBarrier | ParsedCall):
        return set()
    if isinstance(statement, ParsedRule):
        return _with_bound(statement.rule.value)
    return {*statement.loops.named()}.union(*map(_with_bound, statement.parts()))


def _with_bound(expr: Expression) -> set[str]:
    return {*variables(expr), *(iname for reduction in reductions(expr) for iname in reduction.inames)}


def fixed_call(call: ParsedCall, fixed: Mapping[str, int]) -> ParsedCall:
    """Return *call* with parameters replaced by numbers."""
    if not fixed:
        return call
    return mapped_call(call, lambda expr: substitute(expr, fixed))


class _Names:
    """Renaming of a function's names for one call."""

    def __init__(self, function: Function, inliner: _Inliner, binding: Binding) -> None:
        program = function.program
        self.binding = binding
        self.function = function
        locals_ = [iname for domain in program.domains for iname in domain.inames]
        locals_ += [*program.temporaries, *(s.rule.name for s in program.statements if isinstance(s, ParsedRule))]
        formal = {*function.kernel.parameters, *(entry.name for entry in function.kernel.arguments)}
        self.names = {old: inliner.fresh(f"{function.name}_{old}", inliner.taken, formal) for old in locals_}
        frame = binding.call.frame
        self.call_id = frame.id or inliner.fresh(frame.options.id_prefix or function.name, inliner.used_ids)
        statements = [s for s in program.statements if isinstance(s, ParsedInstruction)]
        single = len(statements) == 1
        self.ids: dict[str | None, str] = {}
        for statement in statements:
            wish = self.call_id if single else f"{self.call_id}_{statement.id}"
            self.ids[statement.id] = wish if single else inliner.fresh(wish, inliner.used_ids)
        self.hidden = {name: f"{name}@{function.name}" for name in binding.parts}
        self.mapping: dict[str, Expression] = {old: p.Variable(new) for old, new in self.names.items()}
        self.mapping.update(binding.values)
        self.mapping.update({old: p.Variable(new) for old, new in self.hidden.items()})
        self.parts = {self.hidden[name]: part for name, part in binding.parts.items()}

    def expression(self, expr: Expression) -> Expression:
        """Return *expr*, of the function, in terms of the caller."""

        def renamed(node: Expression) -> Expression:
            if type(node) is p.Call and function_name(node) in self.names:
                return p.Call(p.Variable(self.names[function_name(node)]), node.parameters)
            return node

        def visit(node: Expression) -> Expression:
            kind = type(node)
            if kind is p.Subscript and array_name(node) in self.parts:
                return self.parts[array_name(node)].element(node.index_tuple)
            if kind is p.Variable and node.name in self.parts:
                return self.parts[node.name].element(())
            return node

        return map_nodes(substitute(map_nodes(expr, renamed), self.mapping), visit)

    def domain(self, domain: Domain) -> Domain:
        """Return a domain of the function under the new names; its parameters have the values that are passed."""
        inames = tuple(self.names[iname] for iname in domain.inames)
        result = _with_values(rename_dims(domain.set, self.names), inames, self.binding.sizes)
        forms = {old: Affine.variable(new) for old, new in self.names.items()} | dict(self.binding.sizes)
        return written(domain).changed(inames, result, forms)

    def rule(self, rule: ParsedRule) -> ParsedRule:
        """Return a rule of the function under its new name."""
        return replace(rule, rule=replace(rule.rule.mapped(self.expression), name=self.names[rule.rule.name]))

    def statement(
        self, statement: ParsedInstruction, frame: ParsedInstruction, around: Loops, inside: int
    ) -> ParsedInstruction:
        """Return a statement of the function inside the loops *around* the call; its own get numbers from *inside*."""
        own, options = statement.loops.under(self.names), self.options(statement, frame)
        numbers = (*around.numbers, *(inside + number for number in own.numbers))
        loops = Loops((*around.written, *own.written), numbers, own.only, own.extra)
        return replace(
            statement,
            assignee=self.expression(statement.assignee),
            expression=self.expression(statement.expression),
            declared=None,
            id=self.ids[statement.id],
            options=options,
            loops=loops,
            place=replace(frame.place, text=f"{statement.place.text}  (in {self.function.name})"),
            depends_on_is_final=options.order.depends_star,
            predicates=(*frame.predicates, *(self.expression(x) for x in statement.predicates)),
            several=None,
        )

    def options(self, statement: ParsedInstruction, frame: ParsedInstruction) -> Options:
        """Return the merged options of the call and of a statement of the function."""
        assert statement.id is not None, "statements of functions have ids"
        found = self.function.kernel.instruction(statement.id)
        outer, inner = frame.options.order, statement.options.order
        nosync = tuple(
            NoSync(Glob(Subject.ID, self.ids.get(entry.which.pattern, entry.which.pattern)), entry.scope)
            for entry in found.nosync
            if isinstance(entry.which, Glob)
        )
        order = Order(
            depends_on=(*outer.depends_on, *(self.ids.get(x, x) for x in sorted(found.depends_on))),
            depends_star=outer.depends_star or inner.depends_star,
            queries=outer.queries,
            nosync=(*outer.nosync, *nosync),
            groups=(*outer.groups, *inner.groups),
            conflicts=(*outer.conflicts, *inner.conflicts),
            priority=inner.priority,
        )
        tags = tuple(dict.fromkeys((*frame.options.tags, *statement.options.tags)))
        name = self.ids[statement.id]
        return replace(statement.options, id=name, id_prefix=None, order=order, tags=tags, duplicates=())


def _with_values(domain: isl.Set, dims: tuple[str, ...], sizes: Mapping[str, Affine]) -> isl.Set:
    """Return *domain* where parameters have the values *sizes*, all at once: these may use the same names otherwise."""
    forms = {f"{old}@": sizes[old] for old in parameters_of(domain) if old in sizes}
    domain = rename_dims(domain, {hidden[:-1]: hidden for hidden in forms})
    names = sorted({name for form in forms.values() for name in form.names()}.difference(parameters_of(domain)))
    rows = [Row(form.add(Affine.variable(hidden), -1), True) for hidden, form in forms.items()]
    domain = add_rows(_with_parameters(domain, names), dims, rows)
    for hidden in forms:
        domain = domain.project_out(_PARAM, domain.find_dim_by_name(_PARAM, hidden), 1)
    return domain


def _with_parameters(domain: isl.Set, names: Sequence[str]) -> isl.Set:
    for name in names:
        position = domain.dim(_PARAM)
        domain = domain.add_dims(_PARAM, 1).set_dim_name(_PARAM, position, name)
    return domain
