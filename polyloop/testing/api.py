"""The fuzzer of calls: ``python -m polyloop.testing.api --count 1000 --seed 0``.

A call of something public is drawn from its annotations: every argument of a type that it takes, or one of any type at
all.  Or the JSON of a trace is changed at random and read again.  Whatever is drawn returns or is refused with a
diagnostic, in time, and leaves the kernels alone.  The exit status is 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import multiprocessing
import signal
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache, partial
from random import Random
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

import polyloop
from polyloop.edge.words import shown
from polyloop.errors import PolyloopError
from polyloop.kernel.kernel import LoopKernel
from polyloop.progress import Bar
from polyloop.progress import progress as bar_of
from polyloop.testing.drawing.api_values import kernels, odd_values, recipes_as_json, texts_for

__all__ = ["Mode", "Outcome", "Report", "call", "fuzz_calls", "main", "mutated", "public_names"]

_SECONDS: Final = 30.0
_CHUNK: Final = 100
_NOT_OURS: Final = frozenset({"auto", "vec"})


class Mode(Enum):
    """Kind of input that is drawn."""

    FITTING = "arguments that fit their annotations"
    ANY = "arguments of any type"
    JSON = "JSON of traces and recipes"


class _Late(BaseException):
    """A call takes too long; nothing on the way may catch it."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one call: ``returned``, ``refused``, ``bare`` (another exception), ``late`` or ``changed``."""

    seed: int
    what: str
    kind: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def is_wrong(self) -> bool:
        """True if the outcome is a fault of the library."""
        return self.kind not in ("returned", "refused")


@dataclass
class Report:
    """Counts of calls by outcome, the wrong outcomes, and the slowest call."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[Outcome] = field(default_factory=list)
    slowest: Outcome | None = None

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count *outcomes*."""
        for outcome in outcomes:
            self.counts[outcome.kind] += 1
            self.wrong += [outcome] * outcome.is_wrong
            if self.slowest is None or outcome.seconds > self.slowest.seconds:
                self.slowest = outcome

    def __str__(self) -> str:
        lines = [f"{kind}: {number}" for kind, number in sorted(self.counts.items())]
        if self.slowest is not None:
            lines.append(f"slowest: {self.slowest.seconds:.1f} s, seed {self.slowest.seed}: {self.slowest.what}")
        lines += [f"{entry.kind}, seed {entry.seed}: {entry.what}\n  {entry.detail}" for entry in self.wrong]
        return "\n".join(lines)


# {{{ calls


@cache
def public_names() -> tuple[str, ...]:
    """Return the names of the package's public functions and classes."""
    found = ((name, getattr(polyloop, name)) for name in polyloop.__all__ if name not in _NOT_OURS)
    return tuple(
        name
        for name, value in found
        if callable(value) and value.__module__.startswith("polyloop")
        and not (isinstance(value, type) and issubclass(value, Enum))
    )  # fmt: skip


def call(seed: int, mode: Mode, seconds: float = _SECONDS) -> Outcome:
    """Make the call, or read the text, drawn from *seed*."""
    rng = Random(f"{mode.name} {seed}")
    known = kernels()
    kernel = rng.choice(list(known.values()))
    if mode is Mode.JSON:
        what, run = _reading(rng, kernel)
    else:
        what, run = _drawn(rng, kernel, mode)
    before = _fingerprint(kernel)
    start = time.perf_counter()
    kind, detail = _ended(run, seconds)
    taken = time.perf_counter() - start
    if _fingerprint(kernel) != before:
        kind, detail = "changed", f"the kernel '{kernel.name}' is another one after the call"
    return Outcome(seed, what, kind, detail, taken)


def _fingerprint(kernel: LoopKernel) -> tuple[str, ...]:
    arguments = [{entry.name: getattr(each, entry.name) for entry in fields(each)} for each in kernel.arguments]
    return str(kernel), str(kernel.reference), str(kernel.trace), str(arguments)


