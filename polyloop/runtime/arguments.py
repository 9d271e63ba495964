"""Checking and binding the arguments of a call, the same for every backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import le
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, LaunchCheck, SplitArray
from polyloop.edge.words import shown
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.expr.dtypes import (
    accepted_types,
    computed,
    has_room,
    integer_limits,
    is_bool,
    is_complex,
    is_integer,
    rounded,
)
from polyloop.expr.printer import show
from polyloop.expr.records import is_record, struct_alignment
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.kernel.passed import masked_problem, too_large
from polyloop.runtime.calls import Result
from polyloop.runtime.evaluate import describe, evaluate, names_in
from polyloop.runtime.layouts import open_layouts, refuse_shared_elements
from polyloop.runtime.packed import is_poisoning
from polyloop.runtime.parts import split_values, whole_of
from polyloop.runtime.sizes import Sizes, check_layout, layout, solve_sizes
from polyloop.runtime.steps import Step, Steps, asked_scalars, host_names
from polyloop.runtime.views import (
    Allocator,
    ArrayKind,
    ArrayView,
    HostMemory,
    Memory,
    as_vectors,
    call_error,
    element_range,
    place_of,
)

__all__ = ["Binder", "Binding", "IndexTooSmall", "Result", "Workspace", "allocating", "convert_scalar",
           "index_overflow", "missing_array", "wrong_dtype"]

_MOST_PLANS: Final = 256
_NARROW: Final = 32
_WIDE: Final = 8  # bytes of a type of 64 bits
_TORCH: Final = frozenset({ArrayKind.TORCH, ArrayKind.TORCH_CPU})


class IndexTooSmall(Exception):  # noqa: N818  # a signal to the caller, not an error of the user
    """The sizes of this call do not fit the index type; carries the failed check."""

    def __init__(self, check: LaunchCheck, values: Mapping[str, int]) -> None:
        super().__init__(check.message)
        self.check = check
        self.values = values


@dataclass(frozen=True, slots=True)
class Workspace:
    """An array that lives as long as a call: a temporary in global memory."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    zeroed: bool = False
    """True if it holds zeros at first."""

    @property
    def nbytes(self) -> int:
        """Size [bytes]."""
        low, high = element_range(self.shape, self.strides)
        return (high - low) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class _Plan:
    """Result of the checks of one signature; valid for every call with that signature."""

    sizes: Sizes
    scalars: Mapping[str, np.generic]
    shifts: Mapping[str, int]
    allocate: tuple[tuple[ArrayArg, tuple[int, ...], tuple[int, ...]], ...]
    workspace: tuple[Workspace, ...]
    launches: Steps
    kind: ArrayKind
    device: int


@dataclass(frozen=True, slots=True)
class Binding:
    """Everything that a launch needs.

    Attributes
    ----------
    views
        All arrays by name, those allocated here among them.
    fresh
        Names of the arrays that were allocated here: their contents mean nothing yet, unless
        ``poisoned`` says that they hold the pattern by which unwritten elements are told.
    scalars
        The values passed by value, as NumPy scalars of the kernel's types.
    launches
        Launches with something to do, in their order, with their grids.
    shifts
        Offsets of first elements from the pointers that functions are passed [bytes], if not 0.
    workspace
        Arrays to allocate for the length of the call.
    wholes
        Arrays that the program takes in parts, and that were not passed in parts.
    """

    program: GeneratedProgram
    views: Mapping[str, ArrayView]
    fresh: frozenset[str]
    scalars: Mapping[str, np.generic]
    launches: Steps
    sizes: Mapping[str, int]
    poisoned: bool = False
    shifts: Mapping[str, int] = field(default_factory=dict)
    workspace: tuple[Workspace, ...] = ()
    wholes: Mapping[str, Any] = field(default_factory=dict)

    def address(self, name: str, first_element: int) -> int:
        """Return the pointer argument for an array whose first element has the address *first_element*."""
        return first_element - self.shifts.get(name, 0)

    def scalar(self, name: str, step: Step) -> np.generic:
        """Return the value of an argument that is passed by value: of the kernel, or an iname of the host."""
        if name in step.inames:
            return (np.int32 if self.program.index_bits == _NARROW else np.int64)(step.inames[name])
        return self.scalars[name]

    def host_workspace(self) -> dict[str, ArrayView]:
        """Allocate the workspace in host memory."""
        memory, kernel = HostMemory(), self.program.kernel
        found = {w.name: _allocated(memory, kernel, w.name, ArrayKind.NUMPY, -1, w.dtype, (w.shape, w.strides),
                                    self.poisoned) for w in self.workspace}
        for w in self.workspace:
            if w.zeroed:
                found[w.name].array[...] = 0
        return found

    def result(self) -> Result:
        """Return the outputs."""
        outputs = {arg.name: self.views[arg.name].array for arg in self.program.arguments
                   if isinstance(arg, ArrayArg) and arg.is_output}
        return Result.of(self.joined(outputs, self.wholes))

    def joined(self, outputs: Mapping[str, Any], wholes: Mapping[str, Any]) -> dict[str, Any]:
        """Return *outputs* with *wholes* in the places of their parts."""
        owner = {part: split.name for split in self.program.split if split.name in wholes for part in split.parts}
        return {owner.get(name, name): wholes[owner[name]] if name in owner else value
                for name, value in outputs.items()}


