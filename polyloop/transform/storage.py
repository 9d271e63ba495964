"""The layout of arrays, as transforms look at it and change it: in a kernel, and in its reference program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from polyloop.analysis.layout import with_layouts
from polyloop.analysis.reference import reference_of
from polyloop.errors import Diagnostic, unknown_name
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import DimTag, order_tags, packed

__all__ = ["array_violations", "on_both", "tagged", "tags_of", "with_arrays"]


def on_both(
    kernel: LoopKernel, names: Sequence[str], change: Callable[[LoopKernel, Sequence[str]], LoopKernel]
) -> LoopKernel:
    """Return *kernel* with a change to arrays; its reference program gets those to arguments, too."""
    result = change(kernel, names)
    arguments = [name for name in names if kernel.argument(name) is not None]
    if kernel.reference is None or not arguments:
        return replace(result, conditions=kernel.conditions)
    base = change(kernel.reference.kernel, arguments)
    return replace(result, conditions=base.conditions, reference=reference_of(base))


def array_violations(kernel: LoopKernel, names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield arrays that do not exist, or whose layout cannot be chosen."""
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


def tags_of(array: ArrayArg | TemporaryVariable) -> tuple[DimTag, ...] | None:
    """Return how the axes of an array are stored, None if numbers alone say so."""
    rank = len(array.shape or ())
    if isinstance(array.dim_tags, tuple):
        return array.dim_tags
    if isinstance(array, TemporaryVariable):
        return order_tags(rank, "C")
    return order_tags(rank, array.order) if array.is_packed else None


def tagged(array: ArrayArg | TemporaryVariable, tags: tuple[DimTag, ...]) -> ArrayArg | TemporaryVariable:
    """Return *array* with its axes stored as *tags* say."""
    rank = len(array.shape or ())
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
