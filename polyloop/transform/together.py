"""Several steps that are checked as one: their result is proven, and not what each of them makes on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from polyloop.errors import ArgumentError, Diagnostic, TransformError
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.budget import OutOfTime
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
    last kernel.  Where this fails, the steps are done again, each is proven, and the error names the one to blame.

    Parameters
    ----------
    schedule
        Makes the kernel of the one that it is given.  It may be called twice.

    Raises
    ------
    TransformError
        That of the first step which is wrong by itself.
    ArgumentError
        ``wrong-argument-type``, where *schedule* returned no kernel.

    Notes
    -----
    Steps pass that are wrong by themselves and right together.
    """
    if open_chain() is not None:  # the steps are a part of others
        return _scheduled(kernel, schedule)
    with public_call("together", kernel.name, TransformError):
        chain = Chain()
        try:
            with chained(chain):
                result = _scheduled(kernel, schedule)
            found = next(chain.problems(result), None)
        except OutOfTime:
            raise
        except Exception:  # a refusal, or what a step met in a kernel of which nothing was proven
            return _scheduled(kernel, schedule)
        return result if found is None else _scheduled(kernel, schedule)


def _scheduled(kernel: LoopKernel, schedule: Callable[[LoopKernel], LoopKernel]) -> LoopKernel:
    result: object = schedule(kernel)
    if not isinstance(result, LoopKernel):
        message = f"'schedule' returned no kernel, but {type(result).__name__}"
        hints = ("return the kernel that the last step made",)
        raise ArgumentError("together", kernel.name, [Diagnostic("wrong-argument-type", message, hints=hints)])
    return result


def as_one(
    schedule: Callable[Concatenate[LoopKernel, _P], LoopKernel]
) -> Callable[Concatenate[LoopKernel, _P], LoopKernel]:
    """Let a function of a kernel do its steps together (:func:`together`)."""

    @wraps(schedule)
    def call(kernel: LoopKernel, /, *args: _P.args, **kwargs: _P.kwargs) -> LoopKernel:
        return together(kernel, lambda given: schedule(given, *args, **kwargs))

    return call
