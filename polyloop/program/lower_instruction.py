"""Lowering of one instruction: reductions as *init* and *update* statements over an accumulator, rules expanded.

The reads of an instruction are numbered in the order of its text (*leaves*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.nodes import (
    CText,
    Expression,
    Lookup,
    Reduction,
    Targets,
    array_name,
    element_of,
    field_path,
    targets_of,
)
from polyloop.expr.operations import combining
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children, rebuild, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.domains import bound_variables, without_bound_variables
from polyloop.kernel.instruction import Instruction, Term, may_group
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import ThreadDigit, is_in_warp, is_lane
from polyloop.kernel.updates import update_of
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.axes import is_block_axis
from polyloop.poly.intervals import is_computed
from polyloop.poly.sets import constant_bounds, project_onto, reorder, single_values
from polyloop.program.conditions import conditions_of_terms, held_back, joined_loops, names_in_terms
from polyloop.program.expand_lanes import lanes_last
from polyloop.program.guards import Guard, decided_by_data, exact_parameters, guarded_children, guarded_domain
from polyloop.program.ir import (
    Access,
    AccessKind,
    Accumulation,
    Accumulator,
    Assign,
    Combine,
    Init,
    Kept,
    Lowered,
    Operand,
    Other,
    Part,
    Update,
)

__all__ = ["NESTED_DIGITS", "Lowering", "access_of", "loop_order"]

NESTED_DIGITS: Final = (
    "threads combine along up to three digits that follow each other, each with all of its values and nothing beside "
    "them: l%8, l/8%4, l/32; or along digits of the lane: l%4, l/4%8; or along the axes l.0 to l.2"
)
"""Hint about the digits of the thread number along which threads can combine values."""


_NUMBERS: Final = frozenset((int, float))


def loop_order(inames: Sequence[str], priority: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return *inames* in an order that respects every chain of *priority*, and otherwise in their given order."""
    chains = [[x for x in chain if x in inames] for chain in priority]
    left = list(inames)
    order: list[str] = []
    while left:
        chosen = next((x for x in left if all(x not in chain or chain[0] == x for chain in chains)), left[0])
        order.append(chosen)
        left.remove(chosen)
        chains = [[x for x in chain if x != chosen] for chain in chains]
    return tuple(order)


