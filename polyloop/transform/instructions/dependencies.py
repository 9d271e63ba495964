"""``add_dependency``, ``add_nosync``: order of instructions, and conflicts without synchronization, by the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.nosync import meetings, proven_conflict
from polyloop.errors import Diagnostic
from polyloop.kernel.build.text_order import stable_order
from polyloop.kernel.instruction import Copy, ExplicitBarrier, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.match import Glob, Subject
from polyloop.kernel.text.options import NoSync, SyncScope
from polyloop.transform.base import Transform
from polyloop.transform.instructions.matching import match_violations, meant, reference_id
from polyloop.transform.parameters import InsnMatch, Word
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["AddDependency", "AddNosync", "must_precede"]



@dataclass(frozen=True)
class AddDependency(Transform):
    """Let instructions run after others, as ``dep=`` does.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["b[i] = 2 {id=second}", "a[i] = 1 {id=first}"])
    >>> print(body(knl.add_dependency("id:second", "id:first")))
    for (int i = 0; i < 8; ++i) {
        a[i] = 1;  // first
        b[i] = 2;  // second
    }

    Parameters
    ----------
    insn_match
        Match expression of the dependent instructions, such as an id, or ``"reads:a"``.
    depends_on
        Match expression of their predecessors.  Either may be the id of a barrier, ``"id:wait"``, which stays where it
        stands: then the kernel is as it was, if the order is the one that is asked for.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``syntax``, ``dependency-cycle`` (with the cycle), ``illegal-order``.

    Notes
    -----
    No value changes: instructions that share variables keep their order, and a dependency against it is refused.
    Source: Loopy's transform of the same name.
    """

    insn_match: InsnMatch
    depends_on: InsnMatch

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if sides := self._with_barriers(kernel):
            yield from _barrier_violations(kernel, *sides, self.name)
            return
        found = tuple(match_violations(kernel, (self.insn_match, self.depends_on), self.name))
        yield from found
        if found:
            return
        asked = self._asked(kernel)
        if not any(asked.values()):
            yield Diagnostic(
                "dependency-cycle",
                f"'{next(iter(asked))}' would depend on itself",
                hints=("name two instructions",),
            )
            return
        order = stable_order([i.id for i in kernel.instructions], must_precede(kernel, asked))
        if isinstance(order, tuple):
            yield self._cycle(kernel, order, asked)

    def _with_barriers(self, kernel: LoopKernel) -> tuple[ExplicitBarrier | str, ExplicitBarrier | str] | None:
        """Return the later and the earlier side, if one of them is a barrier: it, or a match expression."""
        barriers = {barrier.id: barrier for barrier in kernel.barriers}
        later, earlier = (
            barriers.get(text.strip().removeprefix("id:").strip(), text) for text in (self.insn_match, self.depends_on)
        )
        return None if isinstance(later, str) and isinstance(earlier, str) else (later, earlier)

    def _asked(self, kernel: LoopKernel) -> dict[str, frozenset[str]]:
        earlier = frozenset(instruction.id for instruction in meant(kernel, self.depends_on, self.name))
        later = meant(kernel, self.insn_match, self.name)
        return {instruction.id: earlier - {instruction.id} for instruction in later}

    def _cycle(self, kernel: LoopKernel, cycle: Sequence[str], asked: Mapping[str, frozenset[str]]) -> Diagnostic:
        notes = []
        for earlier, later in pairwise(cycle):
            first, second = kernel.instruction(earlier), kernel.instruction(later)
            if earlier in second.depends_on:
                notes.append(f"'{later}' depends on '{earlier}'")
            elif both := sorted(_shared(first, second)):
                notes.append(f"'{earlier}' stands before '{later}', and one of them writes '{both[0]}', which both use")
            elif earlier in asked.get(later, ()):
                notes.append(f"'{later}' would depend on '{earlier}'")
            else:
                notes.append(f"a barrier stands between '{earlier}' and '{later}'")
        return Diagnostic(
            "dependency-cycle",
            f"the instructions would wait for each other: {' -> '.join(map(repr, cycle))}",
            tuple(notes),
            ("instructions keep the order in which they access a variable; name the two the other way round",),
            sites=tuple(kernel.instruction(name).site() for name in dict.fromkeys(cycle)),
        )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        if self._with_barriers(kernel):
            return kernel
        asked = self._asked(kernel)
        order = stable_order([i.id for i in kernel.instructions], must_precede(kernel, asked))
        assert isinstance(order, list), "cycles are refused"
        changed = {
            i.id: replace(i, depends_on=i.depends_on | asked[i.id]) if i.id in asked else i for i in kernel.instructions
        }
        return replace(kernel, instructions=tuple(changed[name] for name in order))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return (*value_violations(after), *order_violations(after))


def _barrier_violations(
    kernel: LoopKernel, later: ExplicitBarrier | str, earlier: ExplicitBarrier | str, operation: str
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if *later* does not stand behind *earlier*; one of them is a barrier."""
    sides = [side for side in (later, earlier) if isinstance(side, str)]
    if found := tuple(match_violations(kernel, sides, operation)):
        yield from found
        return
    hint = "a barrier stays where the text has it: move the line, or let pl.add_barrier set another one"
    if isinstance(later, ExplicitBarrier) and isinstance(earlier, ExplicitBarrier):
        if not earlier.before < later.before:
            message = f"barrier '{later.id}' does not stand behind barrier '{earlier.id}'"
            yield Diagnostic("illegal-order", message, hints=(hint,), sites=(later.site(), earlier.site()))
        return
    barrier, text = (later, earlier) if isinstance(later, ExplicitBarrier) else (earlier, later)
    assert isinstance(barrier, ExplicitBarrier), "one side is a barrier"
    assert isinstance(text, str), "one side is a barrier"
    for instruction in meant(kernel, text, operation):
        is_before = reference_id(instruction) in barrier.before
        if is_before is not (barrier is later):
            where = "behind" if barrier is later else "in front of"
            message = f"'{instruction.id}' stands {where} barrier '{barrier.id}'"
            yield Diagnostic("illegal-order", message, hints=(hint,), sites=(instruction.site(), barrier.site()))
            return


