"""Types and layouts of a call, and the kernel that they make of one that leaves them open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from polyloop.edge.words import shown
from polyloop.errors import Diagnostic, TransformError, unknown_name
from polyloop.expr.dtypes import DType, dtype_name, find_dtype
from polyloop.expr.promotion import Weak
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer_type
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import apart_axes, part_names
from polyloop.kernel.passed import masked_problem
from polyloop.memo import memoised
from polyloop.program.infer_types import dtype_table, infer_dtypes, unknown_dtype
from polyloop.runtime.arguments import missing_array, wrong_dtype
from polyloop.runtime.gpuarrays import DeviceMemory
from polyloop.runtime.opencl.memory import OpenCLMemory
from polyloop.runtime.sizes import dense, wrong_axes
from polyloop.runtime.views import ArrayView, HostMemory, Memory, call_error, is_device_array
from polyloop.transform.instructions.specialize import inferred_names

__all__ = ["MEMORIES", "Facts", "Specialization", "facts", "open_arguments", "specialization"]

MEMORIES: Final[Mapping[str, Callable[[], Memory]]] = {"c": HostMemory, "cuda": DeviceMemory, "opencl": OpenCLMemory}
"""Target -> the memory that its kernels take arrays from."""
Kind: TypeAlias = DType | Weak
"""Type of an argument: that of a Python number is what it is combined with."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The properties of a call that its specialization depends on.

    Attributes
    ----------
    kinds
        Type of each argument that has none in the kernel, or one that constants alone say, and is passed in another.
    layouts
        Array -> ``dim_tags``, for those that are passed in another layout than the kernel's.
    on_device
        Whether an array is in the memory of a GPU.
    outputs
        The types of arrays without a type that are only written.  They count where they follow from nothing else.
    """

    kinds: tuple[tuple[str, Kind], ...]
    layouts: tuple[tuple[str, str], ...]
    on_device: bool
    outputs: tuple[tuple[str, DType], ...]

    def __str__(self) -> str:
        return _shown(self.kinds, self.layouts)


def open_arguments(kernel: LoopKernel) -> tuple[Argument, ...]:
    """Return the arguments that have no type."""
    return tuple(a for a in kernel.arguments if a.dtype is None and not (isinstance(a, ValueArg) and a.layout_of))


def _adapts(array: ArrayArg) -> bool:
    """Return whether *array* may have another layout: it is declared in C order without gaps, as by default."""
    plain = array.dim_tags is None and array.order == "C" and array.is_packed
    return plain and bool(array.shape) and isinstance(array.offset, int) and array.offset == 0


def facts(kernel: LoopKernel, given: Mapping[str, object], memory: Memory | None) -> Facts:
    """Return the types and layouts of *given*, the arguments of a call.

    Parameters
    ----------
    memory
        Where the kernel runs; None: where its arrays are.

    Raises
    ------
    ArgumentError
        ``unknown-argument``, ``missing-argument``, ``wrong-type``, ``wrong-dtype``, ``wrong-shape``, ``wrong-device``.
    """
    asked = _asked(kernel)
    for name in given.keys() - asked.names:
        raise call_error(kernel.name, unknown_name("argument", name, asked.names))
    kinds, layouts, outputs = dict[str, Kind](), dict[str, str](), dict[str, DType]()
    for array, adapts, is_free in asked.arrays:
        value = _whole(array, given)
        if value is None:
            if array.is_input:
                raise call_error(kernel.name, missing_array(array))
            continue
        view = _view(kernel.name, array, value, memory)
        if array.dtype is None:
            found = outputs if array.is_output and not array.is_input else kinds
            found[array.name] = _element(kernel.name, array.name, view)
        elif is_free and view.dtype != array.dtype:
            kinds[array.name] = _element(kernel.name, array.name, view)
        if adapts and (tags := _layout(view)) is not None:
            layouts[array.name] = tags
    for argument in asked.values:
        kinds[argument.name] = _kind(kernel.name, argument.name, given.get(argument.name))
    on_device = memory is None and any(map(is_device_array, given.values()))
    return Facts(tuple(kinds.items()), tuple(layouts.items()), on_device, tuple(outputs.items()))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments that types and layouts of a call are read off: numbers without a type, and arrays.

    With each array stands whether it may have another layout, and whether another type.  *names* are those that a call
    may pass.
    """

    values: tuple[ValueArg, ...]
    arrays: tuple[tuple[ArrayArg, bool, bool], ...]
    names: frozenset[str]


