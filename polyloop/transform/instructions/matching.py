"""Resolution of match expressions to the instructions of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polyloop.errors import Diagnostic, KernelError
from polyloop.kernel.instruction import Copy, Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.match import matches, parse_match

__all__ = ["match_violations", "meant", "reference_id"]


def meant(kernel: LoopKernel, text: str | None, operation: str) -> tuple[Instruction, ...]:
    """Return the instructions that a match expression means, all if there is none."""
    if text is None:
        return kernel.instructions
    wanted = parse_match(text, operation)
    return tuple(instruction for instruction in kernel.instructions if matches(wanted, instruction))


def match_violations(kernel: LoopKernel, texts: Iterable[str], operation: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each match expression that is malformed or selects no instruction."""
    for text in texts:
        try:
            if meant(kernel, text, operation):
                continue
        except KernelError as error:
            yield from error.found
            continue
        ids = ", ".join(instruction.id for instruction in kernel.instructions)
        yield Diagnostic("unknown-instruction", f"'{text}' means no instruction", hints=(f"ids: {ids}",), subject=text)


def reference_id(instruction: Instruction) -> str:
    """Return the id in the reference program, or its own for an instruction that a transform made."""
    return instruction.origin.instruction if isinstance(instruction.origin, Copy) else instruction.id
