"""``Options`` of a unit: those that change its calls, and those of Loopy that have no effect here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from polyloop.errors import ArgumentError, Diagnostic

__all__ = ["CacheMode", "Options", "set_caching_enabled"]

_OBEYED: Final = ("write_code", "return_dict", "no_numpy", "trace_assignments", "trace_assignment_values")
_WITHOUT_EFFECT: Final = frozenset({
    "allow_fp_reordering", "allow_terminal_colors", "annotate_inames", "check_dep_resolution",
    "cl_exec_manage_array_events", "disable_code_highlight", "disable_global_barriers", "disable_wrapper_highlight",
    "enforce_array_accesses_within_bounds", "enforce_variable_access_ordered", "highlight_cl", "highlight_wrapper",
    "ignore_boostable_into", "insert_gbarriers", "skip_arg_checks",
})  # fmt: skip
"""Options that change no result: what they switch on is always on, or there is no such thing."""

_INSTEAD: Final[Mapping[str, str]] = {
    "build_options": "a target says how its compiler is called: pl.CTarget(contract=True), pl.CudaTarget('sm_90')",
    "edit_code": "take the text: lp.generate_code_v2(knl).device_code()",
    "write_wrapper": "calls have no text of their own; lp.generate_code_v2(knl).host_code() lists the launches",
}
"""Options that cannot be switched on, with what to do in their place."""

_SPELT: Final = {"write_cl": "write_code", "edit_cl": "edit_code", "cl_build_options": "build_options"}


class Options:
    """Options of a unit.

    Attributes
    ----------
    write_code
        Print the text of the kernel when it is first called; a file name: write it there.
    return_dict
        Return outputs as a dictionary, not as a tuple.
    no_numpy
        Refuse NumPy arrays in a call on a queue.
    trace_assignments, trace_assignment_values
        Print each assignment of a call of NumPy arrays, in the order of the program, without and with its value; the
        interpreter executes it, in front of the call.

    Raises
    ------
    ArgumentError
        ``no-such-option``.
    """

    write_code: bool | str
    return_dict: bool
    no_numpy: bool
    trace_assignments: bool
    trace_assignment_values: bool

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # Loopy's options, of any type
        self._given = {_SPELT.get(name, name): value for name, value in given.items()}
        for name, value in self._given.items():
            if name not in _WITHOUT_EFFECT and name not in _OBEYED and (value or name not in _INSTEAD):
                raise _no_such(name)
        for name in _OBEYED:
            setattr(self, name, self._given.get(name, False))

    def changed(self, given: Options | Mapping[str, Any] | str | None, **more: Any) -> Options:  # noqa: ANN401
        """Return these options with others in front.

        Parameters
        ----------
        given
            Options, a dictionary, or names separated by commas, which are switched on.
        """
        if isinstance(given, Options):
            given = given._given  # noqa: SLF001 - its own
        elif isinstance(given, str):
            given = {name.strip(): True for name in given.split(",") if name.strip()}
        return Options(**{**self._given, **(given or {}), **more})

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # an option without effect, as it was given
        if name[:1] != "_" and (name in _WITHOUT_EFFECT or name in _INSTEAD):
            return self._given.get(name, False)
        raise AttributeError(f"there is no option '{name}'")

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def write(self, text: str) -> None:
        """Print the text of a kernel, or write it to a file, where this is asked for."""
        if isinstance(self.write_code, str):
            Path(self.write_code).write_text(text, encoding="utf-8")
        elif self.write_code:
            print(text)


def _no_such(name: str) -> ArgumentError:
    hint = _INSTEAD.get(name, f"leave it out; the options are {', '.join((*_OBEYED, *sorted(_WITHOUT_EFFECT)))}")
    problem = Diagnostic("no-such-option", f"option '{name}' cannot be set", hints=(hint,))
    return ArgumentError("set_options", None, [problem])


def set_caching_enabled(flag: bool) -> None:
    """Accept Loopy's switch, which has no effect: what is kept on disk is found by its whole content."""
    del flag


class CacheMode:
    """Loopy's context manager around :func:`set_caching_enabled`, without effect."""

    def __init__(self, new_flag: bool) -> None:
        del new_flag

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        """Do nothing."""
