"""``differentiate``: kernels that compute derivatives of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyloop.derivatives.flow import flows_of
from polyloop.derivatives.forward import forward
from polyloop.derivatives.reverse import reverse
from polyloop.derivatives.statements import program_of, refuse
from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.dtypes import is_floating
from polyloop.frontend.script import script_of
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import python
from polyloop.kernel.trace import Trace

__all__ = ["differentiate"]


def differentiate(kernel, wrt=None, of=None, *, mode="reverse", store="all", saved=(), name=None):
    reference = kernel.reference.kernel
    program = program_of(kernel)
    flow = flows_of(program, wrt, of)
    if mode == "forward":
        return forward(flow, wrt, of, name or f"{kernel.name}_tangent")
    return reverse(flow, wrt, of, saved, store == "recompute", name or f"{kernel.name}_adjoint")