class Lowering:
    """Lowering of one instruction to statements: state of the traversal of its expressions."""

    def __init__(self, kernel: LoopKernel, instruction: Instruction, names: Callable[[str], str]) -> None:
        self.kernel = kernel
        self.instruction = instruction
        self.names = names
        self.terms: Iterator[Term] = iter(instruction.terms)
        self.before: list[Lowered] = []
        self.behind: list[Lowered] = []
        self.accumulators: list[Accumulator] = []
        self.leaf = 0
        self.number = 0
        self.combiner: int | None = None
        self.arrays = kernel.arrays()
        self.guards: tuple[Guard, ...] = ()
        self.exact_parameters = exact_parameters(kernel)
        self.conditions = conditions_of_terms(kernel, instruction)
        self.seen: dict[tuple[str, ...], frozenset[str]] = {}

    def statements(self) -> list[Lowered]:
        """Return the statements of the instruction, in order."""
        instruction = self.instruction
        expression = expand_rules(instruction.expression, self.kernel.substitutions)
        atomic: str | None = None
        if instruction.atomic:
            update = update_of(instruction.assignee, expression)
            if update is None:
                raise _no_atomic_update(self.kernel, instruction)
            atomic, expression = update.operation, update.operand
        reads: list[Access] = []
        self.guards = tuple((expand_rules(e, self.kernel.substitutions), True) for e in instruction.predicates)
        rhs = self.rewrite(expression, instruction.inames, instruction.domain, reads)
        lhs = self.target(instruction.assignee, reads)
        visible = self.visible(instruction.inames)
        writes = tuple(access_of(target, visible, guards=self.guards) for target in targets_of(lhs))
        self.guards = ()
        predicates = tuple(
            self.rewrite(e, instruction.inames, instruction.domain, reads) for e in instruction.predicates
        )
        kept = [write for write in writes if write.fields or instruction.may_keep]
        reads += [replace(write, kind=Kept(self.next_leaf())) for write in kept]
        part = Assign(predicates, atomic)
        own = self.lowered(instruction.id, part, instruction.inames, instruction.domain, lhs, rhs, writes, reads)
        return [*self.before, own, *self.behind]

    def target(self, lhs: Expression, reads: list[Access]) -> Expression:
        """Return the rewritten assignee of the instruction, and append the reads in its subscripts to *reads*."""
        if isinstance(lhs, Targets):
            return Targets(tuple(self.target(element, reads) for element in lhs.elements))
        if isinstance(lhs, Lookup):
            return Lookup(self.target(lhs.aggregate, reads), lhs.field)
        if isinstance(lhs, p.Subscript):
            inames, domain = self.instruction.inames, self.instruction.domain
            if self.plain_forms(lhs, self.visible(inames)) is not None:
                return lhs
            return rebuild(lhs, tuple(self.rewrite(e, inames, domain, reads) for e in lhs.index_tuple))
        return lhs

    def lowered(
        self, name: str, part: Part, inames: tuple[str, ...], domain: isl.Set, lhs: Expression, rhs: Expression,
        writes: tuple[Access, ...], reads: Iterable[Access],
    ) -> Lowered:  # fmt: skip
        """Return a statement over *domain*, with reads of the bound variables of the domain added."""
        known = self.kernel.parameters
        bounds = bound_variables(domain, known)
        exact = without_bound_variables(domain, (*known, *bounds))
        every = without_bound_variables(exact, known) if bounds else exact

        def placed(access: Access) -> Access:
            if not access.guards:
                return access
            narrowed = guarded_domain(every, inames, access.guards, self.exact_parameters)
            guards = decided_by_data(access.guards, inames, self.exact_parameters)
            return replace(access, guards=guards, domain=None if narrowed is every else narrowed)

        reads = (*map(placed, reads), *(Access(bound, (), Other.BOUND) for bound in bounds))
        return Lowered(
            name, self.instruction, part, inames, every, exact, lhs, rhs, tuple(map(placed, writes)), reads
        )

    def visible(self, inames: tuple[str, ...]) -> frozenset[str]:
        """Return the names that subscripts inside of loops over *inames* may use."""
        found = self.seen.get(inames)
        if found is None:
            found = self.seen[inames] = frozenset((*inames, *self.kernel.parameters))
        return found

    def rewrite(self, expr: Expression, inames: tuple[str, ...], domain: isl.Set, reads: list[Access]) -> Expression:
        """Return *expr* with reductions replaced by their accumulators, and append its reads to *reads* in order."""
        kind = type(expr)
        if kind is int or kind is float:
            return expr
        if kind is p.Variable:
            if expr.name in self.arrays:
                reads.append(Access(expr.name, (), self.next_operand(), guards=self.guards))
            return expr
        if kind is p.Subscript:
            return self.element(expr, inames, domain, reads)
        if kind is p.Sum or kind is p.Product:
            old = expr.children
            new = tuple([self.rewrite(child, inames, domain, reads) for child in old])
            return expr if all(map(is_, old, new)) else rebuild(expr, new)
        if isinstance(expr, Reduction):
            return self.reduce(expr, inames, reads)
        if isinstance(expr, CText):
            return rebuild(expr, tuple(self.read_by_c(e, inames, domain, reads) for e in children(expr)))
        if isinstance(expr, Lookup):
            count = len(reads)
            result = Lookup(self.rewrite(expr.aggregate, inames, domain, reads), expr.field)
            if len(reads) > count and isinstance(element_of(result), p.Variable | p.Subscript):
                reads[-1] = replace(reads[-1], fields=field_path(result))
            return expr if result.aggregate is expr.aggregate else result
        return self.operands(expr, inames, domain, reads)

    def element(self, expr: p.Subscript, inames: tuple[str, ...], domain: isl.Set, reads: list[Access]) -> Expression:
        """Return the rewritten subscript *expr* (see :meth:`rewrite`), with reads in its indices ahead of its own."""
        visible = self.visible(inames)
        if (forms := self.plain_forms(expr, visible)) is not None:
            reads.append(Access(array_name(expr), forms, self.next_operand(), guards=self.guards))
            return expr
        old = expr.index_tuple
        new = tuple([self.rewrite(e, inames, domain, reads) for e in old])
        result = expr if all(map(is_, old, new)) else rebuild(expr, new)
        reads.append(access_of(result, visible, self.next_operand(), self.guards))
        return result

    def plain_forms(self, expr: p.Subscript, visible: frozenset[str]) -> tuple[Affine, ...] | None:
        """Return the subscripts as affine forms of *visible* names, None unless all are affine and read no array."""
        forms = []
        for index in expr.index_tuple:
            for name in variables(index):
                if name not in visible or name in self.arrays:
                    return None
            form = affine_of(index)
            if form is None:
                return None
            forms.append(form)
        return tuple(forms)

    def operands(self, expr: Expression, inames: tuple[str, ...], domain: isl.Set, reads: list[Access]) -> Expression:
        """Return *expr* with rewritten operands (see :meth:`rewrite`); their reads get the conditions of *expr*."""
        old = () if type(expr) in _NUMBERS else children(expr)
        if not old:
            return expr
        if isinstance(expr, p.If | p.LogicalAnd | p.LogicalOr):
            around = self.guards
            rewritten: list[Expression] = []
            for child, guards in guarded_children(expr):
                self.guards = (*around, *guards)
                rewritten.append(self.rewrite(child, inames, domain, reads))
            self.guards = around
            new = tuple(rewritten)
        else:
            new = tuple([self.rewrite(child, inames, domain, reads) for child in old])
        return expr if all(map(is_, old, new)) else rebuild(expr, new)

    def read_by_c(self, value: Expression, inames: tuple[str, ...], domain: isl.Set, reads: list[Access]) -> Expression:
        """Return the rewritten value of an input of C text; for a whole array the read may be of any element."""
        array = self.arrays.get(value.name) if isinstance(value, p.Variable) else None
        if array is None or not array.shape:
            return self.rewrite(value, inames, domain, reads)
        reads.append(Access(value.name, (None,) * len(array.shape), self.next_operand(), guards=self.guards))
        return value

    def next_operand(self) -> Operand:
        """Return the kind of the next read of the text, with its number."""
        return Operand(self.next_leaf())

    def next_leaf(self) -> int:
        """Return the number of the next read of the text."""
        self.leaf += 1
        return self.leaf - 1

    def reduce(self, expr: Reduction, inames: tuple[str, ...], outer_reads: list[Access]) -> Expression:
        """Return the accumulator of a reduction, and append its statements to ``before``."""
        if expr.along:
            return self.scan(expr, inames, outer_reads)
        term = next(self.terms)
        domain, all_inames = term.domain, term.inames
        number, self.number = self.number, self.number + 1
        partial_of, self.combiner = self.combiner, None
        if expr.operation.of_states and isinstance(expr.expr, Reduction):
            self.combiner = number
        reads: list[Access] = []
        nested_from = len(self.before)
        around_term, self.guards = self.guards, ()
        inner = self.rewrite(self.held_back(expr, number), all_inames, domain, reads)
        self.guards = around_term
        nested = self.before[nested_from:]
        del self.before[nested_from:]
        nest = lanes_last(self.kernel, loop_order(all_inames, self.kernel.loop_priority))
        fixed: Mapping[str, Affine] = {}
        if expr.start is not None and expr.operation.of_states and not nested:
            domain, nest, fixed = one_term(reorder(domain, all_inames, nest), nest, expr.inames)
            all_inames = nest if fixed else all_inames
            inner, reads = with_values(inner, reads, fixed)
        name = self.names("acc" if partial_of is None else "part")
        variable, shape = self.accumulator_element(name, nest, inames, expr.inames)
        write = access_of(variable, self.visible(inames))
        self.accumulators.append(Accumulator(name, expr, shape, self.instruction.id))
        outer = tuple(x for x in nest if x in inames)
        base = self.instruction.id
        around = self.around(inames)
        bounds = [Access(name, (), Other.BOUND) for name in bound_variables(domain, self.kernel.parameters)]
        inside = [*reads, *bounds, *(access for statement in nested for access in statement.reads)]
        named = names_in_terms(self.kernel, self.instruction, expr, number)
        joined = joined_loops(self.kernel, expr.inames, [a.array for a in inside if a.array in named])
        across = self.across(expr.inames)
        if across:
            has_digits = self.has_far_digits(expr.inames, all_inames)
            if expr.start is not None or not may_group(self.instruction, expr.operation) or has_digits:
                raise _not_parallel(self.kernel, self.instruction, expr, has_digits=has_digits)
        whole = Accumulation(number, expr.inames, expr.operation, (), partial_of, joined)
        init = self.lowered(
            self.names(f"{base}_init"), Init(whole, across), outer, reorder(around, inames, outer),
            variable, expr.start, (write,), self.starting(expr, inames),
        )  # fmt: skip
        update = self.lowered(
            self.names(f"{base}_update"), Update(whole, fixed), nest, reorder(domain, all_inames, nest),
            variable, inner, (write,), (*reads, write),
        )  # fmt: skip
        self.before += [init, *(map(partial(_joined, joined), nested) if joined else nested), update]
        if across:
            name, reads = self.names(f"{base}_combine"), [*init.reads, write]
            part = Combine(whole, across)
            self.before.append(replace(init, name=name, part=part, rhs=variable, reads=tuple(reads)))
        outer_reads.append(write)
        return variable

    def has_far_digits(self, own: Iterable[str], inames: Iterable[str]) -> bool:
        """Return True if threads cannot combine terms along *own* inames because some of *inames* are digits.

        They can within a warp: along digits alone, each of which is a part of the number of the lane.
        """
        if all(is_in_warp(self.kernel.tag(x)) for x in own if self.kernel.axis(x) is not None):
            return False
        return any(isinstance(self.kernel.tag(x), ThreadDigit) for x in inames)

    def held_back(self, expr: Reduction, number: int) -> Expression:
        """Return the term of reduction *number*, with the conditions around the reduction where it may fail."""
        return held_back(self.kernel, self.instruction, expr, self.conditions[number])

    def starting(self, expr: Reduction, inames: tuple[str, ...]) -> tuple[Access, ...]:
        """Return the read of the start value of a reduction, if it has one, which is not numbered."""
        if expr.start is None:
            return ()
        return (replace(access_of(expr.start, self.visible(inames)), kind=Other.START),)

    def scan(self, expr: Reduction, inames: tuple[str, ...], outer_reads: list[Access]) -> Expression:
        """Return the accumulator of a scan, a running total to which each iteration adds its own terms."""
        term = next(self.terms)
        number, self.number = self.number, self.number + 1
        reads: list[Access] = []
        around_term, self.guards = self.guards, ()
        inner = self.rewrite(self.held_back(expr, number), term.inames, term.domain, reads)
        self.guards = around_term
        nest = lanes_last(self.kernel, loop_order(inames, self.kernel.loop_priority))
        own = tuple(x for x in term.inames if x not in inames)
        domain, fixed = single_values(reorder(term.domain, term.inames, (*nest, *own)), nest, own)
        left = () if fixed else own
        inner, reads = with_values(inner, reads, fixed)
        whole = Accumulation(number, own, expr.operation, expr.along)
        if across := self.across(expr.along, "gl"):
            has_digits = any(isinstance(self.kernel.tag(x), ThreadDigit) for x in inames)
            if has_digits or not expr.operation.reassociable:
                raise _not_parallel(self.kernel, self.instruction, expr, has_digits=has_digits)
            if is_block_axis(across[0]) and (nest != expr.along[:1] or self.instruction.predicates):
                raise _not_over_blocks(self.kernel, self.instruction, nest, expr)
            parts = list(self.scan_over_threads(expr, whole, across, (nest, left, domain, fixed), (inner, reads)))
            self.before += parts
            outer_reads.append(parts[-1].write)
            return parts[-1].lhs
        name = self.names("acc")
        variable, shape = self.accumulator_element(name, nest, inames, expr.along)
        write = access_of(variable, self.visible(inames))
        self.accumulators.append(Accumulator(name, expr, shape, self.instruction.id))
        needed = frozenset[str]() if expr.start is None else variables(expr.start)
        outer = tuple(x for x in nest if x not in expr.along or x in needed)
        base = self.instruction.id
        around = project_onto(self.around(inames), inames, outer)
        if expr.start is None:  # the init may run for more instances than have results: a simpler domain
            around = around.drop_constraints_not_involving_dims(isl.dim_type.set, 0, len(outer)).coalesce()
        init = self.lowered(
            self.names(f"{base}_init"), Init(whole), outer, around,
            variable, expr.start, (write,), self.starting(expr, inames),
        )  # fmt: skip
        update = self.lowered(
            self.names(f"{base}_update"), Update(whole, fixed), (*nest, *left), domain,
            variable, inner, (write,), (*reads, write),
        )  # fmt: skip
        self.before.append(init)
        (self.behind if expr.after else self.before).append(update)
        outer_reads.append(write)
        return variable

    def scan_over_threads(
        self, expr: Reduction, whole: Accumulation, across: tuple[str, ...],
        space: tuple[tuple[str, ...], tuple[str, ...], isl.Set, Mapping[str, Affine]],
        term: tuple[Expression, Sequence[Access]],
    ) -> Iterator[Lowered]:  # fmt: skip
        """Yield the statements of a scan along a thread or block axis: each thread's own terms, then the combine."""
        nest, left, domain, fixed = space
        inner, reads = term
        base, visible = self.instruction.id, self.visible(nest)
        around = reorder(self.around(self.instruction.inames), self.instruction.inames, nest)

        def statement(
            word: str, part: Part, lhs: Expression, rhs: Expression, reads: Sequence[Access],
            inames: tuple[str, ...] = nest, where: isl.Set = around,
        ) -> Lowered:  # fmt: skip
            write = access_of(lhs, visible)
            seen = reads if isinstance(part, Init) else (*reads, write)
            return self.lowered(self.names(f"{base}_{word}"), part, inames, where, lhs, rhs, (write,), seen)

        mine = p.Variable(self.names("part"))
        self.accumulators.append(Accumulator(mine.name, expr, (), base))
        yield statement("init", Init(whole, across), mine, None, ())
        yield statement("update", Update(whole, fixed), mine, inner, reads, (*nest, *left), domain)
        yield statement("combine", Combine(whole, across, expr.after), mine, mine, ())
        if expr.start is not None:
            total = p.Variable(self.names("acc"))
            self.accumulators.append(Accumulator(total.name, expr, (), base))
            yield statement("init", Init(whole), total, expr.start, self.starting(expr, nest))
            update = Update(replace(whole, operation=combining(expr.operation)))
            yield statement("update", update, total, mine, (access_of(mine, visible),))

    def across(self, own: Iterable[str], kinds: str = "lc") -> tuple[str, ...]:
        """Return the axes of the inames *own* of a reduction, of some *kinds*: ``l`` (thread), ``c``, ``g`` (block)."""
        axes = {axis for iname in own if (axis := self.kernel.axis(iname)) is not None}
        return tuple(sorted(axis for axis in axes if axis[0] in kinds))

    def around(self, inames: tuple[str, ...]) -> isl.Set:
        """Return the domain over *inames* around a reduction: the instruction's, or an outer reduction's."""
        if inames == self.instruction.inames:
            return self.instruction.domain
        return next(term.domain for term in self.instruction.terms if term.inames == inames)

    def accumulator_element(
        self, name: str, nest: tuple[str, ...], inames: tuple[str, ...], own: tuple[str, ...]
    ) -> tuple[Expression, tuple[int, ...]]:
        """Return the accumulator's element for one instance, with an axis for each loop inside of the reduction's.

        A loop over lanes always needs an axis, because each statement has a loop over lanes of its own.
        """
        loops = [x for x in nest if self.kernel.axis(x) is None]
        first = min((loops.index(x) for x in own if x in loops), default=len(loops))
        around_own = [x for x in loops if x in inames and x not in own]
        inside = [x for x in around_own if loops.index(x) >= first or is_lane(self.kernel.tag(x))]
        if not inside:
            return p.Variable(name), ()
        around = self.around(inames)  # not the domain of the terms: a result without terms is the neutral element
        indices: list[Expression] = []
        shape: list[int] = []
        for iname in inside:
            low, high = constant_bounds(around, inames.index(iname))
            if low is None or high is None:
                raise _not_constant(self.kernel, self.instruction, iname, own)
            indices.append(p.Variable(iname) if low == 0 else p.Sum((p.Variable(iname), -low)))
            shape.append(high - low + 1)
        return p.Subscript(p.Variable(name), indices[0] if len(indices) == 1 else tuple(indices)), tuple(shape)


