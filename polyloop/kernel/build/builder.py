"""Builder of a ``LoopKernel`` from the user's text: names, inames, order, nests; no analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, pairwise

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.edge.words import spelt
from polyloop.errors import KernelError, Span
from polyloop.expr.names import KERNEL_NAME, check_identifier
from polyloop.expr.nodes import Expression, Operation, array_name, element_of, targets_of
from polyloop.expr.rewrite import free_variables, reductions, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.build.binders import plain_left_sides, reduced_apart, refuse_misplaced
from polyloop.kernel.build.cse import plain_rules, share
from polyloop.kernel.build.data_bounds import BoundVariables, check_assumed, check_bounds, find_bounds
from polyloop.kernel.build.declare import (
    check_parameters,
    complete_arguments,
    condition_of,
    fixed_argument,
    fixed_extents,
    order_parameters,
    parameters_used,
    read_data,
)
from polyloop.kernel.build.desugar import duplicate_inames, names_in, spread
from polyloop.kernel.build.draft import BarrierDraft, Draft, fail, site_of
from polyloop.kernel.build.foreign import bind_foreign, foreign_in
from polyloop.kernel.build.function import Function, FunctionTable, Program
from polyloop.kernel.build.infer_inames import inherit_inames, refuse_bound
from polyloop.kernel.build.initial_values import with_initial_values
from polyloop.kernel.build.inline import Inlined, check_calls, inline_calls
from polyloop.kernel.build.ranges import outermost, own_ranges
from polyloop.kernel.build.scalar_expansion import expand_crossing, settle_barriers
from polyloop.kernel.build.sequence import sequenced
from polyloop.kernel.build.shared_domains import fixed_domains
from polyloop.kernel.build.text_order import LoopPriority, nest_order, priority_chains
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.domains import (
    align,
    bound_variables,
    condition_set,
    domain_for,
    outer_inames,
    parameters_of,
)
from polyloop.kernel.instruction import Copy, Instruction, SubstitutionRule, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.reductions import operations_of
from polyloop.kernel.text.domain_text import parse_domain
from polyloop.kernel.text.parser import (
    Parsed,
    ParsedBarrier,
    ParsedCall,
    ParsedInstruction,
    ParsedNop,
    ParsedRule,
    parse_instructions,
)
from polyloop.kernel.text.specs import Defaults
from polyloop.poly.affine import Affine
from polyloop.poly.sets import parameter_space

__all__ = ["build_kernel", "program_of", "term_domains"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_NO_FUNCTIONS = FunctionTable()


def build_kernel(
    domains: str | isl.Set | isl.BasicSet | Sequence[str | isl.Set | isl.BasicSet],
    instructions: str | Sequence[str | CInstruction] | Sequence[Parsed],
    kernel_data: Sequence[object] | None,
    *,
    name: str,
    assumptions: str | isl.Set | None,
    fixed_parameters: Mapping[str, int],
    loop_priority: LoopPriority,
    defaults: Defaults,
    index_dtype: np.dtype[np.generic],
    functions: FunctionTable = _NO_FUNCTIONS,
    seq_dependencies: bool = False,
    operations: tuple[Operation, ...] = (),
    divide: bool = True,
) -> LoopKernel:
    """Return the kernel that the arguments of :func:`polyloop.make_kernel` describe, types still open.

    *instructions* may have been parsed already.  Unless barriers shall *divide* loops, they stay inside of them.
    """
    problem = check_identifier(name, KERNEL_NAME)
    if problem is not None:
        raise KernelError("make_kernel", None, [problem])
    pieces, found = _read_domains(domains, fixed_parameters)
    text = _read(
        pieces, instructions, kernel_data, name, fixed_parameters, defaults, functions, operations, divide=divide
    )
    pieces, rules, statements, nops, aliases = text.domains, text.rules, text.statements, text.nops, text.aliases
    inames = tuple(iname for piece in pieces for iname in piece.inames)
    parsed = text.parsed
    if not statements:
        raise fail("no-instructions", "the kernel has no instructions", hints=("write at least one assignment",))
    listed, temporaries, infer_rest = read_data(kernel_data, statements, defaults)
    temporaries.update(text.inlined.program.temporaries)
    given = listed
    listed = [argument for entry in listed if (argument := fixed_argument(entry, fixed_parameters)) is not None]
    temporaries = {
        key: replace(entry, shape=fixed_extents(entry.shape, fixed_parameters)) for key, entry in temporaries.items()
    }
    in_use = text.taken.union(inames, rules, (argument.name for argument in listed), _names_of(statements))
    written = len(statements)
    statements, temporaries, pieces = with_initial_values(statements, temporaries, pieces, in_use)
    inames = tuple(iname for piece in pieces for iname in piece.inames)
    condition = condition_of(assumptions, fixed_parameters)
    bounds = find_bounds(pieces, temporaries)
    check_assumed(bounds, condition)
    parameters = parameters_used(pieces, condition, (*inames, *bounds.names))
    others: list[str] = [*aliases, *(nop.options.id or "" for nop in nops)]
    others += [entry.options.id or "" for entry in parsed if isinstance(entry, ParsedBarrier) and entry.options.id]
    drafts = _drafts(statements, others, rules, frozenset(inames), temporaries, bounds)
    check_calls(drafts, text.inlined, functions.functions)
    if seq_dependencies:
        _chain(drafts)
    barriers = _barriers(parsed, {*others, *(draft.id for draft in drafts)}, len(statements) - written)
    temporaries = expand_crossing(drafts, barriers, temporaries, rules, inames)
    check_bounds(bounds, drafts, temporaries)
    check_parameters(fixed_parameters, condition, pieces, given, found)
    arguments = complete_arguments(listed, infer_rest, drafts, temporaries, inames, parameters, defaults)
    arguments = text.inlined.typed(arguments)
    texts = [domains] if isinstance(domains, str | isl.Set | isl.BasicSet) else domains
    pieces = own_ranges(pieces, texts, fixed_parameters, drafts)
    parameters = order_parameters(parameters, arguments, drafts)
    space = parameter_space(parameters)
    kernel = LoopKernel(
        name=name,
        parameters=parameters,
        assumptions=space if condition is None else align(condition, space).intersect(space),
        domains=pieces,
        instructions=(),
        arguments=arguments,
        temporaries=temporaries,
        substitutions=rules,
        loop_priority=priority_chains(loop_priority),
        fixed=dict(fixed_parameters),
        foreign=foreign_in(text.statements, text.rules.values()),
        index_dtype=index_dtype,
    )
    built = _built(kernel, drafts, space, bounds)
    ordered, explicit = sequenced(drafts, built, temporaries, aliases, nops, barriers)
    return replace(kernel, instructions=ordered, barriers=explicit)


def _chain(drafts: Sequence[Draft]) -> None:
    """Make each statement depend on the one before."""
    for before, draft in pairwise(drafts):
        options = draft.parsed.options
        options = replace(options, depends_on=(*options.depends_on, before.id))
        draft.parsed = replace(draft.parsed, options=options)


def _barriers(parsed: Sequence[Parsed], taken: set[str], before: int) -> list[BarrierDraft]:
    """Return the barriers of the text with their places among the instructions, *before* of which were put in front."""
    found: list[BarrierDraft] = []
    names = chain(("barrier",), (f"barrier_{i}" for i in count(1)))
    position = before
    for entry in parsed:
        if isinstance(entry, ParsedInstruction):
            position += 1
        elif isinstance(entry, ParsedBarrier):
            name = entry.options.id or next(wish for wish in names if wish not in taken)
            found.append(BarrierDraft(entry, name, position))
    return found


def _names_of(statements: Sequence[ParsedInstruction]) -> set[str]:
    """Return every name and id in *statements*."""
    found = {statement.id for statement in statements if statement.id is not None}
    for statement in statements:
        for part in (statement.assignee, statement.expression, *statement.predicates):
            found |= variables(part)
    return found


@dataclass(frozen=True)
class _Text:
    """Parsed text, with rules, calls and shorthands expanded."""

    domains: tuple[Domain, ...]
    rules: dict[str, SubstitutionRule]
    parsed: Sequence[Parsed]
    statements: list[ParsedInstruction]
    nops: list[ParsedNop]
    aliases: dict[str, tuple[str, ...]]
    inlined: Inlined
    taken: frozenset[str]


def _read(
    pieces: tuple[Domain, ...],
    instructions: str | Sequence[str | CInstruction] | Sequence[Parsed],
    kernel_data: Sequence[object] | None,
    name: str,
    fixed: Mapping[str, int],
    defaults: Defaults,
    functions: FunctionTable,
    operations: tuple[Operation, ...],
    *,
    divide: bool = True,
) -> _Text:
    own = frozenset(x for piece in pieces for x in piece.inames)
    parsed = _parsed(instructions, own, frozenset(functions.functions), operations)
    parsed = plain_left_sides(bind_foreign(parsed, functions.foreign))
    inlined = _without_calls(parsed, pieces, kernel_data, fixed, defaults, functions.functions)
    parsed, pieces = inlined.program.statements, inlined.program.domains
    rules = {
        entry.rule.name: entry.rule.mapped(lambda value: _fix(value, fixed))
        for entry in parsed
        if isinstance(entry, ParsedRule)
    }
    parsed = [_fixed(entry, fixed) if isinstance(entry, ParsedInstruction) else entry for entry in parsed]
    taken = _names_in_use(parsed, pieces, rules, kernel_data, name).union(inlined.program.temporaries)
    for operation in operations:
        if operation.name in {*functions.functions, *functions.foreign, *taken} - {name}:
            message = f"a reduction operation and something else are called '{operation.name}'"
            raise fail("name-taken", message, hints=("rename one of them",))
    parsed, pieces, rules = reduced_apart(parsed, pieces, rules, taken)
    taken = taken.union(iname for piece in pieces for iname in piece.inames)
    parsed, pieces = duplicate_inames(parsed, pieces, rules, taken)
    inames = frozenset(iname for piece in pieces for iname in piece.inames)
    parsed, aliases = spread(parsed, rules, taken | inames)
    parsed, rules = share(parsed, rules, taken | inames), plain_rules(rules)
    parsed = settle_barriers(parsed, rules, inames, divide=divide)
    statements = [entry for entry in parsed if isinstance(entry, ParsedInstruction)]
    nops = [entry for entry in parsed if isinstance(entry, ParsedNop)]
    return _Text(pieces, rules, parsed, statements, nops, {**aliases, **inlined.aliases}, inlined, taken)


def _without_calls(
    parsed: Sequence[Parsed],
    pieces: tuple[Domain, ...],
    kernel_data: Sequence[object] | None,
    fixed: Mapping[str, int],
    defaults: Defaults,
    functions: Mapping[str, Function],
) -> Inlined:
    if not any(isinstance(entry, ParsedCall) for entry in parsed):
        return Inlined(Program(pieces, tuple(parsed), {}))
    frames = [entry.frame if isinstance(entry, ParsedCall) else entry for entry in parsed]
    statements = [entry for entry in frames if isinstance(entry, ParsedInstruction)]
    listed, temporaries, _ = read_data(kernel_data, statements, defaults)
    arguments = [argument for entry in listed if (argument := fixed_argument(entry, fixed)) is not None]
    shapes = {key: replace(entry, shape=fixed_extents(entry.shape, fixed)) for key, entry in temporaries.items()}
    return inline_calls(parsed, pieces, arguments, shapes, functions, fixed)


def program_of(kernel: LoopKernel, written: Written, functions: FunctionTable) -> Program:
    """Return the statements of *kernel*, which was made as *written* says, to be put in the place of calls."""
    pieces, _ = _read_domains(written.domains, {})
    operations = operations_of(dict(written.options).get("reductions", ()))
    text = _read(pieces, written.instructions, written.kernel_data, kernel.name, {}, Defaults(), functions, operations)
    others = [*text.aliases, *(nop.options.id or "" for nop in text.nops)]
    ids = _ids(text.statements, others)
    statements = [replace(entry, id=new) for entry, new in zip(text.statements, ids, strict=True)]
    rules = [
ParsedRule(rule, 0, str(rule), Span(str(rule), 0)) for rule in text.rules.values()
    ]
    _, declared, _ = read_data(written.kernel_data, text.statements, Defaults())
    declared.update(text.inlined.program.temporaries)
    for entry in text.statements:
        for target in targets_of(entry.assignee):
            known = declared.get(array_name(target))
            if known is None or known.initializer is None:
                continue
            message = f"'{known.name}' has an initializer and is written: one call would see what another left"
            hint = "assign the values in the function"
            raise fail("bad-function", message, hints=(hint,), site=site_of(entry))
    shaped = {name: replace(entry, shape=kernel.temporaries[name].shape) for name, entry in declared.items()}
    return Program(text.domains, (*rules, *statements), shaped)


def _entries(given: object) -> tuple[object, ...]:
    return tuple(given) if isinstance(given, Sequence) else (given,)


def _parsed(
    given: str | Sequence[str | CInstruction] | Sequence[Parsed],
    inames: frozenset[str],
    functions: frozenset[str],
    operations: tuple[Operation, ...],
) -> Sequence[Parsed]:
    if isinstance(given, str):
        return parse_instructions(given, inames, functions, operations)
    entries: tuple[object, ...] = _entries(given)
    parsed = [entry for entry in entries if isinstance(entry, Parsed)]
    if parsed and len(parsed) == len(entries):
        return parsed
    lines = [entry for entry in entries if isinstance(entry, str | CInstruction)]
    if len(lines) < len(entries):
        hint = 'write them as text: "c[i] = a[i] + b[i]"'
        raise fail("bad-instructions", f"instructions cannot be {spelt(given)}", hints=(hint,))
    return parse_instructions(lines, inames, functions, operations)


def _fix(expr: Expression, fixed: Mapping[str, int]) -> Expression:
    return substitute(expr, fixed) if fixed else expr


def _fixed(entry: ParsedInstruction, fixed: Mapping[str, int]) -> ParsedInstruction:
    if not fixed:
        return entry
    for name in fixed.keys() & set(map(array_name, targets_of(entry.assignee))):
        raise fail(
            "not-assignable",
            f"'{name}' is fixed to {fixed[name]} and assigned",
            hints=("drop it from fixed_parameters, or the assignment",),
            site=site_of(entry),
        )
    return replace(
        entry,
        assignee=_fix(entry.assignee, fixed),
        expression=_fix(entry.expression, fixed),
        predicates=tuple(_fix(predicate, fixed) for predicate in entry.predicates),
    )


def _read_domains(
    domains: str | isl.Set | isl.BasicSet | Sequence[str | isl.Set | isl.BasicSet], fixed: Mapping[str, int]
) -> tuple[tuple[Domain, ...], frozenset[str]]:
    """Return the domains, and the *fixed* parameters that occur in them."""
    found: set[str] = set()
    entries = [domains] if isinstance(domains, str | isl.Set | isl.BasicSet) else list(domains)
    pieces: list[Domain] = []
    owner: dict[str, tuple[int, isl.Set]] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, str):
            domain = parse_domain(entry)
        else:
            domain = entry.to_set() if isinstance(entry, isl.BasicSet) else entry
        if domain.is_params():
            domain = domain.from_params()
        found.update(fixed.keys() & {*parameters_of(domain)})
        inames = tuple(domain.get_dim_name(_SET, i) or "" for i in range(domain.dim(_SET)))
        for iname in inames:
            problem = check_identifier(iname)
            if problem is not None:
                raise KernelError("make_kernel", None, [problem])
            if iname in owner:
                raise fail(
                    "iname-twice",
                    f"iname '{iname}' is in two domains",
                    notes=(f"domain {owner[iname][0]}: {owner[iname][1]}", f"domain {number}: {domain}"),
                    hints=("an iname belongs to one domain; rename one of them",),
                )
            owner[iname] = (number, domain)
        piece = Domain(inames, domain.reset_tuple_id() if domain.has_tuple_id() else domain)
        pieces += fixed_domains(piece, fixed, entry if isinstance(entry, str) else None)
    return tuple(pieces), frozenset(found)


def _names_in_use(
    parsed: Sequence[Parsed],
    pieces: Sequence[Domain],
    rules: Mapping[str, SubstitutionRule],
    kernel_data: Sequence[object] | None,
    name: str,
) -> frozenset[str]:
    """Return the names in the text, in kernel data, domains and rules, which new variables must avoid."""
    listed = (part.strip() for entry in kernel_data or () for part in str(getattr(entry, "name", "")).split(","))
    own = (x for piece in pieces for x in (*piece.inames, *parameters_of(piece.set)))
    bodies = (x for rule in rules.values() for x in variables(rule.value))
    return names_in(parsed).union(listed, own, rules, bodies, (name,))


def _drafts(
    statements: Sequence[ParsedInstruction],
    others: Sequence[str],
    rules: Mapping[str, SubstitutionRule],
    inames: frozenset[str],
    temporaries: Mapping[str, TemporaryVariable],
    bounds: BoundVariables,
) -> list[Draft]:
    ids = _ids(statements, others)
    drafts = []
    for statement, name in zip(statements, ids, strict=True):
        refuse_misplaced(statement, name)
        expanded = expand_rules(statement.expression, rules)
        used = free_variables(expanded) | variables(statement.assignee)
        for predicate in statement.predicates:
            used |= variables(predicate)
        bound = {iname for reduction in reductions(expanded) for iname in reduction.inames}
        for iname in bound - inames:
            raise fail(
                "unknown-iname",
                f"reduction over '{iname}', which is in no domain",
                hints=(f"inames: {', '.join(sorted(inames))}",),
                site=site_of(statement, name),
            )
        own = used & inames | frozenset(statement.for_inames) | frozenset(statement.inames_extra)
        if statement.inames is not None:
            own = frozenset(statement.inames) | frozenset(statement.for_inames)
        for iname in own - inames:
            raise fail(
                "unknown-iname",
                f"no iname '{iname}'",
                hints=(f"inames: {', '.join(sorted(inames))}",),
                site=site_of(statement, name),
            )
        draft = Draft(statement, name, own, expanded)
        refuse_bound(draft, own & bound)
        drafts.append(draft)
    inherit_inames(drafts, temporaries, bounds)
    return drafts


def _ids(statements: Sequence[ParsedInstruction], others: Sequence[str]) -> list[str]:
    given = [*others, *(statement.id for statement in statements if statement.id)]
    taken = set(given)
    if len(taken) < len(given):
        twice = next(name for name, count in Counter(given).items() if count > 1)
        site = next((site_of(s) for s in reversed(statements) if s.id == twice), None)
        raise fail("name-taken", f"two instructions have the id '{twice}'", site=site, hints=("rename one of them",))
    ids = []
    wishes: dict[str, Iterator[str]] = {}
    for statement in statements:
        name = statement.id
        if name is None:
            base = statement.id_prefix or "insn"
            if base not in wishes:
                wishes[base] = chain((base,), (f"{base}_{i}" for i in count(1)))
            name = next(wish for wish in wishes[base] if wish not in taken)
            taken.add(name)
        ids.append(name)
    return ids


def term_domains(
    domains: Sequence[Domain], inames: tuple[str, ...], domain: isl.Set, expanded: Expression, space: isl.Set
) -> tuple[Term, ...]:
    """Return the iteration domain of each reduction in *expanded*, inside an instruction over *inames*."""
    if not reductions(expanded):
        return ()
    terms: list[Term] = []

    def visit(expr: Expression, dims: tuple[str, ...], around: isl.Set) -> None:
        for reduction in outermost(expr):
            inside = (*dims, *reduction.inames)
            whole = domain_for(domains, inside, space)
            wider = isl.Set.universe(whole.get_space())
            narrowed = whole.intersect(_widen(around, wider, len(dims)))
            terms.append(Term(inside, narrowed))
            visit(reduction.expr, inside, narrowed)

    visit(expanded, inames, domain)
    return tuple(terms)


def _widen(domain: isl.Set, universe: isl.Set, count: int) -> isl.Set:
    extra = universe.dim(_SET) - count
    result = domain.insert_dims(_SET, count, extra)
    for position in range(count, count + extra):
        result = result.set_dim_name(_SET, position, universe.get_dim_name(_SET, position) or "")
    return result


def _built(
    kernel: LoopKernel, drafts: Sequence[Draft], space: isl.Set, bounds: BoundVariables
) -> dict[str, Instruction]:
    """Return the instructions by id, with inames in loop order, iteration domains and reads."""
    outside = _outside(kernel, drafts, bounds)
    position = {iname: i for i, iname in enumerate(kernel.inames)}
    uses = Counter(iname for draft in drafts for iname in draft.inames)
    built = {}
    over = cache(lambda nest: domain_for(kernel.domains, nest, space))
    nested = cache(lambda own, written: nest_order(own, written, kernel.loop_priority, uses, position, outside))
    forms = cache(lambda inames: {x: Affine.variable(x) for x in inames})
    bounded = cache(lambda nest: frozenset(bound_variables(over(nest), kernel.parameters)))
    for draft in drafts:
        parsed = draft.parsed
        nest = nested(draft.inames, parsed.for_inames)
        domain = over(nest)
        predicates = []
        for predicate in parsed.predicates:
            narrowed = None
            if bounds.names.isdisjoint(variables(predicate)):
                narrowed = condition_set(predicate, domain, nest)
            if narrowed is None:
                predicates.append(predicate)
            else:
                domain = narrowed
        terms = term_domains(kernel.domains, nest, domain, draft.expanded, space)
        bound = {iname for reduction in reductions(draft.expanded) for iname in reduction.inames}
        reads = variables(draft.expanded).difference(bound, nest)
        for element in map(element_of, targets_of(parsed.assignee)):
            if isinstance(element, p.Subscript):
                reads = reads.union(*map(variables, element.index_tuple))
        for predicate in predicates:
            reads |= variables(predicate)
        reads |= bounded(nest) if domain is over(nest) else {*bound_variables(domain, kernel.parameters)}
        for term in terms:
            reads |= {*bound_variables(term.domain, kernel.parameters)}
        if predicates and any(targets_of(parsed.assignee, name) for name in bounds.names):
            raise _conditional_bound(draft)
        built[draft.id] = Instruction(
            id=draft.id,
            inames=nest,
            domain=domain,
            assignee=parsed.assignee,
            expression=parsed.expression,
            origin=Copy(draft.id, forms((*nest, *sorted(bound)))),
            terms=terms,
            predicates=tuple(predicates),
            tags=frozenset(parsed.tags),
            groups=frozenset(parsed.options.groups),
            conflicts=frozenset(parsed.options.conflicts),
            blocks=tuple(zip(parsed.for_inames, parsed.for_blocks, strict=True)),
            line=parsed.line,
            text=parsed.text,
            file=parsed.span.file,
            reads=reads - frozenset(nest),
            atomic=parsed.options.atomic,
            fast=parsed.options.fast,
        )
    return built


def _outside(
    kernel: LoopKernel, drafts: Sequence[Draft], bounds: BoundVariables
) -> dict[str, frozenset[str]]:
    """Return iname -> inames outside of it: those in its bounds, and those of instructions that set its bounds."""
    writers = {name: draft.inames for draft in drafts for name in map(array_name, targets_of(draft.parsed.assignee))}
    found = outer_inames(kernel.domains)
    return {
        iname: outer.union(*(writers.get(name, ()) for name in bounds.of.get(iname, ())))
        for iname, outer in found.items()
    }


def _conditional_bound(draft: Draft) -> KernelError:
    return fail(
        "bad-bound",
        f"'{array_name(draft.parsed.assignee)}' bounds a loop and is assigned only under a condition",
        hints=("give it a value in every case: <> t = if(condition, a, b)",),
        site=site_of(draft.parsed, draft.id),
    )
