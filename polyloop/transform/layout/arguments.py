"""``set_argument_order``, ``rename_argument``, ``remove_unused_arguments``: the argument list of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import substitute, variables
from polyloop.kernel.arrays import Argument, ArrayArg
from polyloop.kernel.instruction import Evaluation, Instruction, Move, Origin, Term
from polyloop.kernel.kernel import Condition, Domain, LoopKernel
from polyloop.kernel.layout import Auto, Strided
from polyloop.poly.affine import Affine
from polyloop.program.reference import reference_of
from polyloop.transform.base import Transform, new_name_violations
from polyloop.transform.parameters import ArgumentName, ArgumentNames, NewName
from polyloop.verification.bounds import bounds_conditions

__all__ = ["RemoveUnusedArguments", "RenameArgument", "SetArgumentOrder"]

_PARAM = isl.dim_type.param


def _on_both(kernel: LoopKernel, change: Callable[[LoopKernel], LoopKernel]) -> LoopKernel:
    """Return *kernel* and its reference program with the same change to their arguments."""
    result = change(kernel)
    if kernel.reference is None:
        return result
    return replace(result, reference=reference_of(change(kernel.reference.kernel)))


@dataclass(frozen=True)
class SetArgumentOrder(Transform):
    """Put the arguments of the generated function in an order.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]")
    >>> print(*(argument.name for argument in knl.arguments))
    b a n
    >>> print(*(argument.name for argument in knl.set_argument_order("n, a").arguments))
    n a b

    Parameters
    ----------
    arg_names
        ``"n, out"`` or a sequence.  Arguments that are not named follow in the order that they had.

    Raises
    ------
    TransformError
        ``unknown-argument``, ``name-taken``.

    Notes
    -----
    Changes what a caller passes; a call with names stays as it is.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    arg_names: ArgumentNames

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        known = [argument.name for argument in kernel.arguments]
        for name in dict.fromkeys(self.arg_names):
            if name not in known:
                yield unknown_name("argument", name, known)
            elif self.arg_names.count(name) > 1:
                yield Diagnostic("name-taken", f"argument '{name}' stands twice in the order", hints=("name it once",))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def ordered(old: LoopKernel) -> LoopKernel:
            by_name = {argument.name: argument for argument in old.arguments}
            rest = [name for name in by_name if name not in self.arg_names]
            return replace(old, arguments=tuple(by_name[name] for name in (*self.arg_names, *rest)))

        return _on_both(kernel, ordered)


@dataclass(frozen=True)
class RenameArgument(Transform):
    """Give an argument another name: an array, a scalar or a size.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*a[i]")
    >>> print(*knl.rename_argument("a", "x").instructions)
    b[i] = 2*x[i]

    Parameters
    ----------
    old_name, new_name
        The argument, and its new name.

    Raises
    ------
    TransformError
        ``unknown-argument``, ``bad-identifier``, ``reserved-name``, ``name-taken``, ``staged-by-c``.

    Notes
    -----
    Changes what a caller passes.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    old_name: ArgumentName
    new_name: NewName

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        known = [argument.name for argument in kernel.arguments]
        if self.old_name not in known:
            yield unknown_name("argument", self.old_name, known)
            return
        problem = check_identifier(self.new_name, "argument")
        if problem is not None:
            yield problem
        yield from new_name_violations(kernel, (self.new_name,))
        if self.new_name in _written_inames(kernel) and self.new_name not in kernel.inames:
            message = f"'{self.new_name}' is an iname of the program as it was written"
            yield Diagnostic("name-taken", message, hints=("choose another name",))
        for instruction in kernel.instructions:
            if instruction.is_c and self.old_name in {*instruction.reads, *instruction.writes}:
                yield Diagnostic(
                    "staged-by-c",
                    f"the C text of '{instruction.id}' names '{self.old_name}'",
                    hints=("keep the name: the text is not changed",),
                    sites=(instruction.site(),),
                )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return _on_both(kernel, _Renaming(self.old_name, self.new_name).kernel)


def _written_inames(kernel: LoopKernel) -> frozenset[str]:
    """Return the inames of the reference program."""
    return frozenset() if kernel.reference is None else frozenset(kernel.reference.kernel.inames)


class _Renaming:
    """One name of an argument changed, wherever a kernel has it."""

    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new

    def name(self, name: str) -> str:
        return self.new if name == self.old else name

    def expression(self, expr: Expression) -> Expression:
        return substitute(expr, {self.old: p.Variable(self.new)})

    def extents(self, extents: tuple[Expression, ...] | None) -> tuple[Expression, ...] | None:
        return None if extents is None else tuple(map(self.expression, extents))

    def set(self, domain: isl.Set) -> isl.Set:
        position = domain.find_dim_by_name(_PARAM, self.old)
        return domain if position < 0 else domain.set_dim_name(_PARAM, position, self.new)

    def origin(self, origin: Origin) -> Origin:
        values = {self.old: Affine.variable(self.new)}
        forms = {name: form.substitute(values) for name, form in origin.forms.items()}
        match origin:
            case Evaluation():
                return replace(origin, rule=self.name(origin.rule), forms=forms)
            case Move():
                return replace(origin, array=self.name(origin.array), forms=forms)
            case _:
                return replace(origin, forms=forms)

    def argument(self, old: Argument) -> Argument:
        if not isinstance(old, ArrayArg):
            owner = None if old.layout_of is None else self.name(old.layout_of)
            return replace(old, name=self.name(old.name), layout_of=owner)
        tags = old.dim_tags
        if isinstance(tags, tuple):
            tags = tuple(
                Strided(self.expression(tag.stride)) if isinstance(tag, Strided) and tag.stride is not None else tag
                for tag in tags
            )
        return replace(
            old,
            name=self.name(old.name),
            shape=self.extents(old.shape),
            strides=self.extents(old.strides),
            offset=old.offset if isinstance(old.offset, Auto) else self.expression(old.offset),
            dim_tags=tags,
        )

    def instruction(self, old: Instruction) -> Instruction:
        new = replace(
            old,
            domain=self.set(old.domain),
            terms=tuple(Term(term.inames, self.set(term.domain)) for term in old.terms),
            assignee=self.expression(old.assignee),
            expression=self.expression(old.expression),
            predicates=tuple(map(self.expression, old.predicates)),
            origin=self.origin(old.origin),
            reads=frozenset(map(self.name, old.reads)),
        )
        return new if str(new) == str(old) else replace(new, place=new.place.changed())

    def kernel(self, kernel: LoopKernel) -> LoopKernel:
        rules = {
            name: rule.mapped(self.expression) for name, rule in kernel.substitutions.items()
        }
        temporaries = {name: replace(t, shape=self.extents(t.shape)) for name, t in kernel.temporaries.items()}
        result = replace(
            kernel,
            parameters=tuple(map(self.name, kernel.parameters)),
            assumptions=self.set(kernel.assumptions),
            domains=tuple(Domain(piece.inames, self.set(piece.set)) for piece in kernel.domains),
            instructions=tuple(map(self.instruction, kernel.instructions)),
            arguments=tuple(map(self.argument, kernel.arguments)),
            temporaries=temporaries,
            substitutions=rules,
            buffers={name: self.name(array) for name, array in kernel.buffers.items()},
            conditions=(),
        )
        return replace(result, conditions=_conditions(kernel, result))


def _conditions(before: LoopKernel, after: LoopKernel) -> tuple[Condition, ...]:
    """Return the conditions of *after*, if *before* had any."""
    return bounds_conditions(after) if before.conditions else ()


@dataclass(frozen=True)
class RemoveUnusedArguments(Transform):
    """Drop the arguments that no instruction, no loop bound and no used array mentions.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*a[i]", [pl.ValueArg("unused", np.int32), ...])
    >>> print(*(argument.name for argument in knl.arguments))
    unused b a
    >>> print(*(argument.name for argument in knl.remove_unused_arguments().arguments))
    b a

    Raises
    ------
    TransformError
        Never.

    Notes
    -----
    Changes what a caller passes.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        used = _used(kernel)
        if kernel.reference is not None:
            used |= _used(kernel.reference.kernel)
        gone = {argument.name for argument in kernel.arguments} - used
        return _on_both(kernel, lambda old: _without(old, gone)) if gone else kernel

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        left = {argument.name for argument in after.arguments}
        gone = [argument.name for argument in before.arguments if argument.name not in left]
        return f"removed {', '.join(gone)}" if gone else "all arguments are used"


