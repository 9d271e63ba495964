"""``pl.dispatch``: one callable of several schedules of one program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import inf, log2, prod
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from polyloop.display import brief
from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import shown
from polyloop.errors import ArgumentError, Diagnostic, TuningError, unknown_name
from polyloop.expr.dtypes import dtype_name, find_dtype
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.devices import DEVICES, Device, find_device
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.executor import DeferredKernel
from polyloop.runtime.gpu import device_architecture, device_name, gpu_available
from polyloop.runtime.gpuarrays import DeviceMemory
from polyloop.runtime.invoke import CompiledKernel
from polyloop.runtime.sizes import solve_sizes
from polyloop.runtime.specialize import open_arguments
from polyloop.runtime.views import ArrayKind, ArrayView, HostMemory, call_error
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.tuning.conditions import ALIGNED, CallFacts
from polyloop.tuning.estimate import estimate
from polyloop.tuning.interpolate import Interpolation
from polyloop.tuning.report import Tuned
from polyloop.tuning.schedules import Family, Refused, Schedule
from polyloop.tuning.tune import tune

__all__ = ["Chosen", "Dispatcher", "dispatch"]

Recipes: TypeAlias = Mapping[str, LoopKernel | Callable[..., LoopKernel]]
_MOST_CALLS: Final = 1024
"""Kinds of calls whose schedule is remembered."""
_SAME: Final = 1.02
"""Ratio of estimates up to which the order of the schedules decides."""
_NEAR: Final = 4.0
"""Distance of sizes, as a power of two in each of them, within which measurements tell about others."""


@dataclass(frozen=True)
class Chosen:
    """The schedule of a call.

    Attributes
    ----------
    name
        Of the schedule.
    why
        In one line.
    schedule
        Its kernel, conditions and program.
    rejected
        Schedules that are not valid for the call, with the conditions that fail, as far as they were looked at: those
        that were measured to be slower are not.
    seconds
        Times of the others, measured or estimated, as far as they were asked for.
    """

    name: str
    why: str
    schedule: Schedule = field(repr=False)
    rejected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    __repr__ = brief

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.why}"]
        lines += [f"{time * 1e6:12.2f} us  {name}" for name, time in sorted(self.seconds.items(), key=lambda x: x[1])]
        lines += [f"{'not valid':>15}  {name}: {'; '.join(why)}" for name, why in self.rejected.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Measured:
    """Times [s] of schedules that ``pl.tune`` found for one call."""

    call: CallFacts
    device: str
    seconds: Mapping[str, float]


class Dispatcher(DeferredKernel):
    """One callable of several schedules of one program; :func:`polyloop.dispatch` makes it.

    It is called as a :class:`polyloop.CompiledKernel`.  A call takes the schedule that :meth:`choose` returns, which is
    compiled when it is first taken; a repeated call costs what that of a compiled kernel costs.  ``print`` it for a
    table of the schedules and their conditions.

    Attributes
    ----------
    names
        The schedules, in the order in which they were given.
    """

    def __init__(
        self, program: LoopKernel, schedules: Recipes, target: Target | None, device: Device | None, *,
        vouched: bool = False,
    ) -> None:  # fmt: skip
        self._program, self._given_target, self._device = program, target, device
        self._is_cuda = _is_cuda(schedules, target)
        self._families = {
            name: Family(name, made, self._program, self._target_for, vouched=vouched)
            for name, made in schedules.items()}
        self._choices: dict[tuple[object, ...], Chosen] = {}
        self._estimates: dict[tuple[object, ...], float] = {}
        self._measured: dict[tuple[object, ...], _Measured] = {}  # by call and device
        self._interpolations: dict[tuple[object, ...], Interpolation] = {}
        self._open = tuple(argument.name for argument in open_arguments(self._program))
        self._start(program, Diagnostic(
            "not-specialized", "the schedule is chosen at the call, and there was none yet", (),
            ("call it first, or take one: d.choose(..).schedule.compiled",)))

    def __reduce__(self) -> tuple[Any, ...]:
        hints = ("make it again where it is loaded; d.record() has what was measured",)
        message = "a dispatcher cannot be pickled or copied: its schedules may be functions"
        raise call_error(self._name, Diagnostic("not-picklable", message, hints=hints))

    @property
    def names(self) -> tuple[str, ...]:
        """The schedules, in the order in which they were given."""
        return tuple(self._families)

    # {{{ the choice

    def choose(self, /, **call: Any) -> Chosen:  # noqa: ANN401  # arrays of any library
        """Return the schedule for a call, and why.

        ::

            d.choose(m=128, n=8192, p=8192)           # sizes: arrays are supposed to be aligned
            d.choose(a=a, b=b)                        # arrays, as in a call
            d.choose(n=1000, alignment={"x": 4})      # addresses that are multiples of 4 bytes alone

        Parameters
        ----------
        call
            Sizes or arrays by their names; ``dtypes``: the type of each argument that the program leaves open;
            ``alignment``: array -> bytes of which its address is a multiple.

        Raises
        ------
        ArgumentError
            ``no-schedule``: none is valid, with the conditions that each fails; ``missing-argument``,
            ``inconsistent-size``, ``unknown-argument``.
        """
        return self._choice(self._facts(call))

    def _choice(self, call: CallFacts) -> Chosen:
        found = self._choices.get(call.key)
        if found is None:
            if len(self._choices) >= _MOST_CALLS:
                self._choices.clear()
            found = self._choices[call.key] = self._chosen(call)
        return found

    def valid(self, /, **call: Any) -> Mapping[str, Schedule]:  # noqa: ANN401  # arrays of any library
        """Return the schedules that are valid for a call, by name; parameters as of :meth:`choose`."""
        return self._split(self._facts(call))[0]

    def _split(self, call: CallFacts) -> tuple[dict[str, Schedule], dict[str, tuple[str, ...]]]:
        """Return the valid schedules, and the failed conditions of the others."""
        valid, rejected = dict[str, Schedule](), dict[str, tuple[str, ...]]()
        for name in self._families:
            member = self._member(name, call)
            if isinstance(member, Schedule):
                valid[name] = member
            else:
                rejected[name] = member
        return valid, rejected

    def _member(self, name: str, call: CallFacts) -> Schedule | tuple[str, ...]:
        """Return the schedule of a name, the failed conditions if it is not valid for a call."""
        member = self._families[name].member(call.sizes)
        if isinstance(member, Refused):
            return (member.why,)
        return member.failed(call) or member

    def _chosen(self, call: CallFacts) -> Chosen:
        if (fastest := self._fastest(call)) is not None:
            return fastest
        valid, rejected = self._split(call)
        if not valid:
            raise call_error(self._name, Diagnostic(
                "no-schedule", f"no schedule is valid for {call}",
                tuple(f"{name}: {'; '.join(why)}" for name, why in rejected.items()),
                ("pass arguments that fulfil the conditions of one of them",
                 "or add a schedule without conditions to pl.dispatch")))  # fmt: skip

        def chosen(name: str, why: str, seconds: Mapping[str, float]) -> Chosen:
            return Chosen(name, why, valid[name], rejected, seconds)

        if len(valid) == 1:
            return chosen(next(iter(valid)), "the only one that is valid", {})
        if self._device is None:
            return chosen(next(iter(valid)), "the first that is valid: nothing was tuned for this processor", {})
        seconds = {name: self._estimate(schedule, call) for name, schedule in valid.items()}
        least = min(seconds.values())
        name = next(name for name, time in seconds.items() if time <= _SAME*least)
        return chosen(name, f"the least time by the model of {self._device.name}: nothing was tuned", seconds)

    def _estimate(self, schedule: Schedule, call: CallFacts) -> float:
        assert self._device is not None, "estimates are of a device"
        key = (schedule, *sorted(call.sizes.items()))
        if key not in self._estimates:
            if len(self._estimates) >= _MOST_CALLS:
                self._estimates.clear()
            self._estimates[key] = estimate(schedule.kernel, call.sizes, self._device)
        return self._estimates[key]

    # }}}
    # {{{ what was measured

    def tune(self, /, seconds: float = 10.0, **arguments: Any) -> Tuned:  # noqa: ANN401  # arrays of any library
        """Measure the valid schedules with these arguments by :func:`polyloop.tune`, and choose by it from now on.

        A call of these sizes takes the fastest one.  A call of others, within a factor of 16 of these in each of them,
        takes the one that is fastest by all that was measured, interpolated between the sizes.

        Parameters
        ----------
        seconds
            Time [s] for the race.
        arguments
            As in a call.

        Returns
        -------
        Tuned
            A trial for each valid schedule.
        """
        call = self._facts(arguments)
        valid, _ = self._split(call)
        if not valid:
            self._chosen(call)  # raises
        kernels = {name: schedule.kernel for name, schedule in valid.items()}
        fixed = {name for schedule in valid.values() for name in schedule.kernel.fixed}
        given = {name: value for name, value in arguments.items() if name not in fixed}
        target = self._given_target or (None if self._is_cuda else CTarget())
        found = tune(lambda schedule: kernels[schedule], {"schedule": list(kernels)}, given, target=target,
                     seconds=seconds)  # fmt: skip
        self._learn(_Measured(call, self._measured_place(), {
            str(trial.choice["schedule"]): trial.time.median for trial in found.trials if trial.time is not None}))
        return found

    def record(self) -> str:
        """Return the measurements as JSON, for :meth:`read_record` of another process."""
        return json.dumps([{
            "sizes": dict(one.call.sizes), "device": one.device, "seconds": dict(one.seconds),
            "dtypes": {name: str(dtype) for name, dtype in one.call.dtypes.items()},
        } for one in self._measured.values()], indent=1)  # fmt: skip

    def read_record(self, text: str) -> None:
        """Take over what :meth:`record` returned; schedules of other names are left out.

        Raises
        ------
        TuningError
            ``bad-record``.
        """
        for one in _entries(text):
            known = {name: time for name, time in one.seconds.items() if name in self._families}
            if known:
                self._learn(_Measured(one.call, one.device, known))

    def _learn(self, measured: _Measured) -> None:
        key = measured.call.key, measured.device
        self._measured.pop(key, None)  # the latest one is the last
        self._measured[key] = measured
        self._choices.clear()
        self._interpolations.clear()
        self._latest = None
        self._enter(self._plain)

    def ranked(self, /, **call: Any) -> tuple[str, ...]:  # noqa: ANN401  # arrays of any library
        """Return the schedules that were measured at sizes near those of a call, in the order in which it tries them.

        The first one that is valid is taken; parameters as of :meth:`choose`.
        """
        found = self._ranked(self._facts(call))
        return () if found is None else (*found[1], *found[2])

    def _ranked(self, call: CallFacts) -> tuple[str, Mapping[str, float], Iterator[str]] | None:
        """Return the origin of times, schedules with these, the fastest first, and slower ones; None without any."""
        found = self._nearest(call)
        if found is None:
            return None
        away, nearest = found
        seconds = dict(sorted(nearest.seconds.items(), key=lambda entry: entry[1]))
        if away == 0.0:
            return (f"the fastest that was measured on {nearest.device}", seconds,
                    (name for name in self._between(call, nearest.device) if name not in seconds))  # fmt: skip
        slowdowns = self._between(call, nearest.device)
        fastest = min(seconds.values())*_work(call, nearest.call)
        return (f"the fastest by what was measured on {nearest.device} around it, nearest at {nearest.call}",
                {name: fastest*slowdown for name, slowdown in slowdowns.items()}, iter(()))

    def _nearest(self, call: CallFacts) -> tuple[float, _Measured] | None:
        """Return the measurement nearest to a call, with its distance; None if none is near.

        One of the call itself on the device itself counts first; otherwise those of the device, or of one that differs
        in its memory only, of whichever more were measured near the call.
        """
        found = [(away, one) for one in self._measured.values() if (away := _distance(one.call, call)) <= _NEAR]
        own = [entry for entry in found if entry[1].device == self._place()]
        like = [entry for entry in found if _is_like(entry[1].device, self._device) and entry not in own]
        is_known = any(away == 0.0 for away, _ in own)
        return min(own if is_known or len(own) >= len(like) else like, key=lambda entry: entry[0], default=None)

    def _between(self, call: CallFacts, device: str) -> Mapping[str, float]:
        """Return the schedules with their times relative to the fastest one, interpolated between the measurements."""
        names = tuple(sorted(call.sizes))
        key = (device, *names, *sorted((name, dtype_name(dtype)) for name, dtype in call.dtypes.items()))
        if key not in self._interpolations:
            self._interpolations[key] = Interpolation([
                ([one.call.sizes[name] for name in names], one.seconds) for one in self._measured.values()
                if one.device == device and _distance(one.call, call) < inf])
        return self._interpolations[key].slowdowns([call.sizes[name] for name in names])

    def _fastest(self, call: CallFacts) -> Chosen | None:
        """Return the first of the ranked schedules that is valid, None if none is; those behind it are not made."""
        found = self._ranked(call)
        if found is None:
            return None
        why, seconds, slower = found
        rejected: dict[str, tuple[str, ...]] = {}
        for name in chain(seconds, slower):
            member = self._member(name, call)
            if isinstance(member, Schedule):
                left = {other: time for other, time in seconds.items() if other not in rejected}
                return Chosen(name, why, member, rejected, left)
            rejected[name] = member
        return None

    # }}}
    # {{{ calls

    def _found(self, arguments: Mapping[str, object]) -> CompiledKernel:
        """Return the compiled schedule for *arguments*."""
        call = self._facts(arguments)
        with self._lock.now:
            return self._choice(call).schedule.compiled

    def _own(self, run: CompiledKernel, arguments: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return *arguments* without the sizes that the schedule has fixed."""
        fixed = run.fixed
        if not any(name in fixed for name in arguments):
            return arguments
        if any(name in arguments and arguments[name] != value for name, value in fixed.items()):
            return None
        return {name: value for name, value in arguments.items() if name not in fixed}

    def _facts(self, given: Mapping[str, Any]) -> CallFacts:
        given = dict(given)
        alignments = dict(given.pop("alignment", {})) if "alignment" not in self._program.names() else {}
        dtypes = dict(given.pop("dtypes", {})) if "dtypes" not in self._program.names() else {}
        types = {name: dtype for name, spelling in dtypes.items() if (dtype := find_dtype(spelling)) is not None}
        names = [argument.name for argument in self._program.arguments]
        for name in given:
            if name not in names:
                raise call_error(self._name, unknown_name("argument", name, names))
        memory = DeviceMemory() if self._is_cuda else HostMemory()
        arrays = [a for a in self._program.arguments if isinstance(a, ArrayArg) and given.get(a.name) is not None]
        views = {a.name: memory.view(self._name, a.name, given[a.name]) for a in arrays}
        for name, view in views.items():
            alignments.setdefault(name, self._alignment(view))
            if name in self._open:
                types.setdefault(name, view.dtype)
        integers = {name: int(given[name]) for name in self._program.parameters if given.get(name) is not None}
        found = solve_sizes(self._name, arrays, views, integers, self._program.parameters)
        sizes = {name: found.values[name] for name in self._program.parameters}
        return CallFacts(sizes, alignments, types, self._architecture())

    def _alignment(self, view: ArrayView) -> int:
        """Return the bytes that the address of an array is a multiple of; one that is copied to a GPU begins anew."""
        is_copied = view.kind is ArrayKind.NUMPY and self._is_cuda
        return ALIGNED if is_copied or not view.pointer else min(ALIGNED, view.pointer & -view.pointer)

    def _architecture(self) -> str:
        if not self._is_cuda:
            return ""
        found = device_architecture()
        if found is None and self._device is not None:
            found = f"sm_{self._device.architecture}"
        return found or "sm_90"

    # }}}

    def _target_for(self, kernel: LoopKernel) -> Target:
        if self._given_target is not None:
            return self._given_target
        if not self._is_cuda:
            return CTarget()
        return kernel.target if isinstance(kernel.target, Target) else CudaTarget(self._architecture())

    def _place(self) -> str:
        """Return the device that is chosen for."""
        if not self._is_cuda:
            return "this processor"
        return self._device.name if self._device is not None else device_name() or "GPU"

    def _measured_place(self) -> str:
        """Return the device that is measured: that of the machine, whatever device is chosen for."""
        if not self._is_cuda:
            return "this processor"
        model = _model(None)
        return model.name if model is not None and device_name() else device_name() or "GPU"

    def __repr__(self) -> str:
        return f"<Dispatcher '{self._name}': {', '.join(self._families)}>"

    def __str__(self) -> str:
        width = max(map(len, self._families))
        is_measured = any(one.device == self._place() or _is_like(one.device, self._device)
                          for one in self._measured.values())  # fmt: skip
        lines = [f"'{self._name}' for {'CUDA' if self._is_cuda else 'C'}, by "
                 f"{'what was measured, else ' if is_measured else ''}"
                 f"{'the order below' if self._device is None else f'the model of {self._device.name}'}"]
        for name, family in self._families.items():
            lines += [f"  {name:<{width}}  {text}" for text in _told(family)]
        return "\n".join(lines)


