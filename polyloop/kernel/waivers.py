"""Waivers: obligations that the user allows to stay unproven, each with a reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Waiver"]


@dataclass(frozen=True)
class Waiver:
    """A reason for which obligations may stay unproven.

    Attributes
    ----------
    claims
        Kinds of obligations that it is about; all that a user can waive, if empty.
    arrays
        Variables that it is about; all, if empty.
    """

    reason: str
    claims: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = ", ".join(self.claims)
        listed = ", ".join(f"'{name}'" for name in self.arrays)
        scope = f"{kinds} of {listed}" if kinds and listed else kinds or listed
        return f"{self.reason} ({scope})" if scope else self.reason

    def covers(self, claim: str, subject: str) -> bool:
        """Return whether the waiver covers an obligation of kind *claim* about *subject*, which quotes a variable."""
        about = not self.arrays or any(subject.startswith(f"'{name}'") for name in self.arrays)
        return about and (not self.claims or claim in self.claims)