def _no_atomic_update(kernel: LoopKernel, instruction: Instruction) -> VerificationError:
    target = show(instruction.assignee)
    problem = Diagnostic(
        "no-atomic-update",
        f"'{show(instruction.expression)}' is no atomic operation that updates '{target}'",
        (
            f"an atomic instruction combines one value with '{target}', by +, *, min, max, &, | or ^, or replaces it "
            f"by a value that does not read '{array_name(instruction.assignee)}'",
        ),
        (f"write {target} = {target} + x, with x in a temporary if it is a longer expression",),
        sites=(instruction.site(),),
    )
    return VerificationError("schedule", kernel.name, [problem])


def _not_parallel(
    kernel: LoopKernel, instruction: Instruction, expr: Reduction, *, has_digits: bool
) -> VerificationError:
    why = "they are combined in their order, one after the other"
    hint = "keep its loops sequential, or reduce without 'ordered' if any order will do"
    if has_digits:
        why = "an iname around it, or one of its own, is a digit of the thread number"
        hint = NESTED_DIGITS
    problem = Diagnostic(
        "parallel-reduction",
        f"the terms of '{expr.operation}' over {', '.join(expr.inames)} cannot be spread over threads",
        (why,),
        (hint,),
        sites=(instruction.site(),),
    )
    return VerificationError("schedule", kernel.name, [problem])


