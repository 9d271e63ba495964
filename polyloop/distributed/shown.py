"""A divided kernel as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from polyloop.distributed.analysis import Analysis
from polyloop.distributed.fields import Storage
from polyloop.distributed.phases import Phase, Step
from polyloop.distributed.scatter import scattered

__all__ = ["described"]


def described(analysis: Analysis) -> list[str]:
    """Return phases, loops of the host, reductions and halos, a line each."""
    lines = []

    def visit(steps: Sequence[Step], indent: str) -> None:
        for step in steps:
            if isinstance(step, Phase):
                local = next(entry for entry in analysis.locals if entry.phase is step)
                lines.append(f"{indent}{local.kernel.name}: {', '.join(step.instructions)}")
                for pack in local.packs:
                    word = "receives" if pack.is_received else "sends"
                    lines.append(f"{indent}    {pack.name}: what it {word} of '{pack.array}'")
                lines.extend(f"{indent}    {entry.name}: what it reads of '{entry.array}' elsewhere"
                             for entry in local.fields if entry.storage is Storage.WINDOW)
                for name in step.instructions:
                    if (found := analysis.homes.combined.get(name)) is not None:
                        axes = ", ".join(f"mesh.{axis}" for axis in found.axes)
                        each = ", to each rank its block" if scattered(analysis.homes, found) else ""
                        lines.append(f"{indent}{found.operation} of '{found.array}' over {axes}{each}")
            else:
                lines.append(f"{indent}for {step.iname}")
                visit(step.body, indent + "    ")

    visit(analysis.steps, "    ")
    for array, halo in analysis.halos.items():
        if any(low or high for low, high in halo):
            lines.append(f"    halo of '{array}': {', '.join(f'{low} below, {high} above' for low, high in halo)}")
    return lines
