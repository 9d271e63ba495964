"""Inames tagged ``l.auto``: distributed over the threads of the block, once its size is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import pymbolic.primitives as p

from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.domains import iname_range
from polyloop.kernel.instruction import Evaluation, Instruction, Move
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import AutoLocal, InameTag, LocalAxis, ThreadDigit, Unroll, is_thread
from polyloop.mapping.mixed_radix import threads_combine
from polyloop.mapping.thread_mapping import axes_of
from polyloop.memo import memoised
from polyloop.poly.affine import Affine
from polyloop.poly.axes import number_of
from polyloop.poly.sets import Row, constant_bounds
from polyloop.program.digits_to_axes import with_digit_axes
from polyloop.transform.loops.inames import Replacement, replace_iname

__all__ = ["assign_auto", "split_off"]


@memoised
def assign_auto(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with its ``l.auto`` inames spread over the threads of the block, where its size is known.

    The inames of one instruction are taken from the last (contiguous) to the first, thread axes from ``l.0`` up.
    An iname longer than its axis is split; what is left over goes to the next axis or is unrolled.  Where the
    values depend on the thread already, each thread computes its own, and nothing is spread.
    """
    kernel = with_digit_axes(kernel)
    sizes = axes_of(kernel).extents
    if not sizes or any(extent is None for extent in sizes.values()):
        return kernel
    block = {axis: extent for axis, extent in sizes.items() if extent is not None}
    rest = [i for i in kernel.instructions if not any(_is_auto(kernel, x) for x in i.inames)]
    for instruction in kernel.instructions:
        waiting = [x for x in instruction.inames if _is_auto(kernel, x)]
        if waiting:
            own_thread = any(is_thread(kernel.tag(x)) for x in instruction.inames)
            threads = {} if own_thread else _threads_of_users(kernel, instruction, rest, block)
            kernel = _spread(kernel, instruction, waiting, threads, is_whole=threads == block)
    return kernel


def _is_auto(kernel: LoopKernel, iname: str) -> bool:
    """Return True if *iname* is tagged ``l.auto``."""
    return isinstance(kernel.iname_tags.get(iname), AutoLocal)


