"""Programs as manifests describe them, checked; and the arguments of their calls."""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from polyloop.edge.first import imported
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.export.manifest import Manifest, bundle_error
from polyloop.export.trees import Tree, affine, is_tree, names, value
from polyloop.runtime.foreign.view import ArrayKind, ArrayView, element_range

__all__ = ["Array", "Bound", "Described", "Number", "Passed", "bound", "call_error", "described", "passed"]


@dataclass(frozen=True)
class Array:
    """An array of a bundle; expressions in sizes are trees."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Tree, ...]
    strides: tuple[Tree, ...]
    offset: Tree
    alignment: int
    is_read: bool
    is_written: bool
    is_output: bool


@dataclass(frozen=True)
class Number:
    """A number of a bundle."""

    name: str
    dtype: np.dtype[Any]

    @property
    def passed(self) -> np.dtype[Any]:
        """The type that functions take: a float of 8 or 16 bits is passed as float32."""
        is_narrow = self.dtype.itemsize <= 2 and self.dtype.kind in "fV"
        return np.dtype(np.float32) if is_narrow else self.dtype


@dataclass(frozen=True)
class Described:
    """A program of a bundle."""

    kernel: str
    parameters: tuple[Array | Number, ...]
    workspace: tuple[Array, ...]
    layouts: frozenset[str]
    zeroed: frozenset[str] = frozenset()

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays among the parameters."""
        return tuple(entry for entry in self.parameters if isinstance(entry, Array))

    @property
    def integers(self) -> frozenset[str]:
        """Names of the integers among the parameters."""
        return frozenset(e.name for e in self.parameters if isinstance(e, Number) and e.dtype.kind in "iu")


@dataclass(frozen=True)
class Passed:
    """An array that a call is passed.

    Attributes
    ----------
    strides
        Distance between neighbours along each axis [elements].
    stream
        Handle of the stream on which the data become ready, if there is one to wait for.
    """

    pointer: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_writeable: bool
    owner: Any
    stream: int | None = None
    kind: ArrayKind = ArrayKind.NUMPY

    @property
    def may_share(self) -> bool:
        """True if two elements may have one address."""
        reached = 0
        for stride, extent in sorted((abs(step), n) for step, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride <= reached:
                return 0 not in self.shape
            reached += (extent - 1) * stride
        return False

    def byte_range(self) -> tuple[int, int]:
        """Return the half-open range of addresses [bytes] of the elements."""
        low, high = element_range(self.shape, self.strides)
        return self.pointer + low * self.dtype.itemsize, self.pointer + high * self.dtype.itemsize


def passed(array: Array, view: ArrayView) -> Passed:
    """Return the view of an argument as calls take it."""
    is_unnamed = view.kind is ArrayKind.CUDA and view.dtype.kind == "V" and view.dtype.itemsize == array.dtype.itemsize
    dtype = array.dtype if is_unnamed else view.dtype  # no protocol has a name for bfloat16 and floats of 8 bits
    return Passed(view.pointer, dtype, view.shape, view.strides, view.writeable, view.array, view.stream,
                  view.kind)


@dataclass(frozen=True)
class Bound:
    """The checked arguments of a call.

    Attributes
    ----------
    missing
        Outputs that were not passed, with shape and strides [elements].
    """

    sizes: Mapping[str, int]
    numbers: Mapping[str, Any]
    arrays: Mapping[str, Passed]
    missing: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]


def call_error(kernel: str, code: str, message: str, note: str = "", hint: str = "") -> ArgumentError:
    """Return the error of a call of *kernel*."""
    notes, hints = ((note,) if note else ()), ((hint,) if hint else ())
    return ArgumentError("call", kernel, [Diagnostic(code, message, notes, hints)])


def described(manifest: Manifest) -> Described:
    """Return the program of *manifest*.

    Raises
    ------
    CompilerError
        ``bundle-damaged``.
    """
    try:
        return _described(manifest.data)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise bundle_error(None, "bundle-damaged", "the manifest does not describe a program",
                           f"{type(error).__name__}: {error}"[:200]) from None


def _described(data: Mapping[str, Any]) -> Described:
    listed = [entry for entry in data["parameters"] if entry["kind"] == "value"]
    integers = frozenset(str(entry["name"]) for entry in listed if dtype_of(entry["dtype"]).kind in "iu")
    parameters = tuple(Number(str(entry["name"]), dtype_of(entry["dtype"])) if entry["kind"] == "value"
                       else _array(entry, integers) for entry in data["parameters"])
    workspace = tuple(_array(entry, integers) for entry in data["workspace"])
    layouts = frozenset(map(str, data["layouts"]))
    zeroed = frozenset(map(str, data.get("zeroed", ())))
    return Described(str(data["kernel"]), parameters, workspace, layouts, zeroed)