def _ended(run: Callable[[], object], seconds: float) -> tuple[str, str]:
    """Return the outcome of a call, and its details."""

    def late(*_: object) -> None:
        raise _Late

    previous = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run()
            del found
    except PolyloopError as error:
        return "refused", ", ".join(error.codes)
    except _Late:
        return "late", f"more than {seconds:g} s"
    except Exception as error:
        return "bare", _where(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return "returned", ""


def _where(error: Exception) -> str:
    """Return an exception and its innermost frames in the package, as text."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "polyloop" in frame.filename]
    places = " < ".join(f"{frame.filename.rpartition('polyloop/')[2]}:{frame.lineno}" for frame in frames[:-4:-1])
    return f"{type(error).__name__}: {str(error)[:200]} ({places})"


def _drawn(rng: Random, kernel: LoopKernel, mode: Mode) -> tuple[str, Callable[[], object]]:
    """Return a call as text, and as a function without arguments."""
    name = rng.choice(public_names())
    target = getattr(polyloop, name)
    args, kwargs = _arguments(rng, kernel, target, mode)
    words = [*map(shown, args), *(f"{key}={shown(value)}" for key, value in kwargs.items())]
    as_text = repr if not isinstance(target, type) else type

    def run() -> object:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # for what is written to a drawn name
            found = _as_a_user(target, args, kwargs)
        return str(found) if isinstance(found, LoopKernel) else as_text(found)

    return f"pl.{name}({', '.join(words)})", run


_as_a_user: Final = types.FunctionType(
    (lambda target, args, kwargs: target(*args, **kwargs)).__code__, {"__name__": "user"}
)
"""Calls from outside of the package: what the package makes of its own classes is not checked."""


def _arguments(
    rng: Random, kernel: LoopKernel, target: Callable[..., object], mode: Mode
) -> tuple[list[object], dict[str, object]]:
    """Draw arguments for *target*: all that it needs, and some of the others."""
    hints = _annotations(target)
    args: list[object] = []
    kwargs: dict[str, object] = {}
    needed = [entry for entry in inspect.signature(target).parameters.values() if _is_drawn(rng, entry)]
    odd = {entry.name for entry in needed if rng.random() < 1 / max(1, len(needed) - 1)} if mode is Mode.ANY else set()
    for entry in needed:
        hint = hints.get(entry.name, Any)
        value = rng.choice(odd_values())() if entry.name in odd else _fitting(rng, hint, entry.name, kernel)
        if entry.kind is inspect.Parameter.POSITIONAL_ONLY:
            args.append(value)
        elif entry.kind is inspect.Parameter.VAR_KEYWORD:
            kwargs[rng.choice(texts_for("name", kernel, rng))] = value
        else:
            kwargs[entry.name] = value
    return args, kwargs


def _is_drawn(rng: Random, entry: inspect.Parameter) -> bool:
    if entry.kind is inspect.Parameter.VAR_POSITIONAL:
        return False
    is_needed = entry.default is inspect.Parameter.empty and entry.kind is not inspect.Parameter.VAR_KEYWORD
    return is_needed or rng.random() < 0.3


@cache
def _annotations(target: Callable[..., object]) -> Mapping[str, Any]:
    code: Any = inspect.unwrap(target)
    if isinstance(target, type):
        code = inspect.unwrap(getattr(target, "__new__" if "__new__" in vars(target) else "__init__"))
    module = sys.modules[target.__module__] if isinstance(target, type) else None
    try:
        return get_type_hints(code, None if module is None else vars(module), include_extras=True)
    except NameError:  # a class without a module of its own
        return {}


# }}}
# {{{ values that fit

_NUMBERS: Final = (
    0, 1, -1, 2, 3, 4, 7, 8, 16, 32, 64, 1000, 2**31 - 1, 2**31, 2**40, -(2**63), 2**63 - 1, 2**64, 10**30,
)  # fmt: skip
_REALS: Final = (0.0, 0.5, -1.5, 1e308, float("nan"), float("inf"), 1, 10**400)


def _fitting(rng: Random, hint: Any, name: str, kernel: LoopKernel) -> Any:  # noqa: ANN401 - an annotation
    """Draw a value that an annotation lets through; *name*, of the parameter, makes it likely to mean something."""
    origin, arguments = get_origin(hint), get_args(hint)

    def one(inner: Any) -> Any:  # noqa: ANN401 - any argument
        return _fitting(rng, inner, name, kernel)

    if origin is Annotated:
        return one(arguments[0])
    if origin in (Union, types.UnionType):
        return one(rng.choice(arguments))
    if origin is Literal:
        return rng.choice(arguments)
    if hint is str:
        return rng.choice(texts_for(name, kernel, rng))
    if origin is tuple and (not arguments or arguments[-1] is not ...):
        return tuple(map(one, arguments))
    if origin in (Sequence, Iterable, Collection, tuple, list, set, frozenset):
        return _several(rng, origin, [one(arguments[0]) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))])
    if origin is Mapping:
        return {one(arguments[0]): one(arguments[1]) for _ in range(rng.choice((0, 1, 1, 2)))}
    return _plain(rng, hint if origin is None or origin is Callable else origin, kernel)


def _several(rng: Random, kind: object, entries: list[Any]) -> object:
    if kind in (tuple, Sequence):
        return tuple(entries) if kind is tuple or rng.random() < 0.5 else entries
    if kind in (set, frozenset) or (kind is Collection and rng.random() < 0.3):
        return frozenset(entry for entry in entries if isinstance(entry, str | int))
    return iter(entries) if kind is Iterable and rng.random() < 0.5 else entries


def _plain(rng: Random, kind: Any, kernel: LoopKernel) -> object:  # noqa: ANN401 - an annotation
    """Draw a number, a truth value, or an instance of a class."""
    if kind is int:
        return rng.choice((*_NUMBERS, np.int64(4)))
    if kind is float:
        return rng.choice(_REALS)
    if kind is bool:
        return rng.choice((True, False))
    if kind in (type(None), None):
        return None
    if kind is LoopKernel:
        return kernel if rng.random() < 0.9 else rng.choice(list(kernels().values()))
    drawn = [value for value in (make() for make in odd_values()) if _is_a(value, kind)]
    return rng.choice(drawn or [make() for make in odd_values()])


def _is_a(value: object, kind: Any) -> bool:  # noqa: ANN401 - an annotation
    if kind is Callable or get_origin(kind) is Callable:
        return callable(value)
    if not isinstance(kind, type) or kind in (object, Any) or getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)


# }}}
# {{{ JSON


def _reading(rng: Random, kernel: LoopKernel) -> tuple[str, Callable[[], object]]:
    """Return a mutated text, and a function that parses it and applies the result."""
    text = mutated(rng, rng.choice(recipes_as_json()))

    def run() -> object:
        if rng.random() < 0.5:
            return str(polyloop.replay(polyloop.trace_from_json(text), kernel))
        recipe = polyloop.Recipe.from_json(text)
        return str(recipe), recipe.to_json(), str(recipe.apply(kernel))

    return text if len(text) < 2000 else f"{text[:2000]}..", run


def mutated(rng: Random, text: str) -> str:
    """Return JSON with something in it changed, or text that is no JSON any more."""
    if rng.random() < 0.15:
        return _spoilt(rng, text)
    data = json.loads(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if places := list(_places(data)):
            _change(rng, *rng.choice(places))
    changed = json.dumps(data)
    return changed.replace('"steps":', '"steps": [], "steps":', 1) if rng.random() < 0.02 else changed


def _places(data: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    """Yield each list or object in *data* with each of its keys."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, entry in entries:
        yield data, key
        yield from _places(entry)


_JSON_VALUES: Final[Sequence[object]] = (
    None, True, False, 0, -1, 1, 4, 2**31, 2**64, 10**40, 0.5, float("nan"), float("inf"), "", "i", "x", "i, j", "l.0",
    "\0", "\ud800", "1.inner_length", "{", "split_iname", [], {}, [[]], [None], ["i"], {"i": 4}, {"": ""},
    [["i", "g.0"]], [["iname", ["i"], ["j"]]],
)  # fmt: skip


def _change(rng: Random, holder: Any, key: Any) -> None:  # noqa: ANN401 - JSON
    """Replace, remove, repeat or rename one entry."""
    way = rng.random()
    if way < 0.6:
        holder[key] = json.loads(json.dumps(rng.choice(_JSON_VALUES)))
    elif way < 0.75:
        del holder[key]
    elif way < 0.85 and isinstance(holder, list):
        holder.insert(0, holder[key])
    elif way < 0.95 and isinstance(holder, dict):
        holder[rng.choice(("name", "steps", "within", "i", "", "self", "0"))] = holder.pop(key)
    else:
        deep = holder[key]
        for _ in range(rng.choice((3, 30, 300))):
            deep = [deep] if rng.random() < 0.5 else {"i": deep}
        holder[key] = deep


def _spoilt(rng: Random, text: str) -> str:
    at = rng.randrange(len(text))
    letters = '[]{}":,\\\0 x9\ud800é'
    ways = (
        text[:at],
        text[at:],
        text[:at] + rng.choice(letters) + text[at + 1 :],
        text[:at] + rng.choice("[{") * rng.choice((2, 100, 100_000)) + text[at:],
        text[:at] + "9" * rng.choice((5, 500, 5000)) + text[at:],
    )
    return rng.choice(ways)


# }}}
# {{{ many of them


def fuzz_calls(
    seeds: Sequence[int], mode: Mode, *, jobs: int = 1, seconds: float = _SECONDS,
    progress: Callable[[Report], None] | None = None,
) -> Report:  # fmt: skip
    """Make the calls of *seeds*, in processes of their own.

    Parameters
    ----------
    jobs
        Number of processes.
    seconds
        How long one call may take.
    progress
        Called with the counts so far.
    """
    report = Report()
    chunks = [seeds[k : k + _CHUNK] for k in range(0, len(seeds), _CHUNK)]
    for begin in range(0, len(chunks), 10 * jobs):
        some = chunks[begin : begin + 10 * jobs]
        broken = []
        with _processes(jobs) as pool:
            for chunk, future in [(chunk, pool.submit(_calls, chunk, mode, seconds)) for chunk in some]:
                try:
                    report.add(future.result())
                except BrokenProcessPool:
                    broken.append(chunk)
        for chunk in broken:
            report.add(_alone(chunk, mode, seconds))
        if progress is not None:
            progress(report)
    return report


def _processes(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def _calls(seeds: Sequence[int], mode: Mode, seconds: float) -> list[Outcome]:
    return [call(seed, mode, seconds) for seed in seeds]


def _alone(seeds: Sequence[int], mode: Mode, seconds: float) -> Iterator[Outcome]:
    """Yield the outcomes of *seeds*, each in a process of its own: one of them ends it."""
    for seed in seeds:
        with _processes(1) as pool:
            try:
                yield from pool.submit(_calls, [seed], mode, seconds).result()
            except BrokenProcessPool:
                yield Outcome(seed, "the call", "crash", "the process died")


def _show(bar: Bar, report: Report) -> None:
    bar.note(f"{len(report.wrong)} wrong")
    bar.reach(report.counts.total())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m polyloop.testing.api", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="calls of each kind")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the first; the others follow")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes")
    parser.add_argument("--seconds", type=float, default=_SECONDS, metavar="T", help="how long a call may take")
    parser.add_argument("--only", choices=[mode.name.lower() for mode in Mode], help="one kind alone")
    options = parser.parse_args(arguments)
    is_wrong = False
    for mode in Mode:
        if options.only not in (None, mode.name.lower()):
            continue
        seeds = range(options.seed, options.seed + options.count)

        with bar_of(mode.name.lower(), options.count, "call") as bar:
            report = fuzz_calls(seeds, mode, jobs=options.jobs, seconds=options.seconds, progress=partial(_show, bar))
        print(f"{mode.value}\n{report}", flush=True)
        is_wrong = is_wrong or bool(report.wrong)
    return int(is_wrong)


# }}}

if __name__ == "__main__":
    sys.exit(main())
