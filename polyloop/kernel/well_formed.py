"""Checks of the parts of a kernel that was read: numbers in range, lengths that agree, names that exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import pymbolic.primitives as p

from polyloop.expr.dtypes import find_dtype, is_integer
from polyloop.expr.nodes import Expression, Operation, Reduction, Terms, TypeCast
from polyloop.expr.rewrite import children, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.instruction import Carry, Copy, Instruction, Move, Partial
from polyloop.kernel.intrinsic import Matrix
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import is_layout
from polyloop.kernel.reductions import is_known
from polyloop.kernel.tags import parse_tag
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_block_axis

__all__ = ["array_faults", "expression_faults", "origin_faults", "table_faults"]


# {{{ arrays


def array_faults(kernel: LoopKernel) -> Iterator[str]:
    """Yield the faults in parameters, and in the shapes and layouts of arrays."""
    values = {argument.name: argument for argument in kernel.arguments if isinstance(argument, ValueArg)}
    for name in kernel.parameters:
        if name not in values or not is_integer(values[name].dtype or kernel.index_dtype):
            yield f"the parameter '{name}' is no integer argument"
    sizes = frozenset(kernel.parameters)
    layouts = sizes | {name for name, value in values.items() if value.layout_of is not None}
    for array in kernel.arrays().values():
        for why in _array(array, sizes, layouts):
            yield f"'{array.name}' {why}"


def _array(array: ArrayArg | TemporaryVariable, sizes: frozenset[str], layouts: frozenset[str]) -> Iterator[str]:
    shape = array.shape
    if shape is None:
        return
    if not _mentioned(shape) <= sizes:
        yield "has a shape of more than parameters"
    lengths: list[object] = [array.dim_tags, array.dim_names]
    if isinstance(array, ArrayArg):
        lengths.append(array.strides)
        offset = (array.offset,) if isinstance(array.offset, int | p.ExpressionNode) else ()
        if not _mentioned((*(array.strides or ()), *offset)) <= layouts:
            yield "has a layout of more than parameters"
    elif array.padding < 0:
        yield "has a negative padding"
    if any(isinstance(entry, tuple) and len(entry) != len(shape) for entry in lengths):
        yield "has a layout of other axes"
    if isinstance(array.dim_tags, tuple) and not is_layout(array.dim_tags):
        yield "has nesting levels that are none"
    if array.dtype is not None and array.dtype.itemsize == 0:
        yield "has elements without a size"


def _mentioned(expressions: Iterable[Expression]) -> frozenset[str]:
    return frozenset().union(*map(variables, expressions))

# }}}
# {{{ tables of names


def table_faults(kernel: LoopKernel) -> Iterator[str]:
    """Yield the faults in what a kernel says of its loops and temporaries by their names."""
    for iname, tag in kernel.iname_tags.items():
        if parse_tag(str(tag)) != tag:
            yield f"the iname '{iname}' has a tag that there is not"
    ids = {i.id for i in kernel.instructions}
    listed: tuple[tuple[str, Iterable[str], Collection[str]], ...] = (
        ("values kept in", kernel.evaluations, kernel.temporaries),
        ("values filled by", kernel.evaluations.values(), ids),
        ("partial results in", kernel.partials, kernel.temporaries),
        ("a buffer", kernel.buffers, kernel.temporaries),
        ("a buffer of", kernel.buffers.values(), kernel.arrays()),
        ("a role that copies by", (name for role in kernel.roles for name in role.copies), {*ids, *kernel.temporaries}),
        ("a count of arrivals along", filter(None, (kernel.blocks.axis, kernel.blocks.counted)), _Axes()),
    )
    for what, names, known in listed:
        for name in names:
            if name not in known:
                yield f"it has {what} '{name}', which it has not"
    numbers = (*(n for pair in kernel.slabs.values() for n in pair), kernel.blocks.most, *(
        role.registers for role in kernel.roles), kernel.blocks.group - 1)  # fmt: skip
    if min(numbers, default=0) < 0:
        yield "it has a negative number of iterations, blocks or registers"


class _Axes(Collection[str]):
    """The axes of blocks."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and is_block_axis(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

# }}}
# {{{ origins


