"""PyTorch's check of many tensors at once, by which TorchDynamo guards a compiled graph.

It compares type, device, element type, shape, strides and the kinds of views of all its tensors in one call, in the
time of one query of a shape.  It is no public interface.  Where it is missing, or no longer distinguishes tensors as
before, the tensors are checked one by one.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["tensor_check"]


def tensor_check(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Return a function that tells whether as many arguments are tensors just like *tensors*, but for the address.

    None: PyTorch does not have it, or not as it is known, or refuses these: no tensor may come twice, for one.  The
    function keeps no tensor alive.
    """
    return _guards(tensors) if _is_as_known() else None


def _guards(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    try:
        kind: Any = importlib.import_module("torch._C._dynamo.guards").TensorGuards
        check: Callable[..., bool] = kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return check if check(*tensors) is True else None
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return None


@functools.lru_cache(maxsize=1)
def _is_as_known() -> bool:
    """Return whether a check refuses each tensor that differs in one thing."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return False
    first, one, wide = torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 6)
    pairs = torch.zeros(2, 3, dtype=torch.complex64)
    others = [
        torch.zeros(3, 2), torch.zeros(6), torch.zeros(2, 3, 1), torch.zeros(3, 2).t(), wide[:, ::2],
        torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2, 3, device="meta"),
        torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False), None, 1.0,
    ]  # fmt: skip
    cases: list[tuple[Any, Any, list[Any]]] = [
        (one, torch.ones(2, 3), others),
        (pairs, torch.ones_like(pairs), [pairs.conj()]),
        (wide[:, ::2], torch.ones(2, 6)[:, ::2], [one, torch.zeros(2, 9)[:, ::3], pairs.conj().imag]),
    ]
    for like, same, different in cases:
        check = _guards((first, like))
        if check is None:
            return False
        try:
            found = [check(first, same), *(check(first, other) for other in different),
                     *(check(other, like) for other in others)]  # fmt: skip
        except (TypeError, RuntimeError):
            return False
        if not found[0] or any(found[1:]):
            return False
    return True
