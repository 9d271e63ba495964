"""What a target is: a name, a language table, and limits."""

from __future__ import annotations

from dataclasses import dataclass

from polyloop.codegen.language import Language
from polyloop.kernel.limits import DeviceLimits

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """Where a kernel is to run.

    Attributes
    ----------
    name
        ``"c"`` or ``"cuda"``.
    language
        Tables for code generation.
    limits
        What schedules must respect.
    arch
        Architecture that the code is compiled for, such as ``"sm_90"``; empty for the C target.
    """

    name: str
    language: Language
    limits: DeviceLimits
    arch: str = ""
