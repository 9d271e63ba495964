"""Every transform, by name: the list from which methods, replayed traces and tests are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from polyloop.errors import Diagnostic, TransformError, unknown_name
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Trace
from polyloop.transform.base import Applied, Transform
from polyloop.transform.precompute import Precompute, precompute
from polyloop.transform.prefetch import AddPrefetch, add_prefetch
from polyloop.transform.rename import RenameIname, rename_iname
from polyloop.transform.reorder import PrioritizeLoops, prioritize_loops
from polyloop.transform.specialize import (
    AddDtypes,
    Assume,
    FixParameters,
    SetTemporaryAddressSpace,
    add_dtypes,
    assume,
    fix_parameters,
    set_temporary_address_space,
)
from polyloop.transform.split import SplitIname, split_iname
from polyloop.transform.tag import TagInames, tag_inames

__all__ = ["FUNCTIONS", "TRANSFORMS", "install_methods", "replay", "trace_from_json"]

TRANSFORMS: Final[Mapping[str, type[Transform]]] = {
    kind.name: kind
    for kind in (
        AddDtypes,
        AddPrefetch,
        Assume,
        FixParameters,
        Precompute,
        PrioritizeLoops,
        RenameIname,
        SetTemporaryAddressSpace,
        SplitIname,
        TagInames,
    )
}
"""The classes, by the name of the public function."""

FUNCTIONS: Final[Mapping[str, Callable[..., LoopKernel]]] = {
    function.__name__: function
    for function in (
        add_dtypes,
        add_prefetch,
        assume,
        fix_parameters,
        precompute,
        prioritize_loops,
        rename_iname,
        set_temporary_address_space,
        split_iname,
        tag_inames,
    )
}
"""The public functions, which are also methods of ``LoopKernel``."""


def install_methods() -> None:
    """Make every transform a method: ``knl.split_iname("i", 16)``."""
    for name, function in FUNCTIONS.items():
        setattr(LoopKernel, name, function)


def trace_from_json(text: str) -> Trace:
    """Return the trace that :meth:`Trace.to_json` wrote.

    Raises
    ------
    TransformError
        ``bad-trace``, ``unknown-transform``.
    """
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise _bad_trace(str(error)) from error
    if not isinstance(entries, list):
        raise _bad_trace("it is not an array")
    steps = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != {"name", "arguments"}:
            raise _bad_trace(f"no step: {json.dumps(entry)}")
        kind = TRANSFORMS.get(entry["name"])
        if kind is None:
            raise TransformError("trace_from_json", None, [unknown_name("transform", entry["name"], TRANSFORMS)])
        steps.append(Applied(_value(kind, entry["arguments"])))
    return Trace(tuple(steps))


def _value(kind: type[Transform], arguments: Mapping[str, Any]) -> Transform:
    values = {name: _frozen(value) for name, value in arguments.items()}
    if kind is FixParameters:
        return FixParameters(tuple(values.items()))
    try:
        return kind(**values)
    except TypeError as error:
        raise _bad_trace(f"{kind.name}: {error}") from error


def _bad_trace(why: str) -> TransformError:
    hints = ("pass what Trace.to_json() returned",)
    return TransformError("trace_from_json", None, [Diagnostic("bad-trace", "this is not a trace", (why,), hints)])


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
        assert isinstance(step, Applied), "a trace holds applied transforms"
        kernel = step.transform(kernel)
    return kernel
