"""``make_function``: kernels that other kernels call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import islpy as isl

from polyloop.creation.create import make_kernel
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.foreign import ForeignFunction
from polyloop.kernel.build.callee import program_of
from polyloop.kernel.build.function import Callee, Function, flattened, function_table
from polyloop.kernel.made import Written
from polyloop.kernel.objects import InstructionObject
from polyloop.kernel.text.specs import GlobalArg, ValueArg

__all__ = ["make_function", "merge"]


def merge(entities: Sequence[Annotated[Callee, EXPLAINED]]) -> tuple[Function | ForeignFunction, ...]:
    """Return the functions in *entities*, libraries among them, as one library, to be passed in ``functions=``.

    Raises
    ------
    KernelError
        ``bad-function`` (a kernel among them: pass it the library when it is made), ``name-taken`` (two functions of
        one name).
    """
    try:
        function_table(entities)
    except KernelError as error:
        raise KernelError("merge", None, error.found) from error
    return tuple(dict.fromkeys(flattened(entities)))


def make_function(
    domains: str | isl.Set | isl.BasicSet | Sequence[str | isl.Set | isl.BasicSet],
    instructions: Annotated[str | Sequence[str | InstructionObject], EXPLAINED],
    kernel_data: Sequence[object] | None = None,
    *,
    name: str,
    functions: Sequence[Annotated[Callee, EXPLAINED]] = (),
) -> Function:
    """Create a function that the statements of kernels and of other functions may call.

    ::

        norm = pl.make_function(
            "{[j]: 0 <= j < m}",
            ["<> s = sum(j, x[j]*x[j])", "r = sqrt(s)"],
            [pl.GlobalArg("x", shape="m"), pl.GlobalArg("r", shape=()), ...], name="norm")

        knl = pl.make_kernel(
            "{[i, k]: 0 <= i < n and 0 <= k < 3}",
            "lengths[i] = norm([k]: a[i, k])",
            [...], functions=[norm])

        # print(knl.reference)
        for i
            norm_s = sum(norm_j, a[i, norm_j]*a[i, norm_j])
            lengths[i] = sqrt(norm_s)

    Parameters
    ----------
    domains, instructions, kernel_data
        As for :func:`polyloop.make_kernel`.  Open types are those of the call's arguments.
    name
        By which statements call it.
    functions
        Functions that its statements may call.

    Returns
    -------
    Function
        To be passed in ``functions=[..]``; a list of functions, such as a library, counts as its entries.

        In a call, ``y, z = f(x, alpha)``, the arrays that the function writes are on the left and the arguments that it
        reads in the parentheses, each in the order of ``kernel_data``; one that is read and written is on both sides.
        An array is passed as ``[i]: y[2*i, k]`` (the inames in front sweep, and are bound there), as a slice ``y[1:n,
        k]`` or ``y[:, k]``, or by its name; an array without axes as one element, or as a temporary that the call
        declares: ``<> t = f(x)``.  Integer parameters are inferred from shapes, or passed in the parentheses.

    Raises
    ------
    KernelError
        What :func:`polyloop.make_kernel` raises of the function by itself; ``recursive-function``.

    Notes
    -----
    A call is put in line when the kernel is created, and arrays are passed by reference, as if its statements stood
    there.  The inames, temporaries and instructions of the function become ``name_..``; no transform sees a call.  A
    Loopy script that merges caller and callee passes the callee in ``functions`` instead, and need not inline it.
    """
    table = function_table(functions)
    if name in table.functions or name in table.foreign:
        problem = Diagnostic("recursive-function", f"function '{name}' calls another function '{name}'",
                             (f"{name} -> {name}",), ("give one of them another name",))  # fmt: skip
        raise KernelError("make_function", name, [problem])
    kernel = make_kernel(domains, instructions, kernel_data, name=name, functions=functions)
    if kernel.barriers:
        hint = "leave them out: barriers are derived from what the instructions read and write"
        problem = Diagnostic("bad-function", "a function has no barriers", hints=(hint,))
        raise KernelError("make_function", name, [problem])
    made = kernel.made
    assert isinstance(made, Written), "make_kernel records its arguments"
    declared = [entry for entry in kernel_data or () if isinstance(entry, GlobalArg | ValueArg)]
    typed = [entry.name for entry in declared if entry.dtype is not None]
    names = frozenset(part.strip() for entry in typed for part in entry.split(","))
    return Function(kernel, program_of(kernel, made, table), names)
