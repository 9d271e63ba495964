"""Proof obligations of a kernel, and their results.

An :class:`Obligation` is one claim about one thing, such as the order of the accesses to one array.  It is discharged
once for each kernel, within ISL's budget, and its :class:`Proof` is kept: transforms, the schedule and
``pl.verify`` ask for the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from inspect import signature
from time import perf_counter
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from polyloop.display import Shown
from polyloop.edge.calls import too_deep
from polyloop.errors import Diagnostic, KernelError, PolyloopError, Site, VerificationError
from polyloop.frozen import quick
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placed
from polyloop.memo import known, memoised
from polyloop.poly.budget import DEFAULT_OPERATIONS, NoAnswer, OutOfOperations, OutOfTime, limited, one_call
from polyloop.program.lower import Access, Lowered
from polyloop.progress import Bar, progress

__all__ = [
    "WAIVABLE",
    "Claim",
    "Obligation",
    "Proof",
    "discharged",
    "findings",
    "in_time",
    "is_waived",
    "left_open",
    "prove",
    "public_call",
    "share_proofs",
    "within_budget",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")



class Claim(Enum):
    """Kind of an obligation."""

    DEVICE = "device"
    COVERAGE = "coverage"
    OPERANDS = "operands"
    VALUES = "values"
    REDUCTION = "reduction"
    ORDER = "order"
    TERMS = "terms"
    STORAGE = "storage"
    RACES = "races"
    BARRIERS = "barriers"
    BOUNDS = "bounds"
    LAYOUT = "layout"

    __hash__ = object.__hash__  # each is one object

    @property
    def is_about_values(self) -> bool:
        """True if the claim is about values alone, and can be waived by the user with a reason."""
        return self.value in WAIVABLE


WAIVABLE: Final = ("coverage", "values", "reduction", "order", "terms", "races")
"""The kinds of obligations that ``pl.unchecked`` may be about; any other one stays strict."""


@quick
@dataclass(frozen=True, eq=False)
class Obligation:
    """One claim about one thing.

    Attributes
    ----------
    claim, subject
        The claim, and its subject: ``"'a'"``.  Together they name the obligation in its kernel.
    says
        The claim as a sentence.
    by
        The relation, or the kind of argument, that shows it; a function if that takes a look.
    find
        Why it does not hold; nothing if it does.
    given
        Further inputs besides the kernel: the device.
    is_strict
        Whether ``pl.unchecked`` is not about it, though its claim is about values: generated code rests on it.
    """

    claim: Claim
    subject: str
    says: str
    by: str | Callable[[], str]
    find: Callable[[], Iterable[Diagnostic]]
    given: Hashable = None
    is_strict: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Obligation) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Claim, str, Hashable]:
        return self.claim, self.subject, self.given


@quick
@dataclass(frozen=True)
class Proof(Shown):
    """Result of an obligation.

    Attributes
    ----------
    by
        What shows it; empty if ISL gave up, which is tried again the next time.
    relations
        Relations between instances that were looked at.
    ms
        Time of the proof [milliseconds].
    found
        Why it does not hold, or is not proven; nothing if it holds.
    """

    claim: Claim
    subject: str
    says: str
    by: str
    relations: int = field(compare=False)
    ms: float = field(compare=False)
    found: tuple[Diagnostic, ...] = ()
    is_strict: bool = False


def _is_open(proof: Proof) -> bool:
    return not proof.by


_SILENT_SECONDS: Final = 2.0
"""Seconds of a public call before it shows its proofs."""
_proofs: Final[list[Bar]] = []
"""The bar of the public call under way."""


@memoised(unless=_is_open)
def prove(kernel: LoopKernel, obligation: Obligation) -> Proof:
    """Return the proof of *obligation*."""
    del kernel
    return discharged(obligation)


def discharged(obligation: Obligation) -> Proof:
    """Return the proof of an obligation that may be about one text and no kernel."""
    for bar in _proofs:
        bar.note(obligation.says)
    begin = perf_counter()
    gave_up = False
    try:
        with limited() as tally:
            found = tuple(obligation.find())
        relations = tally.relations
    except NoAnswer as error:
        found, relations, gave_up = (_not_proven(obligation.says, error, obligation.claim),), 0, True
    ms = 1e3 * (perf_counter() - begin)
    for bar in _proofs:
        bar.step()
    by = "" if gave_up else obligation.by if isinstance(obligation.by, str) else obligation.by()
    return Proof(obligation.claim, obligation.subject, obligation.says, by, relations, ms, found, obligation.is_strict)


_SHARED = frozenset({Claim.COVERAGE, Claim.OPERANDS, Claim.VALUES, Claim.REDUCTION, Claim.ORDER})


def share_proofs(old: LoopKernel, new: LoopKernel) -> None:
    """Copy proofs about values from *old* to *new*.

    The two stand for one program on threads (:func:`place`): they differ in their traces, of which no claim speaks, or
    *new* has the loops over lanes that *old* is looked at with.
    Proofs about threads stay where they are: what they find on the way is kept with the placement of their kernel.
    """
    there = known(prove, new)
    for key, proof in known(prove, old).items():
        if proof.claim in _SHARED:
            there.setdefault(key, proof)


def findings(kernel: LoopKernel, obligations: Iterable[Obligation]) -> Iterator[Diagnostic]:
    """Yield the findings of *obligations* that do not hold; waived ones are skipped."""
    for obligation in obligations:
        if not is_waived(kernel, obligation.claim, obligation.subject, is_strict=obligation.is_strict):
            yield from prove(kernel, obligation).found


def is_waived(kernel: LoopKernel, claim: Claim, subject: str, *, is_strict: bool = False) -> bool:
    """Return whether the user lets an obligation of *kernel* pass without a proof."""
    if is_strict or not claim.is_about_values:
        return False
    return any(waiver.covers(claim.value, subject) for waiver in kernel.waivers)


class _Within:
    """See :func:`within_budget`."""

    def __init__(self, kernel: LoopKernel, says: str) -> None:
        self.kernel = kernel
        self.says = says
        self.question = limited()

    def __enter__(self) -> None:
        self.question.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            self.question.__exit__(kind, failure, at)
        except NoAnswer as error:
            problem = _not_proven(self.says, error)
            raise VerificationError("schedule", self.kernel.name, [problem]) from error


def within_budget(kernel: LoopKernel, says: str) -> AbstractContextManager[None]:
    """Context of a question that code generation needs answered; *says* is the question as a claim.

    Raises
    ------
    VerificationError
        ``not-proven``, if ISL gave up.
    """
    return _Within(kernel, says)


@contextmanager
def public_call(operation: str, kernel: str | None, error: type[PolyloopError] = VerificationError) -> Iterator[None]:
    """Context of one public call, which ends within ``pl.time_budget``.

    Raises
    ------
    PolyloopError
        If it is the outermost call: an *error* with ``out-of-time``, where it takes longer, or with ``too-deep``, where
        loops, expressions or rules are nested deeper than Python's stack allows.
    """
    is_outermost = False
    try:
        with one_call() as is_outermost:
            if not is_outermost:
                yield
                return
            with progress(f"proofs of {operation}", None, "proof", delay=_SILENT_SECONDS, stays=False) as bar:
                _proofs.append(bar)
                try:
                    yield
                finally:
                    _proofs.remove(bar)
    except OutOfTime as late:
        if not is_outermost:
            raise
        raise error(operation, kernel, [_out_of_time(late)]) from late
    except RecursionError:
        if not is_outermost:
            raise
        raise error(operation, kernel, [too_deep()]) from None


def in_time(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make *function* a public call (:func:`public_call`): its first argument is a kernel, or it makes one."""
    makes = "name" in signature(function).parameters
    operation = "make_kernel" if makes else function.__name__

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        kernel = kwargs.get("name") if makes else getattr(args[0] if args else None, "name", None)
        error = KernelError if makes else VerificationError
        with public_call(operation, kernel if isinstance(kernel, str) else None, error):
            return function(*args, **kwargs)

    return call


