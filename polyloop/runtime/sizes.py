"""Solving the integer parameters of a kernel from the shapes of the arrays passed to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.evaluate import affine_in, describe, evaluate, names_in
from polyloop.runtime.layouts import OpenLayout, solve_layouts
from polyloop.runtime.views import ArrayView, call_error

__all__ = ["Sizes", "check_layout", "dense", "solve_sizes", "wrong_axes"]


@dataclass(frozen=True, slots=True)
class _Equation:
    """``expression == value``, read off one axis of one array."""

    expression: Expression
    value: int
    array: str
    axis: int
    what: str

    def __str__(self) -> str:
        return f"{self.what} {self.axis} of '{self.array}' is {self.value}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Values of the integer parameters, with the source of each inferred one in ``origin``."""

    values: Mapping[str, int]
    origin: Mapping[str, str]


def _equations(arrays: Iterable[ArrayArg], views: Mapping[str, ArrayView]) -> Iterator[_Equation]:
    """Yield equations between declared and actual extents, then strides of axes with more than one element."""
    passed = [(arg, views[arg.name]) for arg in arrays if arg.name in views]
    for arg, view in passed:
        assert arg.shape is not None, f"the shape of '{arg.name}' is unknown"
        for axis, (expression, extent) in enumerate(zip(arg.shape, view.shape, strict=True)):
            yield _Equation(expression, extent, arg.name, axis, "axis")
    for arg, view in passed:
        assert arg.strides is not None, f"the strides of '{arg.name}' are unknown"
        for axis, (expression, stride) in enumerate(zip(arg.strides, view.strides, strict=True)):
            if view.size > 0 and view.shape[axis] > 1:
                yield _Equation(expression, stride, arg.name, axis, "the stride of axis")


def solve_sizes(kernel: str, arrays: Iterable[ArrayArg], views: Mapping[str, ArrayView],
                given: Mapping[str, int], wanted: Iterable[str], layouts: Iterable[OpenLayout] = ()) -> Sizes:
    """Return the values of all *wanted* integer parameters.

    Parameters
    ----------
    given
        Parameters that the caller passed.
    wanted
        Names of all integer parameters.
    layouts
        Strides and offsets that are read off the arrays passed.

    Raises
    ------
    ArgumentError
        ``wrong-shape`` (number of axes), ``inconsistent-size``, ``missing-argument``.
    """
    args = tuple(arrays)
    for arg in args:
        if arg.name in views and len(views[arg.name].shape) != len(arg.shape or ()):
            raise call_error(kernel, wrong_axes(arg, views[arg.name]))
    values, origin = dict(given), dict[str, str]()
    open_arrays = tuple(layouts)
    pending = list(_equations(args, views))
    progress = True
    while progress:
        progress = False
        for equation in tuple(pending):
            form = affine_in(equation.expression, values)
            if form is None or len(form[0]) > 1:
                continue
            pending.remove(equation)
            if not form[0]:  # checked with the layout
                continue
            ((name, coefficient),) = form[0].items()
            distance = equation.value - form[1]  # which may be a symbol, and has no divmod then
            value, rest = distance // coefficient, distance % coefficient
            if rest:
                raise call_error(kernel, Diagnostic(
                    "inconsistent-size", f"no integer '{name}' fits '{equation.array}'",
                    (f"{equation}, and must be {equation.expression}",), (f"check the shape of '{equation.array}'",)))
            values[name], origin[name] = value, f"{equation}, which gives {name} = {value}"
            progress = True
        if not progress and (read_off := solve_layouts(kernel, open_arrays, views, values)):
            values |= read_off
            progress = True
    missing = sorted(set(wanted) - values.keys())
    if missing:
        name = missing[0]
        raise call_error(kernel, Diagnostic(
            "missing-argument", f"the size '{name}' follows from no array that was passed", (),
            (f"pass {name}= as an integer",)))
    return Sizes(values, origin)