def origin_faults(kernel: LoopKernel, known: Mapping[str, Instruction], rules: LoopKernel) -> Iterator[str]:
    """Yield the faults in what the instructions of a kernel stand for.

    Parameters
    ----------
    known
        The instructions of the reference program.
    rules
        The kernel with the rules that these use.
    """
    for instruction in kernel.instructions:
        for why in _origin(kernel, instruction, known, rules):
            yield f"instruction '{instruction.id}' {why}"
    for name, (origin, number) in kernel.partials.items():
        if origin not in known or not 0 <= number < _count(known[origin], rules):
            yield f"'{name}' has partial results of no reduction"


def _origin(
    kernel: LoopKernel, instruction: Instruction, known: Mapping[str, Instruction], rules: LoopKernel
) -> Iterator[str]:
    origin = instruction.origin
    inames = {*instruction.inames}.union(*(term.inames for term in instruction.terms))
    if not all(map(_is_form, origin.forms.values())):
        yield "stands for instances by forms that are none"
    if isinstance(origin, Copy | Partial):
        yield from _copy(origin, known, rules)
    elif isinstance(origin, Move):
        found = kernel.arrays().get(origin.array)
        if found is None or {*origin.forms} != {str(axis) for axis in range(len(found.shape or ()))}:
            yield f"moves elements of '{origin.array}' that there are not"
    elif isinstance(origin, Carry) and origin.temporary not in kernel.temporaries:
        yield f"carries '{origin.temporary}', which the kernel has not"
    if instruction.matrix is not None and not _is_over(instruction.matrix, inames):
        yield "has a matrix instruction over other subscripts"


def _copy(origin: Copy | Partial, known: Mapping[str, Instruction], rules: LoopKernel) -> Iterator[str]:
    original = known.get(origin.instruction)
    if original is None:
        yield f"carries out '{origin.instruction}', which its program has not"
    elif isinstance(origin, Partial) and not 0 <= origin.number < _count(original, rules):
        yield f"has terms of a reduction that '{original.id}' has not"
    elif isinstance(origin, Copy) and not {*original.inames} <= origin.forms.keys():
        yield f"does not say which instances of '{original.id}' it carries out"


def _is_over(matrix: Matrix, inames: Collection[str]) -> bool:
    named = {iname for _, pairs in matrix.inames for iname, _ in pairs}
    return {axis for axis, _ in matrix.inames} == {"i", "j", "k"} and named <= {*inames} and matrix.lag >= 0


def _count(instruction: Instruction, rules: LoopKernel) -> int:
    return len(reductions(expand_rules(instruction.expression, rules.substitutions)))


def _is_form(form: Affine) -> bool:
    return all(isinstance(variable, str) or (variable.den > 0 and _is_form(Affine(variable.terms, variable.const)))
               for variable, _ in form.terms)  # fmt: skip

# }}}
# {{{ expressions


def expression_faults(kernel: LoopKernel, instruction: Instruction) -> Iterator[str]:
    """Yield the faults in the expressions of an instruction, rules expanded, that the types of their nodes leave."""
    texts = (*instruction.assignees, instruction.expression, *instruction.predicates)
    expanded = [expand_rules(text, kernel.substitutions) for text in texts]
    if len(reductions(expanded[len(instruction.assignees)])) != len(instruction.terms):
        yield "has another number of reductions than domains of them"
    for text in expanded:
        yield from _nodes(text, kernel, {*instruction.inames})


def _nodes(expr: Expression, kernel: LoopKernel, inames: Collection[str]) -> Iterator[str]:
    if isinstance(expr, TypeCast) and find_dtype(expr.dtype) is None:
        yield f"casts to '{expr.dtype}', which is no type"
    if isinstance(expr, Reduction):
        if not is_known(expr.operation) or not _has_operands(expr.operation, expr.expr):
            yield f"reduces by '{expr.operation.name}', which is no operation of these operands"
        if not {*expr.inames} <= {*kernel.inames} or not {*expr.along} <= {*inames}:
            yield "reduces over inames that the kernel has not"
    for child in children(expr):
        yield from _nodes(child, kernel, inames)


def _has_operands(operation: Operation, expr: Expression) -> bool:
    count = len(expr.children) if isinstance(expr, Terms) else 1
    return operation.of_states or count == max(1, len(operation.fields))

# }}}