@memoised
def _asked(kernel: LoopKernel) -> _Asked:
    has_text = any(each.is_c for each in kernel.instructions)  # C text subscripts arrays as they are stored
    names, arrays = {*kernel.parameters, *(argument.name for argument in kernel.arguments)}, []
    free = _free_arrays(kernel)
    for argument in kernel.arguments:
        if not isinstance(argument, ArrayArg):
            continue
        tags = argument.dim_tags if isinstance(argument.dim_tags, tuple) else None
        if not apart_axes(tags):
            arrays.append((argument, _adapts(argument) and not has_text, argument.name in free))
            continue
        arrays.append((argument, False, False))
        assert tags is not None, "an axis is apart by its tag"
        names.update(part_names(argument.name, tags, argument.shape or ()))
    values = tuple(a for a in open_arguments(kernel) if isinstance(a, ValueArg))
    return _Asked(values, tuple(arrays), frozenset(names))


def _free_arrays(kernel: LoopKernel) -> frozenset[str]:
    """Return the arrays whose types nothing but constants says, or that are read: a call says their types.

    ``a[i] = 0`` makes an int32 array only where none is passed.
    """
    known = {entry.name: entry for entry in kernel.arguments if isinstance(entry, ArrayArg) and entry.dtype is not None}
    names = inferred_names(kernel) & known.keys() if known else frozenset[str]()
    if not names:
        return names
    table = dtype_table(kernel)
    firm = {name for name in names if not known[name].is_input}
    fixed = {
        entry.target for entry in kernel.instructions if entry.target in firm and not entry.is_c
        and not isinstance(infer_type(expand_rules(entry.expression, kernel.substitutions), table.get), Weak)
    }  # fmt: skip
    return names - fixed


def _whole(array: ArrayArg, given: Mapping[str, object]) -> object:
    """Return the array that is passed, or a part of one that is passed in parts."""
    value = given.get(array.name)
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else None
    if not apart_axes(tags):
        return value
    if value is None and tags is not None:
        parts = part_names(array.name, tags, array.shape or ())
        value = next((given[name] for name in parts if given.get(name) is not None), None)
    return value[0] if isinstance(value, list | tuple) and value else value


def _view(kernel: str, array: ArrayArg, value: object, memory: Memory | None) -> ArrayView:
    where = memory or (DeviceMemory() if is_device_array(value) else HostMemory())
    view = where.view(kernel, array.name, value)
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else None
    if array.shape is not None and array.dtype is None and not apart_axes(tags) and len(array.shape) != len(view.shape):
        raise call_error(kernel, wrong_axes(array, view))
    return view


def _element(kernel: str, name: str, view: ArrayView) -> DType:
    found = find_dtype(view.dtype.newbyteorder("="))
    if found is None:
        raise call_error(kernel, Diagnostic(
            "wrong-dtype", f"'{name}' has dtype {view.dtype}, which is no element type of a kernel", (),
            (f"pass {name}.astype(np.float64), or another type that the docs list under Types",)))
    if not view.dtype.isnative:
        raise call_error(kernel, wrong_dtype(name, view, found, "its bytes are in the order of other processors"))
    return found


_KINDS: Final[Mapping[type, Kind]] = {
    bool: np.dtype(np.bool_), int: Weak.INT, float: Weak.FLOAT, complex: Weak.COMPLEX,
}  # fmt: skip


def _kind(kernel: str, name: str, value: object) -> Kind:
    """Return the type of an argument that is passed by value."""
    if value is None:
        hints = (f"pass {name}= as a number, which says its type too",)
        raise call_error(kernel, Diagnostic("missing-argument", f"the value '{name}' was not passed", (), hints))
    if (problem := masked_problem(name, value)) is not None:
        raise call_error(kernel, problem)
    found: Kind | None = None
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        found = find_dtype(value.dtype.newbyteorder("="))
    else:
        found = next((kind for python, kind in _KINDS.items() if isinstance(value, python)), None)
    if found is None:
        text = f"{type(value).__name__} {shown(value)}"
        hints = (f"pass a number, or declare '{name}' as an array: pl.GlobalArg(\"{name}\", shape=..)",)
        raise call_error(kernel, Diagnostic("wrong-type", f"'{name}' must be a number, not {text[:80]}", (), hints))
    return found


