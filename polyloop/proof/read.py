"""Kernels that were read from a form: parts that fit by themselves, and not each other, are the form's fault.

What can be seen of them alone is checked where they are read.  That the instructions of a transformed kernel belong to
its program, instance by instance, is a matter of proofs: they are made where code is generated, of parts that no
transform has made.  An invariant that does not hold there is refused like a claim that is not proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import islpy as isl

from polyloop.errors import Diagnostic, PolyloopError, VerificationError
from polyloop.kernel.kernel import LoopKernel

__all__ = ["is_read", "mark_read", "of_what_was_read"]

_READ: Final = "polyloop.proof.read"
_FAULTS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, isl.Error,
)  # fmt: skip
"""Errors of parts that do not fit each other: ours, and those of NumPy and ISL."""


def mark_read(kernel: LoopKernel) -> None:
    """Note that *kernel* was read, or was made of one that was."""
    kernel.__dict__[_READ] = True


def is_read(kernel: LoopKernel) -> bool:
    """Return whether *kernel* was read, or was made of one that was."""
    return _READ in kernel.__dict__


@contextmanager
def of_what_was_read(
    operation: str, kernel: LoopKernel, error: type[PolyloopError] = VerificationError
) -> Iterator[None]:
    """Context of a call on a kernel, in which broken invariants are faults of what was read, if it was.

    Raises
    ------
    PolyloopError
        An *error* with ``bad-form``.
    """
    try:
        yield
    except PolyloopError:
        raise
    except _FAULTS as fault:
        if not is_read(kernel):
            raise
        raise error(operation, kernel.name, [Diagnostic(
            "bad-form", "this kernel was read from a form, and its parts do not fit each other",
            (f"{type(fault).__name__}: {fault}"[:200],),
            ("load what pl.dumps or pickle wrote, whole and unchanged, or make the kernel again",))]) from fault
