"""Kernels inside of JAX: see :func:`call`."""

from __future__ import annotations

from polyloop.edge.calls import public as _public
from polyloop.interop.jaxcall import JaxFunction
from polyloop.interop.jaxcall import call as _call

__all__ = ["JaxFunction", "call"]

call = _public(_call)
