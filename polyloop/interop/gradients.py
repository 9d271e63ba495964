"""A kernel and the one that computes its gradients: which argument of the second is which of the first."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from polyloop.derivatives.differentiate import backward_of
from polyloop.errors import ArgumentError, CodegenError, KernelError, TransformError, VerificationError
from polyloop.expr.dtypes import is_floating
from polyloop.interop.operands import Operands, use_error
from polyloop.kernel.kernel import LoopKernel
from polyloop.target.base import Target
from polyloop.transform.loops.split import SplitIname

__all__ = ["PREFIX", "Backward", "Gradients", "derived", "no_gradient"]

Backward: TypeAlias = LoopKernel | Literal[False] | None
"""A kernel that computes gradients; False for none, None for the one of :func:`polyloop.differentiate`."""

PREFIX = "grad_"
"""In front of the name of an argument: its gradient."""


@dataclass(frozen=True)
class Gradients:
    """The kernel *backward*, which computes gradients of *forward*.

    It reads inputs and outputs of the forward kernel by their names, and the gradients of its outputs as
    ``grad_<output>``; it writes ``grad_<input>``.
    """

    forward: Operands
    backward: Operands

    def __post_init__(self) -> None:
        forward, backward = self.forward, self.backward
        if changed := [*forward.changed, *backward.changed]:
            raise self._refused(f"'{changed[0].name}' is read and written", "gradients are of values, which stay",
                                hint="write the result to another array")
        known = {a.name for a in forward.arrays} | {number.name for number in forward.numbers}
        gradients = {f"{PREFIX}{a.name}" for a in forward.outputs}
        for name in backward.operands:
            if name not in known | gradients:
                raise self._refused(f"'{name}' is no argument of '{forward.kernel.name}'",
                                    f"a backward kernel takes {', '.join(sorted(known | gradients))}",
                                    hint="name its arguments as those of the kernel, and gradients grad_<output>")
        wanted = {f"{PREFIX}{name}": name for name in forward.operands}
        for array in backward.outputs:
            if array.name not in wanted:
                raise self._refused(f"'{array.name}' is no gradient of '{forward.kernel.name}'",
                                    f"a backward kernel writes some of {', '.join(sorted(wanted))}",
                                    hint="name its outputs grad_<input>, and make others temporary variables")
        pairs = {name: name for name in backward.operands if name in known}
        pairs |= {f"{PREFIX}{name}": name for name in (*known, *(a.name for a in forward.outputs))
                  if f"{PREFIX}{name}" in {a.name for a in backward.arrays}}
        for mine, theirs in pairs.items():
            one, other = backward.dtype(mine), forward.dtype(theirs)
            if one != other:
                raise self._refused(f"'{mine}' has type {one}, and '{theirs}' {other}", hint="give both one type")

    def _refused(self, message: str, *notes: str, hint: str) -> ArgumentError:
        return use_error(self.forward.step, self.backward.kernel.name, "wrong-backward", message, *notes, hint=hint)

    @cached_property
    def differentiable(self) -> frozenset[str]:
        """The operands of the forward kernel that have gradients."""
        return frozenset(array.name.removeprefix(PREFIX) for array in self.backward.outputs)

    @cached_property
    def saved(self) -> tuple[str, ...]:
        """The inputs, numbers and outputs of the forward kernel that the backward kernel reads."""
        return tuple(name for name in self.backward.operands if not self._is_gradient(name))

    def _is_gradient(self, name: str) -> bool:
        return name.startswith(PREFIX) and name.removeprefix(PREFIX) in {a.name for a in self.forward.outputs}


def derived(forward: Operands, target: Target, *, with_numbers: bool) -> Gradients | str:
    """Return the gradients that follow from the kernel itself, or why there are none.

    Parameters
    ----------
    target
        That of the backward kernel.
    with_numbers
        Whether numbers have gradients too.
    """
    numbers = [number.name for number in forward.numbers if with_numbers and is_floating(number.dtype)]
    try:
        if forward.changed:
            return f"'{forward.changed[0].name}' is read and written"
        return Gradients(forward, Operands(forward.step, _on_blocks(backward_of(forward.kernel, numbers)), target))
    except (ArgumentError, CodegenError, KernelError, TransformError, VerificationError) as error:
        return error.found[0].message


def _on_blocks(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with the outermost loop of each nest on threads, where that is proven."""
    for iname in dict.fromkeys(instruction.inames[0] for instruction in kernel.instructions if instruction.inames):
        with suppress(TransformError):
            kernel = SplitIname(iname, 128, outer_tag="g.0", inner_tag="l.0")(kernel)
    return kernel


def no_gradient(forward: Operands, name: str, gradients: Gradients | str | None) -> ArgumentError:
    """Return the error where a gradient with respect to *name* is wanted, and no kernel computes it."""
    kernel = forward.kernel.name
    if gradients is None or isinstance(gradients, str):
        why = "no kernel was given for it" if gradients is None else f"the kernel cannot be differentiated: {gradients}"
        return use_error("call", kernel, "no-gradient", f"a gradient of '{kernel}' with respect to '{name}' is wanted",
                         why, hint=f"pass backward=, a kernel that writes {PREFIX}{name}")
    other = gradients.backward.kernel.name
    return use_error("call", kernel, "no-gradient", f"'{other}' computes no gradient of '{name}'",
                   f"it writes {', '.join(a.name for a in gradients.backward.outputs)}",
                   hint=f"write {PREFIX}{name} in it, or stop the gradient before the call")
