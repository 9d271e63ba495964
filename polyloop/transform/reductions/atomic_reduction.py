"""``reduce_atomically``: partial results of a reduction, combined by atomic updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from typing import ClassVar, Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, TransformError
from polyloop.expr.dtypes import computed, dtype_name
from polyloop.expr.nodes import Expression, Lookup, Reduction
from polyloop.expr.operations import neutral_element
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.reads import with_reads
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import map_from_forms, project_onto, reorder
from polyloop.program.infer_types import dtype_table, untyped_operand
from polyloop.program.lower import Program, loop_order, lower
from polyloop.program.reference import reference_of
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.parameters import Inames, InsnMatch, NewName
from polyloop.transform.reductions.reduction import SplitReductionOutward
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["ReduceAtomically"]

_UPDATES: Final[Mapping[str, Callable[[Expression, Expression], Expression]]] = {
    "sum": lambda a, b: p.Sum((a, b)),
    "product": lambda a, b: p.Product((a, b)),
    "max": lambda a, b: p.Max((a, b)),
    "min": lambda a, b: p.Min((a, b)),
}
"""Atomic update of a variable by one value, for the operations that have one."""


@dataclass(frozen=True)
class ReduceAtomically(Transform):
    """Combine the partial results of a reduction by atomic updates, for blocks without a common barrier.

    >>> knl = pl.make_kernel("{[b, k]: 0 <= b < 8 and 0 <= k < 64}", "s = sum([b, k], a[b, k])")
    >>> print(knl.add_dtypes({"s": np.float32}).reduce_atomically("b"))
    kernel loop_kernel
    ...
    instructions:
        s = 0.0    {id=insn_init}
        [b]  s = s + sum(k, a[b, k])    {id=insn}

    Parameters
    ----------
    inames
        Inames of the reduction that become loops of the instruction, which can be tagged ``"g.0"`` then. The reduction
        over the remaining inames computes the partial results.
    within
        Match expression for the instruction; by default the only one with such a reduction.
    init_insn_id
        Id of the new instruction that assigns the neutral element; by default ``{id}_init``.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``reduction-not-split``, ``ordered-reduction``, ``several-reductions``,
        ``no-atomic-reduction``, ``unknown-dtype``, ``no-match``, ``unknown-instruction``, ``name-taken``.

    Notes
    -----
    The reference program changes too (``print(knl.reference)``); the new one is proven to combine the same terms.
    Threads combine floating-point numbers in any order, so two runs may differ in the last bits. A target without an
    atomic update of the type refuses it when code is generated (``unsupported-atomic``). Source: CUDA C++ Programming
    Guide, "Atomic Functions".
    """

    changes_meaning: ClassVar[bool] = True
    inames: Inames
    within: InsnMatch | None = None
    _: KW_ONLY
    init_insn_id: NewName | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if found := [*selection_violations(kernel, self.within, self.name)]:
            yield from found
            return
        meant = self._meant(kernel)
        if not meant:
            yield from SplitReductionOutward(self.inames, self.within).violations(kernel)
            return
        if len(meant) > 1:
            yield self._several(meant)
            return
        ((instruction, reduction),) = meant
        if (untyped := untyped_operand(kernel, instruction.assignee)) is not None:
            yield untyped
            return
        for problem, hint in _problems(kernel, instruction, reduction):
            yield Diagnostic(
                "no-atomic-reduction",
                f"'{instruction.id}' cannot become atomic updates: {problem}",
                hints=(hint,),
                sites=(instruction.site(),),
            )
            return
        if self.init_insn_id is not None and any(i.id == self.init_insn_id for i in kernel.instructions):
            message = f"an instruction is already called '{self.init_insn_id}'"
            yield Diagnostic("name-taken", message, hints=("choose another id",))

    def _several(self, meant: Sequence[tuple[Instruction, Reduction]]) -> Diagnostic:
        return Diagnostic(
            "several-reductions",
            f"{len(meant)} reductions are over {', '.join(map(repr, self.inames))}",
            hints=(f"name one instruction: within='id:{meant[0][0].id}'",),
            sites=tuple(instruction.site() for instruction, _ in meant[:2]),
        )

    def _meant(self, kernel: LoopKernel) -> list[tuple[Instruction, Reduction]]:
        """Return the reductions that are over the inames, with their instructions."""
        ids = set(selected(kernel, self.within, self.name))
        return [
            (i, r)
            for i in kernel.instructions
            if i.id in ids and not i.is_c
            for r in reductions(_expanded(kernel, i))
            if self.inames and set(self.inames) <= set(r.inames)
        ]

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        ((instruction, reduction),) = self._meant(kernel)
        if set(reduction.inames) != set(self.inames):
            kernel = SplitReductionOutward(self.inames, f"id:{instruction.id}").rewrite(kernel)
            instruction = kernel.instruction(instruction.id)
        taken = {i.id for i in kernel.instructions}
        init = self.init_insn_id or kernel.fresh(f"{instruction.id}_init", taken)
        assert kernel.reference is not None, "a kernel has its reference program"
        base = _with_copy(kernel, instruction)
        judged = replace(base, reference=kernel.reference)
        original = base.instruction(_origin(instruction).instruction)
        if not any((*value_violations(judged), *order_violations(judged))):
            for apart in (True, False) if _has_own_elements(kernel, instruction) else (False,):
                new = _divided(base, original, init, apart=apart)
                if _same_order(lower(base), lower(new), original.id, init):
                    result = _divided(kernel, instruction, init, apart=apart)
                    return replace(result, reference=reference_of(new))
        raise _loops_shared(self.name, kernel, instruction)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterator[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)


def _expanded(kernel: LoopKernel, instruction: Instruction) -> Expression:
    return expand_rules(instruction.expression, kernel.substitutions)


def _origin(instruction: Instruction) -> Copy:
    assert isinstance(instruction.origin, Copy), "what a transform made is no instruction of the program"
    return instruction.origin


def _problems(kernel: LoopKernel, instruction: Instruction, reduction: Reduction) -> Iterator[tuple[str, str]]:
    """Yield pairs of a reason why *instruction* cannot use atomic updates, and a remedy."""
    origin, operation = instruction.origin, reduction.operation
    copies = [i for i in kernel.instructions if isinstance(i.origin, Copy) and isinstance(origin, Copy)
              and i.origin.instruction == origin.instruction]  # fmt: skip
    if not isinstance(origin, Copy) or len(copies) > 1:
        yield "transforms made it, or several of it", "reduce atomically before"
    elif instruction.atomic or isinstance(instruction.assignee, Lookup):
        yield "it is atomic already, or assigns a field", "assign a variable or an element"
    elif _expanded(kernel, instruction) != reduction:
        yield "its value is more than the reduction", "assign the reduction to a variable, and compute with that"
    elif reduction.along or reduction.start is not None:
        yield "it is a scan, whose results follow from each other", "reduce atomically what is no scan"
    elif operation.ordered:
        yield "its terms are combined in their order", "reduce without 'ordered' if any order will do"
    elif operation.combine or operation.name not in _UPDATES:
        yield f"'{operation}' has no atomic update", "sums, products, max and min have one"
    elif instruction.target in instruction.reads:
        yield f"its terms read '{instruction.target}'", "collect them in another variable"
    elif made := sorted(instruction.reads & {*kernel.evaluations, *kernel.buffers}):
        yield f"it reads '{made[0]}', which a transform made", "reduce atomically before, and fetch ahead after that"
    elif problem := _type_problem(kernel, instruction):
        yield problem, "let the array have the type of the terms"
    else:
        yield from _instance_problems(kernel, instruction)


def _not_in_the_program(kernel: LoopKernel, instruction: Instruction) -> list[str]:
    """Return the arrays of *instruction* that the program has not, or with other axes."""
    assert kernel.reference is not None, "a kernel has its reference program"
    shapes = {name: array.shape for name, array in kernel.reference.kernel.arrays().items()}
    used = {name: array for name, array in kernel.arrays().items() if name in {*instruction.reads, instruction.target}}
    return sorted(name for name, array in used.items() if name not in shapes or shapes[name] != array.shape)


def _type_problem(kernel: LoopKernel, instruction: Instruction) -> str:
    dtype = kernel.arrays()[instruction.target].dtype
    value = infer(_expanded(kernel, instruction), dtype_table(kernel).get)
    if dtype is None or value is None or computed(value) == dtype:
        return ""
    return f"'{instruction.target}' is {dtype_name(dtype)}, and its terms are added as {dtype_name(computed(value))}"


def _instance_problems(kernel: LoopKernel, instruction: Instruction) -> Iterator[tuple[str, str]]:
    if changed := _not_in_the_program(kernel, instruction):
        yield f"a transform made '{changed[0]}', or changed its axes", "reduce atomically before"
        return
    sets = (instruction.domain, *(term.domain for term in instruction.terms))
    if any(bound_variables(used, kernel.parameters) for used in sets):
        yield "data decides about its loops", "leave it as it is"
        return
    if any(s.joined for s in lower(kernel).statements.values() if s.instruction is instruction):
        yield "its terms read what is set in the loop over them", "let a temporary have an element for each iteration"
        return
    indices = [affine_of(index) for index in getattr(instruction.assignee, "index_tuple", ())]
    known = {*instruction.inames, *kernel.parameters}
    if any(form is None or not form.names() <= known for form in indices):
        yield "data decides which element it assigns", "let its subscripts be affine"


def _has_own_elements(kernel: LoopKernel, instruction: Instruction) -> bool:
    """Return whether each instance assigns an element of its own."""
    indices = [affine_of(index) for index in getattr(instruction.assignee, "index_tuple", ())]
    forms = [form for form in indices if form is not None]
    domain = instruction.domain.intersect_params(kernel.assumptions)
    return bool(map_from_forms(domain, instruction.inames, forms).is_injective())


def _divided(kernel: LoopKernel, old: Instruction, name: str, *, apart: bool) -> LoopKernel:
    """Return *kernel* with *old*, the assignment of a reduction, replaced by an initialisation and atomic updates.

    The assignment has loops of its own (*apart*), or shares those of the updates.
    """
    reduction = _expanded(kernel, old)
    assert isinstance(reduction, Reduction), f"{old.id} is no reduction"
    first, *rest = old.terms
    dtype = kernel.arrays()[old.target].dtype
    assert dtype is not None, f"'{old.target}' has no type"
    plain = replace(reduction.operation, of_states=False)
    start = replace(
        old, id=name, expression=neutral_element(plain, dtype), terms=(),
        origin=Copy(name, {x: Affine.variable(x) for x in old.inames}),
    )  # fmt: skip
    if apart:
        fresh = 1 + max((number for i in kernel.instructions for _, number in i.blocks), default=0)
        start = replace(start, blocks=tuple((x, fresh) for x in old.inames))
    nest = loop_order(first.inames, kernel.loop_priority)
    domain = reorder(first.domain, first.inames, nest)
    domain = domain.intersect(_lifted(old, first, nest))
    terms = tuple(_behind(term, nest) for term in rest)
    bound = {x for term in terms for x in term.inames} - {*nest}
    update = replace(
        old, inames=nest, domain=domain, terms=terms, atomic=True,
        expression=_UPDATES[plain.name](old.assignee, reduction.expr),
        origin=Copy(_origin(old).instruction, {x: Affine.variable(x) for x in (*nest, *sorted(bound))}),
        depends_on=old.depends_on | {name},
    )  # fmt: skip
    instructions = [part for i in kernel.instructions for part in ((start, update) if i is old else (i,))]
    barriers = tuple(
        replace(b, before=b.before | {name}) if _origin(old).instruction in b.before else b for b in kernel.barriers
    )
    return with_reads(replace(kernel, instructions=tuple(instructions), barriers=barriers))


def _lifted(instruction: Instruction, term: Term, nest: tuple[str, ...]) -> isl.Set:
    """Return the instances of *instruction*, for every value of the inames of *term*."""
    more = [x for x in term.inames if x not in instruction.inames]
    whole = instruction.domain.insert_dims(isl.dim_type.set, len(instruction.inames), len(more))
    return reorder(whole, (*instruction.inames, *more), nest)


def _behind(term: Term, nest: tuple[str, ...]) -> Term:
    inames = (*nest, *(x for x in term.inames if x not in nest))
    return Term(inames, reorder(term.domain, term.inames, inames))


def _with_copy(kernel: LoopKernel, instruction: Instruction) -> LoopKernel:
    """Return the reference program with *instruction*, in its present form, in place of its original."""
    assert kernel.reference is not None, "a kernel has its reference program"
    base = kernel.reference.kernel
    original = _origin(instruction).instruction
    used = {*instruction.inames, *(x for term in instruction.terms for x in term.inames)}
    domains = [*base.domains]
    for piece in kernel.domains:
        new = [x for x in piece.inames if x in used and x not in base.inames]
        if new:
            left = [x for x in piece.inames if x in used]
            within = project_onto(piece.set, piece.inames, left)
            for position in range(len(left) - 1, -1, -1):
                if left[position] not in new:
                    count = within.dim(isl.dim_type.param)
                    within = within.move_dims(isl.dim_type.param, count, isl.dim_type.set, position, 1)
            domains.append(Domain(tuple(new), within))
    stands = replace(instruction, id=original, expression=_expanded(kernel, instruction))
    parts = tuple(stands if i.id == original else i for i in base.instructions)
    return replace(base, domains=tuple(domains), instructions=parts)


def _same_order(one: Program, other: Program, name: str, init: str) -> bool:
    """Return whether all instances run in the same order, where *name* became an assignment and updates."""
    mine = [s for s, statement in one.statements.items() if statement.instruction.id == name]
    made = [s for s, statement in other.statements.items() if statement.instruction.id in (name, init)]
    rest = [s for s in one.statements if s not in mine]
    if {*rest} != {s for s in other.statements if s not in made}:
        return False
    if any(_relation(one, a, b) != _relation(other, a, b) for a, b in combinations(rest, 2)):
        return False
    return all(
        len({*(_relation(one, a, b) for b in mine), *(_relation(other, a, b) for b in made)}) == 1 for a in rest
    )


def _relation(program: Program, first: str, second: str) -> tuple[tuple[object, ...], bool]:
    """Return the common loops of two statements, and whether *first* precedes *second* inside them."""
    a, b = program.places[first], program.places[second]
    depth = 0
    while a[depth] == b[depth]:
        depth += 1
    return tuple(x for x in a[:depth] if isinstance(x, str)), bool(a[depth] < b[depth])  # type: ignore[operator]


def _loops_shared(operation: str, kernel: LoopKernel, instruction: Instruction) -> TransformError:
    problem = Diagnostic(
        "no-atomic-reduction",
        f"'{instruction.id}' cannot become atomic updates: other instructions share its loops",
        ("an assignment and updates in its place would run in another order beside them",),
        ("let it have loops of its own: distribute_loops, or an array with an element for each iteration",),
        sites=(instruction.site(),),
    )
    return TransformError(operation, kernel.name, [problem])