def dtype_of(name: object) -> np.dtype[Any]:
    """Return the type of that name."""
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        narrow: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), str(name)))
        return narrow
    found = np.dtype(str(name))
    if found.kind not in "biufc" and found.str != f"|{name}":  # "V8": 8 bytes of a record in a temporary array
        raise ValueError(f"{name!r} is no type of a number")
    return found


def _array(entry: Mapping[str, Any], integers: frozenset[str]) -> Array:
    shape, strides, offset = tuple(entry["shape"]), tuple(entry["strides"]), entry["offset"]
    if len(shape) != len(strides) or not all(is_tree(tree, integers) for tree in (*shape, *strides, offset)):
        raise ValueError(f"the layout of {entry['name']!r}")
    return Array(str(entry["name"]), dtype_of(entry["dtype"]), shape, strides, offset, int(entry["alignment"]),
                 bool(entry["is_read"]), bool(entry["is_written"]), bool(entry["is_output"]))


def bound(program: Described, given: Mapping[str, Any], passed: Mapping[str, Passed]) -> Bound:
    """Return the arguments of a call, sizes solved from the shapes of arrays.

    Parameters
    ----------
    given
        All arguments by name.
    passed
        The arrays among them.

    Raises
    ------
    ArgumentError
        ``unknown-argument``, ``missing-argument``, ``wrong-dtype``, ``wrong-shape``, ``wrong-strides``,
        ``inconsistent-size``, ``wrong-type``, ``read-only-output``.
    """
    kernel, known = program.kernel, {entry.name for entry in program.parameters}
    for name in given.keys() - known:
        raise ArgumentError("call", kernel, [unknown_name("argument", name, known)])
    numbers = {e.name: _number(kernel, e, given[e.name]) for e in program.parameters
               if isinstance(e, Number) and given.get(e.name) is not None}
    for array in program.arrays:
        _check_element(kernel, array, passed.get(array.name))
    sizes = _solved(program, {name: int(numbers[name]) for name in program.integers & numbers.keys()}, passed)
    for entry in program.parameters:
        if isinstance(entry, Number) and entry.name not in numbers:
            if entry.name not in sizes:
                raise call_error(kernel, "missing-argument", f"the value '{entry.name}' was not passed", "",
                                 f"pass {entry.name}= as {entry.dtype}")
            numbers[entry.name] = _number(kernel, entry, sizes[entry.name])
    return Bound(sizes, numbers, passed, _missing(program, passed, sizes))


