"""HTML forms of results, for notebooks: source that folds, and tables; without scripts, fonts or network.

``html_of`` finds the form by the class of an object.  Colors are those of pictures, for light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from html import escape
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import GeneratedProgram
from polyloop.cost.tally import ToCountMap
from polyloop.display import Shown, brief, clipped, shortened, told
from polyloop.errors import PolyloopError
from polyloop.expr.printer import show
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Trace
from polyloop.runtime.calls import Result
from polyloop.runtime.explanation import Explanation
from polyloop.runtime.hip.code_object import CodeObject
from polyloop.runtime.invoke import CompiledKernel
from polyloop.target.certificate import Certificate
from polyloop.transform.recipe import Recipe
from polyloop.tuning.report import Tuned
from polyloop.tuning.space import shown as choice_text
from polyloop.verification.dependences import Dependences
from polyloop.viz.colors import rules

__all__ = ["highlighted", "html_of"]

_OPEN_LINES: Final = 60
"""Sources of more lines are folded."""
_MOST_OF_A_CELL: Final = 400
"""Characters of the value of a field."""

_TOKEN: Final = re.compile(
    r"(?P<quiet>//[^\n]*|/\*.*?\*/)"
    r"|(?P<orange>^[ \t]*#[^\n]*)"
    r'|(?P<green>"(?:\\.|[^"\\\n])*"|(?<![\w.])(?:0[xX][\da-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)[uUlLfF]*)'
    r"|(?P<red>\b__\w+\b|\bextern\b)"
    r"|(?P<blue>\b(?:if|else|for|while|do|return|break|continue|switch|case|const|static|struct|typedef|inline|asm"
    r"|volatile|restrict)\b)"
    r"|(?P<purple>\b(?:void|bool|char|short|int|long|float|double|unsigned|signed|size_t|u?int\d+_t"
    r"|(?:float|double|int|uint|half|char|short)[234]|half|threadIdx|blockIdx|blockDim|gridDim)\b)",
    re.DOTALL | re.MULTILINE,
)


def highlighted(source: str) -> str:
    """Return C or CUDA text as HTML: comments, directives, numbers, attributes, words and types in colors."""
    parts, at = list[str](), 0
    for match in _TOKEN.finditer(source):
        parts.append(escape(source[at : match.start()]))
        parts.append(f'<span class="f-{match.lastgroup}">{escape(match.group())}</span>')
        at = match.end()
    return "".join([*parts, escape(source[at:])])


def html_of(value: Shown) -> str:
    """Return the HTML form of *value*: that of its class, a table of its fields, or its text."""
    form = next((_FORMS[kind] for kind in type(value).__mro__ if kind in _FORMS), _plain)
    return _page(form(value))


def _page(parts: Iterable[str]) -> str:
    scope = ".pl-form "
    light = "".join(rules("light", scope)).replace("fill:", "color:")
    dark = "".join(rules("dark", scope)).replace("fill:", "color:")
    style = (
        ".pl-form{padding:8px 12px;border-radius:6px;overflow-x:auto;font-size:13px}"
        ".pl-form pre{margin:4px 0;background:none;color:inherit;line-height:1.35}"
        ".pl-form table{border-collapse:collapse;font-size:inherit;margin:4px 0;background:none;color:inherit}"
        ".pl-form td,.pl-form th{text-align:left;padding:2px 14px 2px 0;vertical-align:top;background:none;"
        "color:inherit;border-bottom:1px solid #8884}.pl-form td.n,.pl-form th.n{text-align:right}"
        ".pl-form summary{cursor:pointer}"
        f".pl-form{{background:#ffffff;color:#1f2328}}{light}"
        f"@media (prefers-color-scheme:dark){{.pl-form{{background:#0d1117;color:#e6edf3}}{dark}}}"
    )
    return f'<div class="pl-form"><style>{style}</style>{"".join(parts)}</div>'


def _head(text: str) -> str:
    return f"<div><b>{escape(text)}</b></div>"


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _folded(title: str, body: str, *, is_open: bool) -> str:
    return f"<details{' open' * is_open}><summary>{escape(title)}</summary>{body}</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    def cells(row: Sequence[object], name: str) -> str:
        kinds = (' class="n"' if number in numbers else "" for number in range(len(row)))
        return "".join(f"<{name}{kind}>{escape(str(x))}</{name}>" for kind, x in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(head, 'th')}</tr>{body}</table>"


def _plain(value: object) -> Iterator[str]:
    """Yield a table of the fields that are not as by default, where these are all that a value tells; or its text."""
    if type(value).__repr__ is not brief or type(value).__str__ is not object.__str__:
        yield _text(str(value) or repr(value))
        return
    yield _head(type(value).__name__)
    rows = [(name, shortened(given, _MOST_OF_A_CELL)) for name, given in told(value)]
    yield _table(("field", "value"), rows)


def _result(found: Result) -> Iterator[str]:
    rows = [(name, getattr(value, "dtype", type(value).__name__), _product(map(str, getattr(value, "shape", ()))),
             clipped(np.array2string(value, threshold=8, edgeitems=2)) if isinstance(value, np.ndarray) else "")
            for name, value in found.items()]  # fmt: skip
    yield _table(("output", "type", "shape", "elements"), rows)


def _code_object(found: CodeObject) -> Iterator[str]:
    yield _head(f"{'code object' if found.is_linked else 'object'} for {found.arch}, {len(found.binary)} bytes")
    if found.resources:
        names = [entry.name for entry in fields(next(iter(found.resources.values()))) if entry.name != "occupancy"]
        rows = [(name, *(getattr(used, entry) for entry in names)) for name, used in found.resources.items()]
        yield _table(("kernel", *names), rows, range(1, len(names) + 1))
    lines = found.assembly.count("\n")
    yield _folded(f"assembly, {lines} lines", _text(found.assembly), is_open=lines <= _OPEN_LINES)


def _program(program: GeneratedProgram) -> Iterator[str]:
    yield _head(f"{program.kernel} for {program.target}")
    if program.target != "c":
        rows: list[Sequence[object]] = [
            (launch.name, _product(map(_size, launch.grid)), _product(map(str, launch.block)), launch.shared_bytes)
            for launch in program.launches
        ]  # fmt: skip
        yield _table(("launch", "grid", "block", "shared memory [bytes]"), rows, (3,))
    lines = program.device_code.count("\n")
    body = f"<pre>{highlighted(program.device_code)}</pre>"
    yield _folded(f"source, {lines} lines", body, is_open=lines <= _OPEN_LINES)
    if program.checks:
        rows = [(show(check.condition), check.message, check.code) for check in program.checks]
        yield _folded("checked at each call", _table(("condition", "reason", "error"), rows), is_open=False)


def _product(sizes: Iterable[str]) -> str:
    """Return extents, without those of 1 at the end."""
    listed = [*sizes]
    while len(listed) > 1 and listed[-1] == "1":
        listed.pop()
    return " x ".join(listed)


def _size(extent: Any) -> str:  # noqa: ANN401 - an expression or a number
    text = show(extent)
    return text if text.isalnum() else f"({text})"


def _compiled(run: CompiledKernel) -> Iterator[str]:
    try:
        program = run.program
    except PolyloopError:  # it is compiled at its first call
        yield _text(repr(run))
        return
    yield from _program(program)
    arguments = [(a.name, clipped(repr(a), 100)) for a in program.arguments]
    yield _folded("arguments", _table(("name", "declaration"), arguments), is_open=False)


def _kernel(kernel: LoopKernel) -> Iterator[str]:
    yield _text(str(kernel))
    if len(kernel.trace):
        yield _folded(f"made by {len(kernel.trace)} transforms", _text(str(kernel.trace)), is_open=False)


def _trace(trace: Trace | Recipe) -> Iterator[str]:
    yield _text(str(trace) or "no transforms")


def _counts(counts: ToCountMap[Any]) -> Iterator[str]:
    yield _table(("event", "count"), [(key, count) for key, count in counts.items()])


def _dependences(found: Dependences) -> Iterator[str]:
    if not found:
        yield _text("no dependences: all instances may run in any order")
        return
    rows = [
        (entry.kind.name, entry.array, entry.source, entry.sink, str(entry).partition(": ")[2],
         "exact" if entry.is_exact else "may")
        for entry in found
    ]  # fmt: skip
    yield _table(("kind", "array", "from", "to", "instances", ""), rows)


def _explanation(found: Explanation) -> Iterator[str]:
    first, *lines = str(found).splitlines()
    yield _head(first)
    yield _text(lines[0] if lines else "")
    rows = [
        (bound.resource, f"{bound.seconds * 1e6:.2f}", f"{bound.amount:.4g} {bound.unit}", f"{bound.rate:.4g} / s")
        for bound in found.bounds
    ]
    yield _table(("resource", "least time [us]", "amount", "rate"), rows, (1, 2, 3))
    accesses = [
        (a.instruction, a.direction, a.text, a.space, a.requests,
         f"{a.sectors:.3g}", f"{a.turns:.3g}", f"{a.excess:.3g}")
        for a in found.accesses
    ]  # fmt: skip
    head = ("instruction", "", "access", "memory", "requests of warps", "sectors", "turns", "times the least")
    yield _folded(f"{len(accesses)} accesses", _table(head, accesses, (4, 5, 6, 7)), is_open=False)
    skipped = 1 + len(found.bounds)
    yield _text("\n".join(lines[skipped:]))


def _certificate(found: Certificate) -> Iterator[str]:
    yield _head(str(found).partition("\n")[0])
    for reason in found.unchecked:
        yield _text(f"unchecked: {reason}")
    if found.open:
        yield _table(("not proven", "code"), [(entry.message, entry.code) for entry in found.open])
    rows = [(p.claim.value, p.says, p.by, p.relations, f"{p.ms:.2f}") for p in found.proofs if not p.found]
    head = ("claim", "statement", "proven by", "relations", "time [ms]")
    yield _folded(f"{len(rows)} proofs", _table(head, rows, (3, 4)), is_open=len(rows) <= 8)
    if found.waits:
        waits = [(w.array, w.first, w.second, w.loop or "", w.by) for w in found.waits]
        head = ("array", "first", "second", "carried by loop", "kept apart by")
        yield _folded(f"{len(waits)} waits", _table(head, waits), is_open=False)
    if found.assumptions:
        rest = [(a.what, a.error or "nothing: it is your word") for a in found.assumptions]
        yield _folded(f"{len(rest)} assumptions", _table(("assumption", "checked as"), rest), is_open=True)


def _tuned(found: Tuned) -> Iterator[str]:
    timed = sorted((t.time.median, n) for n, t in enumerate(found.trials) if t.time is not None)
    rows: list[Sequence[object]] = []
    for median, number in timed:
        trial = found.trials[number]
        assert trial.time is not None, "it is timed"
        spread = f"{trial.time.low * 1e6:.2f} .. {trial.time.high * 1e6:.2f}"
        rows.append((choice_text(trial.choice), f"{median * 1e6:.2f}", spread, trial.registers or "", ""))
    rows += [
        (choice_text(trial.choice), "", "", trial.registers or "", f"{trial.outcome.value} {trial.why}")
        for trial in found.trials
        if trial.time is None
    ]
    yield _head(repr(found)[1:-1])
    yield _table(("choice", "time [us]", "interval [us]", "registers", "outcome"), rows, (1, 2, 3))


_FORMS: Final[dict[type, Callable[[Any], Iterable[str]]]] = {
    GeneratedProgram: _program, CompiledKernel: _compiled, LoopKernel: _kernel, Trace: _trace, Recipe: _trace,
    ToCountMap: _counts, Dependences: _dependences, Explanation: _explanation, Certificate: _certificate,
    Tuned: _tuned, Result: _result, CodeObject: _code_object,
}  # fmt: skip
