"""Callable kernels, in the form that is inlined at their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from polyloop.display import Shown
from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.foreign import ForeignFunction, ForeignName, conflicting_definitions
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.text.parser import Parsed

__all__ = ["Callee", "Function", "FunctionTable", "Program", "flattened", "function_table"]


@dataclass(frozen=True, eq=False)
class Program:
    """Statements of a function with calls inlined, and their domains and temporaries."""

    domains: tuple[Domain, ...]
    statements: tuple[Parsed, ...]
    temporaries: Mapping[str, TemporaryVariable]


@dataclass(frozen=True, eq=False)
class Function(Shown):
    """Made by :func:`polyloop.make_function`.

    ``kernel`` is the function by itself, checked; ``program`` the statements that replace a call.
    """

    kernel: LoopKernel
    program: Program
    typed: frozenset[str]
    """Arguments whose type the user declared."""

    @property
    def name(self) -> str:
        """Name by which statements call it."""
        return self.kernel.name

    @property
    def outputs(self) -> tuple[ArrayArg, ...]:
        """The arrays on the left of a call, in order."""
        return tuple(entry for entry in self.kernel.arguments if isinstance(entry, ArrayArg) and entry.is_output)

    @property
    def inputs(self) -> tuple[ArrayArg | ValueArg, ...]:
        """The arguments in the parentheses of a call, in order."""
        return tuple(entry for entry in self.kernel.arguments if isinstance(entry, ValueArg) or entry.is_input)

    def form(self) -> str:
        """Return the form of a call, without sizes: ``y = f(x, alpha)``."""
        outputs = ", ".join(entry.name for entry in self.outputs)
        inputs = ", ".join(entry.name for entry in self.inputs if entry.name not in self.kernel.parameters)
        return f"{outputs} = {self.name}({inputs})"

    def __repr__(self) -> str:
        return f"<Function {self.form()}>"

    def python(self) -> str:
        """Return the expression that makes it."""
        assert isinstance(self.kernel.made, Written), "make_function records its arguments"
        return self.kernel.made.call("make_function")


Callee: TypeAlias = Function | ForeignFunction | Sequence["Callee"]
"""Values that ``functions`` may hold; a list, such as a library, counts as its entries."""


@dataclass(frozen=True)
class FunctionTable:
    """Callable functions of a kernel, by name: functions with statements, and the overloads of foreign functions."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    foreign: Mapping[str, ForeignName] = field(default_factory=dict)


def function_table(given: Sequence[object]) -> FunctionTable:
    """Return the functions of a kernel by name; lists of functions are libraries, and count as their entries.

    Raises
    ------
    KernelError
        ``bad-function``, ``name-taken``.
    """
    functions: dict[str, Function] = {}
    foreign: dict[str, tuple[ForeignFunction, ...]] = {}
    for entry in flattened(given):
        if isinstance(entry, Function):
            if functions.setdefault(entry.name, entry) is not entry:
                raise _twice(entry.name)
        elif entry not in foreign.get(entry.name, ()):
            foreign[entry.name] = (*foreign.get(entry.name, ()), entry)
    for name, overloads in foreign.items():
        if name in functions:
            raise _twice(name)
        if problem := next(conflicting_definitions(overloads), None):
            raise KernelError("make_kernel", None, [problem])
    return FunctionTable(functions, {name: ForeignName(name, overloads) for name, overloads in foreign.items()})


def flattened(given: object) -> Iterator[Function | ForeignFunction]:
    """Yield the functions in *given*, which may be one of them, or lists of lists.

    Raises
    ------
    KernelError
        ``bad-function``.
    """
    if isinstance(given, Function | ForeignFunction):
        yield given
    elif isinstance(given, list | tuple):
        for entry in given:
            yield from flattened(entry)
    else:
        hint = "pass what pl.make_function returns, or a pl.ForeignFunction"
        if isinstance(given, LoopKernel):
            hint = "make the callee with pl.make_function, and pass it to the caller: make_kernel(.., functions=[..])"
            raise _refused("bad-function", f"the kernel '{given.name}' is no function", hint)
        raise _refused("bad-function", f"functions cannot hold {spelt(given)}", hint)


def _twice(name: str) -> KernelError:
    return _refused("name-taken", f"there are two functions '{name}'", "give one of them another name")


def _refused(code: str, message: str, hint: str) -> KernelError:
    return KernelError("make_kernel", None, [Diagnostic(code, message, hints=(hint,))])
