"""``differentiate``: kernels that compute the derivatives of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from polyloop.derivatives.flow import flows_of
from polyloop.derivatives.forward import SUFFIX, forward
from polyloop.derivatives.reverse import PREFIX, reverse
from polyloop.derivatives.statements import program_of, refuse
from polyloop.derivatives.values import assigned_once
from polyloop.errors import Diagnostic, KernelError, VerificationError, unknown_name
from polyloop.expr.dtypes import is_complex, is_floating
from polyloop.expr.names import KERNEL_NAME, check_identifier
from polyloop.frontend.script import script_of
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import python
from polyloop.kernel.trace import Trace
from polyloop.poly.budget import NoAnswer
from polyloop.proof.obligation import public_call

__all__ = ["backward_of", "differentiate"]

_STEP = "differentiate"


@dataclass(frozen=True, eq=False)
class _Differentiated:
    """A call of ``differentiate``."""

    kernel: LoopKernel
    options: tuple[tuple[str, object], ...]

    def script(self, variable: str) -> str:
        """Return the script of the kernel, and the call."""
        return f"{script_of(self.kernel, variable)}\n{variable} = {self.call(variable)}"

    def call(self, variable: str) -> str:
        """Return the call with *variable* for the kernel."""
        options = "".join(f", {name}={python(value)}" for name, value in self.options)
        return f"pl.differentiate({variable}{options})"


def differentiate(
    kernel: LoopKernel,
    wrt: str | Sequence[str] | None = None,
    of: str | Sequence[str] | None = None,
    *,
    mode: Literal["reverse", "forward"] = "reverse",
    store: Literal["all", "recompute"] = "all",
    saved: str | Sequence[str] = (),
    name: str | None = None,
) -> LoopKernel:
    """Return a kernel that computes derivatives of what *kernel* computes.

    ::

        c[i, j] = sum(k, a[i, k]*b[k, j])

        # mode="reverse": the adjoint
        grad_a[i, k] = sum(j, grad_c[i, j]*b[k, j])
        grad_b[k, j] = sum(i, grad_c[i, j]*a[i, k])

        # mode="forward": the tangent
        c_dot[i, j] = sum(k, a_dot[i, k]*b[k, j] + b_dot[k, j]*a[i, k])
        c[i, j] = sum(k, a[i, k]*b[k, j])

    The adjoint reads ``grad_y`` for each output y, and arguments of *kernel* by their names; it writes ``grad_x`` for
    each x in *wrt*, the sum over all y of ``grad_y`` times the derivative of y.  The tangent does what *kernel* does,
    reads ``x_dot`` besides, and writes ``y_dot``.  An array that *kernel* reads and writes has one ``grad_u``, which is
    replaced, and one ``u_dot``.  What is differentiated is the reference program: tags and other choices of the
    schedule are not taken over, and the result is a kernel to be transformed like any other.

    Parameters
    ----------
    wrt
        Arrays and numbers that the kernel reads: ``"a, b"`` or a sequence.  By default all arrays of floating-point
        numbers.  The gradient of a number is an array without axes.
    of
        Arrays that the kernel writes, by default all of floating-point numbers.
    store
        Of the values that the adjoint needs, ``"all"`` are computed once and stored in temporaries; with
        ``"recompute"`` they are computed wherever they are used, but for results of reductions and of recurrences.
    saved
        Outputs that the adjoint reads as arguments, with their values after the kernel has run, in place of computing
        them again.  Each element may be assigned once only.
    name
        Of the result; by default that of *kernel* with ``_adjoint`` or ``_tangent`` behind it.

    Raises
    ------
    KernelError
        ``not-differentiable`` (with the instruction: integers and complex numbers in *wrt*, functions without a known
        derivative, elements that data selects among those that the kernel computes, but for updates ``h[idx[i]] += ..``
        of what it does not read, bounds that are read from memory),
        ``unknown-argument``, ``bad-derivative``, ``name-taken``; ``not-proven`` where ISL gives up on the dataflow.

    Notes
    -----
    Each read is led back to the write whose value it sees, by exact dataflow; the relation between the two, inverted,
    gives each adjoint as a sum over its readers.  So each element of a gradient has one owner, and no updates are
    needed; only elements that data selects (``x[idx[i]]``) get atomic updates.  Loops that hand values on run
    the other way.  ``abs`` has derivative 0 at 0; equal arguments of ``max`` and ``min`` share evenly, as do equal
    terms of such reductions.  Sources: Griewank and Walther, Evaluating Derivatives, SIAM 2008; Feautrier, IJPP 20(1),
    1991.
    """
    reference = kernel.reference
    assert reference is not None, "a created kernel has a reference program"
    given = _Given(reference.kernel)
    inputs, outputs = given.names("wrt", wrt), given.names("of", of)
    kept = _listed(saved)
    for entry in kept:
        given.output("saved", entry)
    given.check_name(name)
    given.check_free([*(f"{PREFIX}{x}" for x in (*inputs, *outputs))] if mode == "reverse"
                     else [*(f"{x}{SUFFIX}" for x in (*inputs, *outputs))])
    with public_call(_STEP, kernel.name, KernelError):
        try:
            made = _made(kernel, inputs, outputs, mode, store, kept, name)
        except VerificationError as error:
            raise KernelError(_STEP, kernel.name, error.found) from error
        except NoAnswer as error:
            raise KernelError(_STEP, kernel.name, [Diagnostic(
                "not-proven", "the dataflow is not known", (error.reason,),
                ("fix a parameter, or divide the kernel",))]) from error
    options = (("wrt", wrt), ("of", of), ("mode", mode if mode == "forward" else None),
               ("store", store if store == "recompute" else None), ("saved", kept or None), ("name", name))
    record = _Differentiated(kernel, tuple((key, value) for key, value in options if value is not None))
    return replace(made, made=record, trace=Trace((), f"# knl = {record.call(kernel.name)}"))


def backward_of(kernel: LoopKernel, numbers: Sequence[str] = ()) -> LoopKernel:
    """Return the adjoint of *kernel* that reads outputs where it can, for all its arrays and *numbers*.

    Raises
    ------
    KernelError
        As :func:`differentiate`.
    """
    reference = kernel.reference
    assert reference is not None, "a created kernel has a reference program"
    wrt = (*_Given(reference.kernel).candidates("wrt"), *numbers)
    if not wrt:
        refuse(kernel, "it reads no array of floating-point numbers", hint="state their type")
    single = assigned_once(program_of(kernel))
    saved = [entry.name for entry in reference.kernel.arguments
             if isinstance(entry, ArrayArg) and entry.is_output and not entry.is_input and entry.name in single]
    return differentiate(kernel, wrt, saved=saved, name=f"{kernel.name}_backward")


def _made(
    kernel: LoopKernel, inputs: Sequence[str], outputs: Sequence[str], mode: str, store: str, saved: Sequence[str],
    name: str | None,
) -> LoopKernel:  # fmt: skip
    program = program_of(kernel)
    single = assigned_once(program)
    for entry in saved:
        if entry not in single:
            raise KernelError(_STEP, kernel.name, [Diagnostic(
                "bad-derivative", f"elements of '{entry}' are assigned more than once",
                ("its values after the kernel are not all that the kernel computes",),
                (f"leave '{entry}' out of saved=",))])
    flow = flows_of(program, inputs, outputs)
    if mode == "forward":
        return forward(flow, inputs, outputs, name or f"{kernel.name}_tangent")
    return reverse(flow, inputs, outputs, saved, store == "recompute", name or f"{kernel.name}_adjoint")


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(dict.fromkeys(part.strip() for part in parts))


@dataclass(frozen=True)
class _Given:
    """Checks the arguments of a call."""

    kernel: LoopKernel

    def refuse(self, code: str, message: str, *notes: str, hint: str) -> KernelError:
        return KernelError(_STEP, self.kernel.name, [Diagnostic(code, message, notes, (hint,))])

    def names(self, which: str, given: str | Sequence[str] | None) -> tuple[str, ...]:
        """Return the arguments to differentiate by (``wrt``), or those that are differentiated (``of``)."""
        if given is None:
            found = tuple(self.candidates(which))
            if not found:
                word = "reads" if which == "wrt" else "writes"
                refuse(self.kernel, f"it {word} no array of floating-point numbers", hint="state their type")
            return found
        for name in _listed(given):
            self.output(which, name) if which == "of" else self.input(name)
        if not _listed(given):
            raise self.refuse("bad-derivative", f"{which}= has no names", hint="leave it out for all arrays")
        return _listed(given)

    def candidates(self, which: str) -> Iterator[str]:
        for entry in self.kernel.arguments:
            is_one = isinstance(entry, ArrayArg) and (entry.is_input if which == "wrt" else entry.is_output)
            if is_one and (entry.dtype is None or is_floating(entry.dtype)):
                yield entry.name

    def known(self, name: str) -> None:
        if self.kernel.argument(name) is None:
            raise KernelError(_STEP, self.kernel.name, [
                unknown_name("argument", name, [entry.name for entry in self.kernel.arguments])])

    def input(self, name: str) -> None:
        """Refuse what is not read, and what has no derivative."""
        self.known(name)
        entry = self.kernel.argument(name)
        if isinstance(entry, ArrayArg) and not entry.is_input:
            raise self.refuse("bad-derivative", f"the kernel does not read '{name}'", hint="name inputs in wrt=")
        self.floating(name)

    def output(self, which: str, name: str) -> None:
        self.known(name)
        entry = self.kernel.argument(name)
        if not isinstance(entry, ArrayArg) or not entry.is_output:
            raise self.refuse("bad-derivative", f"the kernel does not write '{name}'",
                              hint=f"name outputs in {which}=")
        if which == "of":
            self.floating(name)

    def floating(self, name: str) -> None:
        entry = self.kernel.argument(name)
        dtype = None if entry is None else entry.dtype
        if name in self.kernel.parameters or (dtype is not None and not is_floating(dtype)):
            what = "complex" if dtype is not None and is_complex(dtype) else "an integer"
            refuse(self.kernel, f"'{name}' is {what}: {dtype}", hint="name real floating-point arguments")

    def check_name(self, name: str | None) -> None:
        problem = None if name is None else check_identifier(name, KERNEL_NAME)
        if problem is not None:
            raise KernelError(_STEP, self.kernel.name, [problem])

    def check_free(self, names: Sequence[str]) -> None:
        """Refuse to make arguments whose names the kernel has."""
        for name in names:
            if name in self.kernel.names():
                raise self.refuse("name-taken", f"the name '{name}' is taken", hint=f"rename '{name}' in the kernel")
