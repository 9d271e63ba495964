"""Mixed-radix coordinates of the thread number: inames tagged ``l%8``, ``l/8%4``, ``l/32``.

The threads of a block are numbered with ``l.0`` running fastest.  Inames that are digits of that number, in a mixed
radix, let one statement use another shape of threads than the block has: ``row = tid / 8, col = tid % 8``.  For every
analysis the thread axes are then the digits of the finest radix (``"l.0008.4"``), and all of these inames, as well as
``l.0`` to ``l.2``, are sums of them: no quotients occur in any set.  Code generation sees each digit as an axis of its
own (``"l.8.4"``), with bounds and no division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import WARP_SIZE
from polyloop.kernel.tags import InameTag, LocalAxis, ThreadDigit
from polyloop.poly.affine import Affine
from polyloop.poly.axes import digit_axis, digit_parts, is_axis, number_of, thread_axis
from polyloop.program.digits_to_axes import combined_inames
from polyloop.program.lower_instruction import NESTED_DIGITS

__all__ = [
    "Digit",
    "DigitView",
    "combined_digit",
    "digit_form",
    "digit_of",
    "digit_of_terms",
    "digits_among",
    "elementary",
    "gaps",
    "no_digit",
    "open_digit",
    "place_value_problem",
    "threads_combine",
]


@dataclass(frozen=True, order=True)
class Digit:
    """The digit ``thread number / stride % extent`` of the thread number, with values from 0 to ``extent - 1``."""

    stride: int
    extent: int

    @property
    def axis(self) -> str:
        """Name of the digit's dimension in code generation."""
        return digit_axis(self.stride, self.extent)

    def title(self, threads: int) -> str:
        """Return the name of the digit's variable in generated code, for a block of *threads* threads."""
        over = f"_div_{self.stride}" if self.stride > 1 else ""
        return f"t{over}" + (f"_mod_{self.extent}" if self.stride * self.extent < threads else "")


def digits_among(dims: Iterable[str]) -> dict[str, Digit]:
    """Return those of *dims* that are digits of the thread number."""
    parts = {dim: digit_parts(dim) for dim in dims if is_axis(dim)}
    return {dim: Digit(*part) for dim, part in parts.items() if part is not None}


@dataclass(frozen=True, eq=False)
class DigitView:
    """View of code generation on a placed statement: its own digits, block axes and loops, without repeated axes.

    ``find`` computes the instances; ``forms`` has inames of the statement as affine forms of ``dims``.
    """

    dims: tuple[str, ...]
    find: Callable[[], isl.Set]
    forms: Mapping[str, Affine]

    @cached_property
    def exact(self) -> isl.Set:
        """The instances, over ``dims``, computed on demand."""
        return self.find()