def _is_like(name: str, device: Device | None) -> bool:
    """Return True if the device *name* has the multiprocessors of *device*, whatever memory it has."""
    other = next((one for one in DEVICES.values() if one.name == name), None)
    if other is None or device is None:
        return False
    return (other.architecture, other.multiprocessors, other.rates) == (
        device.architecture, device.multiprocessors, device.rates)


def _told(family: Family) -> Iterator[str]:
    """Yield a line for each schedule of *family* that was made."""
    known = list(family.known())
    if family.sizes:
        yield f"made for each {', '.join(family.sizes)}; so far {len(known)}"
    elif not known:
        yield "made when it is first asked for"
    for schedule in known:
        yield "; ".join(map(str, schedule.conditions)) or "always valid"


def _is_cuda(schedules: Recipes, target: Target | None) -> bool:
    said = {made.target.name for made in schedules.values()
            if isinstance(made, LoopKernel) and isinstance(made.target, Target)}
    if target is not None:
        return target.name == "cuda"
    return "cuda" in said or ("c" not in said and gpu_available()[0])


def _distance(one: CallFacts, other: CallFacts) -> float:
    """Return the greatest ratio of sizes, as a power of two; infinity for other types."""
    if one.dtypes != other.dtypes or one.sizes.keys() != other.sizes.keys():
        return inf
    pairs = [(one.sizes[name], other.sizes[name]) for name in one.sizes]
    return max((0.0 if a == b else abs(log2(a / b)) if a > 0 and b > 0 else inf for a, b in pairs),
               default=0.0)  # fmt: skip


