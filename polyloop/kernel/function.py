"""A function of the user's: a kernel that others may call, as it will be put in the place of the calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyloop.errors import Diagnostic, KernelError
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.parser import Parsed

__all__ = ["Function", "Program", "function_table"]


@dataclass(frozen=True, eq=False)
class Program:
    """Statements, and what they need besides the arguments; the calls among them are in line already."""

    domains: tuple[Domain, ...]
    statements: tuple[Parsed, ...]
    temporaries: Mapping[str, TemporaryVariable]


@dataclass(frozen=True, eq=False)
class Function:
    """Made by :func:`polyloop.make_function`.

    ``kernel`` is the function by itself, checked; ``program`` what is put in the place of a call.
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
        """Return how a call is spelt, without sizes: ``y = f(x, alpha)``."""
        outputs = ", ".join(entry.name for entry in self.outputs)
        inputs = ", ".join(entry.name for entry in self.inputs if entry.name not in self.kernel.parameters)
        return f"{outputs} = {self.name}({inputs})"

    def __repr__(self) -> str:
        return f"<Function {self.form()}>"

    def python(self) -> str:
        """Return the expression that makes it."""
        assert isinstance(self.kernel.made, Written), "make_function records its arguments"
        return self.kernel.made.call("make_function")


def function_table(given: Sequence[object]) -> Mapping[str, Function]:
    """Return the functions of a kernel by name; lists of functions are libraries, and count as their entries.

    Raises
    ------
    KernelError
        ``bad-function``, ``name-taken``.
    """
    found: dict[str, Function] = {}
    for entry in given:
        if isinstance(entry, list | tuple):
            inner: Mapping[str, Function] = function_table(entry)
        elif isinstance(entry, Function):
            inner = {entry.name: entry}
        else:
            hint = "pass what pl.make_function returns"
            raise _refused("bad-function", f"functions cannot hold {entry!r}", hint)
        for name, function in inner.items():
            if found.setdefault(name, function) is not function:
                raise _refused("name-taken", f"there are two functions '{name}'", "give one of them another name")
    return found


def _refused(code: str, message: str, hint: str) -> KernelError:
    return KernelError("make_kernel", None, [Diagnostic(code, message, hints=(hint,))])
