"""Operands of a kernel: what it takes and returns, seen from another library."""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import ArgumentError, CompilerError, Diagnostic, unknown_name
from polyloop.expr.records import is_record
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.kernel.called import by_position
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.arguments import Binder, IndexTooSmall, index_overflow
from polyloop.runtime.backends import free_numbers
from polyloop.runtime.foreign.view import ArrayKind, ArrayView, row_major
from polyloop.runtime.packed import Free
from polyloop.runtime.specialize import open_arguments
from polyloop.runtime.views import HostMemory
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.source import generate_code

__all__ = ["Layout", "Operands", "abstract", "for_the_processor", "library_of", "use_error"]

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides [elements]."""

_INSTALL: Final = 'pip install "polyloop[interop]"'


def use_error(step: str, kernel: str, code: str, message: str, *notes: str, hint: str) -> ArgumentError:
    """Return the error of a kernel that cannot be used so."""
    return ArgumentError(step, kernel, [Diagnostic(code, message, notes, (hint,))])


def library_of(step: str, name: str) -> Any:
    """Return the library *name*.

    Raises
    ------
    CompilerError
        ``no-library``.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CompilerError(step, None, [Diagnostic(
            "no-library", f"{name.partition('.')[0]} is not installed", (str(error),), (_INSTALL,))]) from None


def abstract(
    kind: ArrayKind, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int] | None = None
) -> ArrayView:
    """Return the view of an array without memory, by default in C order."""
    extents = tuple(shape)
    steps = row_major(extents) if strides is None else tuple(strides)
    return ArrayView(kind, 0, dtype, extents, steps, True, -1, None, None)


def for_the_processor(step: str, kernel: LoopKernel, target: Target | None) -> Target:
    """Return the target by which *kernel* becomes a C function.

    Raises
    ------
    ArgumentError
        ``needs-c-target``.
    """
    chosen = target_of(kernel, target) or CTarget()
    if chosen.name != "c":
        raise use_error(step, kernel.name, "needs-c-target", f"this runs on the CPU, and the target is '{chosen.name}'",
                      hint="pass target=pl.CTarget(): a kernel with tags for a GPU runs there too")
    return chosen