@dataclass
class Binder:
    """Checks and converts the arguments of one program, with a memo of layouts checked before.

    Arrays that are neither input nor output are scratch: allocated where not passed, and not
    part of the result.
    """

    program: GeneratedProgram
    memory: Memory
    _plans: dict[tuple[object, ...], _Plan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments = self.program.arguments
        self.arrays = tuple(a for a in arguments if isinstance(a, ArrayArg))
        self.values = tuple(a for a in arguments if isinstance(a, ValueArg))
        self.alignments = dict(self.program.alignments)
        self._by_name = {array.name: array for array in self.arrays}
        self.layouts = open_layouts(arguments)
        parameters = set[str]()
        for array in (*self.arrays, *self.program.workspace):
            for expression in (*(array.shape or ()), *(array.strides or ()), array.offset):
                parameters |= names_in(expression)
        for check in (*self.program.checks, *self.program.index_checks):
            parameters |= names_in(check.condition)
        parameters |= host_names(self.program.launches)
        asked = asked_scalars(self.program.launches)
        self._asked = tuple(v for v in self.values if v.name in asked)
        integers = {v.name for v in self.values if v.dtype is not None and is_integer(v.dtype)}
        self.decisive = frozenset(parameters | asked)
        self.parameters = frozenset(parameters)
        self.integers = frozenset(parameters | integers)
        self.names = frozenset({a.name for a in arguments} | parameters)
        self.wholes = {split.name: split for split in self.program.split}

    def bind(self, given: Mapping[str, object], *, poison: bool | None = None) -> Binding:
        """Check *given* against the program and return the arguments of its launches.

        Parameters
        ----------
        poison
            Fill arrays that are allocated here with NaN; by default as ``POLYLOOP_POISON`` says.

        Raises
        ------
        ArgumentError
            One of the codes of this module.
        IndexTooSmall
            One of the program's ``index_checks`` fails.
        """
        kernel = self.program.kernel
        for name in given.keys() - self.names - self.wholes.keys():
            raise call_error(kernel, unknown_name("argument", name, self.names | self.wholes.keys()))
        wholes = {name: given[name] for name in self.wholes if given.get(name) is not None}
        given = self._taken_apart(given, wholes)
        views = {a.name: self._view(a, given[a.name]) for a in self.arrays if given.get(a.name) is not None}
        integers = {name: _integer(kernel, name, given[name]) for name in self.integers
                    if given.get(name) is not None}
        asked = {v.name: self._scalar(v, given.get(v.name)) for v in self._asked if v.name not in self.integers}
        signature = self._signature(views, integers, asked)
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._check(views, integers, asked)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[signature] = plan
        values = dict(plan.scalars)
        for argument in self.values:
            if argument.name not in values:
                values[argument.name] = self._scalar(argument, given.get(argument.name))
        fill = is_poisoning() if poison is None else poison
        fresh = frozenset(arg.name for arg, _, _ in plan.allocate)
        for arg, shape, strides in plan.allocate:
            assert arg.dtype is not None
            if arg.name not in views:
                stacked = self._stacked(arg, fresh)
                row = (shape, strides)
                if stacked is not None and stacked.separate is not None:
                    row = _stack_layout(len(stacked.parts), shape, strides)
                view = _allocated(self.memory, kernel, arg.name, plan.kind, plan.device, arg.dtype, row, fill)
                if stacked is None:
                    views[arg.name] = view
                else:
                    wholes[stacked.name] = whole_of(stacked, view.owner)
                    one = stacked.separate is None
                    views |= {name: view if one else self._view(self._by_name[name], view.owner[number])
                              for number, name in enumerate(stacked.parts)}
        self._refuse_overlap(views, fresh)
        return Binding(self.program, views, fresh, values, plan.launches, plan.sizes.values, fill,
                       plan.shifts, plan.workspace, wholes)

    def _taken_apart(self, given: Mapping[str, object], wholes: Mapping[str, object]) -> Mapping[str, object]:
        """Return *given* with parts in the places of *wholes*."""
        found = {name: value for name, value in given.items() if name not in wholes}
        for name, value in wholes.items():
            parts = split_values(self.program.kernel, self.wholes[name], value)
            twice = [part for part in parts if found.get(part) is not None]
            if twice:
                raise call_error(self.program.kernel, Diagnostic(
                    "wrong-type", f"'{name}' and its part '{twice[0]}' were both passed", (),
                    (f"pass {name}=, or all of {', '.join(parts)}",)))
            found |= parts
        return found

    def _stacked(self, array: ArrayArg, fresh: frozenset[str]) -> SplitArray | None:
        """Return the array that *array* is the first part of, if all of its parts are to be allocated."""
        for split in self.program.split:
            if array.name in split.parts and fresh.issuperset(split.parts):
                return split
        return None

    def _view(self, array: ArrayArg, value: object) -> ArrayView:
        view = self.memory.view(self.program.kernel, array.name, value)
        return view if array.dtype is None else as_vectors(view, array.dtype)

    def _signature(
        self, views: Mapping[str, ArrayView], integers: Mapping[str, int], asked: Mapping[str, np.generic]
    ) -> tuple[object, ...]:
        arrays = tuple((v.kind, v.device, v.dtype, v.shape, v.strides, v.writeable, v.pointer % self._alignment(a, v),
                        v.offset) if (v := views.get(a.name)) is not None else None for a in self.arrays)
        return (*arrays, *sorted(integers.items()), *(value.tobytes() for value in asked.values()))

    def _alignment(self, array: ArrayArg, view: ArrayView) -> int:
        """Return the alignment [bytes] that the code requires; an array copied to a GPU needs only its type's."""
        wide = self.program.target != "c" and view.kind is not ArrayKind.NUMPY
        is_copied = view.kind is ArrayKind.NUMPY and not isinstance(self.memory, HostMemory)
        vectors = 1 if is_copied else self.alignments.get(array.name, 1)
        return max(struct_alignment(view.dtype, wide=wide), array.alignment or 1, vectors)

    def shapes(
        self, views: Mapping[str, ArrayView], given: Mapping[str, int], wanted: Iterable[str], *, launches: bool = True
    ) -> tuple[Mapping[str, int], Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]]:
        """Return the sizes of a call, and shape and strides [elements] of the arrays that it would allocate.

        Parameters
        ----------
        views
            Arrays, which need no memory: their addresses are not read.  Extents may be symbols that stand for numbers.
        wanted
            The integers to solve.
        launches
            Whether to check the conditions on sizes too, which takes numbers.

        Raises
        ------
        ArgumentError, IndexTooSmall
            As :meth:`bind`.
        """
        sizes = self._solved(views, given, wanted)
        if launches:
            self._launch_checks(sizes)
        return sizes.values, {a.name: layout(a, sizes) for a in self.arrays if a.name not in views}

    def _solved(
        self, views: Mapping[str, ArrayView], given: Mapping[str, int], wanted: Iterable[str]
    ) -> Sizes:
        kernel = self.program.kernel
        for array in self.arrays:
            if array.name in views:
                _check_element(kernel, array, views[array.name], self._alignment(array, views[array.name]))
            elif array.is_input:
                raise call_error(kernel, missing_array(array))
        sizes = solve_sizes(kernel, self.arrays, views, given, wanted, self.layouts)
        for array in self.arrays:
            if array.name in views:
                check_layout(kernel, array, views[array.name], sizes)
        return sizes

    def _check(
        self, views: Mapping[str, ArrayView], given: Mapping[str, int], asked: Mapping[str, np.generic]
    ) -> _Plan:
        kernel = self.program.kernel
        kind, device = place_of(kernel, views)
        sizes = self._solved(views, given, self.integers)
        for array in self.arrays:
            if _is_written(array) and not array.is_packed:
                refuse_shared_elements(kernel, array, *layout(array, sizes))
        self._launch_checks(sizes)
        scalars = {v.name: self._scalar(v, sizes.values[v.name]) for v in self.values if v.name in self.integers}
        allocate = tuple((a, *_positive(kernel, a, sizes)) for a in self.arrays if a.name not in views)
        decide = {**asked, **{v.name: scalars[v.name] for v in self._asked if v.name in scalars}}
        launches = Steps(self.program.launches, sizes.values, decide)
        launches.check(lambda step: _check_grid(kernel, step.launch, step.grid, sizes))
        shifts = {a.name: shift for a in self.arrays if a.dtype is not None
                  and (shift := evaluate(a.offset, sizes.values) * a.dtype.itemsize)}
        zeroed = self.program.zeroed
        workspace = tuple(Workspace(a.name, np.dtype(a.dtype), *_without_negative(*layout(a, sizes)), a.name in zeroed)
                          for a in self.program.workspace)
        return _Plan(sizes, scalars, shifts, allocate, workspace, launches, kind, device)

    def _launch_checks(self, sizes: Sizes) -> None:
        for check in self.program.checks:
            if not evaluate(check.condition, sizes.values):
                where = [sizes.origin[n] for n in sorted(names_in(check.condition)) if n in sizes.origin]
                raise call_error(self.program.kernel, Diagnostic(
                    check.code, check.message, (_false(check, sizes.values), *where),
                    (check.hint,)))
        for check in self.program.index_checks:
            if not evaluate(check.condition, sizes.values):
                raise IndexTooSmall(check, sizes.values)

    def _scalar(self, argument: ValueArg, value: object) -> np.generic:
        assert argument.dtype is not None, f"the type of '{argument.name}' is unknown"
        if value is None:
            raise call_error(self.program.kernel, Diagnostic(
                "missing-argument", f"the value '{argument.name}' was not passed", (),
                (f"pass {argument.name}= as {argument.dtype}",)))
        return convert_scalar(self.program.kernel, argument.name, argument.dtype, value)

    def _refuse_overlap(self, views: Mapping[str, ArrayView], fresh: frozenset[str]) -> None:
        passed = [(a.name, views[a.name].byte_range()) for a in self.arrays if a.name not in fresh]
        for array in self.arrays:
            if array.name in fresh or not _is_written(array):
                continue
            low, high = views[array.name].byte_range()
            for name, (other_low, other_high) in passed:
                empty = low == high or other_low == other_high
                apart = empty or name == array.name or low >= other_high or other_low >= high
                if not apart and _share(views[array.name], views[name]):
                    raise call_error(self.program.kernel, Diagnostic(
                        "overlapping-arguments", f"'{array.name}' is written and overlaps '{name}'",
                        (f"'{array.name}' lies at {low:#x} to {high:#x}, '{name}' at {other_low:#x} to "
                         f"{other_high:#x}",), (f"pass a copy of '{name}'",)))


