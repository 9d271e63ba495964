"""``pl.tune``: search of the fastest variant of a kernel."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from polyloop.codegen.program import BuildOptions, GeneratedProgram
from polyloop.edge.callbacks import asked
from polyloop.edge.checks import EXPLAINED, AtLeast
from polyloop.edge.words import spelt
from polyloop.errors import CompilerError, Diagnostic, PolyloopError, TuningError
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.infer_types import require_dtypes
from polyloop.progress import Bar, has_bars
from polyloop.progress import progress as bar_of
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.runtime.ccompile import find_compiler
from polyloop.runtime.cuda.choice import cuda_library
from polyloop.runtime.explanation import time_text
from polyloop.runtime.gpu import device_architecture, device_name, gpu_available, on_device
from polyloop.runtime.invoke import BoundCall, CompiledKernel, load
from polyloop.runtime.nvrtc import nvrtc_available
from polyloop.schedule.build import build_schedule
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code
from polyloop.tuning.measure import Clock, DeviceClock, HostClock, race
from polyloop.tuning.queues import QueueClock, on_queue, queue_of, versions_of
from polyloop.tuning.report import Outcome, Trial, Tuned
from polyloop.tuning.space import Choice, Condition, Space, Value, shown
from polyloop.tuning.spread import reply_of, spread
from polyloop.tuning.worker import compile_all

__all__ = ["tune"]

Build: TypeAlias = Callable[..., LoopKernel]
Arguments: TypeAlias = Mapping[str, Any]

_REGISTER_BYTES: Final = 4
_MOST_REGISTERS: Final = 255
"""Registers of a thread (CUDA C++ Programming Guide, table of technical specifications)."""


def tune(
    build: Build,
    space: Annotated[Mapping[str, Sequence[Value]], EXPLAINED],
    args: Annotated[Arguments | Sequence[Arguments] | Callable[[], Any], EXPLAINED],
    *,
    conditions: Condition | Sequence[Annotated[Condition, EXPLAINED]] = (),
    target: Target | None = None,
    seed: Annotated[int, AtLeast(0)] = 0,
    most: int | None = None,
    seconds: float = 60.0,
    precision: float = 0.01,
    jobs: int | None = None,
    progress: bool | None = None,
    remember: bool = True,
    executor: Annotated[Any, EXPLAINED] = None,  # noqa: ANN401 - any that submits
) -> Tuned:
    """Find the choice with which a kernel runs fastest.

    Every choice is built; choices that are illegal, or need more threads, shared memory or registers than the target
    has, are rejected before compilation. The others are compiled in parallel; those that spill registers are rejected
    too, unless all do. The remaining choices race: they are timed in turn, and drop out as soon as another one is
    significantly faster.

    ::

        def build(tile, unroll):
            knl = pl.split_iname(axpy, "i", tile, outer_tag="g.0")
            return pl.split_iname(knl, "i_inner", unroll, inner_tag="unr", outer_tag="l.0")

        found = pl.tune(build, {"tile": [256, 512, 1024], "unroll": [1, 2, 4]}, {"x": x, "y": y, "alpha": 2.0},
                        conditions=[lambda tile, unroll: tile // unroll <= 512])
        print(found)                    # a line for each choice
        run = found.compiled            # the fastest
        knl = build(**found.best)

    Parameters
    ----------
    build
        Given a value for each name of *space*, returns the transformed kernel.
    space
        Name -> the values to choose from, which JSON must be able to hold.
    args
        Arguments of the kernel's calls; several, to be taken in turn, where the data of one would stay in a cache. Or a
        function that returns them, called where the race is.
    conditions
        Predicates on some of the names, by the names of their parameters, that a choice has to satisfy.
    target
        By default that of the kernels; if they have none, CUDA where there is a GPU, otherwise C.
    seed, most
        The choices are taken in a random order that *seed* decides; at most *most* of them are tried.
    seconds
        Time [s] for the race, with an executor for that of each task. Choices that it does not reach are not measured.
    precision
        How narrow the confidence interval of a time has to be, as a part of it, to end the race.
    jobs
        Processes that compile; by default one a processor. With an executor, the number of its tasks; by default one
        for every eight choices.
    progress
        Whether to show a bar, with the package ``tqdm``: of choices that are built, compiled and raced, with a rate and
        the fastest so far. By default where it is installed and is seen, on a terminal or in a notebook, and
        ``POLYLOOP_PROGRESS`` in the environment is not 0.
    remember
        Whether to keep the result on disk, and to return one that is there: of the same programs, sizes, device,
        compilers, seconds and precision.
    executor
        Any executor of ``concurrent.futures``, whose tasks build, compile and race a part of the choices each, on one
        machine or many: a ``ProcessPoolExecutor``, ``MPIPoolExecutor`` of mpi4py, ``client.get_executor()`` of Dask.
        The fastest of all parts race once more, in one task. Let one task at a time use a device.

    Returns
    -------
    Tuned
        ``best``, ``compiled``, and every trial.

    Raises
    ------
    TuningError
        ``empty-space``, ``bad-space``, ``unknown-choice``; ``not-measured``, for targets besides C, CUDA and
        OpenCL; ``no-opencl``;
        ``bad-build``: it cannot be called with a choice, or returns no kernel; ``no-arguments``;
        ``nothing-to-measure``: no choice could be built and compiled; ``no-progress-bar``.
        With an executor: ``bad-executor``; ``tasks-failed``: no task came to an end; ``different-devices``.
    """
    if progress and not has_bars():
        raise _refused(Diagnostic(
            "no-progress-bar", "the package that shows progress, tqdm, is not installed", (),
            ('pip install "polyloop[tune]"', "or leave out progress=True")))
    bar = partial(bar_of, unit="choice", is_wanted=progress)
    sets = () if executor is not None and callable(args) else _sets(args)
    choices = Space(space, (conditions,) if callable(conditions) else tuple(conditions)).drawn(seed, most)
    _check_build(build, choices[0])
    search = partial(_searched, build, target, effort=(seconds, precision), remember=remember)
    if executor is None:
        found = search(choices, sets, bar=bar, jobs=jobs)
        if not any(trial.time is not None for trial in found.trials):
            raise TuningError("tune", None, [_nothing(found.trials)])
        result = Tuned(found.trials, seed, found.trace(), found.device)
        return result.ready(lambda: found.compiled(result.best))
    task = partial(_part, search, args)
    with bar("tasks", len(choices)) as tasks:
        device, trials = spread(executor, task, choices, jobs, tasks.step)
    if not any(trial.time is not None for trial in trials):
        raise TuningError("tune", None, [_nothing(trials)])
    result = Tuned(trials, seed, device=device)
    with bar_of("build", 1, unit="choice", is_wanted=False) as quiet:
        _, programs = _built(build, [result.best], target, quiet)
    own = _candidate(programs, result.best)
    result = replace(result, trace=own.kernel.trace.to_json())
    return result.ready(lambda: load(own.program, own.regenerate, _architecture(target, programs)))


@dataclass(frozen=True, eq=False)
class _Search:
    """Result of a search on this machine: a trial for each of some choices, in their order."""

    trials: tuple[Trial, ...]
    device: str
    programs: Sequence[_Candidate] = field(repr=False)
    arch: str | None = None
    known: str | None = None

    def trace(self) -> str:
        """Return the transforms of the fastest kernel as JSON."""
        return self.known or _candidate(self.programs, Tuned(self.trials, 0).best).kernel.trace.to_json()

    def compiled(self, choice: Choice) -> CompiledKernel:
        """Return the kernel of a choice."""
        return _compiled(self.programs, choice, self.arch)


def _searched(
    build: Build, target: Target | None, choices: Sequence[Choice], sets: Sequence[Arguments], *,
    effort: tuple[float, float], remember: bool, bar: Callable[[str, int], AbstractContextManager[Bar]],
    jobs: int | None,
) -> _Search:  # fmt: skip
    """Build, compile and race choices on this machine; *effort* is the time of the race and its precision."""
    with bar("build", len(choices)) as built:
        trials, programs = _built(build, choices, target, built)
    if (other := next((x.program.target for x in programs if x.program.target not in _MEASURED), None)) is not None:
        raise _refused(Diagnostic(
            "not-measured", f"tune measures programs for C, CUDA and OpenCL, and these are for '{other}'", (),
            ("tune for one of these, or time calls where such a device is",)))
    arch, queue = _architecture(target, programs), None
    if arch is not None and any(found.program.target == "opencl" for found in programs):
        queue = queue_of(programs[0].kernel.name, arch, sets)
    device = _device(arch) if queue is None else versions_of(queue)
    key = _key(programs, sets, device, effort)
    order = {shown(choice): number for number, choice in enumerate(choices)}

    def ordered(found: Sequence[Trial]) -> tuple[Trial, ...]:
        return tuple(sorted(found, key=lambda trial: order[shown(trial.choice)]))

    if remember and (known := _remembered(key)) is not None:
        timed = [trial for trial in known.trials if shown(trial.choice) in order and trial.outcome not in _CUT]
        return _Search(ordered((*trials, *timed)), device, programs, arch, known.trace)
    if queue is None:
        with bar("compile", len(programs)) as compiled:
            options = programs[0].program.build if programs else BuildOptions()
            compile_all([found.program.device_code for found in programs], arch, jobs, compiled.step, options)
    trials += _measured(programs, sets, (arch, queue), effort, bar)
    result = _Search(ordered(trials), device, programs, arch)
    if remember and any(trial.time is not None for trial in trials):
        _remember(key, Tuned(result.trials, 0, result.trace(), device))
    return result


def _part(search: Callable[..., _Search], args: object, choices: Sequence[Choice]) -> str:
    """Search some choices where a task of an executor runs; the reply is text, as errors are that say what to do."""
    try:
        found = search(choices, _sets(args), bar=partial(bar_of, unit="choice", is_wanted=False), jobs=1)
    except PolyloopError as error:
        return reply_of(error.found)
    return reply_of(Tuned(found.trials, 0, device=found.device))


def _architecture(target: Target | None, programs: Sequence[_Candidate]) -> str | None:
    """Return the architecture that programs are compiled for; for OpenCL the words of the target, None for C."""
    if any(found.program.target == "cuda" for found in programs):
        return (target.arch if target is not None and target.arch else None) or device_architecture() or "sm_90"
    if any(found.program.target == "opencl" for found in programs):
        said = target_of(programs[0].kernel, target)
        return said.arch if said is not None and said.arch else ""
    return None


_MEASURED: Final = ("c", "cuda", "opencl")
_CUT: Final = frozenset({Outcome.REFUSED, Outcome.TOO_LARGE})


def _sets(args: object) -> list[Arguments]:
    """Return the sets of arguments that *args* are, or returns."""
    if callable(args):
        args = asked(_refused, "args", args)
    found = [args] if isinstance(args, Mapping) else list(args) if isinstance(args, Iterable) else []
    wrong = [one for one in found if not isinstance(one, Mapping)]
    if wrong or not found:
        message = f"{spelt((wrong or [args])[0])}"[:80] + " is not what a kernel can be called with"
        hint = 'pass the arguments by their names, {"x": x, "n": 100}, or several of these in a list'
        raise TuningError("tune", None, [Diagnostic("no-arguments", message, (), (hint,))])
    return found


def _check_build(build: Build, choice: Choice) -> None:
    """Refuse a function that cannot be called with a choice."""
    try:
        inspect.signature(build).bind(**choice)
    except (TypeError, ValueError) as error:
        hint = f"let it be a function of {', '.join(choice) or 'nothing'}, and put what it lacks into the space"
        raise TuningError("tune", None, [Diagnostic(
            "bad-build", f"build cannot be called with the choice {shown(choice)}", (str(error),), (hint,),
        )]) from None  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A choice that could be built, its program, and the same with wider indices."""

    choice: Choice
    kernel: LoopKernel
    program: GeneratedProgram
    regenerate: Callable[[int], GeneratedProgram] = field(repr=False)


def _built(
    build: Build, choices: Sequence[Choice], target: Target | None, bar: Bar
) -> tuple[list[Trial], list[_Candidate]]:
    """Build every choice; return rejected trials with the reason, and the programs of the others."""
    cut: list[Trial] = []
    found: list[_Candidate] = []
    for number, choice in enumerate(choices):
        bar.step(min(number, 1))
        bar.note(shown(choice))
        try:
            kernel = _made(build, choice)
            said = target_of(kernel, target)
            chosen = said if said is not None else (CudaTarget() if gpu_available()[0] else CTarget())
            program = generate_code(kernel, chosen)
        except TuningError:
            raise
        except PolyloopError as error:
            first = error.found[0]
            cut.append(Trial(choice, Outcome.REFUSED, f"{first.message} [{first.code}]"))
            continue
        needed = _registers(kernel, chosen) if chosen.language.has_axes else 0
        if needed > _MOST_REGISTERS:
            cut.append(Trial(choice, Outcome.TOO_LARGE, f"a thread would keep {needed} registers of values, and has "
                                                        f"{_MOST_REGISTERS}"))  # fmt: skip
            continue

        def regenerate(bits: int, kernel: LoopKernel = kernel, chosen: Target = chosen) -> GeneratedProgram:
            return generate_code(kernel, chosen, index_bits=bits)

        found.append(_Candidate(choice, kernel, program, regenerate))
    bar.step()
    return cut, found


def _refused(finding: Diagnostic) -> TuningError:
    return TuningError("tune", None, [finding])


def _made(build: Build, choice: Choice) -> LoopKernel:
    found: object = asked(_refused, "build", build, **choice)
    if not isinstance(found, LoopKernel):
        raise TuningError("tune", None, [Diagnostic(
            "bad-build", f"build returns no kernel but {type(found).__name__} for {shown(choice)}", (),
            ("return the transformed kernel",))])  # fmt: skip
    return found


def _registers(kernel: LoopKernel, target: Target) -> int:
    """Return a lower bound on the registers of one thread: those of its private arrays, if none spills."""
    schedule = build_schedule(require_dtypes(kernel), target.limits)
    return max(
        (sum(
            -(-prod(t.shape) * t.dtype.itemsize // _REGISTER_BYTES)
            for t in launch.temporaries if t.address_space is AddressSpace.PRIVATE and t.shape
        ) for launch in schedule.launches), default=0)  # fmt: skip


def _measured(
    candidates: Sequence[_Candidate], sets: Sequence[Arguments], place: tuple[str | None, Any],
    effort: tuple[float, float], bar: Callable[[str, int], AbstractContextManager[Bar]],
) -> list[Trial]:  # fmt: skip
    """Compile the candidates, drop those that spill, and race the rest; *place* is an architecture and a queue."""
    (arch, queue), (seconds, precision) = place, effort
    trials: list[Trial] = []
    kernels: list[tuple[_Candidate, CompiledKernel]] = []
    for candidate in candidates:
        try:
            kernels.append((candidate, load(candidate.program, candidate.regenerate, arch)))
        except CompilerError as error:
            trials.append(Trial(candidate.choice, Outcome.FAILED, error.found[0].message))
    spilling = [pair for pair in kernels if _spills(pair[1])]
    if len(spilling) < len(kernels):
        for candidate, compiled in spilling:
            trials.append(Trial(candidate.choice, Outcome.SPILLS, f"{_spills(compiled)} bytes of a thread's values "
                                "would live in local memory", registers=_most_registers(compiled)))  # fmt: skip
        kernels = [pair for pair in kernels if not _spills(pair[1])]
    if not kernels:
        return trials

    def leads(number: int, median: float) -> None:
        raced.note(f"{time_text(median)} with {shown(kernels[number][0].choice)}")

    with _in_place(kernels[0][1], sets, queue) as (placed, clock), bar("race", len(kernels)) as raced:
        calls = [[_bound(compiled, given) for given in placed] for _, compiled in kernels]
        if queue is not None:  # the driver compiles a program for its first call
            refused = [_first(turn[0], clock) for turn in calls]
            trials += [Trial(candidate.choice, Outcome.FAILED, why)
                       for (candidate, _), why in zip(kernels, refused, strict=True) if why is not None]
            calls = [turn for turn, why in zip(calls, refused, strict=True) if why is None]
            kernels = [pair for pair, why in zip(kernels, refused, strict=True) if why is None]
        deadline = time.perf_counter() + seconds
        times = race(calls, clock, precision=precision, deadline=deadline, finished=lambda _: raced.step(), leads=leads)
        raced.reach(len(kernels))
    for (candidate, compiled), found in zip(kernels, times, strict=True):
        outcome = Outcome.UNMEASURED if found is None else Outcome.TIMED
        trials.append(Trial(candidate.choice, outcome, "", found, _most_registers(compiled)))
    return trials


def _first(call: Callable[[], object], clock: Clock) -> str | None:
    """Make the first call of a program; return why it cannot be made, None if it was."""
    try:
        clock.seconds(call, 1)
    except PolyloopError as error:
        return error.found[0].message
    return None


def _bound(compiled: CompiledKernel, given: dict[str, Any]) -> BoundCall:
    """Bind a call; outputs that were allocated for it are used by the next kernel too."""
    call = compiled.bind(**given)
    given |= dict(call.result.items())
    return call


def _spills(compiled: CompiledKernel) -> int:
    return max((found.local_bytes for found in compiled.resources.values()), default=0)


def _most_registers(compiled: CompiledKernel) -> int | None:
    return max((found.registers for found in compiled.resources.values()), default=None)


@contextmanager
def _in_place(
    kernel: CompiledKernel, sets: Sequence[Arguments], queue: Any  # noqa: ANN401  # PyOpenCL has no types
) -> Iterator[tuple[list[dict[str, Any]], Clock]]:
    """Give the arguments where the kernel runs, NumPy arrays copied to the device, and a clock for it."""
    if queue is not None:
        yield on_queue(queue, sets), QueueClock(queue)
        return
    if kernel.target == "c":
        yield [dict(given) for given in sets], HostClock()
        return
    arrays = {
        f"{number}.{name}": value
        for number, given in enumerate(sets)
        for name, value in given.items()
        if isinstance(value, np.ndarray)
    }
    with on_device(kernel.program.kernel, arrays) as (copies, wait):
        placed = [
            {name: copies.get(f"{number}.{name}", value) for name, value in given.items()}
            for number, given in enumerate(sets)
        ]
        yield placed, DeviceClock()
        wait()


def _compiled(candidates: Sequence[_Candidate], choice: Choice, arch: str | None) -> CompiledKernel:
    found = _candidate(candidates, choice)
    return load(found.program, found.regenerate, arch)


def _candidate(candidates: Sequence[_Candidate], choice: Choice) -> _Candidate:
    (found,) = (candidate for candidate in candidates if dict(candidate.choice) == dict(choice))
    return found


def _nothing(trials: Sequence[Trial]) -> Diagnostic:
    shortest = [
        f"{shown(trial.choice)}: {trial.outcome.value}{f', {trial.why}' if trial.why else ''}" for trial in trials
    ]
    return Diagnostic(
        "nothing-to-measure",
        f"none of {len(trials)} choices could be measured",
        tuple(shortest[:4]),
        ("build one of them by itself to see the whole message",),
    )


# {{{ results of earlier runs


def _key(
    candidates: Sequence[_Candidate], sets: Sequence[Arguments], device: str, effort: tuple[float, float]
) -> CacheKey:
    """Return the key of a result: programs, arguments, device, versions, time and precision of the race."""
    programs = sorted(
        [shown(candidate.choice), hashlib.sha256(candidate.program.device_code.encode()).hexdigest()]
        for candidate in candidates
    )
    given = [[[name, *_described(value)] for name, value in sorted(one.items())] for one in sets]
    text = json.dumps({"programs": programs, "arguments": given, "effort": effort})
    return CacheKey("tuning", text, device, ())


def _described(value: object) -> list[str]:
    shape = getattr(value, "shape", None)
    return [str(getattr(value, "dtype", type(value).__name__)), str(tuple(shape) if shape is not None else value)]


def _device(arch: str | None) -> str:
    """Return names and versions of compiler, driver and device."""
    if arch is None:
        return f"{find_compiler('c')}, {platform.processor()}, {platform.machine()}, {os.cpu_count()}"
    versions = f"{nvrtc_available()[1]}, {arch}"
    if not gpu_available()[0]:
        return versions
    return f"{versions}, {device_name()}, driver {cuda_library().driver_version()}"


def _remembered(key: CacheKey) -> Tuned | None:
    cache = open_cache()
    files = None if cache is None else cache.read(key)
    return None if files is None or "tuned.json" not in files else Tuned.from_json(files["tuned.json"].decode())


def _remember(key: CacheKey, result: Tuned) -> None:
    cache = open_cache()
    if cache is not None:
        cache.put(key, {"tuned.json": result.to_json().encode()})


# }}}

