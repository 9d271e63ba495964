"""PyOpenCL, where it is installed: queues by default, and addresses by which buffers are told apart."""
# ruff: noqa: ANN401  # PyOpenCL is optional, and imported at the moment of use

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

from polyloop.errors import CompilerError, Diagnostic

__all__ = ["OFFSETS", "address_of", "context_of", "default_queue", "number_of_context", "opencl", "opencl_available"]

OFFSETS: Final = 40
"""Bits of an offset in a buffer."""
_FIRST: Final = 1 << 62
"""Lowest address of a buffer: above those of memory that host and device share."""
_MOST_SLOTS: Final = 1 << 22

_slots: Final[dict[int, int]] = {}
_contexts: Final[list[Any]] = []


def _devices(cl: Any) -> list[Any]:
    """Return all devices of all platforms."""
    found = list[Any]()
    for platform in cl.get_platforms():
        try:
            found += platform.get_devices()
        except cl.RuntimeError:  # a platform without a device
            continue
    return found


@functools.lru_cache(maxsize=1)
def opencl_available() -> tuple[bool, str]:
    """Return whether programs for OpenCL can run here, and if not, why."""
    try:
        cl: Any = importlib.import_module("pyopencl")
    except ImportError as error:
        return False, f'PyOpenCL is not installed: pip install "polyloop[opencl]" ({error})'
    try:
        found = _devices(cl)
    except cl.Error as error:
        return False, f"no OpenCL platform is installed ({error})"
    return (True, "") if found else (False, "no OpenCL platform has a device")


def opencl(kernel: str) -> Any:
    """Return ``pyopencl``.

    Raises
    ------
    CompilerError
        ``no-opencl``.
    """
    available, reason = opencl_available()
    if not available:
        raise CompilerError("call", kernel, [Diagnostic(
            "no-opencl", "a kernel for OpenCL was called, and there is no usable device", (reason,),
            ("compile for the C target to run on the CPU; .source works without a device",))])
    importlib.import_module("pyopencl.array")
    return importlib.import_module("pyopencl")


@functools.lru_cache(maxsize=64)
def _queue(name: str) -> Any:
    """Return the one queue of the device with a name, None if there is none."""
    cl: Any = importlib.import_module("pyopencl")
    found = next((device for device in _devices(cl) if device.name == name), None)
    if name and found is None:
        return None
    context = cl.Context([found]) if name else cl.create_some_context(interactive=False)
    number_of_context(context)  # a queue of Intel's alone does not keep its context
    return cl.CommandQueue(context)


def default_queue(kernel: str, name: str) -> Any:
    """Return a queue of the device with this name; without a name, of the one that PyOpenCL chooses.

    Raises
    ------
    CompilerError
        ``no-opencl``.
    """
    cl, found = opencl(kernel), _queue(name)
    if found is None:
        known = ", ".join(device.name for device in _devices(cl))
        raise CompilerError("call", kernel, [Diagnostic(
            "no-opencl", f"the kernel was compiled for '{name}', and there is no such device",
            (f"devices: {known}",), ("pass queue=, or compile for one of these",))])
    return found


def address_of(memory: Any) -> int:
    """Return an address of a buffer, or of shared virtual memory; those of two buffers are far from one another."""
    if hasattr(memory, "svm_ptr"):
        return int(memory.svm_ptr)
    offset, parent = 0, memory.associated_memobject
    if parent is not None:
        memory, offset = parent, int(memory.offset)
    slot = _slots.setdefault(int(memory.int_ptr), len(_slots) % _MOST_SLOTS)
    return _FIRST + (slot << OFFSETS) + offset


def number_of_context(context: Any) -> int:
    """Return the number of a context, by which views of arrays tell where they are."""
    if context not in _contexts:
        _contexts.append(context)
    return _contexts.index(context)


def context_of(number: int) -> Any:
    """Return the context with a number."""
    return _contexts[number]
