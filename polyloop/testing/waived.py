"""Waived violations: those found by brute force that a waiver allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from polyloop.kernel.waivers import Waiver
from polyloop.testing.brute import Violation

__all__ = ["is_waived"]

_CLAIMS: Final = {"race": ("races",), "out-of-bounds": ()}
"""The claims about violations of a kind; of all others any may be."""


def is_waived(waivers: Sequence[Waiver], violations: Sequence[Violation]) -> bool:
    """Return whether *waivers* cover a violation, so that the others may follow from it."""
    return any(_is_about(waiver, violation) for waiver in waivers for violation in violations) and not any(
        violation.kind == "out-of-bounds" for violation in violations
    )


def _is_about(waiver: Waiver, violation: Violation) -> bool:
    claims = _CLAIMS.get(violation.kind)
    if not waiver.claims:
        return True
    return any(claim != "races" for claim in waiver.claims) if claims is None else bool({*claims} & {*waiver.claims})
