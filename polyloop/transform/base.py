"""Transforms: values that check, rewrite, and leave a line in the trace."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast, final

import islpy as isl
import numpy as np

from polyloop.display import brief, clipped
from polyloop.errors import Diagnostic, TransformError, VerificationError, unknown_name
from polyloop.frozen import replace
from polyloop.kernel.domains import with_settled_sets
from polyloop.kernel.kernel import LoopKernel, Reference
from polyloop.kernel.made import differs
from polyloop.kernel.reads import with_reads
from polyloop.kernel.trace import Change
from polyloop.proof.obligation import findings, public_call, share_proofs
from polyloop.proof.postponed import Chain, open_chain, step_of, waiting, waits
from polyloop.proof.read import is_read, mark_read, of_what_was_read
from polyloop.transform.declare import fields_of
from polyloop.transform.history import changes_of, remember_step, with_history
from polyloop.verification.bounds import bounds_violations
from polyloop.verification.correspondence import Comparison, comparison_of
from polyloop.verification.provenance import expression_obligations, texts

__all__ = ["Applied", "Transform", "iname_violations", "new_name_violations"]


class _Note:
    """The note of a step: a text, or the function that writes it, which is called when the note is first read."""

    def __get__(self, step: Applied, _: type) -> str:
        note = step.__dict__["note"]
        if not isinstance(note, str):
            note = step.__dict__["note"] = note()
        assert isinstance(note, str), "a note is a text"
        return note

    def __set__(self, step: Applied, note: str | Callable[[], str]) -> None:
        step.__dict__["note"] = note


@dataclass(frozen=True)
class Applied:
    """One application of a transform: its value, a note on choices made by default, and changes of names."""

    transform: Transform
    note: str = ""
    changes: tuple[Change, ...] = ()

    def __repr__(self) -> str:
        return f"<step {clipped(self.call(), 200)}>"

    def script(self, variable: str = "knl") -> str:
        """Return the call as a line of Python, its choices as a comment above it."""
        line = f"{variable} = pl.{self.transform.name}({', '.join([variable, *self._arguments()])})"
        return f"# {self.note}\n{line}" if self.note else line

    def call(self) -> str:
        """Return the call for a message: ``split_iname(split_iname='i', inner_length=16)``."""
        return f"{self.transform.name}({', '.join(self._arguments())})"

    def _arguments(self) -> list[str]:
        return [f"{name}={_literal(value)}" for name, value in self.transform.given().items()]

    def data(self) -> Mapping[str, object]:
        """Return the step as JSON values."""
        arguments = {name: _plain(value) for name, value in self.transform.given().items()}
        return {"name": self.transform.name, "arguments": arguments}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, isl.Set | isl.Map):
        return str(value)
    if value is None or isinstance(value, str | int | bool | float):
        return value
    return str(value)


def _literal(value: object) -> str:
    plain = _plain(value)
    return repr(plain)


setattr(Applied, "note", _Note())  # noqa: B010 - behind the dataclass, for which it is a text


@dataclass(frozen=True)
class Transform(ABC):
    """A named rewrite of a kernel: one class declares all of it.

    The public function and method are called as the class (``SplitIname``: ``split_iname``); the fields are their
    parameters (:mod:`polyloop.transform.declare`) and the docstring is theirs.  Where a call is more than its fields
    (it takes a function, or several steps), the class has a static method ``call``, which is the public function.

    ``violations`` says why it is illegal and never raises; ``rewrite`` makes the new kernel and is called only when
    legal; ``consequences`` checks the result, for conditions that are easier to check there.
    """

    name: ClassVar[str]
    """The name of the public function."""
    changes_meaning: ClassVar[bool] = False
    """True if the result is another program on purpose (it gets a new reference)."""

    def __init_subclass__(cls) -> None:
        cls.__repr__ = brief  # type: ignore[method-assign]  # the decorator of the dataclass leaves it
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def violations(self, kernel: LoopKernel) -> Iterable[Diagnostic]:
        """Yield a diagnostic for each reason why the transform is illegal on *kernel*."""
        return ()

    @abstractmethod
    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        """Return the new kernel; called only when legal."""

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        """Yield the errors in the result."""
        return ()

    def note(self, before: LoopKernel, after: LoopKernel) -> str | Callable[[], str]:
        """Return the choices of the transform itself, for the trace, or a function that finds them when asked."""
        return ""

    def resolved(self, kernel: LoopKernel) -> Transform:
        """Return the transform with arguments in their final form where the kernel defines it, as for names of axes."""
        return self

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Transform:
        """Return the transform with these arguments, as :meth:`given` names them."""
        return cls(**given)

    def given(self) -> dict[str, object]:
        """Return the arguments that differ from their defaults, by name."""
        found = {}
        for entry in fields_of(type(self)).values():
            value = getattr(self, entry.name)
            if differs(value, entry.default):
                found[entry.name] = value if entry.keyed is None else dict(value)
        return found

    @final
    def __call__(self, kernel: LoopKernel) -> LoopKernel:
        """Return the transformed kernel.

        Raises
        ------
        TransformError
            With everything that :meth:`violations` or :meth:`consequences` found; ``out-of-time``.
        """
        with public_call(self.name, kernel.name, TransformError), of_what_was_read(self.name, kernel, TransformError):
            result = self.resolved(kernel).applied(kernel)
        if is_read(kernel):
            mark_read(result)
        return result

    @final
    def applied(self, kernel: LoopKernel) -> LoopKernel:
        """Return the transformed kernel, for :meth:`__call__`; everything is resolved."""
        chain = open_chain()
        with step_of(chain):
            return self._applied(kernel, chain)

    def _applied(self, kernel: LoopKernel, chain: Chain | None) -> LoopKernel:
        if found := tuple(self.violations(kernel)):
            raise self._refusal(kernel, found)
        try:
            rewritten = with_reads(self.rewrite(kernel))
            note = cast("str", self.note(kernel, rewritten))  # or its function: see _Note
            step = Applied(self, note, changes_of(kernel, rewritten))
            result = replace(
                with_settled_sets(rewritten, kernel), trace=kernel.trace.followed_by(step),
                reference=_with_first(kernel.reference, rewritten.reference),
            )  # fmt: skip
            share_proofs(rewritten, result)
            found = () if chain is None or result.reference is kernel.reference else tuple(chain.problems(kernel))
            with waiting():
                found = found or self._problems(kernel, result)
        except VerificationError as error:
            raise self._refusal(kernel, error.found) from error
        if found:
            raise self._refusal(kernel, found)
        remember_step(kernel, step)
        return result

    def _problems(self, before: LoopKernel, after: LoopKernel) -> tuple[Diagnostic, ...]:
        """Return the faults of the result, as far as they do not wait for the end of a chain."""
        found = tuple(_leaving_arrays(before, after))
        is_changed = _texts(before) != _texts(after)
        if is_changed and not waits(_differing_texts):
            found = found or tuple(_differing_texts(after))
        found = found or tuple(self.consequences(before, after))
        if is_changed and not waits(_changed_expressions):
            found = found or tuple(_changed_expressions(after))
        return found

    def _refusal(self, kernel: LoopKernel, found: tuple[Diagnostic, ...]) -> TransformError:
        error = TransformError(self.name, kernel.name, [with_history(kernel, finding) for finding in found])
        error.transform, error.before = self, kernel
        return error


def _with_first(before: Reference | None, after: Reference | None) -> Reference | None:
    """Return the reference program *after* a step, which knows the one that was there when the kernel was created."""
    if before is None or after is None or after is before:
        return after
    return replace(after, first=before.first or before)


def _leaving_arrays(before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
    """Return the accesses that leave their arrays in the new reference program, if a step made one.

    In *after* itself values that were computed ahead may have taken the place of subscripts, and hide them.
    """
    reference = after.reference
    return () if reference is None or reference is before.reference else bounds_violations(reference.kernel)


def _differing_texts(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield texts that differ from the program's: further checks number the reads of an instruction by its text."""
    comparison = _compared(kernel)
    for _, text in () if comparison is None else texts(comparison):
        if text.difference is not None:
            yield text.difference


