"""Hint for a refused order of loops, or a refused parallel loop: the skew that makes it legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyloop.errors import VerificationError
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms
from polyloop.transform.loops.remap import Remap, free_space, remap_inames, remap_violations
from polyloop.verification.order import order_violations

__all__ = ["shifted", "skew_hint"]

_FACTORS = (1, -1, 2)


def skew_hint(kernel: LoopKernel, wanted: Sequence[str], is_legal: Callable[[LoopKernel], bool]) -> tuple[str, ...]:
    """Return the hint that names a skew after which *is_legal* holds, nothing if no small one does.

    *wanted* are the inames by which another loop of their nest is to be skewed, the likeliest first.
    """
    for by in () if kernel.waivers else wanted:  # without proofs, whatever one tries seems to help
        for other in _others(kernel, by):
            for factor in _FACTORS:
                change, text = _skew(kernel, other, by, factor)
                if any(remap_violations(kernel, change)):
                    break
                if _helps(kernel, change, is_legal):
                    return (f'skew first: pl.map_domain(knl, "{text}")',)
    return ()


def _helps(kernel: LoopKernel, change: Remap, is_legal: Callable[[LoopKernel], bool]) -> bool:
    """Return whether *is_legal* holds after *change*; a kernel that is refused for another reason is no help."""
    try:
        return is_legal(remap_inames(kernel, change))
    except VerificationError:
        return False


def _others(kernel: LoopKernel, by: str) -> list[str]:
    """Return the sequential loops nested only together with *by*; those that may be reversed come last."""
    nests = [instruction.inames for instruction in kernel.instructions if by in instruction.inames]
    found = []
    for other in dict.fromkeys(name for nest in nests for name in nest):
        mine = [i.inames for i in kernel.instructions if other in i.inames]
        if other != by and all(by in nest for nest in mine) and isinstance(kernel.tag(other), Sequential):
            found.append(other)
    if len(found) == 1:
        return found
    return sorted(found, key=lambda other: not any(order_violations(_reversed(kernel, other))))


def _skew(kernel: LoopKernel, iname: str, by: str, factor: int) -> tuple[Remap, str]:
    """Return the change that makes ``iname + factor*by`` of *iname*, and its text."""
    nest = next(i.inames for i in kernel.instructions if iname in i.inames)
    old = tuple(sorted((iname, by), key=nest.index))
    forward = {by: Affine.variable(by), iname: Affine.make([(iname, 1), (by, factor)])}
    backward = {by: Affine.variable(by), iname: Affine.make([(iname, 1), (by, -factor)])}
    there, back = (tuple(forms[name] for name in old) for forms in (forward, backward))
    space = free_space(kernel, 2)
    times = f"{abs(factor)}*" if abs(factor) > 1 else ""
    shown = {by: by, iname: f"{iname} {'+' if factor > 0 else '-'} {times}{by}"}
    text = f"{{[{', '.join(old)}] -> [{', '.join(shown[name] for name in old)}]}}"
    return Remap(old, old, map_from_forms(space, old, there), there, back), text


def _reversed(kernel: LoopKernel, iname: str) -> LoopKernel:
    """Return *kernel* with the loop over *iname* from its end to its beginning."""
    form = Affine.make([(iname, -1)])
    return _replaced(kernel, iname, form, form)


def shifted(kernel: LoopKernel, iname: str, amount: int) -> LoopKernel:
    """Return *kernel* with *amount* added to every value of *iname*."""
    there, back = (Affine.make([(iname, 1)], constant) for constant in (amount, -amount))
    return _replaced(kernel, iname, there, back)


def _replaced(kernel: LoopKernel, iname: str, there: Affine, back: Affine) -> LoopKernel:
    """Return *kernel* with *there* in the place of *iname*, of which *back* is the old value."""
    space = free_space(kernel, 1)
    return remap_inames(kernel, Remap((iname,), (iname,), map_from_forms(space, (iname,), (there,)), (there,), (back,)))