def _not_over_blocks(
    kernel: LoopKernel, instruction: Instruction, nest: Sequence[str], expr: Reduction
) -> VerificationError:
    others = [name for name in nest if name != expr.along[0]]
    why = f"it is repeated along {', '.join(others)}" if others else "data decides whether a block takes part"
    problem = Diagnostic(
        "parallel-scan",
        f"the scan in '{instruction.id}' along '{expr.along[0]}' cannot be over blocks",
        (f"each block passes on one total, once, and {why}",),
        ("scan the sums of the tiles in a launch of its own: pl.split_scan(..., carry_iname='c')",),
        sites=(instruction.site(),),
    )
    return VerificationError("schedule", kernel.name, [problem])


def _not_constant(kernel: LoopKernel, instruction: Instruction, iname: str, own: Sequence[str]) -> VerificationError:
    return VerificationError(
        "schedule",
        kernel.name,
        [
            Diagnostic(
                "accumulator-not-constant",
                f"loop '{iname}' lies inside the reduction over {', '.join(own)}, and has no constant extent",
                ("each of its values would need an accumulator of its own",),
                (f"split '{iname}' and keep its outer loop outside of the reduction",),
                sites=(instruction.site(),),
            )
        ],
    )


def _joined(joined: Mapping[str, int | None], nested: Lowered) -> Lowered:
    """Return a statement of a nested reduction with the inames *joined* of the outer one added to its own."""
    part = nested.part
    assert not isinstance(part, Assign), f"{nested.name} belongs to no reduction"
    own = part.reduction
    return replace(nested, part=replace(part, reduction=replace(own, joined={**joined, **own.joined})))


