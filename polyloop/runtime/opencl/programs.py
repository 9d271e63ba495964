"""Programs for OpenCL: built once for each context, launched on the caller's queue.

Events are as PyOpenCL has them: a launch waits for the events of its arrays and for ``wait_for``, and the arrays have
its event afterwards.  A call returns before the kernel has run, unless NumPy arrays are involved.
"""
# ruff: noqa: ANN401  # PyOpenCL is optional, and imported at the moment of use

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import AskedElement, GeneratedProgram
from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.arguments import Binder, Binding
from polyloop.runtime.opencl.devices import address_of, default_queue, opencl
from polyloop.runtime.opencl.memory import BufferCopy, OpenCLMemory
from polyloop.runtime.packed import Free, PackedCall, Queued
from polyloop.runtime.steps import Step
from polyloop.runtime.views import ArrayKind, call_error
from polyloop.target.opencl import has_sub_groups

__all__ = ["OpenCLBackend"]

_DOUBLES: Final = re.compile(r"\bdouble\b")
_LONG_ATOMICS: Final = re.compile(r"\batom_\w+\(")
_POISON: Final = b"\xff"


class OpenCLBackend:
    """A program of the OpenCL target, built for a context at its first call there.

    Parameters
    ----------
    architecture
        The version of OpenCL C, and the name of the device to run on by default, if there is one.
    """

    def __init__(self, program: GeneratedProgram, architecture: str) -> None:
        self._program = program
        self._version, _, self._device = architecture.partition(" ")
        self.binder = Binder(program, OpenCLMemory())
        self._built: dict[Any, Any] = {}
        self._queues: dict[int, Any] = {}
        self._lock = threading.RLock()

    def launch(self, binding: Binding, stream: object) -> None:
        """Run all launches of *binding* in order, on one queue."""
        kernel, given = self._program.kernel, _queued(self._program.kernel, stream)
        cl, queue = opencl(kernel), self._queue(binding, given.queue)
        program = self.built(queue)
        copies = dict[str, BufferCopy]()
        try:
            for name, view in binding.views.items():
                if view.kind is ArrayKind.NUMPY:
                    fill = binding.poisoned or name not in binding.fresh
                    copies[name] = BufferCopy(cl, queue, kernel, (name, view), shift=binding.shifts.get(name, 0),
                                              fill=fill)
            memories = {name: copy.memory for name, copy in copies.items()} | self._workspace(cl, queue, binding)
            event = self._run(cl, queue, program, binding, memories, given.wait_for)
            written = {a.name for a in self._program.arguments if getattr(a, "is_output", False)}
            for name in written & copies.keys():
                copies[name].copy_back([event])
            if copies:
                event.wait()
        finally:
            for copy in copies.values():
                copy.free()

    def _queue(self, binding: Binding, given: Any) -> Any:
        """Return the queue of a call: the caller's, that of the arrays, or one of the default device."""
        kernel = self._program.kernel
        arrays = {name: view.owner for name, view in binding.views.items() if view.kind is ArrayKind.OPENCL}
        own = (array.queue for name, array in arrays.items() if name not in binding.fresh and array.queue is not None)
        queue = given if given is not None else next(own, None)
        if queue is None and arrays:
            raise call_error(kernel, Diagnostic(
                "wrong-device", "the arrays have no queue, and none was passed", (), ("pass queue=",)))
        queue = default_queue(kernel, self._device) if queue is None else queue
        for name, array in arrays.items():
            if array.context != queue.context:
                raise call_error(kernel, Diagnostic(
                    "wrong-device", f"'{name}' is in another OpenCL context than the queue", (),
                    ("make arrays and queue of one context",)))
            if array.queue is None and name in binding.fresh:
                array.queue = queue
        return queue

    def _workspace(self, cl: Any, queue: Any, binding: Binding) -> dict[str, Any]:
        """Return buffers for the workspace of a call; OpenCL keeps them until its commands are done."""
        found = dict[str, Any]()
        for array in binding.workspace:
            found[array.name] = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, max(1, array.nbytes))
            if binding.poisoned:
                cl.enqueue_fill_buffer(queue, found[array.name], _POISON, 0, max(1, array.nbytes)).wait()
        return found

    def _run(
        self, cl: Any, queue: Any, program: Any, binding: Binding, memories: Mapping[str, Any], wait_for: Sequence[Any]
    ) -> Any:
        """Enqueue all launches, and return the event of the last one."""
        arrays = {name: view.owner for name, view in binding.views.items() if view.kind is ArrayKind.OPENCL}
        events = [*wait_for, *(event for array in arrays.values() for event in array.events)]
        if binding.poisoned:
            for name in binding.fresh & arrays.keys():
                data = arrays[name].base_data
                events.append(cl.enqueue_fill_buffer(queue, data, _POISON, 0, data.size))
        places = {name: self._place(queue, binding, name) for name in arrays}
        places |= memories
        event = None
        with self._lock:
            kernels = {launch.name: cl.Kernel(program, launch.name) for launch in self._program.launches}

            def read(element: AskedElement) -> np.generic:
                into, size = np.empty(1, element.dtype), element.dtype.itemsize
                cl.enqueue_copy(queue, into, places[element.array], src_offset=element.place * size, wait_for=events,
                                is_blocking=True)
                found: np.generic = into[0]
                return found

            for step in binding.launches.asking(read):
                kernel = kernels[step.launch.name]
                for number, name in enumerate(step.launch.arguments):
                    kernel.set_arg(number, places[name] if name in places else _value(binding, name, step))
                block = step.launch.block
                extents = tuple(blocks * threads for blocks, threads in zip(step.grid, block, strict=True))
                event = cl.enqueue_nd_range_kernel(queue, kernel, extents, block, wait_for=events)
                events = [event]
        if event is None:  # no loop of the host has begun
            event = cl.enqueue_marker(queue, wait_for=events)
        for array in arrays.values():
            array.add_event(event)
        return event

    def _place(self, queue: Any, binding: Binding, name: str) -> Any:
        """Return the memory that a kernel takes for an array: its buffer, or the part from its first element on."""
        view = binding.views[name]
        data = view.owner.base_data
        if data is None:
            return None
        offset = binding.address(name, view.pointer) - address_of(data)
        if offset == 0:
            return data
        unit = queue.device.mem_base_addr_align // 8
        is_part = hasattr(data, "svm_ptr") or data.associated_memobject is not None
        if is_part or offset % unit or offset < 0 or min(view.strides, default=0) < 0:
            raise call_error(self._program.kernel, Diagnostic(
                "misaligned-argument", f"'{name}' begins {offset} bytes after its buffer, which no kernel takes",
                (f"parts of buffers begin at multiples of {unit} bytes on '{queue.device.name}'",),
                (f"pass {name}.copy(), or declare the array with offset=pl.auto, which passes the whole buffer",)))
        return data.get_sub_region(offset, data.size - offset)

    # {{{ building

    def built(self, queue: Any) -> Any:
        """Return the program, built for the context of a queue.

        Raises
        ------
        CompilerError
            ``opencl-compiler-failed``, ``device-lacks``.
        """
        with self._lock:
            found = self._built.get(queue.context)
            if found is None:
                found = self._built[queue.context] = self._build(queue)
            return found

    def _build(self, queue: Any) -> Any:
        kernel = self._program.kernel
        cl, device = opencl(kernel), queue.device
        if lacks := [*_lacks(self._program, device)]:
            raise CompilerError("call", kernel, lacks)
        options = [f"-cl-std=CL{self._version}"]
        if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        with warnings.catch_warnings():
            if os.environ.get("PYOPENCL_COMPILER_OUTPUT", "0") == "0":
                warnings.simplefilter("ignore", cl.CompilerWarning)
            try:
                return cl.Program(queue.context, self._program.device_code).build(options=options)
            except cl.RuntimeError as error:
                lines = tuple(line for line in str(error).splitlines() if line.strip())
                raise CompilerError("call", kernel, [Diagnostic(
                    "opencl-compiler-failed", f"the compiler of '{device.name}' does not take the text", lines[:40],
                    ("this is a fault of the code generator unless the kernel holds C text of yours",))]) from None

    # }}}
    # {{{ what other backends do faster

    def repeatable(self, binding: Binding, free: Sequence[Free]) -> PackedCall | None:
        """Return None: each call is enqueued with its events."""
        assert len(free) >= 0, f"numbers of '{binding.program.kernel}'"
        return None

    def bound(self, binding: Binding) -> tuple[PackedCall, object]:
        """Return the launches of *binding*, and the memory that they use, to be kept as long as they are."""
        kernel = self._program.kernel
        for name, view in binding.views.items():
            if view.kind is ArrayKind.NUMPY:
                raise call_error(kernel, Diagnostic(
                    "wrong-device", f"'{name}' is in host memory, and a bound call copies nothing", (),
                    ("pass arrays of PyOpenCL, outputs too",)))
        cl, queue = opencl(kernel), self._queue(binding, None)
        workspace = self._workspace(cl, queue, binding)

        def prepared(stream: int) -> Any:
            chosen = self._queues.get(stream, queue)
            program = self.built(chosen)

            def launch() -> int:
                self._run(cl, chosen, program, binding, workspace, ())
                return 0

            return launch

        return PackedCall([prepared]), workspace

    def run_elsewhere(self, packed: PackedCall, binding: Binding, stream: int | None) -> None:
        """Refuse: a queue says where it runs."""
        raise AssertionError(f"'{binding.program.kernel}' runs on its queue, {packed} on {stream}")

    def stream(self, kernel: str, stream: object) -> int:
        """Return the handle of a queue."""
        queue = _queued(kernel, stream).queue
        handle = 0 if queue is None else int(queue.int_ptr)
        self._queues[handle] = queue
        return handle

    # }}}