def missing_array(array: ArrayArg) -> Diagnostic:
    """Return ``missing-argument`` for an array that is read."""
    what = "read and written" if array.is_output else "an input"
    return Diagnostic("missing-argument", f"the array '{array.name}' was not passed", (f"it is {what}",),
                      (f"pass {array.name}=",))


def wrong_dtype(name: str, view: ArrayView, expected: np.dtype[Any], *notes: str) -> Diagnostic:
    """Return ``wrong-dtype`` for an array of another type than the kernel has."""
    convert = f"{name}.to(torch.{expected})" if view.kind in _TORCH else f"{name}.astype(np.{expected})"
    if view.kind.is_jax and expected.itemsize == _WIDE * (2 if is_complex(expected) else 1):
        notes = (*notes, "JAX makes no arrays of 64-bit types unless it is told: jax_enable_x64")
    hint = f"make it with dtype={expected}" if is_record(expected) else f"pass {convert}"
    return Diagnostic("wrong-dtype", f"'{name}' has dtype {view.dtype}, expected {expected}", notes, (hint,))


def _stack_layout(
    count: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides [elements] of *count* arrays, one after the other."""
    low, high = element_range(shape, strides)
    return (count, *shape), (high - low, *strides)


def _check_grid(kernel: str, launch: DeviceLaunch, grid: tuple[int, int, int], sizes: Sizes) -> None:
    """Refuse more blocks along an axis than a device can have."""
    if launch.max_grid is None or all(map(le, grid, launch.max_grid)):
        return
    axis = next(n for n, (blocks, most) in enumerate(zip(grid, launch.max_grid, strict=True)) if blocks > most)
    most, extent = launch.max_grid[axis], launch.grid[axis]
    notes = [f"the grid is {' x '.join(map(str, grid))} blocks, and a device can have {most} along 'g.{axis}'"]
    if names_in(extent):
        notes.append(f"the extent of 'g.{axis}' is {show(extent)}, with {describe(extent, sizes.values)}")
    notes += [sizes.origin[n] for n in sorted(names_in(extent)) if n in sizes.origin]
    hints = ["split the iname by a greater factor"]
    if axis and grid[axis] <= launch.max_grid[0]:
        hints.insert(0, "tag g.0 for the longer axis, which can have 2^31 - 1 blocks")
    raise call_error(kernel, Diagnostic(
        "grid-too-large", f"launch '{launch.name}' has {grid[axis]} blocks along 'g.{axis}'", tuple(notes),
        tuple(hints)))


def _allocated(memory: Memory, kernel: str, name: str, kind: ArrayKind, device: int, dtype: np.dtype[Any],
               layout: tuple[tuple[int, ...], tuple[int, ...]], poison: bool) -> ArrayView:
    """Return a new array, of which *layout* is shape and strides [elements].

    Raises
    ------
    ArgumentError
        ``too-large``.
    """
    shape, strides = layout
    try:
        return memory.allocate(kernel, kind, device, dtype=dtype, shape=shape, strides=strides, poison=poison)
    except (MemoryError, ValueError, OverflowError) as error:  # NumPy's, by how much is too much
        raise call_error(kernel, too_large(name, shape, dtype.itemsize, error)) from None


def allocating(kernel: str, name: str, like: ArrayView, shift: int, allocate: Allocator) -> Allocator:
    """Return *allocate* for an array of the layout of *like*, with the pointer that functions are passed.

    It is *shift* bytes before the first element.  Its errors are those of :meth:`Binder.bind`.
    """
    def made() -> tuple[Any, int]:
        try:
            array, address = allocate()
        except MemoryError as error:
            raise call_error(kernel, too_large(name, like.shape, like.dtype.itemsize, error)) from None
        return array, address - shift

    return made


def _is_written(array: ArrayArg) -> bool:
    return array.is_output or not array.is_input


def _share(one: ArrayView, other: ArrayView) -> bool:
    """Return whether two arrays with overlapping address ranges may have an element in common."""
    if one.kind.on_device != other.kind.on_device:
        return False
    bounded: Any = 10_000  # candidate solutions; the stubs know only 0 and -1
    try:
        return bool(np.shares_memory(_Layout(one).array, _Layout(other).array, max_work=bounded))
    except np.exceptions.TooHardError:
        return True


class _Layout:
    """NumPy view of an array's layout, in any memory; its elements are never read."""

    def __init__(self, view: ArrayView) -> None:
        size = view.dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": view.shape,
            "strides": tuple(stride * size for stride in view.strides),
            "typestr": f"|V{size}",
            "data": (view.pointer, True),
        }
        self.array = np.asarray(self)


