"""``concatenate_arrays``: several arrays become parts of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pymbolic.primitives as p

from polyloop.creation.array_layout import layout_violations, with_layouts
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import dtype_name
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable
from polyloop.kernel.instruction import Carry, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import packed
from polyloop.poly.affine import affine_of, to_expression
from polyloop.program.reference import in_loops_of, restated
from polyloop.transform.base import Transform, new_name_violations
from polyloop.transform.layout.storage import array_violations, axis_number
from polyloop.transform.parameters import ArrayNames, Axis, NewName
from polyloop.verification.bounds import bounds_conditions, bounds_violations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["ConcatenateArrays"]


@dataclass(frozen=True)
class ConcatenateArrays(Transform):
    """Put several arrays behind each other, into one array.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 4}", "c[i] = a[i] + b[i]")
    >>> print(*knl.concatenate_arrays("a, b").instructions)
    c[i] = a_b[i] + a_b[i + 4]

    Parameters
    ----------
    array_names
        Arguments, or temporaries, of one type, whose extents agree but for one axis.
    new_name
        Name of the new array; by default the names joined by ``_``.
    axis_nr
        The axis of concatenation, from 0, or its name.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-axis``, ``bad-value``, ``wrong-rank``, ``bad-layout``, ``name-taken``,
        ``bad-identifier``, ``reserved-name``, ``staged-by-c``.

    Notes
    -----
    The program gets the new array, too.  Arguments are part of the calling convention: callers then pass one array,
    with all of its elements even where parts of it are results only.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    array_names: ArrayNames
    new_name: NewName | None = None
    axis_nr: Axis = 0

    def resolved(self, kernel: LoopKernel) -> ConcatenateArrays:
        return replace(self, axis_nr=axis_number(kernel, self.array_names, self.axis_nr, self.name))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(array_violations(kernel, self.array_names)):
            yield from found
            return
        if len(set(self.array_names)) != len(self.array_names) or len(self.array_names) < 2:
            hints = ("name two arrays or more, each once",)
            message = f"{', '.join(self.array_names) or 'nothing'} cannot become one array"
            yield Diagnostic("bad-value", message, hints=hints)
            return
        if self.new_name is not None and self.new_name not in self.array_names:
            problem = check_identifier(self.new_name, "array")
            if problem is not None:
                yield problem
            yield from new_name_violations(kernel, (self.new_name,))
        if found := tuple(finding for name in self.array_names for finding in _own_violations(kernel, name)):
            yield from found
            return
        first, *others = (kernel.arrays()[name] for name in self.array_names)
        axis: object = self.axis_nr
        if type(axis) is not int or not 0 <= axis < len(first.shape or ()):
            message = f"'{first.name}' has {len(first.shape or ())} axes, and no axis {axis!r}"
            yield Diagnostic("wrong-rank", message, hints=("axes count from 0",))
            return
        for other in others:
            yield from self._pair_violations(first, other)

    def _pair_violations(
        self, first: ArrayArg | TemporaryVariable, other: ArrayArg | TemporaryVariable
    ) -> Iterator[Diagnostic]:
        """Yield ``bad-layout`` if two arrays differ in rank, kind, type, or extents other than along the axis."""
        kinds = [_kind(array) for array in (first, other)]
        dtypes = ["unknown" if array.dtype is None else dtype_name(array.dtype) for array in (first, other)]
        shapes = [_across(array, self.axis_nr) for array in (first, other)]
        ranks = [f"{len(array.shape or ())} axes" for array in (first, other)]
        named = (("", ranks), ("", kinds), ("elements of type ", dtypes), ("extents across of ", shapes))
        for what, (one, two) in named:
            if one != two:
                yield Diagnostic(
                    "bad-layout",
                    f"'{first.name}' and '{other.name}' cannot be parts of one array",
                    (f"'{first.name}' has {what}{one}, '{other.name}' {what}{two}",),
                    ("name arrays that differ along the axis only",),
                )
                return

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        new = self._name(kernel)
        result = in_loops_of(_Joining(self.array_names, new, self.axis_nr).kernel(kernel), kernel)
        assert kernel.reference is not None, "a kernel has its reference program"
        base = _Joining(self.array_names, new, self.axis_nr).kernel(kernel.reference.kernel)
        base = replace(base, conditions=bounds_conditions(base))
        return replace(result, conditions=base.conditions, reference=restated(kernel.reference, base))

    def _name(self, kernel: LoopKernel) -> str:
        if self.new_name is not None:
            return self.new_name
        taken = () if kernel.reference is None else kernel.reference.kernel.names()
        return kernel.fresh("_".join(self.array_names), taken)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from bounds_violations(after)
        yield from layout_violations(after)
        yield from value_violations(after)
        yield from order_violations(after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        array = after.arrays()[self._name(before)]
        return f"{array.name}[{', '.join(map(show, array.shape or ()))}]"


def _kind(array: ArrayArg | TemporaryVariable) -> str:
    if isinstance(array, ArrayArg):
        return "elements that a caller passes" + (f", in {array.order} order" if len(array.shape or ()) > 1 else "")
    return f"a place in {array.address_space} memory"


def _across(array: ArrayArg | TemporaryVariable, axis: int) -> str:
    """Return the extents along all axes but one."""
    return ", ".join(show(extent) for at, extent in enumerate(array.shape or ()) if at != axis) or "nothing"


def _own_violations(kernel: LoopKernel, name: str) -> Iterator[Diagnostic]:
    """Yield the reasons why an array cannot be a part of another one."""
    array = kernel.arrays()[name]
    carried = {i.origin.temporary for i in kernel.instructions if isinstance(i.origin, Carry)}
    written = kernel if kernel.reference is None else kernel.reference.kernel
    made = {*kernel.evaluations, *kernel.partials, *kernel.buffers, *kernel.buffers.values(), *carried}
    own = written.arrays().get(name)
    if own is None or name in made or len(own.shape or ()) != len(array.shape or ()):
        message = f"'{name}' was made, or is worked on, by an earlier transform"
        yield Diagnostic("bad-layout", message, hints=("concatenate arrays first",))
    elif isinstance(array, ArrayArg) and not (array.is_packed and array.dim_tags is None and array.offset == 0):
        message = f"the elements of '{name}' do not lie in C or F order from its beginning on"
        yield Diagnostic("bad-layout", message, hints=("choose the layout of the whole: tag_array_axes afterwards",))
    elif isinstance(array, TemporaryVariable) and (array.dim_tags or array.padding or array.base_storage):
        message = f"a layout was chosen for '{name}'"
        yield Diagnostic("bad-layout", message, hints=("choose the layout of the whole: tag_array_axes afterwards",))
    for instruction in kernel.instructions:
        if instruction.is_c and name in {*instruction.reads, *instruction.writes}:
            yield Diagnostic(
                "staged-by-c",
                f"the C text of '{instruction.id}' names '{name}'",
                hints=(f"leave '{name}' out: the text is not changed",),
                sites=(instruction.site(),),
            )


def _sum(one: Expression, two: Expression) -> Expression:
    total = p.Sum((one, two))
    form = affine_of(total)
    return total if form is None else to_expression(form)


class _Joining:
    """Arrays as parts of a new one, wherever a kernel has them."""

    def __init__(self, names: Sequence[str], new: str, axis: int) -> None:
        self.names = names
        self.new = new
        self.axis = axis
        self.begins: Mapping[str, Expression] = {}

    def kernel(self, kernel: LoopKernel) -> LoopKernel:
        arrays = [kernel.arrays()[name] for name in self.names]
        begins: dict[str, Expression] = {}
        total: Expression = 0
        for array in arrays:
            begins[array.name] = total
            total = _sum(total, (array.shape or ())[self.axis])
        self.begins = begins
        whole = self._whole(arrays, total)
        rules = {
            name: rule.mapped(self.expression)
            for name, rule in kernel.substitutions.items()
        }
        arguments: list[Argument] = []
        for argument in kernel.arguments:
            if isinstance(whole, ArrayArg) and argument.name == self.names[0]:
                arguments.append(whole)
            elif argument.name not in self.names:
                arguments.append(argument)
        temporaries = {name: old for name, old in kernel.temporaries.items() if name not in self.names}
        if isinstance(whole, TemporaryVariable):
            temporaries[self.new] = whole
        return with_layouts(
            replace(
                kernel,
                arguments=tuple(arguments),
                temporaries=temporaries,
                substitutions=rules,
                instructions=tuple(map(self.instruction, kernel.instructions)),
            )
        )

    def _whole(
        self, arrays: Sequence[ArrayArg | TemporaryVariable], total: Expression
    ) -> ArrayArg | TemporaryVariable:
        first = arrays[0]
        shape = (*(first.shape or ())[: self.axis], total, *(first.shape or ())[self.axis + 1 :])
        if isinstance(first, TemporaryVariable):
            return replace(first, name=self.new, shape=shape)
        parts = [array for array in arrays if isinstance(array, ArrayArg)]
        return replace(
            first,
            name=self.new,
            shape=shape,
            strides=packed(shape, first.order),
            is_input=any(part.is_input for part in parts),
            is_output=any(part.is_output for part in parts),
            is_constant=all(part.is_constant for part in parts),
            is_used_once=all(part.is_used_once for part in parts),
            alignment=first.alignment,
        )

    def expression(self, expr: Expression) -> Expression:
        def change(node: Expression) -> Expression:
            if not isinstance(node, p.Subscript) or array_name(node) not in self.begins:
                return node
            indices, begin = node.index_tuple, self.begins[array_name(node)]
            index = indices[self.axis] if begin == 0 else _sum(indices[self.axis], begin)
            new = (*indices[: self.axis], index, *indices[self.axis + 1 :])
            return p.Subscript(p.Variable(self.new), new[0] if len(new) == 1 else new)

        return map_nodes(expr, change)

    def instruction(self, old: Instruction) -> Instruction:
        if not {*old.reads, *old.writes} & self.begins.keys():
            return old
        reads = frozenset(self.new if name in self.begins else name for name in old.reads)
        return replace(
            old,
            assignee=self.expression(old.assignee),
            expression=self.expression(old.expression),
            predicates=tuple(map(self.expression, old.predicates)),
            reads=reads,
            place=old.place.changed(),
        )
