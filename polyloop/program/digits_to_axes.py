"""Replacement of digits of the thread number by thread axes, for collectives along some of them.

::

    i: l%8, j: l/8%4, k: l/32   ->   i: l.0, j: l.1, k: l.2      8 x 4 x .. threads

Both number the threads of a block in the same way.  Collectives are defined along axes only, so kernels that reduce or
scan over consecutive digits get axes in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.domains import iname_range
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.tags import LocalAxis, ThreadDigit

__all__ = ["combined_inames", "with_digit_axes"]

_AXES: Final = 3


def with_digit_axes(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with thread axes for digits of the thread number, if threads combine terms along some.

    The kernel is returned as it is if the digits are not contiguous, or if other inames have thread axes.
    """
    if not any(isinstance(tag, ThreadDigit) for tag in kernel.iname_tags.values()):
        return kernel
    return _with_digit_axes(kernel)


@memoised
def _with_digit_axes(kernel: LoopKernel) -> LoopKernel:
    digits = {x: tag for x, tag in kernel.iname_tags.items() if isinstance(tag, ThreadDigit)}
    has_axes = any(isinstance(tag, LocalAxis) for tag in kernel.iname_tags.values())
    if has_axes or digits.keys().isdisjoint(x for i in kernel.instructions for x in combined_inames(kernel, i)):
        return kernel
    if any(i.matrix is not None for i in kernel.instructions):
        return kernel  # its lanes are digits
    ordered = sorted({*digits.values()}, key=lambda digit: digit.stride)
    if len(ordered) > _AXES or ordered[0].stride != 1 or not all(_follows(*two) for two in pairwise(ordered)):
        return kernel
    if not all(_is_full(kernel, digit, digits) for digit in ordered[:-1]):
        return kernel
    axes = {digit: LocalAxis(number) for number, digit in enumerate(ordered)}
    return replace(kernel, iname_tags={**kernel.iname_tags, **{x: axes[digit] for x, digit in digits.items()}})


def combined_inames(kernel: LoopKernel, instruction: Instruction) -> Iterator[str]:
    """Yield the inames along which threads may combine values: those of reductions, and of the results of scans."""
    for term in instruction.terms:
        yield from (x for x in term.inames if x not in instruction.inames)
    if instruction.terms:
        expanded = reductions(expand_rules(instruction.expression, kernel.substitutions))
        yield from (x for reduction in expanded for x in reduction.along)


def _follows(low: ThreadDigit, high: ThreadDigit) -> bool:
    return low.extent is not None and low.stride * low.extent == high.stride


def _is_full(kernel: LoopKernel, digit: ThreadDigit, digits: Mapping[str, ThreadDigit]) -> bool:
    """Return True if the inames tagged *digit* have constant bounds, and the longest has all values of the digit."""
    most = [iname_range(kernel, x)[1] for x, tag in digits.items() if tag == digit]
    return digit.extent is not None and None not in most and max(m or 0 for m in most) + 1 == digit.extent
