"""Every transform, by name: the list from which methods, replayed traces and tests are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, TypeVar

from polyloop.edge.calls import field_misfits, public
from polyloop.edge.data import parse_json
from polyloop.edge.words import shown
from polyloop.errors import Diagnostic, TransformError, unknown_name
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Trace
from polyloop.transform.base import Applied, Transform

__all__ = ["FUNCTIONS", "TRANSFORMS", "applied_of", "install_methods", "replay", "trace_from_json"]

_T = TypeVar("_T")

_HOMES: Final[Mapping[str, str]] = {
    "add_barrier": "barrier",
    "add_dependency": "dependencies",
    "add_dtypes": "specialize",
    "add_inames_for_unused_hw_axes": "housekeeping",
    "add_inames_to_insn": "housekeeping",
    "add_nosync": "dependencies",
    "add_padding": "layout",
    "add_prefetch": "prefetch",
    "affine_map_inames": "affine",
    "alias_temporaries": "alias",
    "assignment_to_subst": "assignment",
    "assume": "specialize",
    "buffer_array": "buffer",
    "chunk_iname": "join",
    "collect_common_factors_on_increment": "factors",
    "concatenate_arrays": "concatenate",
    "distribute_loops": "distribution",
    "duplicate_inames": "duplicate",
    "expand_subst": "rules",
    "extract_subst": "rules",
    "fix_parameters": "specialize",
    "fold_constants": "simplify",
    "fuse_loops": "fusion",
    "hoist_reduction_factors": "hoist",
    "interchange": "reorder",
    "join_inames": "join",
    "make_reduction_inames_unique": "housekeeping",
    "map_domain": "affine",
    "map_instructions": "replacing",
    "peel": "untag",
    "pipeline": "pipeline",
    "precompute": "precompute",
    "prioritize_loops": "reorder",
    "privatize_temporaries_with_inames": "privatize",
    "read_once": "read_once",
    "realize_reduction": "realize",
    "realize_scan": "scan",
    "reduce_atomically": "atomically",
    "remove_instructions": "instructions",
    "remove_unused_arguments": "arguments",
    "remove_unused_inames": "housekeeping",
    "rename_argument": "arguments",
    "rename_iname": "rename",
    "rename_inames": "rename",
    "rename_inames_in_batch": "fusion",
    "replace_instruction_ids": "replacing",
    "reverse": "affine",
    "save_and_reload_temporaries": "save",
    "set_argument_order": "arguments",
    "set_array_axis_names": "axes",
    "set_instruction_priority": "instructions",
    "set_temporary_address_space": "specialize",
    "shift": "affine",
    "simplify_indices": "simplify",
    "split_array_axis": "layout",
    "split_iname": "split",
    "split_reduction_inward": "reduction",
    "split_reduction_outward": "reduction",
    "stage_reduction": "stage_reduction",
    "swizzle": "swizzle",
    "exchange_by_shuffle": "exchange",
    "split_scan": "split_scan",
    "tag_array_axes": "layout",
    "tag_inames": "tag",
    "tag_instructions": "instructions",
    "tensorize": "tensorize",
    "tile": "tile",
    "to_batched": "batched",
    "unchecked": "unchecked",
    "unprivatize_temporaries_with_inames": "privatize",
    "untag_inames": "untag",
    "vectorize": "vectorize",
}
"""The module of each transform, by the name of its public function.  It is loaded when first used."""


class _Catalogue(Mapping[str, _T]):
    """What each transform's module has under a spelling of the transform's name."""

    def __init__(self, spelling: Callable[[str], str]) -> None:
        self._spelling = spelling

    def __getitem__(self, name: str) -> _T:
        module = import_module(f"polyloop.transform.{_HOMES[name]}")
        found: _T = getattr(module, self._spelling(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


def _class_name(name: str) -> str:
    return name.title().replace("_", "")


TRANSFORMS: Final[Mapping[str, type[Transform]]] = _Catalogue(_class_name)
"""The classes, by the name of the public function."""



class _Functions(_Catalogue[Callable[..., LoopKernel]]):
    """The functions, each with its arguments checked."""

    def __init__(self) -> None:
        super().__init__(str)
        self._known: dict[str, Callable[..., LoopKernel]] = {}

    def __getitem__(self, name: str) -> Callable[..., LoopKernel]:
        if name not in self._known:
            self._known[name] = public(super().__getitem__(name))
        return self._known[name]


FUNCTIONS: Final[Mapping[str, Callable[..., LoopKernel]]] = _Functions()
"""The public functions, which are also methods of ``LoopKernel``."""


class _Method:
    """A transform as a method, which takes the function's place until it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, kernel: LoopKernel | None, owner: type[LoopKernel]) -> Callable[..., LoopKernel]:
        function = FUNCTIONS[self._name]
        setattr(LoopKernel, self._name, function)
        method: Callable[..., LoopKernel] = getattr(owner if kernel is None else kernel, self._name)
        return method


def install_methods() -> None:
    """Make every transform a method, ``knl.split_iname("i", 16)``, and let traces be read."""
    for name in _HOMES:
        setattr(LoopKernel, name, _Method(name))
    Trace.from_json = staticmethod(public(trace_from_json))


def trace_from_json(text: str) -> Trace:
    """Return the trace that :meth:`Trace.to_json` wrote.

    Raises
    ------
    TransformError
        ``bad-trace``, ``unknown-transform``.
    """
    try:
        entries = parse_json(text)
    except ValueError as error:
        raise _bad_trace(str(error)) from error
    if not isinstance(entries, list):
        raise _bad_trace("it is not an array")
    steps = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != {"name", "arguments"}:
            raise _bad_trace(f"no step: {_excerpt(entry)}")
        steps.append(applied_of(entry["name"], entry["arguments"]))
    return Trace(tuple(steps))


def _excerpt(entry: object) -> str:
    text = json.dumps(entry)
    return text if len(text) <= 100 else f"{text[:100]}.."


def applied_of(name: object, arguments: object) -> Applied:
    """Return the step with these arguments, JSON values as :meth:`Applied.data` gives them.

    Raises
    ------
    TransformError
        ``bad-trace``, ``unknown-transform``.
    """
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise _bad_trace(f"no name and arguments of a step: {_excerpt([name, arguments])}")
    kind = TRANSFORMS.get(name)
    if kind is None:
        raise TransformError("trace_from_json", None, [unknown_name("transform", name, TRANSFORMS)])
    return Applied(_value(kind, arguments))


def _value(kind: type[Transform], arguments: Mapping[str, Any]) -> Transform:
    values = {name: _frozen(value) for name, value in arguments.items()}
    try:
        found = kind.of(values)
    except TypeError as error:
        raise _bad_trace(f"{kind.name}: {error}") from error
    for problem in field_misfits(found):
        raise _bad_trace(f"{kind.name}: {problem.message}", *problem.notes)
    return found


def _bad_trace(*why: str) -> TransformError:
    hints = ("pass what Trace.to_json() returned",)
    return TransformError("trace_from_json", None, [Diagnostic("bad-trace", "this is not a trace", why, hints)])


def _frozen(value: Any) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(value, dict):
        return tuple((name, _frozen(entry)) for name, entry in value.items())
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value


def replay(trace: Trace, kernel: LoopKernel) -> LoopKernel:
    """Apply every step of *trace* to *kernel*, in order.

    Raises
    ------
    TransformError
        What the first step that does not fit raises.
    """
    for step in trace:
        if not isinstance(step, Applied):
            raise _bad_trace(f"it has {shown(step)} for a step")
        kernel = step.transform(kernel)
    return kernel
