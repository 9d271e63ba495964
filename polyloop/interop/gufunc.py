"""Batches of NumPy arrays: a kernel called as a generalized universal function."""
# ruff: noqa: ANN401  # arrays

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from polyloop.display import Shown
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.export.interface import Array
from polyloop.interop.native import Native
from polyloop.interop.operands import Operands, abstract, for_the_processor, use_error
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.calls import Result
from polyloop.runtime.ccompile import open_library
from polyloop.runtime.foreign.view import ArrayView, row_major
from polyloop.runtime.views import HostMemory, empty_numpy
from polyloop.target.base import Target

__all__ = ["Batched", "gufunc"]

_STEP: Final = "gufunc"
_MOST: Final = 256  # layouts of which the shapes are remembered


def gufunc(kernel: LoopKernel, target: Target | None = None) -> Batched:
    """Return *kernel* as a function of batches: arrays with more axes in front, which are broadcast as NumPy's are.

    ::

        knl = pl.make_einsum("ij,j->i", "a, x").add_dtypes({"a": "float64", "x": "float64"})
        matvec = pl.gufunc(knl)

        for k in range(100): y[k] = run(a=a[k], x=x).out     # before
        y = matvec(a, x).out                                 # after: a (100, m, n), x (n,), y (100, m)

    All batches run in one call of a C function; no array is copied, whatever its leading axes and their strides.  The
    batches run one after the other; ``pl.to_batched`` makes them part of a kernel, to be tagged.

    Parameters
    ----------
    kernel
        With the types of all arguments.
    target
        A ``pl.CTarget(..)``; by default that of the kernel, or C.

    Raises
    ------
    ArgumentError
        ``needs-c-target``, ``unknown-dtype``.
    VerificationError, CodegenError, CompilerError
        As :func:`polyloop.export` and :func:`polyloop.compile` for C.
    """
    return Batched(Operands(_STEP, kernel, for_the_processor(_STEP, kernel, target)))


