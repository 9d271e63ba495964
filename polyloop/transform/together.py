"""Several steps that are checked as one: their result is proven, and not what each of them makes on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from polyloop.errors import TransformError
from polyloop.kernel.kernel import LoopKernel
from polyloop.proof.obligation import public_call
from polyloop.proof.postponed import Chain, chained, open_chain

__all__ = ["as_one", "together"]

_P = ParamSpec("_P")


def together(kernel: LoopKernel, schedule: Callable[[LoopKernel], LoopKernel]) -> LoopKernel:
    """Return ``schedule(kernel)``, a kernel after some transforms, which is proven once, after the last of them.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "c[i, j] = a[i]*b[j]")
    >>> knl = pl.together(knl, lambda k: k.split_iname("i", 16).split_iname("j", 16))
    >>> print(*knl.inames)
    i_outer i_inner j_outer j_inner

    Each step still says at once that it does not fit.  That the result computes what the program does (expressions,
    values, order, races, bounds) is judged by the program, which no step changes: so it is enough to prove it of the
    last kernel.  Where this fails, the steps are done again and each is proven, so the error names the one to blame.

    Parameters
    ----------
    schedule
        Makes the kernel.  It may be called twice.

    Raises
    ------
    TransformError
        That of the first step which is wrong by itself.

    Notes
    -----
    Steps that are wrong by themselves and right together pass.
    """
    if open_chain() is not None:  # the steps are a part of others
        return schedule(kernel)
    with public_call("together", kernel.name, TransformError):
        chain = Chain()
        try:
            with chained(chain):
                result = schedule(kernel)
            found = next(chain.problems(result), None) if chain.claims else None
        except Exception:  # a refusal, or what a step met in a kernel that nothing was proven of
            return schedule(kernel)
        return result if found is None else schedule(kernel)


def as_one(schedule: Callable[Concatenate[LoopKernel, _P], LoopKernel]) -> Callable[Concatenate[LoopKernel, _P], LoopKernel]:
    """Let a function of a kernel do its steps together (:func:`together`)."""

    @wraps(schedule)
    def call(kernel: LoopKernel, *args: _P.args, **kwargs: _P.kwargs) -> LoopKernel:
        return together(kernel, lambda given: schedule(given, *args, **kwargs))

    return call
