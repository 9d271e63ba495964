"""Kernels inside of PyTorch: see :func:`custom_op`, and :func:`attention`."""

from __future__ import annotations

from polyloop.edge.calls import public as _public
from polyloop.interop.torchops import custom_op as _custom_op
from polyloop.library.torch_attention import attention as _attention

__all__ = ["attention", "custom_op"]

attention = _public(_attention)
custom_op = _public(_custom_op)
