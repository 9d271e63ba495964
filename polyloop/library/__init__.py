"""Ready kernels: each function returns a dispatcher of the schedules that its module lists."""

from __future__ import annotations

from polyloop.library.matmul import matmul
from polyloop.library.rows import layer_norm, softmax
from polyloop.library.transpose import transpose

__all__ = ["layer_norm", "matmul", "softmax", "transpose"]