def one_term(
    domain: isl.Set, nest: tuple[str, ...], own: Sequence[str]
) -> tuple[isl.Set, tuple[str, ...], Mapping[str, Affine]]:
    """Return domain, loops and values of *own* inames; those of a reduction with one term have values and no loops."""
    outer = tuple(x for x in nest if x not in own)
    left, fixed = single_values(reorder(domain, nest, (*outer, *own)), outer, own)
    return (left, outer, fixed) if fixed else (domain, nest, {})


def with_values(
    inner: Expression, reads: list[Access], fixed: Mapping[str, Affine]
) -> tuple[Expression, list[Access]]:
    """Return a term and its reads, with the inames *fixed* substituted."""
    if not fixed:
        return inner, reads
    inner = substitute(inner, {name: to_expression(form) for name, form in fixed.items()})
    values = {name: to_expression(form) for name, form in fixed.items()}
    return inner, [
        replace(
            read,
            indices=_substituted(read.indices, fixed),
            computed=tuple(None if part is None else substitute(part, values) for part in read.computed),
        )
        for read in reads
    ]


def _substituted(
    indices: tuple[Affine | None, ...], values: Mapping[str, Affine]
) -> tuple[Affine | None, ...]:
    return tuple(None if form is None else form.substitute(values) for form in indices)


def access_of(
    expr: Expression, visible: frozenset[str], kind: AccessKind = Other.OWN, guards: tuple[Guard, ...] = ()
) -> Access:
    """Return the access that *expr* (a variable, a subscript, or a field of one) makes."""
    fields = field_path(expr)
    expr = element_of(expr)
    if isinstance(expr, p.Variable):
        return Access(expr.name, (), kind, fields=fields, guards=guards)
    assert isinstance(expr, p.Subscript)
    forms: list[Affine | None] = []
    computed: list[Expression | None] = []
    for index in expr.index_tuple:
        form = affine_of(index)
        forms.append(form if form is not None and form.names() <= visible else None)
        own = forms[-1] is None and variables(index) <= visible and is_computed(index)
        computed.append(index if own else None)
    found = tuple(computed) if any(part is not None for part in computed) else ()
    return Access(array_name(expr), tuple(forms), kind, fields=fields, guards=guards, computed=found)