def digit_of(tag: InameTag, sizes: Mapping[str, int]) -> Digit | None:
    """Return the digit of an iname with *tag*, in a block of these *sizes*; None for other tags."""
    threads = prod(sizes.values())
    if isinstance(tag, LocalAxis):
        stride = prod(size for axis, size in sizes.items() if number_of(axis) < tag.axis)
        return Digit(stride, sizes[thread_axis(tag.axis)])
    if isinstance(tag, ThreadDigit):
        most = -(-threads // tag.stride)
        return Digit(tag.stride, most if tag.extent is None else min(most, tag.extent))
    return None


def digit_form(digit: Digit, sizes: Mapping[str, int]) -> Affine:
    """Return a digit as an affine form of the axes, whose *sizes* are in the order of their strides."""
    stride, reach = digit.stride, digit.stride * digit.extent
    left = dict(sizes)
    for axis, size in sizes.items():  # axes below the stride do not influence the digit
        if stride % size:
            break
        stride, reach = stride // size, reach // size
        del left[axis]
    number, step, most = Affine((), 0), 1, 0
    for axis, size in left.items():
        if step % reach:  # other axes add multiples of the extent to the quotient, which the remainder drops
            number = number.add(Affine.variable(axis), step)
            most += step * (size - 1)
        step *= size
    whole = number.floordiv(stride)
    return whole if most < reach else whole.add(number.floordiv(reach), -digit.extent)


def elementary(sizes: Mapping[str, int], digits: Iterable[Digit]) -> dict[str, int] | None:
    """Return the common refinement of *digits* and thread axes: axes of which each of these is a sum.

    No digit needs a quotient over these.  None if boundaries of digits do not divide one another, such as 16 and 18.
    """
    threads = prod(sizes.values())
    ends, below = {1, threads}, 1
    for size in sizes.values():
        ends.add(below)
        below *= size
    for digit in digits:
        ends |= {digit.stride, min(threads, digit.stride * digit.extent)}
    ordered = sorted(ends)
    if any(high % low for low, high in pairwise(ordered)):
        return None
    return {digit_axis(f"{low:04d}", high // low): high // low for low, high in pairwise(ordered)}


def gaps(digits: Iterable[Digit], threads: int) -> list[Digit]:
    """Return the digits that complete *digits* to the whole thread number: below, between and above them."""
    found, below = [], 1
    for digit in sorted(digits):
        if digit.stride > below:
            found.append(Digit(below, digit.stride // below))
        below = digit.stride * digit.extent
    if below < threads:
        found.append(Digit(below, -(-threads // below)))
    return found


def place_value_problem(digits: Sequence[tuple[str, Digit]]) -> Diagnostic | None:
    """Return a diagnostic if two inames of one instruction are overlapping digits of the thread number, else None."""
    ordered = sorted(digits, key=lambda entry: entry[1])
    for (first, low), (second, high) in pairwise(ordered):
        if high.stride % (low.stride * low.extent):
            return Diagnostic(
                "axis-twice",
                f"inames '{first}' and '{second}' of one instruction are parts of the thread number that overlap",
                (
                    f"'{first}' is thread / {low.stride} % {low.extent}, "
                    f"'{second}' is thread / {high.stride} % {high.extent}",
                ),
                (f"let '{second}' begin at a multiple of {low.stride * low.extent}",),
            )
    return None


def threads_combine(kernel: LoopKernel) -> Instruction | None:
    """Return an instruction with a reduction over a thread axis, or a scan along one, None if there is none."""
    for instruction in kernel.instructions:
        if any(isinstance(kernel.tag(iname), LocalAxis) for iname in combined_inames(kernel, instruction)):
            return instruction
    return None


def combined_digit(instruction: Instruction, iname: str) -> Diagnostic:
    """Return the diagnostic for a digit in a kernel in which threads combine terms along an axis."""
    return Diagnostic(
        "bad-digit",
        f"the threads combine the terms of '{instruction.id}' along an axis, and iname '{iname}' is a digit of them",
        hints=(f"tag '{iname}' with a thread axis, l.0 to l.2",),
        sites=(instruction.site(),),
    )


def no_digit(
    iname: str, tag: ThreadDigit, bounds: tuple[int | None, int | None], instruction: Instruction
) -> Diagnostic:
    """Return the diagnostic for an iname with values that its digit cannot have."""
    low, high = ("an unknown value" if bound is None else bound for bound in bounds)
    length = tag.extent or WARP_SIZE
    return Diagnostic(
        "bad-digit",
        f"iname '{iname}' is tagged '{tag}' and runs from {low} to {high}, and this digit has other values",
        (f"thread / {tag.stride}{'' if tag.extent is None else f' % {tag.extent}'} is its value",),
        (f'split it and tag the inner iname: pl.split_iname(knl, "{iname}", {length}, inner_tag="{tag}")',),
        sites=(instruction.site(),),
    )


def open_digit(iname: str, tag: ThreadDigit, axis: str, instruction: Instruction) -> Diagnostic:
    """Return the diagnostic for a digit in a block without a constant number of threads."""
    return Diagnostic(
        "bad-digit",
        f"iname '{iname}' is tagged '{tag}', and a block has no constant number of threads along '{axis}'",
        hints=(f"split the iname that is tagged '{axis}', and tag the inner one",),
        sites=(instruction.site(),),
    )


def digit_of_terms(iname: str, tag: ThreadDigit, instruction: Instruction) -> Diagnostic:
    """Return the diagnostic for a reduction over an iname that is a digit of the thread number."""
    return Diagnostic(
        "parallel-reduction",
        f"iname '{iname}' is the iname of a reduction and cannot be '{tag}'",
        hints=(NESTED_DIGITS,),
        sites=(instruction.site(),),
    )