def _layout(view: ArrayView) -> str | None:
    """Return ``dim_tags`` for an array that is not stored in C order without gaps."""
    axes = [axis for axis, extent in enumerate(view.shape) if extent > 1]
    count = len(view.shape)

    def is_stored(strides: tuple[int, ...]) -> bool:
        return view.size == 0 or all(view.strides[axis] == strides[axis] for axis in axes)

    if is_stored(dense(view.shape, range(count - 1, -1, -1))):
        return None
    return "F" if is_stored(dense(view.shape, range(count))) else ",".join(["stride:auto"] * count)


@dataclass(frozen=True, slots=True)
class Specialization:
    """Types of all arguments that have none, and layouts as in :class:`Facts`."""

    dtypes: tuple[tuple[str, DType], ...]
    layouts: tuple[tuple[str, str], ...]

    def kernel(self, kernel: LoopKernel) -> LoopKernel:
        """Return *kernel* with these types and layouts.

        Raises
        ------
        ArgumentError
            What ``add_dtypes`` and ``tag_array_axes`` refuse.
        """
        try:
            found = kernel.add_dtypes(dict(self.dtypes)) if self.dtypes else kernel
            for name, tags in self.layouts:
                found = found.tag_array_axes(name, tags)
        except TransformError as error:
            raise call_error(kernel.name, *_noted(error.found, str(self))) from error
        return found

    def __str__(self) -> str:
        return _shown(self.dtypes, self.layouts)


def specialization(kernel: LoopKernel, call: Facts) -> Specialization:
    """Return the specialization of *kernel* for *call*.

    Raises
    ------
    ArgumentError
        ``unknown-dtype``, ``type-conflict``; ``wrong-dtype`` of an output.
    """
    strong = {name: kind for name, kind in call.kinds if not isinstance(kind, Weak)}
    weak = {name: kind for name, kind in call.kinds if isinstance(kind, Weak)}
    wanted = [argument.name for argument in open_arguments(kernel)]
    wanted += [name for name in strong if name not in wanted]
    found, passed = _inferred(kernel, strong, weak, call), dict(call.outputs)
    only = {name: passed[name] for name in wanted if found[name] is None and name in passed}
    if only:  # nothing else says their types
        found = _inferred(kernel, strong | only, weak, call)
    if missing := [name for name in wanted if found[name] is None]:
        raise call_error(kernel.name, *_noted([unknown_dtype(missing)], str(call)))
    dtypes = {name: dtype for name in wanted if (dtype := found[name]) is not None}
    for name, dtype in passed.items():
        if dtype != dtypes[name]:
            hints = (f"pass an array of {dtype_name(dtypes[name])}, or leave it out to have it allocated",
                     f"or state its type: knl.add_dtypes({{\"{name}\": \"{dtype_name(dtype)}\"}})")
            message = f"'{name}' has dtype {dtype_name(dtype)}, expected {dtype_name(dtypes[name])}"
            raise call_error(kernel.name, *_noted([Diagnostic("wrong-dtype", message, hints=hints)], str(call)))
    return Specialization(tuple(dtypes.items()), call.layouts)


def _inferred(
    kernel: LoopKernel, strong: Mapping[str, DType], weak: Mapping[str, Weak], call: Facts
) -> dict[str, DType | None]:
    try:
        typed = infer_dtypes(kernel.add_dtypes(strong) if strong else kernel, settle_all=True, weak=weak)
    except TransformError as error:
        raise call_error(kernel.name, *_noted(error.found, str(call))) from error
    return {argument.name: argument.dtype for argument in typed.arguments}


def _noted(found: Iterable[Diagnostic], call: str) -> list[Diagnostic]:
    note = (f"the call has {call}",) if call else ()
    return [replace(each, notes=(*each.notes, *note)) for each in found]


_NUMBERS: Final[Mapping[Weak, str]] = {
    Weak.INT: "int of Python", Weak.FLOAT: "float of Python", Weak.COMPLEX: "complex of Python",
}  # fmt: skip
_STORED: Final[Mapping[str, str]] = {"F": "in order F"}


def _shown(kinds: Iterable[tuple[str, Kind]], layouts: Iterable[tuple[str, str]]) -> str:
    """Return types and layouts as text for people."""
    parts = [f"{name}: {_NUMBERS[kind] if isinstance(kind, Weak) else dtype_name(kind)}" for name, kind in kinds]
    parts += [f"{name} {_STORED.get(tags, 'with strides of its own')}" for name, tags in layouts]
    return ", ".join(parts)