def _check_element(kernel: str, array: ArrayArg, view: ArrayView, alignment: int) -> None:
    name, expected = array.name, array.dtype
    assert expected is not None, f"the type of '{name}' is unknown"
    if view.dtype != expected or not view.dtype.isnative:
        raise call_error(kernel, wrong_dtype(name, view, expected))
    if view.pointer % alignment:
        raise call_error(kernel, Diagnostic(
            "misaligned-argument", f"'{name}' does not begin at a multiple of {alignment} bytes",
            (f"its address is {view.pointer:#x}",), (f"pass a copy of '{name}'",)))
    if not view.writeable and _is_written(array):
        notes = ("arrays of JAX never change: they are inputs",) if view.kind.is_jax else ()
        copy = f"np.array({name}), which is a copy" if view.kind.is_jax else f"a copy of '{name}'"
        raise call_error(kernel, Diagnostic(
            "read-only-output", f"'{name}' is written by the kernel and is read-only", notes,
            (f"pass {copy}, or leave it out to have it allocated" if not array.is_input else f"pass {copy}",)))


def _integer(kernel: str, name: str, value: object) -> int:
    if (problem := masked_problem(name, value)) is not None:
        raise call_error(kernel, problem)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise call_error(kernel, _wrong_value(name, "an integer", value, f"pass int({name})"))


