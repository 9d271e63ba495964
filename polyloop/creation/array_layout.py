"""Layouts of array arguments: strides from shapes, and checks for elements with one address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import (
    Auto,
    Separate,
    Strided,
    Vectorized,
    apart_axes,
    auto_axes,
    packed,
    part_names,
    shared_address,
    strides_of,
    with_long_vectors,
)

__all__ = ["layout_names_violations", "layout_violations", "with_layouts"]


def with_layouts(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel*, with known shapes, with all strides and offsets as expressions.

    Those that are left to the arrays passed become arguments of their own, after all others.  Arrays that have such
    arguments already, as in a fused kernel, stay as they are.

    Raises
    ------
    KernelError
        ``bad-layout``.
    """
    arguments: list[Argument] = []
    extra: list[ValueArg] = []
    laid_out = {argument.layout_of for argument in kernel.arguments if isinstance(argument, ValueArg)}
    for argument in kernel.arguments:
        if isinstance(argument, ArrayArg) and argument.name not in laid_out:
            completed, values = _with_layout(kernel, argument, [value.name for value in extra])
            arguments.append(completed)
            extra += values
        else:
            arguments.append(argument)
    return replace(kernel, arguments=(*arguments, *extra))


def _with_layout(kernel: LoopKernel, array: ArrayArg, taken: Sequence[str]) -> tuple[ArrayArg, list[ValueArg]]:
    """Return *array* with strides and an offset, and the new arguments for open ones."""
    assert array.shape is not None, f"the shape of '{array.name}' is unknown"
    rank = len(array.shape)
    values: list[ValueArg] = []

    def fresh(wish: str) -> str:
        name = kernel.fresh(wish, (*taken, *(value.name for value in values)))
        values.append(ValueArg(name, None, array.name))
        return name

    tags = (Strided(None),) * rank if isinstance(array.dim_tags, Auto) else array.dim_tags
    strides = array.strides
    if tags is not None:
        if len(tags) != rank:
            message = f"'{array.name}' has {rank} axes and {len(tags)} strides or dim_tags"
            hints = ("give one for each axis",)
            raise KernelError("make_kernel", kernel.name, [Diagnostic("bad-layout", message, hints=hints)])
        tags = with_long_vectors(tags, array.shape)
        names = dict.fromkeys(range(rank), "")
        names |= {axis: fresh(f"{array.name}_stride{axis}") for axis in auto_axes(tags)}
        strides = strides_of(array.shape, tags, [names[axis] for axis in range(rank)])
    elif strides is None:
        strides = packed(array.shape, array.order)
    offset: Expression = p.Variable(fresh(f"{array.name}_offset")) if isinstance(array.offset, Auto) else array.offset
    if (strides, tags, offset) == (array.strides, array.dim_tags, array.offset):
        return array, values
    return replace(array, strides=strides, dim_tags=tags, offset=offset), values


def layout_names_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield ``bad-layout`` for an array with strides or an offset that depend on more than integer arguments."""
    known = {name for name, value in kernel.values().items() if value.dtype is None or value.dtype.kind in "iu"}
    known |= set(kernel.parameters)
    for array in kernel.arguments:
        if isinstance(array, ArrayArg):
            for part in (*(array.strides or ()), *((array.offset,) if not isinstance(array.offset, Auto) else ())):
                for name in sorted(variables(part) - known):
                    yield Diagnostic(
                        "bad-layout",
                        f"the layout of '{array.name}' depends on '{name}', which is no integer argument",
                        (f"it has {show(part)}",),
                        ("use parameters, and integer arguments (pl.ValueArg)",),
                    )


def layout_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each written array that is constant or has two elements at one address.

    Layouts that depend on sizes are looked at by each call.
    """
    yield from _temporary_violations(kernel)
    yield from _apart_violations(kernel)
    written = {name: instruction for instruction in kernel.instructions for name in instruction.writes}
    for array in kernel.arguments:
        if not isinstance(array, ArrayArg) or array.name not in written:
            continue
        site = written[array.name].site()
        if array.is_constant:
            yield Diagnostic(
                "not-assignable",
                f"'{array.name}' is a ConstantArg and cannot be assigned",
                hints=("make it a GlobalArg, or assign another array",),
                sites=(site,),
            )
        shared = _shared(array)
        if shared:
            names = [f"{array.name}[{', '.join(map(str, at))}]" for at in shared] if isinstance(shared, tuple) else []
            yield Diagnostic(
                "overlapping-elements",
                f"array '{array.name}' is written, and two of its elements {'' if names else 'may '}have one address",
                (*([f"{' and '.join(names)} do"] if names else []), _described(array)),
                ("give strides that keep the elements apart",),
                sites=(site,),
            )


