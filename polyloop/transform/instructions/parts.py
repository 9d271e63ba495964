"""``split_instruction``: some instances of an instruction as an instruction of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import islpy as isl

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.kernel.domains import align, parameters_of
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.domain_text import parse_domain
from polyloop.transform.base import Transform
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.nests import nest_violations
from polyloop.transform.parameters import InsnMatch, NewName

__all__ = ["SplitInstruction"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


@dataclass(frozen=True)
class SplitInstruction(Transform):
    """Divide the instances of an instruction between two instructions (index-set splitting).

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 16}", "b[i] = 2*a[i] {id=set}")
    >>> knl = knl.split_instruction("id:set", "i < 4", new_id="rest")
    >>> print(body(knl.duplicate_inames("i", "id:rest")))
    for (int i = 0; i < 4; ++i)
        b[i] = 2.0f * a[i];  // set
    for (int i_0 = 4; i_0 < 16; ++i_0)
        b[i_0] = 2.0f * a[i_0];

    Each of the two can go to another nest then: :func:`duplicate_inames` and :func:`distribute_loops` give it loops of
    its own, :func:`fuse_loops` lets it share those of others.

    Parameters
    ----------
    within
        Match expression that means one instruction.
    condition
        In ISL's syntax, of the inames of its loops and of sizes: ``"i < 4"``.  The instruction keeps the instances that
        fulfil it.
    new_id
        Id of the instruction that executes the others, behind it; by default ``{id}_rest``.

    Returns
    -------
    LoopKernel
        Both stay in the loops that they share.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``no-match``, ``bad-instructions`` where several are meant; ``syntax-domain``,
        ``unknown-iname``; ``empty-part`` where one of the two would execute nothing; ``name-taken``,
        ``bad-identifier``.

    Notes
    -----
    Source: U. Banerjee, "Speedup of ordinary programs", University of Illinois, 1979; M. Griebl, P. Feautrier and
    C. Lengauer, "Index set splitting", IJPP 28(6), 2000.
    """

    within: InsnMatch
    condition: str
    new_id: NewName | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(selection_violations(kernel, self.within, self.name)):
            yield from found
            return
        ids = selected(kernel, self.within, self.name)
        if len(ids) != 1:
            message = f"'{self.within}' means {len(ids)} instructions"
            hints = (f"name one: {', '.join(f'id:{name}' for name in ids[:4])}",)
            yield Diagnostic("bad-instructions", message, hints=hints)
            return
        instruction = kernel.instruction(ids[0])
        known = (*instruction.inames, *kernel.parameters)
        try:
            condition = parse_domain(f"{{ : {self.condition} }}", self.name)
        except KernelError as error:
            yield from error.found
            return
        if unknown := [name for name in parameters_of(condition) if name not in known]:
            yield unknown_name("iname", unknown[0], known)
            return
        for part, what in zip(self._parts(kernel, instruction), ("", "not "), strict=True):
            if part.is_empty():
                message = f"no instance of '{instruction.id}' fulfils {what}({self.condition})"
                hints = ("there is nothing to split",)
                yield Diagnostic("empty-part", message, hints=hints, sites=(instruction.site(),))
        if self.new_id is not None:
            if problem := check_identifier(self.new_id, "id of an instruction"):
                yield problem
            if any(i.id == self.new_id for i in kernel.instructions):
                message = f"an instruction is already called '{self.new_id}'"
                yield Diagnostic("name-taken", message, hints=("choose another id",))

    def _condition(self, inames: tuple[str, ...], domain: isl.Set) -> isl.Set:
        """Return the condition as a set over *inames*, with the parameters of *domain*."""
        condition = parse_domain(f"{{ : {self.condition} }}", self.name)
        condition = condition if condition.is_params() else condition.params()
        condition = condition.from_params()
        for name in inames:
            at = condition.find_dim_by_name(_PARAM, name)
            position = condition.dim(_SET)
            if at < 0:
                condition = condition.add_dims(_SET, 1).set_dim_name(_SET, position, name)
            else:
                condition = condition.move_dims(_SET, position, _PARAM, at, 1)
        return align(condition, domain)

    def _parts(self, kernel: LoopKernel, instruction: Instruction) -> tuple[isl.Set, isl.Set]:
        domain = instruction.domain
        condition = self._condition(instruction.inames, domain)
        possible = domain.intersect_params(align(kernel.assumptions, domain).params())
        return possible.intersect(condition), possible.subtract(condition)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        (name,) = selected(kernel, self.within, self.name)
        taken = {i.id for i in kernel.instructions}
        new = self.new_id or kernel.fresh(f"{name}_rest", taken)
        instructions: list[Instruction] = []
        for instruction in kernel.instructions:
            if instruction.id == name:
                instructions.append(self._part(instruction, inside=True))
                instructions.append(replace(self._part(instruction, inside=False), id=new))
            elif name in instruction.depends_on:
                instructions.append(replace(instruction, depends_on=instruction.depends_on | {new}))
            else:
                instructions.append(instruction)
        return replace(kernel, instructions=tuple(instructions))

    def _part(self, instruction: Instruction, *, inside: bool) -> Instruction:
        def part(inames: tuple[str, ...], domain: isl.Set) -> isl.Set:
            condition = self._condition(inames, domain)
            return (domain.intersect(condition) if inside else domain.subtract(condition)).coalesce()

        terms = tuple(replace(term, domain=part(term.inames, term.domain)) for term in instruction.terms)
        return replace(instruction, domain=part(instruction.inames, instruction.domain), terms=terms)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return nest_violations(after)