def _sets(kernel: LoopKernel) -> Iterator[isl.Set]:
    for piece in kernel.domains:
        yield piece.set
    for instruction in kernel.instructions:
        yield instruction.domain
        for term in instruction.terms:
            yield term.domain


def _used(kernel: LoopKernel) -> set[str]:
    """Return the names that instructions, loops and used arrays mention."""
    used: set[str] = set()
    for instruction in kernel.instructions:
        used.update(instruction.reads, instruction.writes)
        used |= variables(instruction.assignee).union(*map(variables, instruction.predicates))
    for domain in _sets(kernel):
        names = [(position, domain.get_dim_name(_PARAM, position) or "") for position in range(domain.dim(_PARAM))]
        used.update(name for position, name in names if domain.involves_dims(_PARAM, position, 1))
    for rule in kernel.substitutions.values():
        used |= variables(rule.value)
    shapes = [temporary.shape or () for temporary in kernel.temporaries.values()]
    used.update(name for shape in shapes for extent in shape for name in variables(extent))
    arrays = [argument for argument in kernel.arguments if isinstance(argument, ArrayArg) and argument.name in used]
    for array in arrays:
        parts = [*(array.shape or ()), *(array.strides or ())]
        parts += [] if isinstance(array.offset, Auto) else [array.offset]
        used.update(name for part in parts for name in variables(part))
    for argument in kernel.arguments:
        if not isinstance(argument, ArrayArg) and argument.layout_of in {array.name for array in arrays}:
            used.add(argument.name)
    return used


def _without(kernel: LoopKernel, gone: Collection[str]) -> LoopKernel:
    def kept(domain: isl.Set) -> isl.Set:
        for name in gone:
            position = domain.find_dim_by_name(_PARAM, name)
            if position >= 0:
                domain = domain.project_out(_PARAM, position, 1)
        return domain

    instructions = [
        replace(i, domain=kept(i.domain), terms=tuple(Term(t.inames, kept(t.domain)) for t in i.terms))
        for i in kernel.instructions
    ]
    result = replace(
        kernel,
        parameters=tuple(name for name in kernel.parameters if name not in gone),
        assumptions=kept(kernel.assumptions),
        domains=tuple(Domain(piece.inames, kept(piece.set)) for piece in kernel.domains),
        instructions=tuple(instructions),
        arguments=tuple(argument for argument in kernel.arguments if argument.name not in gone),
        conditions=(),
    )
    return replace(result, conditions=_conditions(kernel, result))
