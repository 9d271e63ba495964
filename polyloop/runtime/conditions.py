"""Conditions that the host decides, evaluated as threads evaluate them (:mod:`polyloop.schedule.asked`)."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from polyloop.codegen.program import AskedElement, DeviceLaunch, HostCondition
from polyloop.memo import memoised
from polyloop.runtime.evaluate import evaluate
from polyloop.target.scalars import Compiler

__all__ = ["Read", "element_at", "has_reads", "holds", "scalar_names"]

Read: TypeAlias = Callable[[AskedElement], "np.generic[Any] | Any"]
"""Gives the element that memory holds once everything that was started is done."""


def _conditions(launches: Iterable[DeviceLaunch]) -> Iterator[HostCondition]:
    for launch in launches:
        yield from (found for found in (launch.condition, *(loop.test for loop in launch.around)) if found is not None)


def has_reads(launches: Iterable[DeviceLaunch]) -> bool:
    """Return whether the host reads memory to decide how often a loop runs."""
    return any(condition.elements for condition in _conditions(launches))


def scalar_names(launches: Iterable[DeviceLaunch]) -> frozenset[str]:
    """Return the arguments, and inames of the host, that conditions depend on."""
    return frozenset(
        name for condition in _conditions(launches) for name, _ in condition.types
        if name not in {element.name for element in condition.elements}
    )  # fmt: skip


def element_at(address: int, element: AskedElement) -> np.generic:
    """Return an element of the array at *address* in host memory."""
    size = element.dtype.itemsize
    raw = memoryview((ctypes.c_char * size).from_address(address + element.place * size))
    found: np.generic = np.frombuffer(raw, element.dtype)[0]
    return found


@memoised
def _compiled(condition: HostCondition) -> tuple[Callable[[], Any], dict[str, Any], threading.Lock]:
    """Return the function that evaluates a condition, its variables, and the lock that keeps them."""
    values = dict[str, Any]()
    return Compiler("host", values, {}, {}, dict(condition.types)).value(condition.condition), values, threading.Lock()


def holds(condition: HostCondition | None, values: Mapping[str, Any], read: Read | None) -> bool:
    """Return whether *condition* holds; one that reads memory does without *read*, as threads ask for it, too."""
    if condition is None or (condition.elements and read is None):
        return True
    if condition.is_whole:
        try:
            return bool(evaluate(condition.condition, {name: int(values[name]) for name, _ in condition.types}))
        except ZeroDivisionError:
            return False  # no instance runs, or what it does is not defined
    known = {element.name: read(element) for element in condition.elements} if read is not None else {}
    known |= {name: values[name] for name, _ in condition.types if name not in known}
    closure, point, lock = _compiled(condition)
    with lock, np.errstate(all="ignore"):
        point.update(known)
        return bool(closure())