def wrong_axes(arg: ArrayArg, view: ArrayView) -> Diagnostic:
    """Return ``wrong-shape`` for an array with another number of axes than *arg* has."""
    shape = arg.shape or ()
    return Diagnostic(
        "wrong-shape", f"'{arg.name}' has {len(view.shape)} axes, and the kernel has {len(shape)}",
        (f"its shape is {view.shape}, the kernel's is {_tuple(shape)}",), (f"reshape '{arg.name}'",))


def _tuple(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def check_layout(kernel: str, arg: ArrayArg, view: ArrayView, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Check shape and strides of one array, and return the expected ones.

    Raises
    ------
    ArgumentError
        ``inconsistent-size``, ``wrong-shape``, ``wrong-strides``.
    """
    shape, strides = layout(arg, sizes)
    if view.shape != shape:
        raise call_error(kernel, _wrong_shape(arg, view, shape, sizes))
    if view.size > 0:
        axes = [k for k, extent in enumerate(shape) if extent > 1]
        if any(view.strides[k] != strides[k] for k in axes):
            raise call_error(kernel, _wrong_strides(arg, view, strides))
    return shape, strides


def layout(arg: ArrayArg, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides [elements] of *arg* for these sizes."""
    assert arg.shape is not None, f"the shape of '{arg.name}' is unknown"
    assert arg.strides is not None, f"the strides of '{arg.name}' are unknown"
    return (tuple(evaluate(e, sizes.values) for e in arg.shape),
            tuple(evaluate(e, sizes.values) for e in arg.strides))


def _wrong_shape(arg: ArrayArg, view: ArrayView, shape: tuple[int, ...], sizes: Sizes) -> Diagnostic:
    assert arg.shape is not None
    axis = next(k for k, (got, want) in enumerate(zip(view.shape, shape, strict=True)) if got != want)
    expression = arg.shape[axis]
    solved = [sizes.origin[name] for name in sorted(names_in(expression)) if name in sizes.origin]
    wanted = f"{expression} = {shape[axis]}" if names_in(expression) else f"{shape[axis]}"
    here = f"axis {axis} of '{arg.name}' is {view.shape[axis]}, and must be {wanted}"
    if solved:
        return Diagnostic("inconsistent-size", f"'{arg.name}' does not fit the other arrays", (here, *solved),
                          ("pass arrays whose shapes agree",))
    known = describe(expression, sizes.values)
    return Diagnostic(
        "wrong-shape", f"'{arg.name}' has shape {view.shape}, expected {shape}",
        (here, *((f"{known} was passed",) if known else ())),
        (f"the kernel declares '{arg.name}' as {_tuple(arg.shape)}",))


def _wrong_strides(arg: ArrayArg, view: ArrayView, strides: tuple[int, ...]) -> Diagnostic:
    name = arg.name
    notes = [f"its strides are {view.strides} elements, the kernel was generated for {strides}"]
    row_major = strides == dense(view.shape, range(len(view.shape) - 1, -1, -1))
    column_major = strides == dense(view.shape, range(len(view.shape)))
    if row_major:
        hint = f"pass np.ascontiguousarray({name}), or .contiguous() of a Torch tensor"
    elif column_major:
        hint = f"pass np.asfortranarray({name})"
    else:
        hint = f"copy '{name}' into an array of these strides"
    hints = (hint, f"or declare '{name}' with strides=pl.auto in the kernel to take any strides")
    if len(view.shape) > 1 and view.strides == tuple(reversed(strides)):
        notes.append(f"it is stored in the other order: '{name}' may be a transposed view (.T)")
    return Diagnostic("wrong-strides", f"'{name}' is not stored as the kernel reads it", tuple(notes), hints)


def dense(shape: tuple[int, ...], axes: Iterable[int]) -> tuple[int, ...]:
    """Return the strides [elements] of an array without gaps, of which *axes* are listed from the fastest on."""
    strides, step = [0] * len(shape), 1
    for axis in axes:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)
