"""Linear operators of SciPy whose products are kernels."""
# ruff: noqa: ANN401  # arrays, and an operator of SciPy

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from polyloop.interop.operands import Operands, library_of, use_error
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.foreign.view import ArrayView, row_major
from polyloop.runtime.sizes import layout, solve_sizes
from polyloop.runtime.views import HostMemory, empty_numpy
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget

__all__ = ["aslinearoperator"]

_STEP: Final = "aslinearoperator"


def aslinearoperator(
    kernel: LoopKernel, arguments: Mapping[str, Any], *, x: str = "x", y: str = "y",
    adjoint: LoopKernel | None = None, target: Target | None = None,
) -> Any:  # fmt: skip
    """Return a linear operator of SciPy that computes ``y = A @ x`` by *kernel*.

    ::

        A = pl.aslinearoperator(csr_product, {"values": v, "columns": c, "starts": s, "n": n})

        y = csr_product(values=v, columns=c, starts=s, x=x, n=n).y        # before
        y = A @ x;  scipy.sparse.linalg.cg(A, b)                          # after

    Parameters
    ----------
    kernel
        With the types of all arguments; it must be linear in *x*, which is not checked.
    arguments
        All other arguments, by name; arrays are not copied, and may change between products.  A size that only the
        shape of *x* would say is one of them.
    x, y
        Names of the vector that is read, and of the one that is returned.
    adjoint
        A kernel with the same arguments that computes ``A^H @ x``; without it ``rmatvec`` and ``.H`` are refused.
    target
        By default that of the kernel, or C.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator

    Raises
    ------
    ArgumentError
        ``unknown-dtype``, ``unknown-argument``, ``wrong-shape``, ``missing-argument``; a product raises it as a call.
    CompilerError
        ``no-library``; as :func:`polyloop.compile`.
    VerificationError, CodegenError
        As :func:`polyloop.compile`.
    """
    linalg = library_of(_STEP, "scipy.sparse.linalg")
    chosen = target_of(kernel, target) or CTarget()
    forward = _Product(kernel, arguments, x, y, chosen)
    shape = (forward.rows, forward.columns)
    if adjoint is None:

        def refuse(vector: object) -> None:
            del vector
            raise use_error(_STEP, kernel.name, "missing-argument", "the operator has no adjoint",
                            "products with it (rmatvec, .H, .T) need a kernel of their own",
                            hint="pass adjoint=, a kernel that computes A^H @ x")

        return linalg.LinearOperator(shape, matvec=forward, rmatvec=refuse, dtype=forward.dtype)
    back = _Product(adjoint, arguments, x, y, chosen)
    if (back.columns, back.rows) != shape:
        raise use_error(_STEP, adjoint.name, "wrong-shape", f"the adjoint has shape {(back.rows, back.columns)}",
                      f"the kernel has shape {shape}", hint="pass a kernel for the transposed matrix")
    return linalg.LinearOperator(shape, matvec=forward, rmatvec=back, dtype=forward.dtype)


class _Product:
    """One product."""

    def __init__(self, kernel: LoopKernel, arguments: Mapping[str, Any], x: str, y: str, target: Target) -> None:
        operands = Operands(_STEP, kernel, target)
        arrays = {array.name: array for array in operands.arrays}
        source, result = self._vector(operands, arrays, x), self._vector(operands, arrays, y)
        if not source.is_input or not result.is_output:
            raise use_error(_STEP, kernel.name, "wrong-type", f"the kernel does not read '{x}' and write '{y}'",
                          hint='name them: x="..", y=".."')
        if others := [array.name for array in operands.outputs if array is not result]:
            raise use_error(_STEP, kernel.name, "wrong-type", f"the kernel writes '{others[0]}' too",
                          hint="a linear operator has one result: make it a temporary variable")
        self._arguments = dict(arguments)
        memory, known = HostMemory(), operands.named((), {**self._arguments, x: True})
        views: dict[str, ArrayView] = {
            name: memory.view(kernel.name, name, value)
            for name, value in known[0].items() if name in arrays and name != x}
        binder = operands.binder
        sizes = solve_sizes(kernel.name, binder.arrays, views, known[1], operands.sizes, binder.layouts)
        (self.columns,), _ = layout(source, sizes)
        self._shape, _ = layout(result, sizes)
        (self.rows,) = self._shape
        self.dtype, self._x, self._y, self._kernel = operands.dtype(y), x, y, kernel.name
        self._type = operands.dtype(x)
        self._run: Callable[..., Any] = compile_kernel(kernel, target)

    @staticmethod
    def _vector(operands: Operands, arrays: Mapping[str, ArrayArg], name: str) -> ArrayArg:
        if name not in arrays or len(arrays[name].shape or ()) != 1:
            vectors = [array.name for array in arrays.values() if len(array.shape or ()) == 1]
            raise use_error(_STEP, operands.kernel.name, "unknown-argument", f"'{name}' is no vector of the kernel",
                          f"its vectors are {', '.join(vectors) or 'none'}", hint='name x and y: x="u", y="v"')
        return arrays[name]

    def __call__(self, vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the product, a new array."""
        if not np.can_cast(vector.dtype, self._type, "same_kind"):
            raise use_error("call", self._kernel, "wrong-dtype", f"'{self._x}' has dtype {vector.dtype}, "
                          f"expected {self._type}", hint=f"pass {self._x}.astype(np.{self._type})")
        flat = np.ascontiguousarray(vector.reshape(-1), self._type)
        found = empty_numpy(self.dtype, self._shape, row_major(self._shape), poison=False)
        self._run(**self._arguments, **{self._x: flat, self._y: found})
        return found
