"""Kernels inside of JAX: see :func:`call`, and :func:`sharded` for several devices."""

from __future__ import annotations

from polyloop.distributed.jaxmap import ShardedFunction
from polyloop.distributed.jaxmap import sharded as _sharded
from polyloop.edge.calls import public as _public
from polyloop.interop.jaxcall import JaxFunction
from polyloop.interop.jaxcall import call as _call

__all__ = ["JaxFunction", "ShardedFunction", "call", "sharded"]

call = _public(_call)
sharded = _public(_sharded)
