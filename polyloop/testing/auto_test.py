"""``auto_test_vs_ref``: Loopy's spelling of a comparison with a reference kernel, and of a timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.errors import ArgumentError, Diagnostic, VerificationError
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.infer_types import require_dtypes
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.gpu import gpu_available, on_device
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.source import generate_code
from polyloop.testing.equivalence import check_equivalence, output_names
from polyloop.testing.inputs import arguments_of, check_given, random_values
from polyloop.testing.report import shown_sizes
from polyloop.testing.sizes import choose_sizes, size_names

__all__ = ["auto_test_vs_ref"]

CheckResult: TypeAlias = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], tuple[bool, object]]
_Wait: TypeAlias = Callable[[], object]

_SECONDS: Final = 0.3
"""Least duration of a timing [s]."""


def auto_test_vs_ref(
    ref_knl: LoopKernel,
    ctx: object = None,
    test_knl: LoopKernel | None = None,
    op_count: Sequence[float] | float = (),
    op_label: Sequence[str] | str = (),
    parameters: Mapping[str, Any] | None = None,
    print_ref_code: bool = False,
    print_code: bool = True,
    warmup_rounds: int = 2,
    dump_binary: bool = False,
    fills_entire_output: bool | None = None,
    do_check: bool = True,
    check_result: CheckResult | None = None,
    max_test_kernel_count: int = 1,
    quiet: bool = False,
    blacklist_ref_vendors: Sequence[str] = (),
    ref_entrypoint: str | None = None,
    test_entrypoint: str | None = None,
    *,
    target: Target | None = None,
) -> dict[str, Any]:
    """Compare *test_knl* with *ref_knl* on random inputs of one size, and time both; as Loopy's function of this name.

    ::

        pl.auto_test_vs_ref(knl, None, tiled, op_count=[2*n**3/1e9], op_label=["GFlop"], parameters={"n": n})

    Parameters
    ----------
    ctx
        Ignored: where kernels run is said by *target*.
    test_knl
        None for *ref_knl* alone, which is then timed and not checked.
    op_count, op_label
        Amounts of work in a call, and their units, to print rates of.
    parameters
        Sizes, other numbers, and arrays that cannot be random.
    print_ref_code, print_code
        Print the generated code.
    warmup_rounds
        Calls before the timing.
    fills_entire_output
        Accepted so that Loopy scripts run; outputs are always compared as a whole.
    do_check
        Compare, with floating-point numbers and with integers (:func:`check_equivalence`).
    check_result
        ``check_result(result, reference)`` returns whether an output is right, and a message if not; it takes the place
        of the tolerance, and of the integers.
    max_test_kernel_count
        Accepted so that Loopy scripts run: there is one kernel.
    quiet
        Print nothing.
    dump_binary, blacklist_ref_vendors
        Refused: there is no such thing here.
    ref_entrypoint, test_entrypoint
        The name of the kernel, or None.
    target
        Where both run: CUDA where there is a GPU, otherwise C.

    Returns
    -------
    dict
        ``elapsed_wall`` and ``ref_elapsed_wall`` [s]: the mean of many calls with arrays in the device's memory;
        ``elapsed_event`` and ``ref_elapsed_event`` are the same.  ``timing_rounds``; ``report``, where both were
        compared.

    Raises
    ------
    VerificationError
        ``not-equivalent``.
    ArgumentError
        ``no-such-option``, and as :func:`check_equivalence`.
    """
    del ctx, fills_entire_output, max_test_kernel_count
    _refuse_options(ref_knl, dump_binary=dump_binary, blacklist_ref_vendors=blacklist_ref_vendors)
    for kernel, name in ((ref_knl, ref_entrypoint), (test_knl or ref_knl, test_entrypoint)):
        if name is not None and name != kernel.name:
            message = f"there is no entry point '{name}'"
            raise _error(kernel, "no-such-option", message, "a kernel is its own: leave it out")
    tried, checks = test_knl or ref_knl, do_check and test_knl is not None
    chosen = target or (CudaTarget() if gpu_available()[0] else CTarget())
    given, sizes = _split_parameters(ref_knl, tried, parameters or {})
    setup = _Setup(ref_knl, tried, sizes, given, chosen, max(warmup_rounds, 0))
    result: dict[str, Any] = {}
    for kernel, wanted in ((ref_knl, print_ref_code and not quiet), (tried, print_code and not quiet)):
        if wanted:
            print(generate_code(kernel, chosen).device_code)
    if checks and check_result is None:
        report = check_equivalence(ref_knl, tried, sizes=sizes, inputs=given, target=chosen)
        result["report"] = report
    elif checks:
        assert check_result is not None, "a check was given"
        _check_by(setup, check_result)
    result["elapsed_wall"], result["timing_rounds"] = _timed(setup, tried)
    result["elapsed_event"] = result["elapsed_wall"]
    if checks:
        result["ref_elapsed_wall"], _ = _timed(setup, ref_knl)
        result["ref_elapsed_event"] = result["ref_elapsed_wall"]
    if not quiet:
        _print_times(result, op_count, op_label)
    return result


# {{{ arguments of the test


def _error(kernel: LoopKernel, code: str, message: str, hint: str) -> ArgumentError:
    return ArgumentError("auto_test_vs_ref", kernel.name, [Diagnostic(code, message, (), (hint,))])


def _refuse_options(kernel: LoopKernel, *, dump_binary: bool, blacklist_ref_vendors: Sequence[str]) -> None:
    if dump_binary:
        hint = "print pl.compile(knl).ptx, or save its .cubin"
        raise _error(kernel, "no-such-option", "dump_binary means nothing here", hint)
    if blacklist_ref_vendors:
        hint = "say where to run with target=pl.CTarget() or target=pl.CudaTarget()"
        raise _error(kernel, "no-such-option", "blacklist_ref_vendors means nothing here", hint)


def _split_parameters(
    first: LoopKernel, second: LoopKernel, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the inputs and the sizes among *parameters*."""
    names = size_names((first, second))
    sizes = {name: value for name, value in parameters.items() if name in names}
    given = {name: value for name, value in parameters.items() if name not in sizes}
    check_given((first, second), given)
    found = choose_sizes((first, second), sizes, given, 0)
    if len(found) != 1:
        raise _error(second, "bad-sizes", "one size at a time", "call check_equivalence(..., sizes=..) for several")
    return given, found[0]


