"""Claims about the kernel that a step makes which wait for the last kernel of a chain (``pl.together``).

Each claim is a function of a kernel alone, and is about the kernel beside its reference program, which no step changes.
So it may be proven of the last kernel in place of each one on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel

__all__ = ["Chain", "chained", "in_chain", "open_chain", "step_of", "waiting", "waits"]

_Claim: TypeAlias = Callable[[LoopKernel], Iterable[Diagnostic]]


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps that are checked together, and the claims that wait, in the order in which they were first made."""

    claims: dict[_Claim, None] = field(default_factory=dict)

    def problems(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        """Yield the reasons why a claim does not hold of *kernel*."""
        for claim in self.claims:
            yield from claim(kernel)


_open: Final[ContextVar[Chain | None]] = ContextVar("_open", default=None)
"""The chain of which the next step is a part."""
_own: Final[ContextVar[Chain | None]] = ContextVar("_own", default=None)
"""The chain of which the step under way is a part."""
_waiting: Final[ContextVar[bool]] = ContextVar("_waiting", default=False)
"""Flag of a step that looks at its result."""


def open_chain() -> Chain | None:
    """Return the chain of which a step that begins now is a part."""
    return _open.get()


@contextmanager
def chained(chain: Chain) -> Iterator[None]:
    """Let steps be parts of *chain*."""
    before = _open.set(chain)
    try:
        yield
    finally:
        _open.reset(before)


@contextmanager
def step_of(chain: Chain | None) -> Iterator[None]:
    """Context of a step of *chain*; steps inside of it are proven at once, as it acts on what they say."""
    following, own, is_waiting = _open.set(None), _own.set(chain), _waiting.set(False)
    try:
        yield
    finally:
        _open.reset(following)
        _own.reset(own)
        _waiting.reset(is_waiting)


@contextmanager
def waiting() -> Iterator[None]:
    """Let claims about the result of the step under way wait for the end of its chain, if there is one."""
    before = _waiting.set(True)
    try:
        yield
    finally:
        _waiting.reset(before)


def in_chain() -> bool:
    """Return True if the result of the step under way is proven at the end of a chain, beside the program."""
    return _own.get() is not None


def waits(claim: _Claim) -> bool:
    """Return True, and note *claim*, if it is to be shown for the last kernel of a chain and not now."""
    chain = _own.get() if _waiting.get() else None
    if chain is None:
        return False
    chain.claims[claim] = None
    return True
