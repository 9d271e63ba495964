"""Thread axes of a kernel whose inames are mixed-radix coordinates (:mod:`polyloop.mapping.mixed_radix`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from polyloop.errors import Diagnostic, VerificationError
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import ThreadDigit, is_in_warp
from polyloop.mapping.hardware_axes import Axes
from polyloop.mapping.mixed_radix import (
    combined_digit,
    digit_of,
    digit_of_terms,
    elementary,
    no_digit,
    open_digit,
    threads_combine,
)
from polyloop.poly.axes import THREAD_AXES

__all__ = ["digit_bound", "with_digit_parts"]


def _error(kernel: LoopKernel, *found: Diagnostic) -> VerificationError:
    return VerificationError("schedule", kernel.name, found)


def with_digit_parts(
    kernel: LoopKernel, axes: Axes, digits: Mapping[str, tuple[ThreadDigit, int, Instruction]]
) -> Axes:
    """Return *axes* with thread axes refined so that every digit of the thread number is a sum of them."""
    local = _with_digits(kernel, dict(axes.local), digits)
    sizes = {axis: size for axis, size in local.items() if size is not None}
    iname, (tag, _, instruction) = next(iter(digits.items()))
    if len(sizes) < len(local):
        raise _error(kernel, open_digit(iname, tag, min(local.keys() - sizes.keys()), instruction))
    if (combined := threads_combine(kernel)) is not None:
        raise _error(kernel, combined_digit(combined, iname))
    found = [digit for tag, _, _ in digits.values() if (digit := digit_of(tag, sizes)) is not None]
    first = dict.fromkeys(local, 0) | dict(axes.first)
    return Axes(axes.group, elementary(sizes, found) or local, first, local, axes.cluster)


def _with_digits(
    kernel: LoopKernel, local: dict[str, int | None], digits: Mapping[str, tuple[ThreadDigit, int, Instruction]]
) -> dict[str, int | None]:
    """Return the extents of the thread axes; without any, one axis that is long enough for all *digits*."""
    sizes = {axis: size for axis, size in local.items() if size is not None}
    if not digits or len(sizes) < len(local):
        return local
    if not sizes:
        threads = max(tag.stride * (tag.extent or most + 1) for tag, most, _ in digits.values())
        return {THREAD_AXES[0]: threads}
    threads = prod(sizes.values())
    for iname, (tag, most, instruction) in digits.items():
        if tag.stride * (most + 1) > threads + tag.stride - 1:
            problem = Diagnostic(
                "bad-digit",
                f"iname '{iname}' is tagged '{tag}' and has {most + 1} values, for which the block is too small",
                (f"the thread axes make blocks of {' x '.join(map(str, sizes.values()))} threads",),
                ("tag longer inames with the thread axes, or all inames on threads as digits",),
                sites=(instruction.site(),),
            )
            raise _error(kernel, problem)
    return local


def digit_bound(
    kernel: LoopKernel,
    iname: str,
    tag: ThreadDigit,
    bounds: tuple[int | None, int | None],
    instruction: Instruction,
) -> int:
    """Return the greatest value of an iname that is a digit of the thread number."""
    least, most = bounds
    if iname not in instruction.inames and not is_in_warp(tag):
        raise _error(kernel, digit_of_terms(iname, tag, instruction))
    if least is None or most is None or least < 0 or (tag.extent is not None and most >= tag.extent):
        raise _error(kernel, no_digit(iname, tag, bounds, instruction))
    return most