def _threads_of_users(
    kernel: LoopKernel, instruction: Instruction, others: Sequence[Instruction], block: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the threads along each axis that use the temporaries of a copy, or share a loop with its users.

    They are of its launch.  A launch has the shape of its own statements, which a copy for it must not enlarge.
    """
    if any(isinstance(tag, ThreadDigit) for tag in kernel.iname_tags.values()):
        return block  # launches share it
    threads = dict.fromkeys(block, 1)
    own = {name for name in (*instruction.reads, *instruction.writes) if name in kernel.temporaries}
    users = [other for other in others if not own.isdisjoint((*other.reads, *other.writes))]
    inside = {(iname, dict(user.blocks).get(iname)) for user in users for iname in user.inames
              if iname not in instruction.inames and kernel.axis(iname) is None}  # fmt: skip
    for other in others:
        if other not in users and inside.isdisjoint((iname, dict(other.blocks).get(iname)) for iname in other.inames):
            continue
        for iname in (*other.inames, *(x for term in other.terms for x in term.inames)):
            axis = kernel.axis(iname)
            if axis in threads:
                least, most = iname_range(kernel, iname)
                extent = block[axis] if least is None or most is None else most - least + 1
                threads[axis] = max(threads[axis], min(extent, block[axis]))
    return threads if max(threads.values()) > 1 else block


def _spread(
    kernel: LoopKernel, instruction: Instruction, waiting: list[str], sizes: Mapping[str, int], *, is_whole: bool
) -> LoopKernel:
    tags = dict(kernel.iname_tags)
    match instruction.origin:
        case Evaluation(name) | Move(name):
            array = kernel.arrays().get(name)
        case _:
            array = None
    if not (isinstance(array, ArrayArg) and array.order == "F"):
        waiting = waiting[::-1]
    extents = {x: _extent(kernel, instruction, x) for x in waiting}
    for name in waiting:
        tags.pop(name)
    kernel = replace(kernel, iname_tags=tags)
    waiting = [x for x in waiting if extents[x] > 1]
    for tag, size in _shares(kernel, [extents[x] for x in waiting], sizes, is_whole=is_whole):
        iname = waiting.pop(0)
        extent = extents[iname]
        if extent > size:
            outer, iname, kernel = split_off(kernel, iname, size)
            extents[outer] = -(-extent // size)
            waiting.append(outer)
        kernel = replace(kernel, iname_tags={**kernel.iname_tags, iname: tag})
    left = dict(kernel.iname_tags)
    for iname in waiting:
        if iname in kernel.inames and extents[iname] <= _UNROLLED:
            left[iname] = Unroll()
    return replace(kernel, iname_tags=left)


def split_off(kernel: LoopKernel, iname: str, size: int, suffix: str = "inner") -> tuple[str, str, LoopKernel]:
    """Return an iname divided by *size*: the names of the outer and the inner one, and the kernel."""
    outer, inner = kernel.fresh(f"{iname}_outer"), kernel.fresh(f"{iname}_{suffix}")
    box = (Row(Affine.variable(inner)), Row(Affine(((inner, -1),), size - 1)))
    text = p.Sum((p.Product((size, p.Variable(outer))), p.Variable(inner)))
    change = Replacement(iname, (outer, inner), Affine.make([(outer, size), (inner, 1)]), box, text)
    return outer, inner, replace_iname(kernel, change)


def _shares(
    kernel: LoopKernel, extents: Sequence[int], sizes: Mapping[str, int], *, is_whole: bool
) -> list[tuple[InameTag, int]]:
    """Return the tag of each of the first inames, of these *extents*, and how many of its values are on threads.

    An iname gets a thread axis; or, where that would leave more threads idle, a digit of the number of the thread in
    the block of the whole program, if *sizes* are those.
    """
    by_axis = [(LocalAxis(number_of(axis)), size) for axis, size in sizes.items()][: len(extents)]
    if not sizes or not is_whole or threads_combine(kernel) is not None:
        return list(by_axis)
    forced = any(isinstance(tag, ThreadDigit) for tag in kernel.iname_tags.values())
    digits: list[tuple[InameTag, int]] = []
    threads = prod(sizes.values())
    stride, is_even = 1, True
    for extent in extents:
        left = threads // stride
        if left <= 1:
            break
        size = min(extent, left)
        is_even = is_even and threads % (stride * size) == 0
        is_last = 2 * stride * size > threads  # the threads that are left, if any, have no value
        digits.append((ThreadDigit(stride, None if is_last else size), size))
        stride *= size
    fewest = _passes(extents, by_axis)
    if forced or _passes(extents, digits) * (1 if is_even else _WORTH) < fewest:
        return digits
    return list(by_axis)


_WORTH = 3
"""Ratio of turns that pays for a division of the thread's number by what is no power of two, and for a test."""


def _passes(extents: Sequence[int], shares: Sequence[tuple[InameTag, int]]) -> int:
    """Return the number of turns of each thread."""
    sizes = [size for _, size in shares] + [1] * (len(extents) - len(shares))
    return prod(-(-extent // size) for extent, size in zip(extents, sizes, strict=True))


_UNROLLED = 16
"""Copy loops of at most this many iterations are unrolled, so that their loads are in flight together."""


_ENDLESS = 1 << 31
"""Number in place of an extent that parameters decide."""


def _extent(kernel: LoopKernel, instruction: Instruction, iname: str) -> int:
    temporary = kernel.temporaries.get(instruction.target)
    form = getattr(instruction.assignee, "index_tuple", ())
    position = next((i for i, index in enumerate(form) if variables(index) == {iname}), None)
    if temporary is None or position is None or isinstance(instruction.origin, Move):  # or a part of a subscript
        if instruction.domain.is_empty():
            return 1  # no element is moved at all
        most = constant_bounds(instruction.domain, instruction.inames.index(iname))[1]
        return _ENDLESS if most is None else most + 1
    assert temporary.shape is not None
    extent = temporary.shape[position]
    return extent if isinstance(extent, int) else _ENDLESS
