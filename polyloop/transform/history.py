"""Name changes of a trace: names that each step removed and created, for messages about unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from polyloop.errors import Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Change, Kind, Step, Trace
from polyloop.memo import memoised

__all__ = ["changes_of", "keep_made", "names_by_kind", "with_history"]


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


@memoised
def _made_elsewhere(kernel: LoopKernel) -> dict[tuple[Kind, str], Step]:
    """Return the names that steps made in the kernels that they returned for *kernel*, each with its first step."""
    del kernel
    return {}


def keep_made(kernel: LoopKernel, step: Step) -> None:
    """Record the names that a step of *kernel* made in the kernel that it returned, for messages."""
    names = _made_elsewhere(kernel)
    for change in step.changes:
        for name in change.made:
            names.setdefault((change.kind, name), step)


def with_history(kernel: LoopKernel, finding: Diagnostic) -> Diagnostic:
    """Return *finding*, with notes on the step that removed its subject from *kernel*, and on the new names.

    A name that is in a kernel which a step has returned, and is not in *kernel* itself, was forgotten on the way.
    """
    trace = kernel.trace
    if not finding.subject:
        return finding
    kind = _kind_of(finding.code)
    step = _made_elsewhere(kernel).get((kind, finding.subject))
    if step is not None and finding.code.startswith("unknown-"):
        note = f"'{finding.subject}' is in the kernel that {step.call()} returned"
        hint = "a transform returns a new kernel and leaves this one as it is: keep what it returns, knl = ..."
        return replace(finding, notes=(*finding.notes, note), hints=(hint,))
    notes: list[str] = []
    left = list(_followed(trace, kind, {finding.subject}, notes))
    if not notes:
        return finding
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