def _work(one: CallFacts, other: CallFacts) -> float:
    """Return the ratio of the products of all sizes: that of the times, where nothing better is known."""
    return prod(one.sizes.values())/max(1, prod(other.sizes.values()))


def _entries(text: str) -> Iterator[_Measured]:
    try:
        for one in json.loads(text):
            dtypes = {name: np.dtype(found) for name, given in one["dtypes"].items()
                      if (found := find_dtype(given)) is not None}
            call = CallFacts(one["sizes"], {}, dtypes)
            yield _Measured(call, one["device"], {name: float(time) for name, time in one["seconds"].items()})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TuningError("dispatch", None, [Diagnostic(
            "bad-record", "the text is no record of a dispatcher", (str(error),), ("pass what d.record() returned",),
        )]) from None  # fmt: skip


def dispatch(
    program: LoopKernel,
    schedules: Annotated[Recipes, EXPLAINED],
    *,
    target: Target | None = None,
    device: str | Device | None = None,
    vouched: bool = False,
) -> Dispatcher:
    """Return one callable of several schedules of one program, which chooses at each call.

    The conditions under which a schedule is valid are those that its program asks for at the call: what it assumes of
    sizes, which sizes are fixed, how arrays are aligned, how many blocks a grid has, the types of arguments that the
    program leaves open, and the instructions of the device.  Of the valid schedules, a call takes the fastest that
    :meth:`Dispatcher.tune` measured for these sizes or near ones, otherwise the one with the least time by the model of
    :func:`polyloop.explain`; on a processor, for which there is no model, the first.

    ::

        program = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]")
        plain = pl.split_iname(program, "i", 256, outer_tag="g.0", inner_tag="l.0")
        wide = pl.split_iname(pl.assume(program, "n mod 4 = 0"), "i", 4, inner_tag="vec")
        wide = pl.split_iname(wide, "i_outer", 256, outer_tag="g.0", inner_tag="l.0")

        # before: the caller chooses
        y = (wide if len(x) % 4 == 0 else plain)(x=x).y

        # after
        d = pl.dispatch(program, {"wide": wide, "plain": plain})
        y = d(x=x).y
        print(d.choose(n=1000))

    Parameters
    ----------
    program
        The kernel as written, of which all schedules are made.
    schedules
        Name -> a transformed kernel; or a function of sizes of the program that returns one, for those sizes or for
        all: it is called when a call has them, and a size that it fixes is still passed, or follows from the arrays.
        The preferred one first, where nothing else decides.
    target
        By default that of the kernels; if they have none, CUDA where there is a GPU, otherwise C.
    device
        Model that the choice is made for, as for :func:`polyloop.explain`; by default the GPU of this machine, and
        ``"H200"`` for CUDA where there is none.
    vouched
        Whether the caller vouches that schedules compute the same, though their programs are written otherwise, as
        recurrences over tiles of other sizes are.  Then arguments alone are compared.

    Returns
    -------
    Dispatcher
        It is called like a compiled kernel; ``choose`` tells which schedule a call takes, and why.

    Raises
    ------
    TuningError
        ``no-schedules``; ``other-program``: a schedule computes something else; ``unknown-dtype``: one leaves a type
        open; ``bad-build``: a function returns no kernel; ``unknown-parameter``: a function has a parameter that is no
        size of the program.

    Notes
    -----
    Source: dispatch by predicates, E. Ernst, C. Kaplan, C. Chambers, ECOOP 1998,
    https://doi.org/10.1007/BFb0054092; here the predicates are derived from the schedules.
    """
    is_mapping = isinstance(schedules, Mapping)
    if not is_mapping or not schedules or not all(isinstance(name, str) for name in schedules):
        raise TuningError("dispatch", None, [Diagnostic(
            "no-schedules", "there is no schedule to choose from",
            () if is_mapping else (f"given: {shown(schedules)}",),
            ('pass them by names: pl.dispatch(program, {"plain": knl})',))])  # fmt: skip
    is_cuda = _is_cuda(schedules, target)
    return Dispatcher(program, schedules, target, _model(device) if is_cuda else None, vouched=vouched)


def _model(device: str | Device | None) -> Device | None:
    """Return the device to choose for; None if the GPU of this machine is one that nothing is published of."""
    if device is not None:
        found = find_device(device)
        if isinstance(found.architecture, str):
            raise ArgumentError("dispatch", None, [Diagnostic(
                "unknown-device", f"'{found.name}' runs no program for CUDA, and a dispatcher chooses between such", (),
                ("name a device of NVIDIA: H200, H100, A100",))])  # fmt: skip
        return found
    try:
        return find_device(device_name() or "H200")
    except ArgumentError:
        return None