# }}}
# {{{ running


@dataclass(frozen=True)
class _Setup:
    """Two kernels, with the arguments and the target for both."""

    first: LoopKernel
    second: LoopKernel
    sizes: Mapping[str, int]
    given: Mapping[str, Any]
    target: Target
    warmup_rounds: int

    def arguments(self, kernel: LoopKernel) -> dict[str, Any]:
        """Return arguments for one of the kernels, the same values each time."""
        pair = (require_dtypes(self.first), require_dtypes(self.second))
        values = random_values(pair, self.sizes, self.given, np.random.default_rng(0), words=False)
        return arguments_of(require_dtypes(kernel), values, self.sizes)


def _check_by(setup: _Setup, check_result: CheckResult) -> None:
    """Compare the outputs of both kernels with a function of the user's."""
    first, second = setup.first, setup.second
    expected, got = (compile_kernel(kernel, setup.target)(**setup.arguments(kernel)) for kernel in (first, second))
    for name in output_names(require_dtypes(first)):
        good, what = check_result(np.asarray(got[name]), np.asarray(expected[name]))
        if not good:
            notes = (str(what), f"judged by check_result, for {shown_sizes(setup.sizes)}")
            message = f"'{name}' is not what '{first.name}' computes"
            problem = Diagnostic("not-equivalent", message, notes, ("see what check_result asks for",))
            raise VerificationError("auto_test_vs_ref", second.name, [problem])


@contextmanager
def _placed(kernel: LoopKernel, target: Target, arrays: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], _Wait]]:
    """Yield *arrays* in the target's memory, and a function that waits for the target."""
    if target.name == "cuda":
        with on_device(kernel.name, arrays) as placed:
            yield placed
    else:
        yield dict(arrays), lambda: None


def _timed(setup: _Setup, kernel: LoopKernel) -> tuple[float, int]:
    """Return the time of one call of *kernel* [s], and how many calls were made to find it."""
    run = compile_kernel(kernel, setup.target)
    arguments = setup.arguments(kernel)
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    with _placed(kernel, setup.target, arrays) as (placed, wait):
        arguments |= placed
        for _ in range(setup.warmup_rounds):
            run(**arguments)
        wait()
        rounds = max(1, setup.warmup_rounds)
        while True:
            start = time.perf_counter()
            for _ in range(rounds):
                run(**arguments)
            wait()
            elapsed = time.perf_counter() - start
            if elapsed >= _SECONDS:
                return elapsed / rounds, rounds
            rounds *= 4


def _print_times(result: Mapping[str, Any], op_count: Sequence[float] | float, op_label: Sequence[str] | str) -> None:
    counts = [op_count] if isinstance(op_count, int | float) else list(op_count)
    labels = [op_label] if isinstance(op_label, str) else list(op_label)
    for key, title in (("elapsed_wall", "elapsed"), ("ref_elapsed_wall", "ref: elapsed")):
        if key in result:
            rates = "".join(f" {count / result[key]:g} {label}/s" for count, label in zip(counts, labels, strict=False))
            rounds = f" ({result['timing_rounds']} rounds)" if key == "elapsed_wall" else ""
            print(f"{title}: {result[key]:g} s wall{rounds}{rates}")


# }}}
