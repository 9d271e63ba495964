"""Name changes of a trace: names that each step removed and created, for messages about unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Change, Kind, Step, Trace
from polyloop.memo import memoised

__all__ = ["changes_of", "names_by_kind", "remember_step", "with_history"]

_KEPT: Final = 8
_MADE: Final = (
    ("_inner", Kind.INAME, 'split_iname("{}", ..)'),
    ("_outer", Kind.INAME, 'split_iname("{}", ..)'),
    ("_fetch", Kind.VARIABLE, 'add_prefetch("{}", ..)'),
    ("_buf", Kind.VARIABLE, 'buffer_array("{}", ..)'),
)
"""Ends of the names that transforms give to what they make, what they are made of, and the call."""


def names_by_kind(kernel: LoopKernel) -> Mapping[Kind, tuple[str, ...]]:
    """Return the names in a kernel, in an order that corresponding kernels share."""
    arguments = (argument.name for argument in kernel.arguments)
    return {
        Kind.INAME: kernel.inames,
        Kind.INSTRUCTION: tuple(instruction.id for instruction in kernel.instructions),
        Kind.VARIABLE: (*arguments, *kernel.temporaries, *kernel.substitutions),
    }


def changes_of(before: LoopKernel, after: LoopKernel) -> tuple[Change, ...]:
    """Return the removed and the new names, for each kind that changed."""
    old, new = names_by_kind(before), names_by_kind(after)
    return tuple(change for kind in Kind for change in _changes(kind, old[kind], new[kind]))


def _changes(kind: Kind, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Change]:
    """Yield the changes; names that took the places of others by themselves."""
    gone, made = _left(old, new), _left(new, old)
    if len(old) == len(new) and [old.index(name) for name in gone] == [new.index(name) for name in made]:
        yield from (Change(kind, (one,), (other,)) for one, other in zip(gone, made, strict=True))
    elif gone or made:
        yield Change(kind, gone, made)


def _left(names: tuple[str, ...], without: tuple[str, ...]) -> tuple[str, ...]:
    if names == without:
        return ()
    known = set(without)
    return tuple(name for name in names if name not in known)


def _kind_of(code: str) -> Kind:
    """Return the kind of name that a diagnostic ``unknown-..`` misses."""
    return next((kind for kind in (Kind.INAME, Kind.INSTRUCTION) if code == f"unknown-{kind.value}"), Kind.VARIABLE)


def _forgotten(kernel: LoopKernel, kind: Kind, name: str) -> str | None:
    """Return the call that would have made *name* of a name in *kernel*, None if it is no such name."""
    known = names_by_kind(kernel)
    for suffix, of, call in _MADE:
        base = name.removesuffix(suffix)
        if base != name and base in known[of] and (of is kind or kind is Kind.VARIABLE):
            return call.format(base)
    return None


@memoised
def _steps_from(kernel: LoopKernel) -> list[Step]:
    """Return the last steps that were applied to *kernel*, for which the list stands while the kernel lives."""
    return []


def remember_step(kernel: LoopKernel, step: Step) -> None:
    """Keep with *kernel* that *step* made another one of it: what it made may be looked for in *kernel* later."""
    steps = _steps_from(kernel)
    steps[:] = [*steps[1 - _KEPT :], step]


def _hint_of_forgotten(kernel: LoopKernel, kind: Kind, name: str) -> str:
    """Return the hint for a *name* that may be one of a kernel that was made of *kernel*, empty for others."""
    call = _forgotten(kernel, kind, name)
    if call is None:
        return _lost(kernel, kind, name)
    return f"{call} makes one in the kernel that it returns, and leaves this one as it is: knl = knl.{call}"


def _lost(kernel: LoopKernel, kind: Kind, name: str) -> str:
    """Return the hint for a *name* that a step made of *kernel*, whose result is another kernel; empty for others."""
    for step in reversed(_steps_from(kernel)):
        if any(change.kind is kind and name in change.made for change in step.changes):
            call = step.call()
            return f"{call} made it in the kernel that it returned, and left this one as it was: knl = knl.{call}"
    return ""


def with_history(kernel: LoopKernel, finding: Diagnostic) -> Diagnostic:
    """Return *finding*, with notes on the step that removed its subject from *kernel*, and on the new names.

    A name as transforms make them, of a name in *kernel*, is one whose kernel may have been forgotten on the way.
    """
    trace = kernel.trace
    if not finding.subject:
        return finding
    kind = _kind_of(finding.code)
    notes: list[str] = []
    left = list(_followed(trace, kind, {finding.subject}, notes))
    if not notes:
        hint = _hint_of_forgotten(kernel, kind, finding.subject) if finding.code.startswith("unknown-") else ""
        return replace(finding, hints=(*finding.hints, hint)) if hint else finding
    hints = (f"in its place: {', '.join(left)}",) if left else finding.hints
    return replace(finding, notes=(*finding.notes, *notes), hints=hints)


def _followed(trace: Trace, kind: Kind, names: Collection[str], notes: list[str]) -> Iterator[str]:
    """Yield the descendants of *names* after all steps; *notes* gets an entry for each step."""
    wanted = dict.fromkeys(names)
    for number, step in enumerate(trace, 1):
        for change in step.changes:
            met = [name for name in wanted if name in change.gone] if change.kind is kind else []
            if not met:
                continue
            what = " and ".join(f"'{name}'" for name in met)
            into = f"became {', '.join(change.made)}" if change.made else "went"
            notes.append(f"{what} {into} in step {number}: {step.call()}")
            for name in met:
                del wanted[name]
            wanted |= dict.fromkeys(change.made)
    if notes:
        yield from wanted
