"""Drafts: statements before inference of their inames; and errors of creation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polyloop.errors import Diagnostic, KernelError, Site
from polyloop.expr.nodes import Expression
from polyloop.kernel.text.parser import ParsedBarrier, ParsedInstruction

__all__ = ["BarrierDraft", "Draft", "fail", "site_of"]


def fail(
    code: str, message: str, *, hints: Iterable[str] = (), notes: Iterable[str] = (), site: Site | None = None
) -> KernelError:
    """Return the error of ``make_kernel`` with one finding."""
    sites = () if site is None else (site,)
    return KernelError("make_kernel", None, [Diagnostic(code, message, tuple(notes), tuple(hints), sites=sites)])


@dataclass
class Draft:
    """A statement while its inames are still being found."""

    parsed: ParsedInstruction
    id: str
    inames: frozenset[str]
    expanded: Expression


@dataclass(frozen=True)
class BarrierDraft:
    """A barrier of the text, before instruction number ``position``."""

    parsed: ParsedBarrier
    id: str
    position: int

    def site(self) -> Site:
        """Return the place for a diagnostic."""
        return self.parsed.place.site(self.id)


def site_of(parsed: ParsedInstruction, name: str | None = None) -> Site:
    """Return the place of a statement for a diagnostic."""
    return parsed.place.site(name or parsed.id)
