"""``to_batched``: one program for a batch of problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.creation.array_layout import layout_violations, with_layouts
from polyloop.creation.create import complete_kernel
from polyloop.errors import Diagnostic, KernelError, TransformError, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.arrays import AddressSpace, Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.domains import align
from polyloop.kernel.instruction import (
    Carry,
    Copy,
    ExplicitBarrier,
    Instruction,
    Move,
    Origin,
    Partial,
    SubstitutionRule,
    Term,
)
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.layout import Nested, Strided, packed
from polyloop.kernel.tags import Sequential
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows, parameter_space
from polyloop.transform.base import Transform
from polyloop.transform.instructions.matching import reference_id
from polyloop.transform.layout.storage import array_violations, tagged, tags_of
from polyloop.transform.parameters import ArgumentNames, NewName
from polyloop.verification.bounds import bounds_violations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["ToBatched"]

_SET = isl.dim_type.set


@dataclass(frozen=True)
class ToBatched(Transform):
    """Run the program for each problem of a batch.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "y[i] = a*x[i]")
    >>> print(*knl.to_batched("nb", "x, y").instructions)
    y[ibatch, i] = a*x[ibatch, i]

    Parameters
    ----------
    nbatches
        The number of problems, or the name of the integer argument that says it, which is added if there is none.
    batch_varying_args
        Arguments that differ between problems: arrays get the batch as their first and slowest axis, scalars become
        arrays.
    batch_iname_prefix
        Name of the loop over problems; numbered if it is in use.
    sequential
        Whether problems run one after the other in any case.  Otherwise temporaries that all problems would share, in
        global memory, are kept once for each.

    Raises
    ------
    TransformError
        ``unknown-argument``, ``bad-value``, ``bad-layout``, ``name-taken``, ``bad-identifier``, ``reserved-name``,
        ``staged-by-c``, ``bad-instructions``.

    Notes
    -----
    Changes the meaning on purpose: the loop over problems is the outermost one, and tags decide how it runs.  Private
    and shared temporaries get no axis; ``privatize_temporaries_with_inames`` gives one.  Source: Loopy's transform of
    the same name.
    """

    changes_meaning: ClassVar[bool] = True
    nbatches: int | str
    batch_varying_args: ArgumentNames
    batch_iname_prefix: NewName = "ibatch"
    sequential: bool = False

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from self._count_violations(kernel)
        problem = check_identifier(self.batch_iname_prefix, "iname")
        if problem is not None:
            yield problem
        known = [argument.name for argument in kernel.arguments]
        for name in self.batch_varying_args:
            argument = kernel.argument(name)
            if argument is None:
                yield unknown_name("argument", name, known)
            elif isinstance(argument, ArrayArg):
                yield from _layout_violations(kernel, argument)
            elif name in kernel.parameters or argument.layout_of is not None:
                hints = ("problems of a batch have one size; leave it out",)
                yield Diagnostic("bad-value", f"'{name}' is a size, which cannot vary in a batch", hints=hints)
        for instruction in kernel.instructions:
            yield from _instruction_violations(instruction, self.batch_varying_args)

    def _count_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        count: object = self.nbatches
        if isinstance(count, str):
            problem = check_identifier(count, "parameter")
            if problem is not None:
                yield problem
            elif count in kernel.names() and count not in kernel.parameters:
                hints = ("choose another name",)
                yield Diagnostic("name-taken", f"'{count}' is in use, and no parameter", hints=hints)
        elif type(count) is not int or count < 0:
            hints = ("give the number of problems, or the name of the argument that says it",)
            yield Diagnostic("bad-value", f"there cannot be {count!r} problems in a batch", hints=hints)

    def _batch(self, kernel: LoopKernel) -> _Batch:
        base = kernel if kernel.reference is None else kernel.reference.kernel
        iname = kernel.fresh(self.batch_iname_prefix, base.names())
        numbers = [number for old in (kernel, base) for i in old.instructions for _, number in i.blocks]
        first = max(numbers, default=-1) + 1
        apart = frozenset(name for name in base.temporaries if _is_apart(base, name))
        if not self.sequential:
            apart |= {name for name, temporary in kernel.temporaries.items() if _is_large(kernel, temporary)}
        return _Batch(iname, self.nbatches, frozenset(self.batch_varying_args), apart, first)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        assert kernel.reference is not None, "a kernel has its reference program"
        batch = self._batch(kernel)
        base = batch.kernel(kernel.reference.kernel)
        open_ended = [replace(a, is_output=False) if isinstance(a, ArrayArg) else a for a in base.arguments]
        try:
            base = complete_kernel(replace(base, arguments=tuple(open_ended), conditions=()), None)
        except KernelError as error:
            raise TransformError(self.name, kernel.name, error.found) from error
        result = batch.kernel(kernel)
        tags = {batch.iname: Sequential()} if self.sequential else {}
        return replace(
            result,
            iname_tags={**result.iname_tags, **tags},
            arguments=base.arguments,
            assumptions=base.assumptions,
            conditions=base.conditions,
            reference=base.reference,
        )

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from bounds_violations(after)
        yield from layout_violations(after)
        yield from value_violations(after)
        yield from order_violations(after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        batch = self._batch(before)
        own = sorted(batch.temporaries & after.temporaries.keys())
        told = f"over {batch.iname}"
        return f"{told}; each problem has its own {', '.join(own)}" if own else told


def _layout_violations(kernel: LoopKernel, array: ArrayArg) -> Iterator[Diagnostic]:
    if array.shape and (found := tuple(array_violations(kernel, (array.name,)))):
        yield from found
    elif array.shape and (array.offset != 0 or not _is_nested(array)):
        message = f"'{array.name}' has strides or an offset that are numbers"
        hints = ("declare it with order or dim_tags, so that the batch can be its slowest axis",)
        yield Diagnostic("bad-layout", message, hints=hints)


def _is_nested(array: ArrayArg) -> bool:
    """Return whether another axis can be the slowest one: the strides follow from the extents."""
    tags = tags_of(array)
    return tags is not None and not any(isinstance(tag, Strided) for tag in tags)


def _instruction_violations(instruction: Instruction, varying: Collection[str]) -> Iterator[Diagnostic]:
    if instruction.is_c and not {*instruction.reads, *instruction.writes}.isdisjoint(varying):
        message = f"the C text of '{instruction.id}' names what varies in the batch"
        hints = ("the text is not changed: let it use what is the same for all problems",)
        yield Diagnostic("staged-by-c", message, hints=hints, sites=(instruction.site(),))
    if isinstance(instruction.origin, Carry):
        message = f"'{instruction.id}' saves or reloads a temporary"
        yield Diagnostic("bad-instructions", message, hints=("batch first",), sites=(instruction.site(),))


def _is_large(kernel: LoopKernel, temporary: TemporaryVariable) -> bool:
    """Return whether a temporary lives in global memory, where all problems would share it."""
    if temporary.initializer is not None or temporary.name in {*kernel.evaluations, *kernel.buffers, *kernel.partials}:
        return False
    is_open = any(not isinstance(extent, int | np.integer) for extent in temporary.shape or ())
    return temporary.address_space is AddressSpace.GLOBAL or (temporary.address_space is AddressSpace.AUTO and is_open)


def _group(kernel: LoopKernel, instruction: Instruction) -> int:
    """Return the number of top-level barriers before an instruction."""
    return sum(not barrier.blocks and reference_id(instruction) not in barrier.before for barrier in kernel.barriers)


def _is_apart(kernel: LoopKernel, name: str) -> bool:
    """Return whether a temporary is used on both sides of a barrier outside of all loops."""
    users = [i for i in kernel.instructions if name in i.reads or name in i.writes]
    return kernel.temporaries[name].initializer is None and len({_group(kernel, user) for user in users}) > 1


@dataclass(frozen=True)
class _Batch:
    """Extension of a kernel by a batch: a loop around everything, and an axis of arrays that differ between problems.

    Attributes
    ----------
    first
        Number of the written ``for`` block that stands around the instructions before the first barrier.
    """

    iname: str
    count: int | str
    arguments: frozenset[str]
    temporaries: frozenset[str]
    first: int

    @property
    def extent(self) -> Expression:
        """The number of problems, as an extent."""
        return p.Variable(self.count) if isinstance(self.count, str) else self.count

    def _rows(self) -> tuple[Row, Row]:
        last = [(self.iname, -1)]
        if isinstance(self.count, str):
            return Row(Affine.variable(self.iname)), Row(Affine.make([*last, (self.count, 1)], -1))
        return Row(Affine.variable(self.iname)), Row(Affine.make(last, self.count - 1))

    def _inside(self, domain: isl.Set, dims: Sequence[str]) -> isl.Set:
        """Return *domain* with the batch as its first dimension."""
        wider = domain.insert_dims(_SET, 0, 1).set_dim_name(_SET, 0, self.iname)
        for position, name in enumerate(dims, 1):
            wider = wider.set_dim_name(_SET, position, name)
        return add_rows(wider, (self.iname, *dims), self._rows())

    def expression(self, expr: Expression) -> Expression:
        """Return *expr* with the batch iname as first subscript of each array that varies between problems."""
        varying = self.arguments | self.temporaries

        def change(node: Expression) -> Expression:
            if not isinstance(node, p.Variable | p.Subscript) or array_name(node) not in varying:
                return node
            indices = (p.Variable(self.iname), *(node.index_tuple if isinstance(node, p.Subscript) else ()))
            return p.Subscript(p.Variable(array_name(node)), indices[0] if len(indices) == 1 else indices)

        return map_nodes(expr, change)

    def _origin(self, origin: Origin) -> Origin:
        if isinstance(origin, Copy | Partial):
            return replace(origin, forms={self.iname: Affine.variable(self.iname), **origin.forms})
        if isinstance(origin, Move) and origin.array in self.arguments | self.temporaries:
            moved = {str(int(number) + 1): form for number, form in origin.forms.items()}
            return replace(origin, forms={"0": Affine.variable(self.iname), **moved})
        return origin

    def _argument(self, old: Argument) -> Argument:
        if old.name not in self.arguments:
            return old
        if isinstance(old, ValueArg):
            shape = (self.extent,)
            return ArrayArg(old.name, old.dtype, shape, packed(shape, "C"))
        return self._longer(old)

    def _longer(self, old: ArrayArg) -> ArrayArg:
        tags = tags_of(old)
        assert tags is not None, "the layout was not checked"
        shape = (self.extent, *(old.shape or ()))
        level = sum(isinstance(tag, Nested) for tag in tags)
        names = None if old.dim_names is None else (self.iname, *old.dim_names)
        new = tagged(replace(old, shape=shape, strides=None, dim_names=names), (Nested(level), *tags))
        assert isinstance(new, ArrayArg), "an argument stays one"
        return new

    def _temporary(self, old: TemporaryVariable) -> TemporaryVariable:
        if old.name not in self.temporaries:
            return old
        tags = None if old.dim_tags is None else (Nested(len(old.dim_tags)), *old.dim_tags)
        return replace(old, shape=(self.extent, *(old.shape or ())), dim_tags=tags)

    def _block(self, number: int) -> tuple[str, int]:
        return self.iname, self.first + number

    def _barrier(self, kernel: LoopKernel, old: ExplicitBarrier) -> ExplicitBarrier:
        if not old.blocks:
            return old
        passed = sum(not other.blocks and other.before <= old.before for other in kernel.barriers)
        return replace(old, blocks=(self._block(passed), *old.blocks))

    def kernel(self, kernel: LoopKernel) -> LoopKernel:
        """Return *kernel* as one problem of the batch."""
        parameters = kernel.parameters
        arguments = [self._argument(old) for old in kernel.arguments]
        if isinstance(self.count, str) and self.count not in parameters:
            parameters = (*parameters, self.count)
            arguments.append(ValueArg(self.count, kernel.index_dtype))
        space = parameter_space(parameters)
        count = [Row(Affine.variable(self.count))] if isinstance(self.count, str) else []
        universe = isl.Set(f"[{', '.join(parameters)}] -> {{ [{self.iname}] }}")

        changed = self.arguments | self.temporaries

        def instruction(old: Instruction) -> Instruction:
            return replace(
                old,
                inames=(self.iname, *old.inames),
                domain=self._inside(align(old.domain, space), old.inames),
                terms=tuple(
                    Term((self.iname, *term.inames), self._inside(align(term.domain, space), term.inames))
                    for term in old.terms
                ),
                assignee=self.expression(old.assignee),
                expression=self.expression(old.expression),
                predicates=tuple(map(self.expression, old.predicates)),
                origin=self._origin(old.origin),
                blocks=(self._block(_group(kernel, old)), *old.blocks),
                place=old.place.changed() if {*old.reads, *old.writes} & changed else old.place,
            )

        rules: Mapping[str, SubstitutionRule] = {
            name: rule.mapped(self.expression)
            for name, rule in kernel.substitutions.items()
        }
        result = replace(
            kernel,
            parameters=parameters,
            assumptions=add_rows(align(kernel.assumptions, space), (), count),
            domains=(Domain((self.iname,), add_rows(universe, (self.iname,), self._rows())), *kernel.domains),
            instructions=tuple(map(instruction, kernel.instructions)),
            barriers=tuple(self._barrier(kernel, old) for old in kernel.barriers),
            arguments=tuple(arguments),
            temporaries={name: self._temporary(old) for name, old in kernel.temporaries.items()},
            substitutions=rules,
        )
        return with_layouts(result)
