"""Calls of a kernel: its methods that compile and run it, which a layer above provides."""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, Self

from polyloop.kernel.arrays import ValueArg as _Value
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.text.specs import GlobalArg, ValueArg
from polyloop.memo import memoised

__all__ = ["Called", "by_position", "provide"]


class Executor(Protocol):
    """Compiles a kernel for the arguments of its calls."""

    def __call__(self, *operands: Any, **arguments: Any) -> Any:
        """Run the kernel."""
        ...

    def specialized(self, **arguments: Any) -> Any:
        """Return the kernel with types and layouts."""
        ...


_PROVIDED: Final[list[Callable[[Any], Executor]]] = []


@memoised
def _executor(kernel: Called) -> Executor:
    return _PROVIDED[0](kernel)


class Called:
    """Methods of ``LoopKernel`` that run it."""

    def __call__(self, /, *operands: Any, **arguments: Any) -> Any:
        """Compile the kernel for the types, layouts and device of *arguments*, and run it.

        ::

            knl = pl.make_einsum("ij,jk->ik", "a, b")
            c = knl(a, b).out
            c = knl(a=a, b=b).out

        A type that the kernel leaves open is that of the array or NumPy scalar that is passed; a Python number adapts
        to what it is combined with, as a constant does.  The types of outputs follow.  An array that is declared in C
        order without gaps may be passed in any layout, unless instructions are C text.  Arrays in the memory of a GPU
        make it a kernel for CUDA, others one for the CPU, unless the kernel has a target.  A call of other types or
        layouts makes another specialization, and all are kept with the kernel; there are at most 32, or as many as
        ``max_specializations`` of :func:`polyloop.compile` says.

        Parameters
        ----------
        operands
            Arguments by position: those that the kernel was declared with, in that order, which are the operands of an
            einsum and the parameters of a function under :func:`polyloop.kernel`.  The others are passed by name.
        arguments
            Arguments by name, ``stream`` and ``poison``, as for :class:`polyloop.CompiledKernel`.

        Returns
        -------
        Result
            The outputs: attributes, a mapping by name, or unpacked in the order of the arguments.

        Raises
        ------
        ArgumentError
            As for :class:`polyloop.CompiledKernel`; ``unknown-dtype``, ``type-conflict``,
            ``too-many-specializations``.
        VerificationError, CodegenError, CompilerError
            As :func:`polyloop.compile`.
        """
        return _executor(self)(*operands, **arguments)

    def specialized(self, /, **arguments: Any) -> Self:
        """Return the kernel with the types and layouts that a call with *arguments* would compile it for.

        They are steps of its trace, ``add_dtypes`` and ``tag_array_axes``.

        Parameters
        ----------
        arguments
            As in a call, by name; outputs may be left out.

        Raises
        ------
        ArgumentError
            As in a call.
        """
        found: Self = _executor(self).specialized(**arguments)
        return found


def provide(executor: Callable[[Any], Executor]) -> None:
    """Let kernels be called, each by what *executor* makes of it; the package does this when it is imported."""
    _PROVIDED[:] = [executor]
    for name in ("__call__", "specialized"):
        setattr(LoopKernel, name, vars(Called)[name])


def by_position(kernel: LoopKernel) -> tuple[str, ...]:
    """Return the arguments of *kernel* that a call may pass by position, in their order.

    They are those that it was declared with.  The order of arguments that were found in the text follows from how it
    is written, and a position would be a guess.
    """
    names = {*_declared(kernel)}
    for step in kernel.trace:
        data = step.data()
        if data["name"] == "set_argument_order":
            names = {argument.name for argument in kernel.arguments}
        elif data["name"] == "rename_argument":
            renamed: Any = data["arguments"]
            names = {renamed["new_name"] if name == renamed["old_name"] else name for name in names}
    listed = (entry for entry in kernel.arguments if not (isinstance(entry, _Value) and entry.layout_of is not None))
    return tuple(entry.name for entry in listed if entry.name in names)


def _declared(kernel: LoopKernel) -> Iterator[str]:
    made = kernel.made
    if not isinstance(made, Written):
        return
    for entry in made.kernel_data or ():
        if isinstance(entry, GlobalArg | ValueArg):
            yield from (name.strip() for name in entry.name.split(","))
