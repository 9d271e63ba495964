"""Calls of kernels as Loopy's scripts make them: ``evt, (out,) = knl(queue, a=a)``."""
# ruff: noqa: ANN401  # queues and arrays of libraries that are optional

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from polyloop.errors import ArgumentError, Diagnostic
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.loopy.options import Options
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.invoke import CompiledKernel
from polyloop.target.base import Target, target_of
from polyloop.target.interpreter import interpret_with
from polyloop.target.opencl import OpenCLTarget

__all__ = ["Executor"]


class Executor:
    """Runs one kernel; what ``knl.executor(..)`` returns.

    ::

        evt, (out,) = run(queue, a=a)
        evt, (out,) = run(a=a)

    On a queue of PyOpenCL the kernel is compiled for OpenCL; without one for its target, or else for the arrays: CUDA
    for those in the memory of a GPU, C for others.

    Parameters
    ----------
    kernel, options
        The kernel, and the options of its unit.
    declared
        Names of ``kernel_data`` in their order: outputs come in this order, then others sorted by name.
    """

    def __init__(self, kernel: LoopKernel, options: Options, declared: Sequence[str] = ()) -> None:
        self.kernel, self.options = kernel, options
        self._order = {name: number for number, name in enumerate(declared)}
        self._compiled: dict[Target | None, CompiledKernel] = {}
        self._written = not options.write_code

    def __call__(
        self, *operands: Any, wait_for: Any = None, out_host: bool | None = None, allocator: object = None,
        **arguments: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Run the kernel.

        Parameters
        ----------
        operands
            A queue, or nothing.
        wait_for
            Events to wait for, on a queue.
        out_host
            Whether outputs that the call allocates are NumPy arrays; by default they are, if an argument is one.
        allocator
            Accepted without effect.
        arguments
            Arrays and numbers by name; sizes are found in shapes.

        Returns
        -------
        (event, outputs)
            An event of the queue, None without one; a tuple, or a dictionary with the option ``return_dict``.

        Raises
        ------
        ArgumentError
            ``unnamed-argument``; as :class:`polyloop.CompiledKernel`.
        """
        del allocator
        queue = operands[0] if operands and hasattr(operands[0], "context") else None
        if len(operands) > (queue is not None):
            hint = "write knl(queue, a=a) or knl(a=a)"
            raise self._call_refusal("unnamed-argument", "arguments are passed by name", hint)
        run = self._run_for(queue)
        self._trace(arguments)
        if queue is None:
            result = run(**arguments)
            self._show(run)
            return None, self._outputs(dict(result.items()))
        arrays = [value for value in arguments.values() if isinstance(value, np.ndarray) or hasattr(value, "events")]
        if self.options.no_numpy and any(isinstance(value, np.ndarray) for value in arrays):
            raise self._call_refusal("no-numpy", "a NumPy array is passed", "pass arrays of PyOpenCL, or drop no_numpy")
        result = run(queue, **arguments) if wait_for is None else run(queue, wait_for=wait_for, **arguments)
        self._show(run)
        if out_host is None:
            out_host = any(isinstance(value, np.ndarray) for value in arrays)
        found = {name: _placed(value, queue, on_host=out_host) if name not in arguments else value
                 for name, value in result.items()}
        return import_module("pyopencl").enqueue_marker(queue), self._outputs(found)

    def _run_for(self, queue: Any) -> CompiledKernel:
        """Return the compiled kernel for a call on *queue*, or without one."""
        said = target_of(self.kernel, None)
        target = OpenCLTarget() if said is None and queue is not None else said
        if target not in self._compiled:
            self._compiled[target] = compile_kernel(self.kernel, target)
        return self._compiled[target]

    def _trace(self, arguments: Mapping[str, Any]) -> None:
        """Print the assignments of a call, if this is asked for."""
        if not (self.options.trace_assignments or self.options.trace_assignment_values):
            return

        def shown(instruction: Instruction, point: Mapping[str, int], where: tuple[int, ...], value: object) -> None:
            at = ", ".join(f"{name}={number}" for name, number in point.items())
            element = f"{instruction.target}[{', '.join(map(str, where))}]" if where else instruction.target
            print(f"{instruction.id}[{at}]: {element}" + f" = {value}" * self.options.trace_assignment_values)

        interpret_with(self.kernel.specialized(**arguments), arguments, watch=shown)

    def _show(self, run: CompiledKernel) -> None:
        if not self._written:
            self.options.write(run.source)
            self._written = True

    def _outputs(self, found: Mapping[str, Any]) -> Any:
        last = len(self._order)
        names = sorted(found, key=lambda name: (self._order.get(name, last), name))
        ordered = {name: found[name] for name in names}
        return ordered if self.options.return_dict else tuple(ordered.values())

    def _call_refusal(self, code: str, message: str, hint: str) -> ArgumentError:
        return ArgumentError("call", self.kernel.name, [Diagnostic(code, message, hints=(hint,))])


def _placed(value: Any, queue: Any, *, on_host: bool) -> Any:
    """Return an output as a NumPy array, or as one of PyOpenCL."""
    if on_host:
        return value if isinstance(value, np.ndarray | np.generic) else value.get(queue)
    return import_module("pyopencl.array").to_device(queue, value) if isinstance(value, np.ndarray) else value