class Batched(Shown):
    """A kernel for batches; made by :func:`polyloop.gufunc`.

    Called with the arrays that the kernel reads and its numbers, by position or by name; each may have leading axes,
    numbers too.  Outputs that are not passed by name are allocated as NumPy arrays.  Sizes that are not passed are
    solved from shapes.  The result has every output as an attribute.

    A call raises :class:`ArgumentError` where the arguments do not fit the kernel, or cannot be broadcast.
    """

    def __init__(self, operands: Operands) -> None:
        self._operands, self._native, self._memory = operands, Native(operands), HostMemory()
        library = open_library(self._native.text)
        prefix = self._native.interface.prefix
        self._run: Callable[..., int] = getattr(library, f"{prefix}_batches")
        self._status = getattr(library, f"{prefix}_status_text")
        self._status.restype = ctypes.c_char_p
        self._shapes = lru_cache(maxsize=_MOST)(lambda views, sizes: operands.shapes(dict(views), dict(sizes)))

    def __repr__(self) -> str:
        return f"<gufunc of '{self._operands.kernel.name}': {self.signature}>"

    @property
    def signature(self) -> str:
        """The axes that belong to the kernel, as NumPy writes them: ``(m,n),(n)->(m)``."""
        def axes(array: ArrayArg) -> str:
            return f"({','.join(str(extent).replace(' ', '') for extent in array.shape or ())})"

        shapes = {array.name: axes(array) for array in self._operands.arrays}
        taken = ",".join(shapes.get(name, "()") for name in self._operands.operands)
        return f"{taken}->{','.join(shapes[array.name] for array in self._operands.outputs)}"

    @cached_property
    def _axes(self) -> Mapping[str, int]:
        """The number of axes that belong to the kernel, by name."""
        arrays = {array.name: len(array.shape or ()) for array in self._operands.arrays}
        return arrays | {number.name: 0 for number in self._operands.numbers}

    def __call__(self, /, *given: Any, **arguments: Any) -> Result:
        """Run the kernel for all batches."""
        operands = self._operands
        passed = {a.name: arguments.pop(a.name) for a in operands.fresh if arguments.get(a.name) is not None}
        found, sizes = operands.named(given, arguments)
        views = {name: self._view(name, value) for name, value in (found | passed).items()}
        lead = self._leading({name: views[name] for name in views})
        inner = {name: self._inner(view, name) for name, view in views.items()
                 if not any(number.name == name for number in operands.numbers)}
        solved, layouts = self._shapes(tuple(inner.items()), tuple(sizes.items()))
        for name, (shape, _) in layouts.items():
            if any(array.name == name for array in operands.fresh):
                views[name] = self._allocated(name, (*lead, *shape))
        self._refuse_sharing(views, lead)
        self._call(views, solved, lead)
        return Result.of({array.name: views[array.name].array for array in operands.outputs})

    def _view(self, name: str, value: Any) -> ArrayView:
        operands = self._operands
        for number in operands.numbers:
            if number.name == name:  # which may be a batch of them
                if not isinstance(value, np.ndarray) or value.ndim == 0:
                    value = np.asarray(number.convert(value) if not isinstance(value, complex) else value)
                return self._memory.view(operands.kernel.name, name, np.asarray(value).astype(number.dtype))
        view = self._memory.view(operands.kernel.name, name, value)
        if len(view.shape) < self._axes[name]:
            raise use_error(_STEP, operands.kernel.name, "wrong-shape",
                          f"'{name}' has {len(view.shape)} axes, and the kernel has {self._axes[name]}",
                          f"its shape is {view.shape}", hint=f"the kernel's axes are the last: {self.signature}")
        return view

    def _leading(self, views: Mapping[str, ArrayView]) -> tuple[int, ...]:
        """Return the leading axes of a call, which each array's are broadcast to."""
        shapes = {name: view.shape[: len(view.shape) - self._axes[name]] for name, view in views.items()}
        try:
            lead = np.broadcast_shapes(*shapes.values())
        except ValueError:
            raise use_error(_STEP, self._operands.kernel.name, "wrong-shape", "the leading axes cannot be broadcast",
                          *(f"those of '{name}' are {shape}" for name, shape in shapes.items() if shape),
                          hint="leading axes are equal, or 1, or missing") from None
        for array in self._operands.outputs:
            if array.name in shapes and shapes[array.name] != lead:
                raise use_error(_STEP, self._operands.kernel.name, "wrong-shape",
                              f"'{array.name}' is written, and has leading axes {shapes[array.name]}",
                              f"those of the call are {lead}", hint="pass an array with all leading axes")
        return lead

    def _inner(self, view: ArrayView, name: str) -> ArrayView:
        """Return the view of one place of the leading axes."""
        first = len(view.shape) - self._axes[name]
        steps = view.strides[first:] if view.size else None  # without elements strides are any numbers
        return replace(abstract(view.kind, view.dtype, view.shape[first:], steps), writeable=view.writeable)

    def _allocated(self, name: str, shape: tuple[int, ...]) -> ArrayView:
        if min(shape, default=0) < 0:
            raise use_error(_STEP, self._operands.kernel.name, "wrong-shape", f"'{name}' would have the shape {shape}",
                          hint="pass larger arrays or sizes")
        array = empty_numpy(self._operands.dtype(name), shape, row_major(shape), poison=False)
        return self._memory.view(self._operands.kernel.name, name, array)

    def _refuse_sharing(self, views: Mapping[str, ArrayView], lead: tuple[int, ...]) -> None:
        """Refuse an output that overlaps another array, or whose places share elements."""
        for array in self._operands.outputs:
            view = views[array.name]
            if any(extent > 1 and stride == 0 for extent, stride in zip(view.shape, view.strides, strict=True)):
                raise use_error(_STEP, self._operands.kernel.name, "overlapping-elements",
                              f"'{array.name}' is written, and its places share elements",
                              f"its shape is {view.shape}, its strides are {view.strides} elements",
                              hint=f"pass a copy of '{array.name}'")
            low, high = view.byte_range()
            for name, other in views.items():
                begin, end = other.byte_range()
                if name != array.name and low < end and begin < high and low < high and begin < end:
                    raise use_error(_STEP, self._operands.kernel.name, "overlapping-arguments",
                                  f"'{array.name}' is written and overlaps '{name}'", f"leading axes are {lead}",
                                  hint=f"pass a copy of '{name}'")

    def _call(self, views: Mapping[str, ArrayView], sizes: Mapping[str, int], lead: tuple[int, ...]) -> None:
        native, axes = self._native, len(lead)
        parameters = native.parameters
        steps, data = (ctypes.c_int64 * max(1, axes * len(parameters)))(), (ctypes.c_void_p * max(1, len(parameters)))()
        for place, entry in enumerate(parameters):
            view = views.get(entry.name)
            if view is None:  # scratch, which the launcher has no need of
                assert isinstance(entry, Array), f"the number '{entry.name}' has no value"
                raise use_error(_STEP, self._operands.kernel.name, "missing-argument",
                              f"'{entry.name}' is neither read nor returned", hint="make it a temporary variable")
            data[place] = view.pointer
            first = len(view.shape) - self._axes[entry.name]
            for axis in range(first):
                if view.shape[axis] != 1:
                    steps[place * axes + axes - first + axis] = view.strides[axis] * view.dtype.itemsize
        shape = (ctypes.c_int64 * max(1, axes))(*lead)
        numbers = (ctypes.c_int64 * max(1, len(native.sizes)))(*(sizes[name] for name in native.sizes))
        status = self._run(ctypes.c_int64(axes), shape, data, steps, numbers)
        if status:
            text = self._status(status).decode()
            raise ArgumentError(_STEP, self._operands.kernel.name, [Diagnostic(
                "wrong-call", text, (f"called with {', '.join(f'{n} = {v}' for n, v in sorted(sizes.items()))}",),
                ("pass arguments that the kernel was made for",))])

