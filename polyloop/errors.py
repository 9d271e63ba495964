"""Diagnostics as data, the exception tree, and the one renderer.

Every user error in polyloop is a :class:`Diagnostic` (a code, a message, notes, hints, and where
it happened) carried by a :class:`PolyloopError`.  Nothing else knows how a message is laid out:
:func:`render` does.  Each code has a heading in ``docs/errors.md``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from fnmatch import fnmatchcase
from hashlib import sha256
from importlib import import_module
from inspect import currentframe
from pathlib import PurePath
from pickle import UnpicklingError
from typing import Any

from polyloop.display import Shown, brief, clipped
from polyloop.frozen import quick
from polyloop.tracebacks import lines_for_ipython

__all__ = [
    "ArgumentError",
    "CodegenError",
    "CommunicationError",
    "CompilerError",
    "Diagnostic",
    "KernelError",
    "Place",
    "PolyloopError",
    "PolyloopWarning",
    "SerialError",
    "Site",
    "Span",
    "TransformError",
    "TuningError",
    "VerificationError",
    "Witness",
    "WitnessInstance",
    "WitnessKind",
    "render",
    "stable_hash",
    "unknown_name",
    "warn",
]


def _place(line: int, file: str | None) -> str:
    return f"line {line}" if file is None else f"{PurePath(file).name}:{line}"


@dataclass(frozen=True)
class Span:
    """A piece of the text that the user wrote.

    Attributes
    ----------
    text
        The whole source line, without its newline.
    line
        Number of that line in the user's string, from 1.
    column, width
        Where the piece begins (from 0) and how many characters it has (at least 1).
    file
        The file that the line is in, and ``line`` then counts its lines; None for a string of the user's.
    """

    text: str
    line: int
    column: int = 0
    width: int = 1
    file: str | None = None

    __repr__ = brief

    def caret(self) -> str:
        """Return the marker line that belongs below :attr:`text`."""
        return " " * self.column + "^" * max(1, self.width)

    def where(self) -> str:
        """Return ``line 3``, or ``kernels.py:3`` if the file is known."""
        return _place(self.line, self.file)


@quick
@dataclass(frozen=True)
class Site:
    """The statement that a diagnostic is about, as one line of text.

    ``mark`` is the column (from 0) and the width of a piece of ``text`` to underline.
    """

    text: str
    line: int | None = None
    instruction: str | None = None
    file: str | None = None
    mark: tuple[int, int] | None = None

    def where(self) -> str:
        """Return ``(line 3, instruction 'update')``, or ``(kernels.py:3, ...)``, with what is known."""
        parts = []
        if self.line is not None:
            parts.append(_place(self.line, self.file))
        if self.instruction is not None:
            parts.append(f"instruction '{self.instruction}'")
        return f"({', '.join(parts)})" if parts else ""


@quick
@dataclass(frozen=True)
class Place:
    """A statement on one line, with its options, and where it begins in what the user wrote.

    ``text`` is empty for a statement that is not as it was written, or is new: messages show the statement itself.
    """

    text: str = ""
    span: Span | None = None

    @property
    def line(self) -> int | None:
        """The number of the line, if it is known."""
        return None if self.span is None else self.span.line

    def changed(self) -> Place:
        """Return the place of a statement that stood here and reads otherwise now."""
        return Place("", self.span)

    def site(self, name: str | None, shown: str = "") -> Site:
        """Return the place of instruction *name* for a diagnostic, *shown* so if it is not as written."""
        file = None if self.span is None else self.span.file
        return Site(self.text or shown, self.line, name, file)


class WitnessKind(Enum):
    """Violation that a witness of one or two instances demonstrates."""

    RACE = "both touch the element at one time, on different threads, and one writes"
    EARLY = "the first writes the element after the second has read it"
    UNWRITTEN = "the first reads the element, and nothing has written it"
    OVERWRITTEN = "the second reads what the first has written, and should read another value"
    REORDERED = "the first comes before the second in the program, and would not any more"
    ELSEWHERE = "the first would read another element than in the program, or another value"
    LANES = "the second reads what the first writes, and both are lanes that run together"
    LOST = "the first, an instance of the program, would not run"
    OUTSIDE = "the first accesses an element that its array does not have"


@dataclass(frozen=True)
class WitnessInstance:
    """One instance of a statement.

    Attributes
    ----------
    instruction
        Id of the instruction of the program that it belongs to; or of the one that a transform made.
    inames
        Its inames and their values, as the message shows them: those of the program, where it is an instance of that.
    statement, point
        The same in the transformed program: a statement of its loop tree, and the values of its axes and loops.
    """

    instruction: str
    inames: tuple[tuple[str, int], ...]
    statement: str
    point: tuple[tuple[str, int], ...]

    __repr__ = brief


@dataclass(frozen=True)
class Witness:
    """The instances that a finding about order, values, races or bounds names.

    ``element`` has None where a subscript is not affine; ``parameters`` are the sizes at which the instances exist.
    """

    kind: WitnessKind
    array: str
    element: tuple[int | None, ...]
    parameters: tuple[tuple[str, int], ...]
    first: WitnessInstance
    second: WitnessInstance | None = None

    __repr__ = brief


@dataclass(frozen=True)
class Diagnostic(Shown):
    """One finding, as data.

    Attributes
    ----------
    code
        Slug; one heading in ``docs/errors.md``.
    message
        The error, in one clause.
    notes
        Why: facts, a witness.
    hints
        Remedies.
    span
        The source text with the fault marked by a caret.
    sites
        The statements concerned.
    witness
        The instances that the notes name, where they name some.
    subject
        The unknown name, for codes ``unknown-..``.
    """

    code: str
    message: str
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    span: Span | None = None
    sites: tuple[Site, ...] = ()
    witness: Witness | None = None
    subject: str = ""

    __repr__ = brief

    def __str__(self) -> str:
        """Return the finding as the user reads it, without what was called."""
        return "\n".join([f"{self.message} [{self.code}]", *_lines(self)])


_SITE_COLUMN = 52


def _lines(diagnostic: Diagnostic) -> Iterable[str]:
    if diagnostic.span is not None:
        span = diagnostic.span
        yield f"  {span.text}" + f"    ({span.where()})"
        yield f"  {span.caret()}"
    for site in diagnostic.sites:
        where = site.where()
        yield f"  {site.text:<{_SITE_COLUMN}} {where}".rstrip()
        if site.mark is not None:
            yield "  " + " " * site.mark[0] + "^" * site.mark[1]
    for note in diagnostic.notes:
        yield f"  Note: {note}"
    for hint in diagnostic.hints:
        yield f"  Hint: {hint}"


def render(operation: str, kernel: str | None, found: Iterable[Diagnostic]) -> str:
    """Lay out diagnostics as the user reads them.

    Parameters
    ----------
    operation
        The public function that was called, such as ``"split_iname"``.
    kernel
        Name of the kernel it was called on, if there is one yet.
    found
        Findings, most important first.
    """
    head = f"{operation} on kernel '{kernel}'" if kernel else operation
    out: list[str] = []
    for diagnostic in found:
        out.append(f"{head}: {diagnostic.message} [{diagnostic.code}]")
        out.extend(_lines(diagnostic))
    return "\n".join(out)


class _Told(Shown):
    """Base of errors and warnings, which are equal by what they tell, and pickled by their form."""

    operation: str
    kernel: str | None
    found: Any

    def __reduce__(self) -> tuple[object, ...]:
        """Return, for pickle, what the form is read by, and the form; the kernel is none of it."""
        return _stored(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return (self.operation, self.kernel, self.found) == (other.operation, other.kernel, other.found)

    def __hash__(self) -> int:
        return stable_hash(type(self).__name__, str(self))


class PolyloopError(_Told, Exception):
    """Base of every error that a user of polyloop can cause.

    ``operation`` names the public call, ``kernel`` the kernel, ``found`` the findings.
    """

    found: tuple[Diagnostic, ...]

    def __init__(self, operation: str, kernel: str | None, found: Iterable[Diagnostic]) -> None:
        self.operation = operation
        self.kernel = kernel
        self.found = tuple(found)
        super().__init__(render(operation, kernel, self.found) or operation)

    def __copy__(self) -> PolyloopError:
        return self

    def __deepcopy__(self, _: object) -> PolyloopError:
        return self

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows."""
        return lines_for_ipython(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {clipped(str(self), 200)}>"

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all findings."""
        return tuple(d.code for d in self.found)


def _stored(value: object) -> tuple[object, ...]:
    """Return the reader of forms, which is above this module, and the form of an error, for pickle."""
    form = import_module("polyloop.serial.form")
    return form.loads, (form.dumps(value),)


def stable_hash(*texts: str) -> int:
    """Return a hash of texts that is the same in every process."""
    return int.from_bytes(sha256("\n".join(texts).encode("utf-8", "replace")).digest()[:7], "little")


class KernelError(PolyloopError):
    """A kernel cannot be created from the user's input."""


class TransformError(PolyloopError):
    """A transform was refused; the kernel it was called on is unchanged.

    ``transform`` is the refused value, where there was one, and ``before`` the kernel that it was applied to (of
    functions that apply several, one in between), so that its result can be examined.
    """

    transform: object = None
    before: object = None


class VerificationError(PolyloopError):
    """The schedule would not compute the kernel's program."""


class CodegenError(PolyloopError):
    """A target cannot express the kernel."""


class CompilerError(PolyloopError):
    """No compiler was found, or it refused the generated source."""


class TuningError(PolyloopError):
    """Nothing to choose from, or nothing that could be measured."""


class ArgumentError(PolyloopError):
    """A compiled kernel was called with arguments that do not fit."""


class SerialError(PolyloopError, UnpicklingError):
    """Data that is read is no stored value of the package's, or one of another version."""


class CommunicationError(PolyloopError):
    """A rank of a divided kernel cannot reach the others."""


class PolyloopWarning(_Told, UserWarning):
    """A finding that does not stop the work.

    Its text begins with its code, so that Python's filters can name one kind:
    ``warnings.filterwarnings("ignore", "dead-instruction", pl.PolyloopWarning)``.
    """

    found: Diagnostic

    def __init__(self, operation: str, kernel: str | None, found: Diagnostic) -> None:
        self.operation = operation
        self.kernel = kernel
        self.found = found
        head = f"{operation} on kernel '{kernel}'" if kernel else operation
        super().__init__("\n".join((f"{found.code}: {head}: {found.message}", *_lines(found))))


def warn(
    operation: str,
    kernel: str | None,
    found: Iterable[tuple[str, Diagnostic]],
    silenced: Iterable[str] = (),
) -> None:
    """Issue a :class:`PolyloopWarning`, at the user's line, for each diagnostic that is not silenced.

    Parameters
    ----------
    found
        What each diagnostic is about (an instruction, a name), and the diagnostic.
    silenced
        Patterns with ``*`` and ``?`` that a code (``"dead-instruction"``) or a code and what it is about
        (``"dead-instruction(copy)"``) may match.
    """
    patterns = tuple(silenced)
    for subject, diagnostic in found:
        names = (diagnostic.code, f"{diagnostic.code}({subject})")
        if not any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
            warnings.warn(PolyloopWarning(operation, kernel, diagnostic), stacklevel=_user_level())


def _user_level() -> int:
    """Return the ``stacklevel`` of the innermost frame outside of this package, for :func:`warn`."""
    level, frame = 0, currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "polyloop":
        level, frame = level + 1, frame.f_back
    return level


def unknown_name(kind: str, name: str, known: Iterable[str]) -> Diagnostic:
    """Return the ``unknown-KIND`` diagnostic, with the nearest known name as a hint."""
    names = sorted(known)
    words = re.findall(r"\w+", str(name))
    if len(words) > 1 and set(words) <= set(names):
        hint = f"names are separated by commas: '{', '.join(words)}'"
        return Diagnostic(f"unknown-{kind.replace(' ', '-')}", f"no {kind} '{name}'", hints=(hint,), subject=str(name))
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean '{near[0]}'?"
    elif names:
        hint = f"known: {', '.join(names)}"
    else:
        hint = f"the kernel has no {kind}"
    return Diagnostic(f"unknown-{kind.replace(' ', '-')}", f"no {kind} '{name}'", hints=(hint,), subject=str(name))
