"""Certificates of kernels: proven claims, checks at a call, and assumptions on the user's word."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from polyloop.codegen.program import LaunchCheck
from polyloop.display import Shown, brief
from polyloop.errors import Diagnostic
from polyloop.expr.printer import show
from polyloop.proof.obligation import Proof
from polyloop.schedule.plan import Wait
from polyloop.serial.value import Value

__all__ = ["Assumption", "Certificate"]

_WIDTH = 94


@dataclass(frozen=True)
class Assumption(Shown):
    """Assumption of the proofs.

    Attributes
    ----------
    what
        The assumption as a sentence.
    error
        The error that a call raises where it does not hold; empty for the user's word, which nothing checks.
    check
        Condition on sizes that each call evaluates, None for other assumptions.
    """

    what: str
    error: str = ""
    check: LaunchCheck | None = None

    __repr__ = brief


@dataclass(frozen=True, eq=False)
class Certificate(Value, Shown):
    """Proof results of a kernel, as :func:`polyloop.verify` returns them.

    Attributes
    ----------
    proofs
        Obligations, each with the argument of its proof, the number of relations examined, and the time of the proof
        [s], which may have been done by a transform.
    waits
        Conflicts between threads, with the barrier that orders each.
    assumptions
        Assumptions of the proofs.
    unchecked
        The reasons given to ``pl.unchecked``; none for most kernels.
    rewrites
        The steps that made another program on purpose, as calls: what is proven is proven of that program.
    program
        Launches in the loops of the host around them, as indented lines; empty where the host has no loops.
    remarks
        What is carried out by other means than the kernel asks for, as on one thread, or than some devices have; the
        warnings of :func:`generate_code` are among them, also those that the kernel silences.
    """

    kernel: str
    target: str
    proofs: tuple[Proof, ...]
    waits: tuple[Wait, ...]
    assumptions: tuple[Assumption, ...]
    unchecked: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()

    @property
    def is_proven(self) -> bool:
        """True if every obligation is proven; it always is, unless ``pl.unchecked`` waived one."""
        return not self.open

    @property
    def open(self) -> tuple[Diagnostic, ...]:
        """Findings of obligations that are refuted or not proven, and waived by ``pl.unchecked``."""
        return tuple(finding for proof in self.proofs for finding in proof.found)

    @property
    def ms(self) -> float:
        """Total time of the proofs when they were found [milliseconds]."""
        return sum(proof.ms for proof in self.proofs)

    @property
    def relations(self) -> int:
        """Relations between instances that were looked at."""
        return sum(proof.relations for proof in self.proofs)

    def to_json(self) -> str:
        """Return the certificate as a JSON object."""
        return json.dumps(
            {
                "kernel": self.kernel,
                "target": self.target,
                "proven": self.is_proven,
                "unchecked": list(self.unchecked),
                "rewrites": list(self.rewrites),
                "relations": self.relations,
                "ms": round(self.ms, 3),
                "proofs": [_proof_data(proof) for proof in self.proofs],
                "program": list(self.program),
                "remarks": [{"code": r.code, "message": r.message, "notes": list(r.notes)} for r in self.remarks],
                "waits": [_wait_data(wait) for wait in self.waits],
                "assumptions": [_assumption_data(entry) for entry in self.assumptions],
            },
            indent=2,
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return f"<Certificate of '{self.kernel}' for {self.target}: {_verdict(self)}>"


def _proof_data(proof: Proof) -> dict[str, object]:
    found = [{"code": f.code, "message": f.message, "notes": list(f.notes)} for f in proof.found]
    claim = {"claim": proof.claim.value, "subject": proof.subject.strip("'"), "says": proof.says, "by": proof.by}
    return {**claim, "relations": proof.relations, "ms": round(proof.ms, 3), "found": found}


def _wait_data(wait: Wait) -> dict[str, object]:
    sides = {"array": wait.array, "first": wait.first, "second": wait.second, "loop": wait.loop}
    return {**sides, "scope": wait.scope.value, "by": wait.by}


def _assumption_data(entry: Assumption) -> dict[str, object]:
    condition = None if entry.check is None else show(entry.check.condition)
    return {"what": entry.what, "checked": bool(entry.error), "error": entry.error or None, "condition": condition}


def _verdict(certificate: Certificate) -> str:
    count = len(certificate.proofs)
    if certificate.is_proven:
        return f"{count} obligations proven"
    return f"{len(certificate.open)} findings let pass by pl.unchecked, of {count} obligations"


def _lines(certificate: Certificate) -> Iterator[str]:
    yield f"certificate of kernel '{certificate.kernel}' for {certificate.target}: {_verdict(certificate)}"
    for reason in certificate.unchecked:
        yield from _wrapped(f"unchecked: {reason}", "    ")
    for finding in certificate.open:
        yield from _wrapped(f"not proven: {finding.message.removeprefix('not proven: ')} [{finding.code}]", "    ")
    yield ""
    yield f"{'proven':<{_WIDTH + 4}}{'relations':>10}{'ms':>9}"
    holding = [proof for proof in certificate.proofs if not proof.found]
    for (claim, by), group in groupby(holding, key=lambda proof: (proof.claim, proof.by)):
        yield f"  {claim.value} ({by})"
        yield from _rows(list(group))
    yield f"  {'all':<{_WIDTH + 2}}{certificate.relations:>10}{certificate.ms:>9.2f}"
    yield from _listed("what made another program of it, on purpose", iter(certificate.rewrites))
    if certificate.program:
        yield ""
        yield "launches, each of which ends before the next begins"
        yield from (f"  {line}" for line in certificate.program)
    yield from _listed("what is carried out by other means", (f"{r.message} [{r.code}]" for r in certificate.remarks))
    yield from _listed("what keeps threads apart", map(str, certificate.waits))
    for title, checked in (("checked at each call", True), ("taken on your word", False)):
        entries = [a for a in certificate.assumptions if bool(a.error) is checked]
        yield from _listed(title, (f"{a.what} [{a.error}]" if a.error else a.what for a in entries))


_MOST = 8
"""Obligations of one kind that are shown one by one."""


def _rows(proofs: Sequence[Proof]) -> Iterator[str]:
    shown = proofs if len(proofs) <= _MOST else proofs[: _MOST - 1]
    for proof in shown:
        *first, last = wrap(proof.says, _WIDTH, subsequent_indent="  ")
        yield from (f"    {line}" for line in first)
        yield f"    {last:<{_WIDTH}}{proof.relations:>10}{proof.ms:>9.2f}"
    rest = proofs[len(shown) :]
    if rest:
        text = f"the same of {len(rest)} more"
        yield f"    {text:<{_WIDTH}}{sum(p.relations for p in rest):>10}{sum(p.ms for p in rest):>9.2f}"


def _listed(title: str, entries: Iterator[str]) -> Iterator[str]:
    listed = list(entries)
    if listed:
        yield ""
        yield title
        for entry in listed:
            yield from _wrapped(entry, "  ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(text, _WIDTH + 23, initial_indent=indent, subsequent_indent=indent + "  ")