def _changed_expressions(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield expressions that differ from the program's."""
    comparison = _compared(kernel)
    if comparison is not None:
        yield from findings(kernel, expression_obligations(comparison))


def _compared(kernel: LoopKernel) -> Comparison | None:
    """Return *kernel* beside its reference program, if it can be placed on threads already."""
    try:
        comparison = comparison_of(kernel)
        comparison.new  # noqa: B018 - placed when code is generated
    except VerificationError:
        return None
    return comparison


def _texts(kernel: LoopKernel) -> tuple[object, ...]:
    """Return the parts of a kernel that determine its expressions and those of its reference program."""
    taken = (kernel.evaluations, kernel.partials, kernel.buffers)
    return kernel.reference, kernel.instructions, dict(kernel.substitutions), *map(dict, taken)


def iname_violations(kernel: LoopKernel, iname: str) -> Iterator[Diagnostic]:
    """Yield ``unknown-iname`` if the kernel has no iname *iname*."""
    if iname not in kernel.inames:
        yield unknown_name("iname", iname, kernel.inames)


def new_name_violations(kernel: LoopKernel, names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield ``name-taken`` for each of *names* that the kernel uses already."""
    for name in names:
        if name in kernel.names():
            yield Diagnostic("name-taken", f"the name '{name}' is already in use", hints=("choose another name",))