def _temporary_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each temporary with an incomplete layout or with two elements at one address."""
    for temporary in kernel.temporaries.values():
        if temporary.dim_tags is None or temporary.shape is None:
            continue
        name, rank = temporary.name, len(temporary.shape)
        if len(temporary.dim_tags) != rank:
            message = f"'{name}' has {rank} axes and {len(temporary.dim_tags)} strides or dim_tags"
            yield Diagnostic("bad-layout", message, hints=("give one for each axis",))
        elif any(isinstance(tag, Strided) for tag in temporary.dim_tags):
            shape = [extent for extent in temporary.shape if isinstance(extent, int)]
            strides = [stride for stride in temporary.strides() if isinstance(stride, int)]
            if len(shape) < rank or len(strides) < rank:
                message = f"temporary '{name}' has strides, and its shape depends on parameters"
                yield Diagnostic("bad-layout", message, hints=("give it order or dim_tags N0, N1, ..",))
            elif shared := shared_address(shape, strides):
                at = [f"{name}[{', '.join(map(str, at))}]" for at in shared] if isinstance(shared, tuple) else []
                message = f"two elements of temporary '{name}' {'' if at else 'may '}have one address"
                notes = (f"{' and '.join(at)} do",) if at else ()
                yield Diagnostic("overlapping-elements", message, notes, ("give strides that keep them apart",))


def _apart_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for an array with an unsuitable separate or vector axis, or part names in use."""
    for array in kernel.arguments:
        if not isinstance(array, ArrayArg) or array.shape is None or not isinstance(array.dim_tags, tuple):
            continue
        if apart_axes(array.dim_tags) and (auto_axes(array.dim_tags) or isinstance(array.offset, Auto)):
            message = f"'{array.name}' has an axis tagged sep or vec, and leaves a stride or its offset to the array"
            yield Diagnostic("bad-layout", message, hints=("give strides and offset as numbers, such as stride:3",))
            return
        for extent, tag in zip(array.shape, array.dim_tags, strict=False):
            most = _MOST_PARTS if isinstance(tag, Separate) else 4
            known = f"of at most {most}" if isinstance(tag, Separate) else "of 2, 3, 4, 8 or 16"
            if isinstance(tag, Separate | Vectorized) and not (isinstance(extent, int) and 1 <= extent <= most):
                yield Diagnostic(
                    "bad-layout",
                    f"the axis of '{array.name}' that is tagged {tag} has {show(extent)} elements",
                    hints=(f"such an axis has a constant extent {known}: say it with shape=",),
                )
                return
        if any(isinstance(tag, Separate) for tag in array.dim_tags):
            taken = sorted(set(part_names(array.name, array.dim_tags, array.shape)) & set(kernel.names()))
            if taken:
                message = f"'{taken[0]}' is the name of a part of '{array.name}', and of something else"
                yield Diagnostic("name-taken", message, hints=("rename one of them",))


_MOST_PARTS = 64


def _shared(array: ArrayArg) -> tuple[tuple[int, ...], tuple[int, ...]] | bool:
    if apart_axes(array.dim_tags):
        return False  # each call looks at the parts
    shape = [extent for extent in array.shape or () if isinstance(extent, int)]
    strides = [stride for stride in array.strides or () if isinstance(stride, int)]
    if len(shape) != len(array.shape or ()) or len(strides) != len(array.strides or ()):
        return False
    return shared_address(shape, strides)


def _described(array: ArrayArg) -> str:
    shape = ", ".join(show(extent) for extent in array.shape or ())
    strides = ", ".join(show(stride) for stride in array.strides or ())
    return f"its shape is ({shape}), its strides are ({strides}) elements"