@dataclass(frozen=True)
class Operands:
    """Arguments and outputs of a kernel.

    Attributes
    ----------
    step
        The function that asks, for its errors.
    """

    step: str
    kernel: LoopKernel
    target: Target
    index_bits: int | None = None
    program: GeneratedProgram = field(init=False)
    binder: Binder = field(init=False)

    def __post_init__(self) -> None:
        if opened := [argument.name for argument in open_arguments(self.kernel)]:
            raise use_error(self.step, self.kernel.name, "unknown-dtype", f"the type of '{opened[0]}' is open",
                          hint="state all types: knl.add_dtypes(..), or knl.specialized(a=a)")
        program = generate_code(self.kernel, self.target, index_bits=self.index_bits)
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "binder", Binder(program, HostMemory()))
        for argument in program.arguments:
            if argument.dtype is not None and is_record(argument.dtype):
                raise use_error(self.step, self.kernel.name, "wrong-dtype", f"'{argument.name}' holds records",
                              hint="other libraries have none: use one array a field")
        if program.split:
            raise use_error(self.step, self.kernel.name, "wrong-type", f"'{program.split[0].name}' is passed in parts",
                          hint="leave out the axis tag sep")

    @cached_property
    def arrays(self) -> tuple[ArrayArg, ...]:
        """All arrays that are read or returned."""
        return tuple(a for a in self.binder.arrays if a.is_input or a.is_output)

    @cached_property
    def inputs(self) -> tuple[ArrayArg, ...]:
        """The arrays that are read."""
        return tuple(a for a in self.arrays if a.is_input)

    @cached_property
    def changed(self) -> tuple[ArrayArg, ...]:
        """The arrays that are read and written."""
        return tuple(a for a in self.inputs if a.is_output)

    @cached_property
    def outputs(self) -> tuple[ArrayArg, ...]:
        """The arrays that are written."""
        return tuple(a for a in self.arrays if a.is_output)

    @cached_property
    def fresh(self) -> tuple[ArrayArg, ...]:
        """The arrays that are written and not read."""
        return tuple(a for a in self.outputs if not a.is_input)

    @cached_property
    def numbers(self) -> tuple[Free, ...]:
        """The numbers that no size or condition depends on."""
        return free_numbers(self.binder)

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The other numbers, which are solved from shapes where they are not passed."""
        free = {number.name for number in self.numbers}
        values = [a.name for a in self.binder.values if a.name not in free]
        return (*values, *sorted(self.binder.parameters - {*values, *free}))

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Arrays that are read and numbers, in the order of the kernel's declaration."""
        taken = {a.name for a in self.inputs} | {number.name for number in self.numbers}
        declared = [name for name in by_position(self.kernel) if name in taken]
        rest = [a.name for a in self.program.arguments if a.name in taken and a.name not in declared]
        return (*declared, *rest)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the type of an argument."""
        found = next(a for a in self.program.arguments if a.name == name)
        assert isinstance(found, ArrayArg | ValueArg), f"'{name}' is no argument"
        assert found.dtype is not None, f"the type of '{name}' is open"
        return np.dtype(found.dtype)

    def named(self, given: Sequence[Any], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Return operands by name, and the sizes that were passed.

        Raises
        ------
        ArgumentError
            ``unnamed-argument``, ``unknown-argument``, ``missing-argument``, ``wrong-type``.
        """
        names, kernel = self.operands, self.kernel.name
        if len(given) > len(names):
            raise use_error(self.step, kernel, "unnamed-argument",
                          f"{len(given)} arguments are passed by position, of which there are {len(names)}",
                          hint=f"by position: {', '.join(names)}")
        found = dict(zip(names, given, strict=False))
        if twice := [name for name in arguments if name in found]:
            raise use_error(self.step, kernel, "unnamed-argument", f"'{twice[0]}' is passed by position and by name",
                          hint=f"leave out {twice[0]}=")
        for name in arguments.keys() - {*names, *self.sizes}:
            raise ArgumentError(self.step, kernel, [unknown_name("argument", name, {*names, *self.sizes})])
        found |= {name: value for name, value in arguments.items() if name in names}
        if missing := [name for name in names if found.get(name) is None]:
            raise use_error(self.step, kernel, "missing-argument", f"'{missing[0]}' was not passed",
                          hint=f"pass {missing[0]}=")
        return found, self.given_sizes(arguments)

    def given_sizes(self, arguments: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes among *arguments*."""
        sizes = {}
        for name in self.sizes:
            value = arguments.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise use_error(self.step, self.kernel.name, "wrong-type", f"'{name}' must be an integer of Python",
                              f"it is a {type(value).__module__}.{type(value).__qualname__}",
                              hint=f"shapes follow from it: pass int({name})")
            sizes[name] = int(value)
        return sizes

    def shapes(
        self, views: Mapping[str, ArrayView], sizes: Mapping[str, int], *, launches: bool = True
    ) -> tuple[Mapping[str, int], Mapping[str, Layout]]:
        """Return all sizes, and the layouts of arrays that are not in *views*; checks as those of a call.

        Raises
        ------
        ArgumentError
            As a call.
        """
        try:
            return self.binder.shapes(views, sizes, self.sizes, launches=launches)
        except IndexTooSmall as signal:
            raise index_overflow(self.kernel.name, signal, is_wide=self.program.index_bits != 32) from None

    def refuse(self, names: Iterable[str], why: str, hint: str) -> None:
        """Refuse a kernel that has arguments of these *names*."""
        for name in names:
            raise use_error(self.step, self.kernel.name, "wrong-type", f"'{name}' {why}", hint=hint)
