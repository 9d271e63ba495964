"""Steps and traces stored as JSON, and their replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from polyloop.edge.calls import field_misfits
from polyloop.edge.data import parse_json
from polyloop.edge.words import shown
from polyloop.errors import Diagnostic, TransformError, unknown_name
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Trace
from polyloop.transform.base import Applied, Transform
from polyloop.transform.registry import TRANSFORMS

__all__ = ["applied_of", "replay", "trace_from_json"]


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
        The error of the first step that does not fit.
    """
    for step in trace:
        if not isinstance(step, Applied):
            raise _bad_trace(f"it has {shown(step)} for a step")
        kernel = step.transform(kernel)
    return kernel