def _out_of_time(late: OutOfTime) -> Diagnostic:
    notes, sites = _looked_at(late.last)
    longer = f"let each call take longer: with pl.time_budget({10 * late.seconds:g})"
    smaller = "fix a parameter (pl.fix_parameters), simplify subscripts or domains, or divide the kernel"
    message = f"no answer within {late.seconds:g} s of processor time"
    facts = (f"it looked last {notes}",) if notes else ()
    return Diagnostic("out-of-time", message, facts, (smaller, longer), sites=sites)


_WAY_OUT = ('if it holds for a reason that ISL does not find: pl.unchecked(knl, "that reason")',)


def _not_proven(says: str, error: NoAnswer, claim: Claim | None = None) -> Diagnostic:
    notes, sites = _looked_at(error.last)
    hints = ["fix a parameter (pl.fix_parameters), or simplify the subscripts or the domains"]
    if isinstance(error, OutOfOperations):
        more = 10 * max(error.operations, DEFAULT_OPERATIONS)
        hints.append(f"let ISL take longer: with pl.operation_budget({more})")
    return Diagnostic(
        "not-proven",
        f"not proven: {says}",
        (f"ISL {error.reason} {notes}".rstrip(),),
        (
            *hints,
            *_WAY_OUT[: claim is not None and claim.is_about_values and claim is not Claim.RACES],
        ),
        sites=sites,
    )


def left_open(question: str, error: NoAnswer) -> Diagnostic:
    """Return ``left-open``: ISL gave up on a *question* that affects the speed of the text, not its results."""
    notes, sites = _looked_at(error.last)
    return Diagnostic(
        "left-open",
        f"left open {question}",
        (f"ISL {error.reason} {notes}".rstrip(),),
        ("fix a parameter (pl.fix_parameters), or simplify the subscripts or the domains",),
        sites=sites,
    )


def _looked_at(last: tuple[object, ...]) -> tuple[str, tuple[Site, ...]]:
    """Return the two sides of the last relation, in words and as statements."""
    match last:
        case (str() as array, *statements):
            ids = dict.fromkeys(s.lowered.instruction for s in statements if isinstance(s, Placed))
            listed = ", ".join(f"'{instruction.id}'" for instruction in ids)
            words = f"on where the reads of '{array}' get their values from: it is used by {listed}"
            return words, tuple(instruction.site() for instruction in list(ids)[:2])
        case (Placed() as first, Access() as a, Placed() as second, Access() as b):
            one, other = (s.lowered.instruction for s in (first, second))
            words = f"on the access to '{a.array}' in '{one.id}' and the one to '{b.array}' in '{other.id}'"
            return words, tuple(dict.fromkeys((one.site(), other.site())))
        case (Placed() as statement, *_):
            return f"on '{statement.lowered.instruction.id}'", (statement.lowered.instruction.site(),)
        case (Lowered() as lowered, Access() as access):
            words = f"on the access to '{access.array}' in '{lowered.instruction.id}'"
            return words, (lowered.instruction.site(),)
    return "", ()