def _wrong_value(name: str, expected: str, value: object, hint: str) -> Diagnostic:
    text = f"{type(value).__name__} {shown(value)}"
    return Diagnostic("wrong-type", f"'{name}' must be {expected}, not {text[:80]}", (), (hint,))


def _expected(dtype: np.dtype[Any]) -> str:
    if is_bool(dtype):
        return "a truth value"
    if is_integer(dtype):
        return "an integer"
    return "a number" if is_complex(dtype) else "a real number"


def convert_scalar(kernel: str, name: str, dtype: np.dtype[Any], value: object) -> np.generic:
    """Return *value* as a NumPy scalar of *dtype*; a float of 8 or 16 bits is rounded and returned as float32.

    Raises
    ------
    ArgumentError
        ``wrong-type``: not a number of that kind, or an integer out of range.
    """
    if (problem := masked_problem(name, value)) is not None:
        raise call_error(kernel, problem)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if is_record(dtype):
        if isinstance(value, np.void) and value.dtype == dtype:
            return value
        raise call_error(kernel, _wrong_value(name, "a record", value, f"pass np.array(..., {dtype})[()]"))
    if not isinstance(value, accepted_types(dtype)) or (not is_bool(dtype) and isinstance(value, bool)):
        raise call_error(kernel, _wrong_value(name, _expected(dtype), value, f"the kernel takes '{name}' as {dtype}"))
    if not has_room(dtype, value):
        low, high = integer_limits(dtype) if is_integer(dtype) else ("about -1.8e308", "1.8e308")
        hints = (f"declare '{name}' as int64 in the kernel",) if is_integer(dtype) else ()
        message = f"'{name}' = {shown(value)} does not fit {dtype}"
        raise call_error(kernel, Diagnostic("wrong-type", message, (f"{dtype} holds {low} to {high}",), hints))
    if isinstance(value, int) and not is_integer(dtype) and np.asarray(value).dtype == object:
        value = float(value)  # no integer of NumPy holds it
    scalar = np.asarray(rounded(value, dtype)).astype(computed(dtype))[()]
    assert isinstance(scalar, np.generic), f"{dtype} is no scalar type"
    return scalar


def _positive(kernel: str, array: ArrayArg, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape, strides = layout(array, sizes)
    if min(shape, default=0) < 0:
        assert array.shape is not None
        raise call_error(kernel, Diagnostic(
            "wrong-shape", f"'{array.name}' would have the negative shape {shape}",
            tuple(sizes.origin[n] for e in array.shape for n in sorted(names_in(e)) if n in sizes.origin),
            ("pass larger arrays or sizes",)))
    return shape, strides


def _without_negative(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the layout of a temporary: it has no elements where an extent is negative, as ``n - 1`` for n = 0."""
    return tuple(max(0, extent) for extent in shape), strides


def _false(check: LaunchCheck, values: Mapping[str, int]) -> str:
    known = describe(check.condition, values)
    return f"{check.condition} is false{' for ' if known else ''}{known}"


def index_overflow(kernel: str, signal: IndexTooSmall, *, is_wide: bool = False) -> ArgumentError:
    """Return the error for sizes that no index type at hand can address."""
    check = signal.check
    return call_error(kernel, Diagnostic(
        "index-overflow", check.message,
        (_false(check, signal.values),),
        ("pass smaller arrays or sizes" if is_wide else "generate the kernel with 64-bit indices (index_bits=64)",)))
