"""``view``: one page for one kernel, with every step of its trace: loops, source, difference, certificate, costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from polyloop import frozen
from polyloop.errors import ArgumentError, Diagnostic, PolyloopError
from polyloop.kernel.devices import Device
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.processors import Processor
from polyloop.kernel.trace import Trace
from polyloop.runtime.explain import explain
from polyloop.runtime.explanation import Explanation
from polyloop.target.base import Target, target_of
from polyloop.target.certificate import Certificate
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code
from polyloop.target.verify import verify
from polyloop.transform.stored import replay
from polyloop.viz.instances import known_sizes
from polyloop.viz.lines import SourceLine, source_lines
from polyloop.viz.page import Stage, page_text
from polyloop.viz.rows import loop_rows

__all__ = ["view"]

_NAME = "view"


@dataclass(frozen=True)
class _Subject:
    """The same for each step: the target, and the sizes and the device of costs."""

    target: Target
    sizes: Mapping[str, int]
    device: str | Device | Processor


def view(
    kernel: LoopKernel,
    path: str | Path = "kernel.html",
    *,
    program: LoopKernel | None = None,
    sizes: Mapping[str, int] | None = None,
    device: str | Device | Processor = "H200",
    target: Target | None = None,
) -> Path:
    """Write a page about *kernel*: its trace as a time line, and each step's loops, source, certificate and costs.

    ::

        pl.view(knl, "kernel.html", sizes={"n": 4096})

    A click on a step, or the arrow keys, show the kernel behind it: the loop tree, the generated source, the difference
    to the step before, the certificate of :func:`verify`, and the bounds of :func:`explain`.  A pointer on a line of
    the source marks its statement and the loops around it in the tree, and its accesses with their bytes in the costs;
    a pointer on a row of the tree marks lines.  The file needs no other file and no network.

    Parameters
    ----------
    path
        Of the file, which ends in ``.html``.
    program
        The kernel as it was created; by default the one that *kernel* knows.  Where the steps cannot be done again,
        as with functions of the user's (:func:`map_instructions`), the last state alone is shown.
    sizes, device
        For costs: 1024 for parameters that are not among *sizes*.
    target
        By default that of the kernel, and CUDA for a kernel without one.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    ArgumentError
        ``unknown-size``; ``bad-picture-file`` for another ending, or if the file cannot be written; ``other-program``
        if the steps do not lead from *program* to *kernel*.
    """
    where = Path(path)
    if where.suffix != ".html":
        raise _unwritten(where, "its name does not end in .html")
    known = known_sizes(kernel, sizes or {}, _NAME)
    subject = _Subject(target_of(kernel, target) or CudaTarget(), known, device)
    text = page_text(kernel.name, subject.target.name, tuple(_stages(kernel, program, subject)))
    try:
        where.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:  # of a zero in a name
        raise _unwritten(where, getattr(error, "strerror", str(error))) from error
    return where


def _unwritten(path: Path, why: str) -> ArgumentError:
    hints = ('pl.view(knl, "kernel.html")',)
    found = Diagnostic("bad-picture-file", f"cannot write a page to '{path}': {why}", hints=hints)
    return ArgumentError(_NAME, None, [found])


def _stages(kernel: LoopKernel, program: LoopKernel | None, subject: _Subject) -> Iterator[Stage]:
    """Yield the program and what each step made of it."""
    states = _states(kernel, program)
    titles = ["program", *(step.call() for step in kernel.trace)]
    note = ""
    if len(states) < len(titles):
        titles = [f"after {len(kernel.trace)} steps"]
        note = "Its steps cannot be done again on the kernel as it was created: pass program=.. for a time line."
    before: tuple[str, ...] | None = None
    for title, state in zip(titles, states, strict=True):
        stage = _stage(title, state, subject, before, note)
        before = tuple(line.text for line in stage.source)
        yield stage


def _states(kernel: LoopKernel, program: LoopKernel | None) -> list[LoopKernel]:
    """Return the kernel as it was created and behind each step; the last alone if it cannot be made again."""
    first = program
    if first is None:
        known = kernel.reference if kernel.reference is None else kernel.reference.first or kernel.reference
        first = kernel if known is None else frozen.replace(known.kernel, reference=known)
    states = [first]
    try:
        for step in kernel.trace:
            states.append(replay(Trace((step,)), states[-1]))
    except PolyloopError as error:
        if program is not None:
            raise _other(kernel, str(error).partition("\n")[0]) from error
        return [kernel]
    if str(states[-1]) != str(kernel):
        if program is not None:
            raise _other(kernel, "they end in another kernel")
        return [kernel]
    return [*states[:-1], kernel]


def _other(kernel: LoopKernel, why: str) -> ArgumentError:
    hints = ("pass the kernel that make_kernel returned, before all transforms",)
    message = "the steps do not lead from the program to the kernel"
    return ArgumentError(_NAME, kernel.name, [Diagnostic("other-program", message, (why,), hints)])


def _writers(kernel: LoopKernel) -> dict[str, str]:
    """Return the instruction of each array that one alone writes."""
    found: dict[str, list[str]] = {}
    for instruction in kernel.instructions:
        for name in instruction.writes:
            found.setdefault(name, []).append(instruction.id)
    return {name: ids[0] for name, ids in found.items() if len(ids) == 1}


def _stage(
    title: str, kernel: LoopKernel, subject: _Subject, before: tuple[str, ...] | None, note: str
) -> Stage:  # fmt: skip
    """Return one state of the kernel; reasons in place of what it has not."""
    rows = loop_rows(kernel, subject.target)
    lines: tuple[SourceLine, ...]
    proof: Certificate | str
    costs: Explanation | str
    try:
        program = generate_code(kernel, subject.target)
        lines = source_lines(program.device_code, program.instructions, _writers(kernel))
        why = ""
    except PolyloopError as error:
        lines, why = (), str(error)
    try:
        proof = verify(kernel, target=subject.target)
    except PolyloopError as error:
        proof = str(error)
    try:
        costs = explain(kernel, {name: subject.sizes.get(name, 1024) for name in kernel.parameters}, subject.device)
    except PolyloopError as error:
        costs = str(error)
    texts = [line.text for line in lines]
    changed = () if before is None else tuple(unified_diff(before, texts, "before", "after", n=2, lineterm=""))
    return Stage(title, note, rows, lines, why, changed, proof, costs)
