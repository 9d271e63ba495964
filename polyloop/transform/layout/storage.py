"""Layout changes of arrays, in a kernel and in its reference program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from polyloop.creation.array_layout import with_layouts
from polyloop.errors import Diagnostic, TransformError, unknown_name
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import DimTag, order_tags, packed, with_long_vectors
from polyloop.program.reference import in_loops_of, restated

__all__ = ["array_violations", "axis_number", "axis_order", "on_both", "tagged", "tags_of", "text_violations",
           "with_arrays"]


def on_both(
    kernel: LoopKernel, names: Sequence[str], change: Callable[[LoopKernel, Sequence[str]], LoopKernel]
) -> LoopKernel:
    """Return *kernel* with arrays changed, and its reference program with the same change to arguments."""
    result = in_loops_of(change(kernel, names), kernel)
    arguments = [name for name in names if kernel.argument(name) is not None]
    if kernel.reference is None or not arguments:
        return replace(result, conditions=kernel.conditions)
    base = change(kernel.reference.kernel, arguments)
    return replace(result, conditions=base.conditions, reference=restated(kernel.reference, base))


def array_violations(kernel: LoopKernel, names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name that is no array, or is an array whose layout is fixed."""
    arrays = kernel.arrays()
    laid_out = {value.layout_of for value in kernel.arguments if isinstance(value, ValueArg)}
    for name in names:
        array = arrays.get(name)
        if array is None:
            yield unknown_name("array", name, arrays)
        elif name in laid_out:
            yield Diagnostic(
                "bad-layout",
                f"strides or offset of '{name}' are those of the array passed",
                hints=("leave out stride:auto and offset=auto where a transform is to choose the layout",),
            )
        elif isinstance(array, TemporaryVariable) and array.initializer is not None:
            message = f"'{name}' is a table, stored as its initializer is written"
            yield Diagnostic("bad-layout", message, hints=(f"leave '{name}' out",))
        elif not array.shape:
            yield Diagnostic("bad-layout", f"'{name}' has no axes", hints=("name an array",))


def text_violations(kernel: LoopKernel, names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each array that an instruction in C names: its text says where elements lie."""
    for name in names:
        for instruction in kernel.instructions:
            if instruction.is_c and name in {*instruction.reads, *instruction.writes}:
                yield Diagnostic(
                    "staged-by-c",
                    f"the C text of '{instruction.id}' names '{name}'",
                    hints=("keep its axes and its layout: the text is not changed",),
                    sites=(instruction.site(),),
                )


def tags_of(array: ArrayArg | TemporaryVariable) -> tuple[DimTag, ...] | None:
    """Return the storage tags of the axes of an array, None if only strides are given."""
    rank = len(array.shape or ())
    if isinstance(array.dim_tags, tuple):
        return array.dim_tags
    if isinstance(array, TemporaryVariable):
        return order_tags(rank, "C")
    return order_tags(rank, array.order) if array.is_packed else None


def tagged(array: ArrayArg | TemporaryVariable, tags: tuple[DimTag, ...]) -> ArrayArg | TemporaryVariable:
    """Return *array* with its axes stored as *tags* say."""
    rank, tags = len(array.shape or ()), with_long_vectors(tags, array.shape or ())
    if isinstance(array, TemporaryVariable):
        return replace(array, dim_tags=None if tags == order_tags(rank, "C") else tags)
    for order in "CF":
        if tags == order_tags(rank, order):
            return replace(array, dim_tags=None, order=order, strides=packed(array.shape or (), order))
    return replace(array, dim_tags=tags, order="C", strides=None)


def with_arrays(kernel: LoopKernel, changed: dict[str, ArrayArg | TemporaryVariable]) -> LoopKernel:
    """Return *kernel* with other arrays, by their names."""
    arguments = tuple(
        new if isinstance(new := changed.get(argument.name), ArrayArg) else argument for argument in kernel.arguments
    )
    temporaries = {
        name: new if isinstance(new := changed.get(name), TemporaryVariable) else old
        for name, old in kernel.temporaries.items()
    }
    return with_layouts(replace(kernel, arguments=arguments, temporaries=temporaries))


def axis_number(kernel: LoopKernel, names: Sequence[str], axis: int | str, operation: str) -> int:
    """Return the number of the axis that a caller means by it, or by its name, the same in all arrays.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-axis``.
    """
    if not isinstance(axis, str):
        return axis
    found = set()
    for name in names:
        array = kernel.arrays().get(name)
        if array is None:
            raise TransformError(operation, kernel.name, [unknown_name("array", name, kernel.arrays())])
        known = _axis_names(array)
        if axis not in known:
            raise TransformError(operation, kernel.name, [_no_axis(array, axis, known)])
        found.add(known.index(axis))
    if len(found) != 1:
        message = f"'{axis}' is not the same axis of {', '.join(names)}"
        problem = Diagnostic("unknown-axis", message, hints=("transform one array after the other",))
        raise TransformError(operation, kernel.name, [problem])
    return found.pop()


def axis_order(kernel: LoopKernel, names: Sequence[str], tags: Mapping[str, str], operation: str) -> list[str]:
    """Return the tag of each axis, given by its name, in the order of the axes.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-axis``.
    """
    problems = [unknown_name("array", name, kernel.arrays()) for name in names if name not in kernel.arrays()]
    if problems:
        raise TransformError(operation, kernel.name, problems)
    numbers = {axis_number(kernel, names, axis, operation): tag for axis, tag in tags.items()}
    known = _axis_names(kernel.arrays()[names[0]]) if names else ()
    for axis, name in enumerate(known):
        if axis not in numbers:
            hints = (f"axes of '{names[0]}': {', '.join(known)}",)
            problem = Diagnostic("unknown-axis", f"nothing is said about axis '{name}'", hints=hints)
            raise TransformError(operation, kernel.name, [problem])
    return [numbers[axis] for axis in range(len(known))]


def _axis_names(array: ArrayArg | TemporaryVariable) -> tuple[str, ...]:
    """Return the names of the axes, none where an array got other axes since they were given."""
    names = array.dim_names or ()
    return names if len(names) == len(array.shape or ()) else ()


def _no_axis(array: ArrayArg | TemporaryVariable, axis: str, known: Sequence[str]) -> Diagnostic:
    if known:
        hint = f"axes of '{array.name}': {', '.join(known)}"
    else:
        hint = f'number it, or name the axes: pl.set_array_axis_names(knl, "{array.name}", ..)'
    return Diagnostic("unknown-axis", f"'{array.name}' has no axis called '{axis}'", hints=(hint,))
