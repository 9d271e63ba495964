"""Median times of calls, with confidence intervals.

The time of a call is the median of its samples. Its confidence interval is made of two of the samples themselves: by
the binomial distribution, the median of what they are drawn from lies between them in 95 % of all cases, whatever that
distribution is (H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from polyloop.display import brief
from polyloop.runtime.cuda.choice import cuda_library
from polyloop.runtime.cuda.rawdriver import raw_driver
from polyloop.runtime.nvrtc import compile_cuda

__all__ = ["LEAST_SAMPLES", "Clock", "DeviceClock", "HostClock", "Interval", "interval", "race"]

_NORMAL_95: Final = 1.96
LEAST_SAMPLES: Final = 8
"""Samples of which an interval of the median can be made: with fewer, none reaches 95 %."""
_SAMPLE_SECONDS: Final = 2e-4
_MOST_CALLS: Final = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """A time [seconds] with its 95 % confidence interval."""

    low: float
    median: float
    high: float
    samples: int

    __repr__ = brief

    @property
    def spread(self) -> float:
        """Width of the interval over the time."""
        return (self.high - self.low) / self.median if self.median else 0.0


def interval(samples: Sequence[float]) -> Interval:
    """Return the median of *samples* and its confidence interval."""
    ordered = sorted(samples)
    count = len(ordered)
    assert count, "nothing was measured"
    middle = ordered[count // 2] if count % 2 else (ordered[count // 2 - 1] + ordered[count // 2]) / 2
    reach = _NORMAL_95 * math.sqrt(count) / 2
    low, high = max(0, math.floor(count / 2 - reach)), min(count - 1, math.ceil(count / 2 + reach))
    return Interval(ordered[low], middle, ordered[high], count)


class Clock(Protocol):
    """Takes the time of calls."""

    def seconds(self, call: Callable[[], object], repeat: int) -> float:
        """Return the time of one of *repeat* calls."""


class HostClock:
    """Times of the processor's clock."""

    def seconds(self, call: Callable[[], object], repeat: int) -> float:
        """Return the time of one of *repeat* calls."""
        begin = time.perf_counter()
        for _ in range(repeat):
            call()
        return (time.perf_counter() - begin) / repeat


_SPIN: Final = """
extern "C" __global__ void spin(long long cycles)
{
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
"""
_CYCLES_OF_A_CALL: Final = 20_000
"""Of the GPU, in which the host makes a call for sure: about 10 us, and a bound call takes 4."""


class DeviceClock:
    """Times between two events on the GPU's default stream.

    A call takes the host longer than many kernels take the GPU, so the GPU is kept busy until all calls are queued:
    what lies between the events is its time alone.
    """

    def __init__(self) -> None:
        library, self._raw = cuda_library(), raw_driver()
        major, minor = library.capability(library.ordinal(library.current()))
        image = compile_cuda(_SPIN, f"sm_{major}{minor}").cubin
        _, functions = self._raw.load(image, ["spin"])
        self._spin = functions["spin"]

    def seconds(self, call: Callable[[], object], repeat: int) -> float:
        """Return the time of one of *repeat* calls."""
        raw, parameters = self._raw, np.int64(_CYCLES_OF_A_CALL * (repeat + 4)).tobytes()
        spin = raw.prepared(self._spin, (1, 1, 1), (1, 1, 1), shared=0, parameters=parameters)(0)
        begin, end = raw.event(), raw.event()
        try:
            raw.done(spin() or 0)
            raw.call("cuEventRecord", begin, None)
            for _ in range(repeat):
                call()
            raw.call("cuEventRecord", end, None)
            return raw.elapsed(begin, end) / repeat
        finally:
            for event in (begin, end):
                raw.call("cuEventDestroy_v2", event)


def race(
    calls: Sequence[Sequence[Callable[[], object]]],
    clock: Clock,
    *,
    precision: float,
    deadline: float,
    most_samples: int = 60,
    finished: Callable[[int], object] = lambda _: None,
    leads: Callable[[int, float], object] = lambda *_: None,
) -> list[Interval | None]:
    """Return the time of each competitor; significantly slower ones are dropped on the way.

    Competitors are timed in turn, so that a machine that becomes slower is so for all. The race ends when one is left,
    when the intervals of all that are left are narrow, or at the deadline.

    Parameters
    ----------
    calls
        For each competitor, calls that do the same work on different data, taken in turn.
    precision
        Width of an interval over the time at which it is narrow enough.
    deadline
        Time of :func:`time.perf_counter` at which to end; what is not timed by then has no time.
    finished
        Called with each competitor that drops out.
    leads
        Called after each turn of all with the fastest so far, and its median [s].
    """
    samples: list[list[float]] = [[] for _ in calls]
    repeats = [0] * len(calls)
    alive = list(range(len(calls)))
    while alive:
        for number in alive:
            if time.perf_counter() > deadline and all(samples[k] for k in alive if k <= number):
                return _ended(samples)
            turn = calls[number]
            if not repeats[number]:
                clock.seconds(turn[0], 1)
                once = clock.seconds(turn[-1], 1)
                repeats[number] = max(1, min(_MOST_CALLS, round(_SAMPLE_SECONDS / max(once, 1e-9))))
            call = turn[len(samples[number]) % len(turn)]
            samples[number].append(clock.seconds(call, repeats[number]))
        least, leader = min((statistics.median(samples[number]), number) for number in alive)
        leads(leader, least)
        if len(samples[alive[0]]) < LEAST_SAMPLES:
            continue
        known = {number: interval(samples[number]) for number in alive}
        best = min(known.values(), key=lambda found: found.median)
        for number in [n for n in alive if known[n].low > best.high]:
            alive.remove(number)
            finished(number)
        is_narrow = all(known[number].spread <= precision for number in alive)
        if len(alive) == 1 or is_narrow or len(samples[alive[0]]) >= most_samples:
            return _ended(samples)
    return _ended(samples)


def _ended(samples: Sequence[Sequence[float]]) -> list[Interval | None]:
    return [interval(found) if found else None for found in samples]
