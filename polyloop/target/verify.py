"""``pl.verify``: all proof obligations of a schedule, discharged now, with their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyloop.codegen.program import GeneratedProgram
from polyloop.expr.printer import show
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import show_tree
from polyloop.poly.budget import budget
from polyloop.proof.obligation import public_call
from polyloop.proof.read import of_what_was_read
from polyloop.schedule.build import build_verified
from polyloop.schedule.plan import Launch, program_tree
from polyloop.schedule.trust import taken_on_trust
from polyloop.target.base import Target, target_of
from polyloop.target.budget import operation_budget
from polyloop.target.certificate import Assumption, Certificate
from polyloop.target.cuda import CudaTarget
from polyloop.target.remarks import remarks_of
from polyloop.target.source import generate_code
from polyloop.transform.base import Applied

__all__ = ["verify"]


def verify(kernel: LoopKernel, *, target: Target | None = None, max_operations: int | None = None) -> Certificate:
    """Prove the obligations of code generation, and return them with their proofs and assumptions.

    Parameters
    ----------
    target
        For which target; by default the kernel's, and that is CUDA unless it was created with another one.
    max_operations
        Number of operations that ISL may take for one obligation, in place of that of :func:`operation_budget`.

    Returns
    -------
    Certificate
        Print it, or take ``proofs``, ``waits`` and ``assumptions`` as data.  Obligations proven before, by a transform
        or code generation, are not proven again; their figures are those of the first proof.

    Raises
    ------
    VerificationError
        An obligation that does not hold, with two instances; ``not-proven`` where ISL gave up.
    CodegenError
        The target cannot express the kernel.
    """
    limit = operation_budget(budget() if max_operations is None else max_operations)
    with limit, public_call("verify", kernel.name), of_what_was_read("verify", kernel):
        chosen = target_of(kernel, target) or CudaTarget()
        verified = build_verified(kernel, chosen.limits)
        program = generate_code(kernel, chosen)
    return Certificate(
        kernel=kernel.name,
        target=chosen.name,
        proofs=(*verified.proofs, *program.proofs),
        waits=verified.waits,
        assumptions=(*_checked(program), *map(Assumption, taken_on_trust(verified.placement))),
        unchecked=tuple(map(str, kernel.waivers)),
        program=tuple(_program(verified.schedule.launches)),
        remarks=tuple(remarks_of(verified.schedule, chosen.language, program)),
        rewrites=tuple(s.call() for s in kernel.trace if isinstance(s, Applied) and s.transform.changes_meaning),
    )


def _program(launches: Sequence[Launch]) -> Iterator[str]:
    """Yield the lines of the host's program, if it has loops."""
    if any(launch.home for launch in launches):
        yield from show_tree(program_tree(launches), str).splitlines()


def _checked(program: GeneratedProgram) -> Iterator[Assumption]:
    """Yield the assumptions that a call of the compiled kernel checks."""
    for check in program.checks:
        yield Assumption(check.message, check.code, check)
    for check in program.index_checks:
        yield Assumption(f"{show(check.condition)}; otherwise it is compiled with 64-bit indices", check.code, check)
    arrays = [argument for argument in program.arguments if isinstance(argument, ArrayArg)]
    written = [array.name for array in arrays if array.is_output or not array.is_input]
    if written and len(arrays) > 1:
        listed = ", ".join(f"'{name}'" for name in written)
        verb = "share" if len(written) > 1 else "shares"
        yield Assumption(f"{listed} {verb} no memory with another argument", "overlapping-arguments")
