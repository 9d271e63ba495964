"""Times of the schedules of ready kernels that were measured, by which a call is chosen before anything is tuned.

``python -m benchmarks library --record FILE`` measures them; ``polyloop/data/library_times.json`` has them: kernel,
type, that of results, sizes, device, and the time of each schedule [s].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

import polyloop as pl

__all__ = ["ready"]

_FILE: Final = "library_times.json"


@cache
def _entries() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(files("polyloop").joinpath("data", _FILE).read_text(encoding="utf-8")))


def ready(
    kernel: str, dtype: np.dtype[Any], program: pl.LoopKernel, schedules: Mapping[str, Any],
    target: pl.Target | None, device: str | None, result: np.dtype[Any] | None = None, *, vouched: bool = False,
) -> pl.Dispatcher:  # fmt: skip
    """Return the dispatcher of a ready kernel for elements of *dtype*, with the times that were measured of it.

    *result* is the type of its results where there is a choice; *vouched* is as for :func:`polyloop.dispatch`.
    """
    found = pl.dispatch(program, schedules, target=target, device=device, vouched=vouched)
    which = (kernel, str(dtype), None if result is None else str(result))
    own = [entry for entry in _entries() if (entry["kernel"], entry["dtype"], entry.get("result")) == which]
    found.read_record(json.dumps([{**entry, "dtypes": {}} for entry in own]))
    return found
