"""Kernels inside of PyTorch: see :func:`custom_op`."""

from __future__ import annotations

from polyloop.edge.calls import public as _public
from polyloop.interop.torchops import custom_op as _custom_op

__all__ = ["custom_op"]

custom_op = _public(_custom_op)