def _shared(first: Instruction, second: Instruction) -> frozenset[str]:
    """Return the variables that two instructions access and one of them writes."""
    writes = (frozenset(first.writes), frozenset(second.writes))
    return (writes[0] & (second.reads | writes[1])) | (first.reads & writes[1])


def must_precede(kernel: LoopKernel, asked: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """Return the predecessors of each instruction: by ``dep=``, by *asked*, by barriers and by shared variables."""
    before: dict[str, set[str]] = {}
    for number, later in enumerate(kernel.instructions):
        mine = before[later.id] = {*later.depends_on, *asked.get(later.id, ())}
        for earlier in kernel.instructions[:number]:
            a, b = reference_id(earlier), reference_id(later)
            apart = any(a in barrier.before and b not in barrier.before for barrier in kernel.barriers)
            if apart or _shared(earlier, later):
                mine.add(earlier.id)
    known = before.keys()
    return {name: mine & known for name, mine in before.items()}


@dataclass(frozen=True)
class AddNosync(Transform):
    """Assert that instructions on different threads access no common element, where this cannot be proven.

    >>> knl = pl.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     ["a[idx[i]] = b[i] {id=w}", "c[i] = a[idx[i]] {id=r}"],
    ...     [pl.GlobalArg("idx", np.int32, shape="n"), pl.GlobalArg("a", np.float32, shape="n"), ...],
    ... )
    >>> print(knl.add_nosync("any", "id:w", "id:r"))
    kernel loop_kernel
    ...
    instructions:
        [i]  a[idx[i]] = b[i]    {id=w}
        [i]  c[i] = a[idx[i]]    {id=r, nosync=w}

    Parameters
    ----------
    scope
        Scope of the threads: ``"local"`` (of one block), ``"global"`` (of different blocks) or ``"any"``.
    source, sink
        Match expressions, such as an id, or ``"writes:a"``.
    bidirectional
        Record ``nosync`` at both instructions; the effect is the same.
    force
        Include pairs of instructions without a conflict.
    empty_ok
        Accept if there is no conflict at all.

    Raises
    ------
    TransformError
        ``unknown-instruction``, ``syntax``, ``bad-value``; ``proven-conflict`` (with the instances) where the conflict
        is known exactly; ``idle-nosync`` where there is none.

    Notes
    -----
    The assertion is not checked. It is recorded in the trace, and removes exactly the named conflict. Source: Loopy's
    transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    scope: Word
    source: InsnMatch
    sink: InsnMatch
    bidirectional: bool = False
    force: bool = False
    empty_ok: bool = False

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.scope not in {scope.value for scope in SyncScope}:
            yield Diagnostic("bad-value", f"no scope {self.scope!r}", hints=('one of "local", "global", "any"',))
            return
        found = tuple(match_violations(kernel, (self.source, self.sink), self.name))
        yield from found
        if found:
            return
        assert kernel.reference is not None, "a created kernel has a reference program"
        placement = place(kernel.reference.kernel)
        facts = (proven_conflict(placement, *sides, "drop the call") for sides in self._pairs(kernel))
        proven = [finding for finding in facts if finding is not None]
        yield from proven
        if not (proven or self.empty_ok or self._denied(kernel)):
            yield Diagnostic(
                "idle-nosync",
                f"nothing is denied: there is no conflict between '{self.source}' and '{self.sink}'",
                hints=("drop the call, or pass empty_ok=True",),
            )

    def _pairs(self, kernel: LoopKernel) -> list[tuple[str, str]]:
        """Return the ids of source and sink in the reference program, each pair once."""
        return list(
            dict.fromkeys(
                (reference_id(source), reference_id(sink))
                for source in meant(kernel, self.source, self.name)
                for sink in meant(kernel, self.sink, self.name)
                if isinstance(source.origin, Copy) and isinstance(sink.origin, Copy)
            )
        )

    def _denied(self, kernel: LoopKernel) -> dict[str, frozenset[NoSync]]:
        """Return the denied conflicts of each sink, by its id in the reference program."""
        assert kernel.reference is not None, "a created kernel has a reference program"
        placement = place(kernel.reference.kernel)
        found: dict[str, frozenset[NoSync]] = {}
        for source, sink in self._pairs(kernel):
            if self.force or any(True for _ in meetings(placement, source, sink)):
                for one, other in ((source, sink), (sink, source))[: 2 if self.bidirectional else 1]:
                    entry = NoSync(Glob(Subject.ID, one), SyncScope(self.scope))
                    found[other] = found.get(other, frozenset()) | {entry}
        return found

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        denied = self._denied(kernel)

        def said(old: LoopKernel) -> LoopKernel:
            entries = tuple(
                replace(i, nosync=i.nosync | denied[reference_id(i)])
                if isinstance(i.origin, Copy) and reference_id(i) in denied
                else i
                for i in old.instructions
            )
            return replace(old, instructions=entries)

        assert kernel.reference is not None, "a created kernel has a reference program"
        reference = replace(kernel.reference, kernel=said(kernel.reference.kernel))
        return replace(said(kernel), reference=reference)
