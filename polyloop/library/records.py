"""Times of the schedules of ready kernels that were measured, by which a call is chosen before anything is tuned.

``python -m benchmarks library --record FILE`` measures them; ``polyloop/data/library_times.json`` has them: kernel,
type, sizes, device, and the time of each schedule [s].
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

import polyloop as pl

__all__ = ["with_records"]

_FILE: Final = "library_times.json"


@cache
def _entries() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(files("polyloop").joinpath("data", _FILE).read_text(encoding="utf-8")))


def with_records(dispatcher: pl.Dispatcher, kernel: str, dtype: str) -> pl.Dispatcher:
    """Return *dispatcher* of a ready kernel with the times that were measured of it."""
    own = [entry for entry in _entries() if (entry["kernel"], entry["dtype"]) == (kernel, dtype)]
    dispatcher.read_record(json.dumps([{**entry, "dtypes": {}} for entry in own]))
    return dispatcher
