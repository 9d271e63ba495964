"""Two kernels on the same random inputs: once with their numbers, once with integers that cannot hide anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from polyloop.edge.callbacks import asked
from polyloop.edge.checks import EXPLAINED, AtLeast
from polyloop.edge.words import spelt
from polyloop.errors import ArgumentError, CodegenError, CompilerError, Diagnostic, VerificationError
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.infer_types import require_dtypes
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import ORDERS, run_on_fibres
from polyloop.runtime.gpu import gpu_available
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.interpreter import interpret
from polyloop.target.source import generate_code
from polyloop.testing.closeness import Measured, Tolerance, default_tolerance, measure
from polyloop.testing.drawing.words import NoIntegersError
from polyloop.testing.inputs import Given, Values, arguments_of, check_given, random_values
from polyloop.testing.modular import has_real_numbers, with_integers
from polyloop.testing.report import Comparison, Equivalence, Mode, shown_sizes
from polyloop.testing.sizes import choose_sizes

__all__ = ["check_equivalence", "output_names"]


_MODES: Final[Mapping[str, tuple[Mode, ...]]] = {
    "both": (Mode.FLOATS, Mode.INTEGERS),
    "floats": (Mode.FLOATS,),
    "integers": (Mode.INTEGERS,),
}


# {{{ comparable kernels


def _error(kernel: LoopKernel, code: str, message: str, notes: Sequence[str], hint: str) -> ArgumentError:
    return ArgumentError("check_equivalence", kernel.name, [Diagnostic(code, message, tuple(notes), (hint,))])


def _typed(kernel: LoopKernel) -> LoopKernel:
    try:
        return require_dtypes(kernel)
    except VerificationError as error:
        raise VerificationError("check_equivalence", kernel.name, error.found) from None


def output_names(kernel: LoopKernel) -> list[str]:
    """Return the arrays that *kernel* writes, in the order of its arguments."""
    return [a.name for a in kernel.arguments if isinstance(a, ArrayArg) and a.is_output]


def _require_sense(first: object, second: object, mode: object, targets: Sequence[object]) -> None:
    """Refuse arguments of other types than they must have."""
    for kernel in (first, second):
        if not isinstance(kernel, LoopKernel):
            hints = ("make one with pl.make_kernel",)
            problem = Diagnostic("not-a-kernel", f"{spelt(kernel)} is no kernel", hints=hints)
            raise ArgumentError("check_equivalence", None, [problem])
    wrong = [target for target in targets if not isinstance(target, Target)]
    hint = "pass 'both', 'floats' or 'integers'" if mode not in _MODES else "pass pl.CTarget() or pl.CudaTarget()"
    if mode not in _MODES or wrong:
        message = f"no mode {spelt(mode)}" if mode not in _MODES else f"no target {spelt(wrong[0])}"
        raise ArgumentError("check_equivalence", None, [Diagnostic("bad-value", message, hints=(hint,))])


def _require_comparable(first: LoopKernel, second: LoopKernel) -> None:
    """Refuse kernels with different outputs, argument types or ranks."""
    written, also = output_names(first), output_names(second)
    if not written and not also:
        hint = "let both write the same array"
        raise _error(second, "different-arguments", "neither kernel writes an array", (), hint)
    if set(written) != set(also):
        notes = [f"'{kernel.name}' writes {', '.join(output_names(kernel)) or 'nothing'}" for kernel in (first, second)]
        hint = "rename the outputs of one, or leave out the others"
        raise _error(second, "different-arguments", f"it does not write what '{first.name}' writes", notes, hint)
    for argument in first.arguments:
        other = second.argument(argument.name)
        if other is None:
            continue
        if other.dtype != argument.dtype or type(other) is not type(argument):
            notes = [f"{argument.dtype} in '{first.name}', {other.dtype} in '{second.name}'"]
            raise _error(second, "different-arguments", f"'{argument.name}' has another type", notes,
                         "declare it alike in both")
        shapes = [getattr(entry, "shape", None) or () for entry in (argument, other)]
        if len(shapes[0]) != len(shapes[1]):
            raise _error(second, "different-arguments", f"'{argument.name}' has another number of axes", (),
                         "reshape it in one of the kernels")


# }}}
# {{{ runs

_Call: TypeAlias = Callable[[Values, Mapping[str, int]], Iterable[tuple[str, Mapping[str, Any]]]]


@dataclass(frozen=True)
class _Leg:
    """One way to run one of the kernels; ``call`` yields the name of the run and its outputs."""

    call: _Call


def _compiled(kernel: LoopKernel, called: str, target: Target) -> _Leg:
    run = compile_kernel(kernel, target)

    def call(values: Values, sizes: Mapping[str, int]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield f"{called} on {target.name}", dict(run(**arguments_of(kernel, values, sizes)).items())

    return _Leg(call)


def _interpreted(kernel: LoopKernel) -> _Leg:
    def call(values: Values, sizes: Mapping[str, int]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "knl_a interpreted", interpret(kernel, **arguments_of(kernel, values, sizes))

    return _Leg(call)


def _on_fibres(kernel: LoopKernel) -> _Leg:
    program = generate_code(kernel, CudaTarget())

    def call(values: Values, sizes: Mapping[str, int]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for order in ORDERS:
            result = run_on_fibres(program, arguments_of(kernel, values, sizes), orders=(order,))
            yield f"knl_b on fibres ({order})", dict(result[order].items())

    return _Leg(call)


@dataclass(frozen=True)
class _Plan:
    """Ways to run the kernels: the targets, and flags for the interpreter and fibres."""

    targets: tuple[Target, ...]
    interpret: bool
    fibres: bool

    def legs(self, first: LoopKernel, second: LoopKernel) -> list[_Leg]:
        """Return the ways to run the kernels; the first one is the reference of the others."""
        found = [_interpreted(first)] if self.interpret else []
        found += [_compiled(first, "knl_a", target) for target in self.targets]
        found += [_compiled(second, "knl_b", target) for target in self.targets]
        return [*found, _on_fibres(second)] if self.fibres else found


def _plan(targets: Sequence[Target], interpret_too: bool, fibres: bool) -> _Plan:
    default = CudaTarget() if gpu_available()[0] else CTarget()
    return _Plan(tuple(targets) or (default,), interpret_too, fibres)


# }}}
@dataclass(frozen=True)
class _Trial:
    """Everything that stays the same from size to size in one mode."""

    mode: Mode
    kernels: tuple[LoopKernel, LoopKernel]
    legs: tuple[_Leg, ...]
    tolerance: Tolerance
    seed: int
    agreed: bool = False
    """True if the kernels agreed with their own numbers."""


def _run_size(trial: _Trial, values: Values, sizes: Mapping[str, int]) -> Iterator[Comparison]:
    """Run every leg for one size and yield the comparisons.

    Raises
    ------
    VerificationError
        ``not-equivalent``.
    """
    against, expected, first_time = "", None, 0.0
    for leg in trial.legs:
        start = time.perf_counter()
        for ran, outputs in leg.call(values, sizes):
            spent = 1e3 * (time.perf_counter() - start)
            if expected is None:
                against, expected, first_time = ran, outputs, spent
            else:
                errors, nans = {}, {}
                for name in output_names(trial.kernels[0]):
                    found = measure(name, expected[name], outputs[name], trial.tolerance)
                    if found.difference is not None:
                        raise _not_equivalent(trial, name, found, sizes, (ran, against))
                    errors[name], nans[name] = found.error, found.not_numbers
                yield Comparison(trial.mode, ran, against, dict(sizes), errors, nans, spent, first_time)
            start = time.perf_counter()


def _not_equivalent(
    trial: _Trial, name: str, found: Measured, sizes: Mapping[str, int], ran: tuple[str, str]
) -> VerificationError:
    first, second = trial.kernels
    at = found.difference
    assert at is not None, "nothing differs"
    where = f" for {shown_sizes(sizes)}" if sizes else ""
    notes = [
        f"{at.element} is {at.got}, and must be {at.expected},{where}",
        f"{ran[0]}, compared with {ran[1]}; {at.count} of {at.size} elements differ",
    ]
    hints = [f"again: sizes={dict(sizes)}, seed={trial.seed}, mode='{trial.mode}'"]
    if trial.mode is Mode.INTEGERS:
        notes.append("floating-point numbers were replaced by integers modulo 2^32, so that no rounding is involved")
        if trial.agreed:
            notes.append("with the floating-point numbers themselves, the kernels agree within the tolerance")
        hints.append("kernels that are equal only by the laws of real numbers, as x/2 and 0.5*x, need mode='floats'")
    elif at.is_rounded:
        relative, absolute = trial.tolerance.relative, trial.tolerance.absolute
        notes.append(f"the tolerance is {relative:.1e} of the number, or of the median, plus {absolute:g}")
        hints.append("a difference that is only rounding needs another rtol= or atol=")
    message = f"'{name}' is not what '{first.name}' computes"
    return VerificationError(
        "check_equivalence", second.name, [Diagnostic("not-equivalent", message, tuple(notes), tuple(hints))]
    )


def _trial(
    mode: Mode, pair: tuple[LoopKernel, LoopKernel], plan: _Plan, tolerance: Tolerance, seed: int
) -> _Trial | str:
    """Return the runs of one mode, or the reason why there are none."""
    if mode is Mode.FLOATS:
        return _Trial(mode, pair, tuple(plan.legs(*pair)), tolerance, seed)
    if not any(has_real_numbers(kernel) for kernel in pair):
        return "the kernels have no floating-point numbers, and are compared bit for bit anyway"
    try:
        first, second = (with_integers(kernel) for kernel in pair)
        return _Trial(mode, (first, second), tuple(plan.legs(first, second)), Tolerance(0, 0), seed)
    except NoIntegersError as reason:
        return str(reason)
    except (CodegenError, VerificationError, CompilerError) as error:
        return f"the kernel with integers is refused: {error.found[0].message} [{error.codes[0]}]"


def _refused(finding: Diagnostic) -> ArgumentError:
    return ArgumentError("check_equivalence", None, [finding])


def check_equivalence(
    knl_a: Annotated[LoopKernel, EXPLAINED],
    knl_b: Annotated[LoopKernel, EXPLAINED],
    *,
    sizes: Annotated[Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, EXPLAINED] = None,
    inputs: Annotated[Given, EXPLAINED] = None,
    mode: str = "both",
    target: Target | None = None,
    targets: Sequence[Annotated[Target, EXPLAINED]] = (),
    interpret: bool = False,
    fibres: bool = False,
    rtol: float | None = None,
    atol: float = 0.0,
    seed: Annotated[int, AtLeast(0)] = 0,
) -> Equivalence:
    """Run two kernels on the same random inputs and compare their outputs.

    ::

        report = pl.check_equivalence(knl, tiled)
        print(report)

    Parameters
    ----------
    knl_a, knl_b
        The kernel that is right, and the one to try: they must write the same arrays.  Neither need come from the
        other.
    sizes
        What to run: ``{"n": 17}``, ``{"n": range(1, 40), "m": [1, 8]}`` for every combination, or a list of such
        mappings.  By default 0, 1 and around the tiles of the splits, as far as the kernels allow them.
    inputs
        Arrays and numbers to pass instead of random ones: a mapping, or a function of the sizes and a random generator
        that returns one.  Required for arrays and scalars that affect a loop bound or a subscript.
    mode
        ``"floats"``: as they are; ``"integers"``: with integers modulo 2^32 for floating-point numbers, so that sums in
        another order agree bit for bit and a lost update cannot hide in a tolerance; ``"both"``.
    target, targets
        Where to run; by default CUDA where there is a GPU, otherwise C.
    interpret
        Compare both with the reference interpreter on *knl_a*; it is slow.
    fibres
        Run the CUDA text of *knl_b* on the CPU too, one fibre a thread, in several orders of the threads.
    rtol, atol
        How far floating-point outputs may differ: *rtol* times the larger of the element and the median of its array,
        plus *atol*.  By default a tolerance for the least exact type of the kernels.
    seed
        Of the random inputs.

    Returns
    -------
    Equivalence
        The runs, with errors and times; ``print`` shows it.  Where a kernel has no counterpart with integers,
        ``skipped`` says why.

    Raises
    ------
    VerificationError
        ``not-equivalent``, with the element, both values, sizes and seed; ``no-integer-mode`` where only that was
        asked for.
    ArgumentError
        ``different-arguments``, ``bad-sizes``, ``input-needed``, ``assumption-violated``, ``bad-value``.
    """
    chosen_targets = (*targets, *([target] if target is not None else []))
    _require_sense(knl_a, knl_b, mode, chosen_targets)
    pair = (_typed(knl_a), _typed(knl_b))
    _require_comparable(*pair)
    plan = _plan(chosen_targets, interpret, fibres)
    tolerance = Tolerance(default_tolerance(pair) if rtol is None else rtol, atol)
    if not callable(inputs):
        check_given(pair, {} if inputs is None else inputs)
    tried = choose_sizes(pair, sizes, {} if callable(inputs) else inputs or {}, seed)
    done: list[Comparison] = []
    skipped: dict[Mode, str] = {}
    for entry in _MODES[mode]:
        trial = _trial(entry, pair, plan, tolerance, seed)
        if isinstance(trial, str):
            skipped[entry] = trial
            continue
        trial = replace(trial, agreed=bool(done))
        for chosen in tried:
            rng = np.random.default_rng(seed)
            given = asked(_refused, "inputs", inputs, dict(chosen), rng) if callable(inputs) else (inputs or {})
            check_given(pair, given)
            values = random_values(pair, chosen, given, rng, words=entry is Mode.INTEGERS)
            done += _run_size(trial, values, chosen)
    if mode == "integers" and skipped:
        hint = "use mode='floats'"
        problem = Diagnostic("no-integer-mode", skipped[Mode.INTEGERS], (), (hint,))
        raise VerificationError("check_equivalence", knl_b.name, [problem])
    return Equivalence((knl_a.name, knl_b.name), tuple(tried), tuple(done), skipped, seed)