def _value(binding: Binding, name: str, step: Step) -> bytes:
    return binding.scalar(name, step).tobytes()


def _queued(kernel: str, given: object) -> Queued:
    """Return the queue and the events of a call.

    Raises
    ------
    ArgumentError
        ``wrong-type``.
    """
    found = given if isinstance(given, Queued) else Queued(given)
    if found.queue is not None and type(found.queue).__name__ != "CommandQueue":
        raise call_error(kernel, Diagnostic(
            "wrong-type", f"'queue' is no command queue but {type(found.queue).__name__}", (),
            ("pass a pyopencl.CommandQueue",)))
    return found


def _lacks(program: GeneratedProgram, device: Any) -> Iterator[Diagnostic]:
    """Yield the limits and abilities that *program* takes and *device* does not have."""
    name, known = device.name, frozenset(device.extensions.split())
    hint = ("generate the code for the device: pl.OpenCLTarget(queue.device) says at once what it cannot do",)
    most = tuple(device.max_work_item_sizes)
    for launch in program.launches:
        x, y, z = launch.block
        if x * y * z > device.max_work_group_size or any(a > b for a, b in zip(launch.block, most, strict=False)):
            message = f"'{launch.name}' has work-groups of {x} x {y} x {z}, and '{name}' has no such"
            note = f"the limit is {device.max_work_group_size}, {most} along x, y, z"
            yield Diagnostic("device-lacks", message, (note,), hint)
        if launch.shared_bytes > device.local_mem_size:
            message = f"'{launch.name}' takes {launch.shared_bytes} bytes of local memory, and '{name}' has less"
            yield Diagnostic("device-lacks", message, (f"the limit is {device.local_mem_size}",), hint)
    if _DOUBLES.search(program.device_code) and not device.double_fp_config:
        yield Diagnostic("device-lacks", f"the program computes in float64, and '{name}' does not", (), hint)
    if _LONG_ATOMICS.search(program.device_code) and "cl_khr_int64_base_atomics" not in known:
        message = f"the program updates 64 bits atomically, and '{name}' does not"
        yield Diagnostic("device-lacks", message, (), hint)
    if "sub_group_reduce_" in program.device_code and not has_sub_groups(device):
        yield Diagnostic("device-lacks", f"the program uses sub-groups, and '{name}' has none", (), hint)
