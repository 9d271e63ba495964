"""Schedules of ready kernels as functions of their arguments, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.tuning.schedules import Schedule


def on_fibres(schedule: Schedule) -> Callable[..., Mapping[str, Any]]:
    """Return *schedule* on fibres, whose runs agree."""

    def run(**arrays: Any) -> Mapping[str, Any]:
        outputs = run_on_fibres(schedule.program, arrays)
        assert disagreement(outputs, rtol=1e-4, atol=1e-4) is None
        return dict(outputs["random"].items())

    return run