def _missing(
    program: Described, passed: Mapping[str, Passed], sizes: Mapping[str, int]
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Check the layouts of arrays; return shape and strides [elements] of those that were not passed."""
    kernel, missing = program.kernel, {}
    for array in program.arrays:
        shape, strides = (tuple(value(tree, sizes) for tree in trees) for trees in (array.shape, array.strides))
        if array.name in passed:
            _check_layout(kernel, array, passed[array.name], shape, strides)
        elif min(shape, default=0) < 0:
            raise call_error(kernel, "wrong-shape", f"'{array.name}' would have the negative shape {shape}", "",
                             "pass larger arrays or sizes")
        else:
            missing[array.name] = shape, strides
    return missing


def _number(kernel: str, number: Number, given: Any) -> Any:
    """Return a value in the type that functions take."""
    kind = number.dtype.kind
    found: Any = given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given
    accepted: tuple[type, ...] = (bool, np.bool_) if kind == "b" else (int, np.integer)
    accepted = accepted if kind in "biu" else (int, float, np.integer, np.floating)
    fits = isinstance(found, accepted)
    if not fits or (kind != "b" and isinstance(found, bool)):
        raise call_error(kernel, "wrong-type", f"'{number.name}' must be a number of type {number.dtype}, not "
                         f"{type(given).__name__}", "", f"the kernel takes '{number.name}' as {number.dtype}")
    whole = isinstance(found, int | np.integer) and kind in "iu"
    if whole and not np.iinfo(number.dtype).min <= int(found) <= np.iinfo(number.dtype).max:
        raise call_error(kernel, "wrong-type", f"'{number.name}' = {found} does not fit {number.dtype}", "",
                         "pass a smaller one")
    convert: Callable[[Any], Any] = number.dtype.type
    if number.dtype.itemsize == 1 and kind in "fV":  # its conversion is not NumPy's
        convert = partial(imported("polyloop.expr.dtypes").rounded, dtype=number.dtype)
    return number.passed.type(convert(found))


def _check_element(kernel: str, array: Array, view: Passed | None) -> None:
    name = array.name
    if view is None:
        if not array.is_read:
            return
        raise call_error(
            kernel, "missing-argument", f"the array '{name}' was not passed", "it is read", f"pass {name}=")
    if view.dtype != array.dtype:
        convert = "to(torch" if view.kind in {ArrayKind.TORCH, ArrayKind.TORCH_CPU} else "astype(np"
        raise call_error(kernel, "wrong-dtype", f"'{name}' has dtype {view.dtype}, expected {array.dtype}", "",
                         f"pass {name}.{convert}.{array.dtype})")
    if len(view.shape) != len(array.shape):
        raise call_error(kernel, "wrong-shape", f"'{name}' has {len(view.shape)} axes, and the kernel has "
                         f"{len(array.shape)}", f"its shape is {view.shape}", f"reshape '{name}'")
    if array.is_written and not view.is_writeable:
        note, copy = ("arrays of JAX never change: they are inputs", f"np.array({name}), which is a copy") \
            if view.kind.is_jax else ("", f"a copy of '{name}'")
        hint = f"pass {copy}" if array.is_read else f"pass {copy}, or leave it out to have it allocated"
        raise call_error(kernel, "read-only-output", f"'{name}' is written by the kernel and is read-only", note, hint)


def _check_layout(
    kernel: str, array: Array, view: Passed, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    if view.shape != shape:
        raise call_error(kernel, "inconsistent-size", f"'{array.name}' has shape {view.shape}, expected {shape}", "",
                         "pass arrays whose shapes agree")
    wrong = prod(shape) and any(n > 1 and a != b for n, a, b in zip(shape, view.strides, strides, strict=True))
    if wrong:
        raise call_error(
            kernel, "wrong-strides", f"'{array.name}' is not stored as the kernel reads it",
            f"its strides are {view.strides} elements, the kernel was generated for {strides}",
            f"copy '{array.name}' into an array of these strides")


def _equations(program: Described, passed: Mapping[str, Passed]) -> Iterator[tuple[str, Tree, int]]:
    """Yield array, expression and value for extents, then for strides of axes with more than one element."""
    pairs = [(array, passed[array.name]) for array in program.arrays if array.name in passed]
    for array, view in pairs:
        yield from ((array.name, tree, extent) for tree, extent in zip(array.shape, view.shape, strict=True))
    for array, view in pairs:
        if prod(view.shape):
            yield from ((array.name, tree, stride) for tree, stride, extent
                        in zip(array.strides, view.strides, view.shape, strict=True) if extent > 1)


def _solved(program: Described, given: Mapping[str, int], passed: Mapping[str, Passed]) -> dict[str, int]:
    """Return the values of all integers; a stride or offset that no array says is that of a packed one."""
    values, pending, progress = dict(given), [*_equations(program, passed)], True
    while progress:
        progress = False
        for equation in [*pending]:
            name, tree, found = equation
            if (form := affine(tree, values)) is None:
                continue
            pending.remove(equation)
            unknown, factor, constant = form
            values[unknown], rest = divmod(found - constant, factor)
            if rest:
                raise call_error(program.kernel, "inconsistent-size", f"no integer '{unknown}' fits '{name}'", "",
                                 f"check the shape of '{name}'")
            progress = True
    for array in program.arrays:
        if all(names(tree) <= values.keys() for tree in array.shape):
            extents = [max(1, value(tree, values)) for tree in array.shape]
            for axis, tree in enumerate(array.strides):
                if isinstance(tree, str) and tree in program.layouts:
                    values.setdefault(tree, 1 if array.name in passed else prod(extents[axis + 1:]))
    for name in program.layouts:
        values.setdefault(name, 0)  # an offset: functions are passed the pointer of the first element
    _complete(program, values)
    return values


def _complete(program: Described, values: Mapping[str, int]) -> None:
    needed: Iterable[Tree] = (tree for array in (*program.arrays, *program.workspace)
                              for tree in (*array.shape, *array.strides, array.offset))
    for name in sorted(frozenset[str]().union(*map(names, needed)) - values.keys()):
        raise call_error(program.kernel, "missing-argument",
                         f"the size '{name}' follows from no array that was passed", "", f"pass {name}= as an integer")
