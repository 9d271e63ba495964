"""``diff_kernel``: all derivatives of outputs by the elements of one argument."""
# ruff: noqa: ANN401  # kernels and units

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from polyloop.creation.create import make_kernel
from polyloop.derivatives.differentiate import differentiate
from polyloop.edge.calls import public
from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.printer import show
from polyloop.frontend.fuse import fuse_kernels
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.specs import GlobalArg
from polyloop.loopy.missing import refused
from polyloop.loopy.steps import lifted
from polyloop.transform.registry import FUNCTIONS

__all__ = ["diff_kernel"]

_differentiate: Final = public(differentiate)
_make_kernel: Final = public(make_kernel)
_fuse: Final = public(fuse_kernels)


def diff_kernel(
    kernel: Any,
    diff_outputs: str | Sequence[str],
    by: str,
    diff_iname_prefix: str = "diff_i",
    batch_axes_in_by: Collection[int] = frozenset(),
    copy_outputs: Collection[str] = frozenset(),
) -> tuple[Any, Any]:
    """Return a kernel that computes the derivative of each element of outputs by each element of an argument.

    ::

        z[i] = y[i]*x[i]**2    =>    z_dx[diff_i0, i] = if(diff_i0 == i, 2*y[i]*x[i], 0)

    It is :func:`polyloop.differentiate` in reverse mode, for a batch of unit vectors.

    Parameters
    ----------
    diff_outputs
        Arrays that the kernel writes: ``"z, w"`` or a sequence.
    by
        An array argument.
    diff_iname_prefix
        The loop over the axis 0 of an output is called ``diff_i0``.
    batch_axes_in_by
        Must be empty: ask for all derivatives, or differentiate the kernel of one problem.
    copy_outputs
        Outputs of the kernel that are to be computed, too; then all of them are.

    Returns
    -------
    kernel, name
        The kernel, and the name of the new output, ``z_dx``: axes of the output, then those of the argument.
        A dictionary with the names of several outputs.

    Raises
    ------
    KernelError
        ``not-offered``, ``unknown-argument``; as :func:`polyloop.differentiate`.
    """
    outputs = [part.strip() for part in diff_outputs.split(",")] if isinstance(diff_outputs, str) else [*diff_outputs]
    if batch_axes_in_by:
        raise refused("batch_axes_in_by", "differentiate the kernel of one problem, then pl.to_batched(..)")
    names = {output: f"{output}_d{by}" for output in outputs}

    def differentiated(original: LoopKernel) -> LoopKernel:
        parts = [part for output in outputs for part in _parts(original, output, by, diff_iname_prefix, names[output])]
        knl = _fuse([original, *parts] if copy_outputs else parts)
        for output in outputs:
            knl = FUNCTIONS["assignment_to_subst"](knl, f"grad_{output}")
        knl = FUNCTIONS["remove_instructions"](knl, [f"unit_vectors_{output}" for output in outputs])
        knl = FUNCTIONS["remove_unused_inames"](FUNCTIONS["remove_unused_arguments"](knl))
        return replace(FUNCTIONS["expand_subst"](knl), name=original.name)

    result = lifted(differentiated)(kernel)
    return result, names[outputs[0]] if len(outputs) == 1 else names


def _parts(original: LoopKernel, output: str, by: str, prefix: str, name: str) -> tuple[LoopKernel, LoopKernel]:
    """Return the kernel of all unit vectors, and that of the derivative of one output, which reads them."""
    arrays = {entry.name: entry for entry in original.arguments if isinstance(entry, ArrayArg)}
    for wish in (output, by):
        if wish not in arrays:
            raise KernelError("diff_kernel", original.name, [unknown_name("argument", wish, arrays)])
    array, seed = arrays[output], f"grad_{output}"
    shape = array.shape or ()
    if not shape:
        problem = Diagnostic("not-offered", f"'{output}' has no axes", (), ("pl.differentiate(kernel, ..)",))
        raise KernelError("diff_kernel", original.name, [problem])
    knl = _differentiate(original, wrt=by, of=output)
    for axis in reversed(range(len(shape))):
        extent = shape[axis] if isinstance(shape[axis], int) else show(shape[axis])
        knl = FUNCTIONS["to_batched"](
            knl, extent, [seed, f"grad_{by}"], batch_iname_prefix=f"{prefix}{axis}")
    rows, columns = ([f"{letter}{axis}" for axis in range(len(shape))] for letter in "rc")
    extents = [show(extent) for extent in shape]
    bounds = " and ".join(f"0 <= {r} < {n} and 0 <= {c} < {n}" for r, c, n in zip(rows, columns, extents, strict=True))
    equal = " and ".join(f"{r} == {c}" for r, c in zip(rows, columns, strict=True))
    ones: LoopKernel = _make_kernel(
        f"{{[{', '.join((*rows, *columns))}]: {bounds}}}",
        f"{seed}[{', '.join((*rows, *columns))}] = if({equal}, 1.0, 0.0) {{id=unit_vectors_{output}}}",
        [GlobalArg(seed, array.dtype, shape=(*shape, *shape)), ...], name=original.name)  # fmt: skip
    return ones, FUNCTIONS["rename_argument"](knl, f"grad_{by}", name)
