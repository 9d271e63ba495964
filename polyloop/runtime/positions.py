"""Arguments of a call that are passed by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyloop.errors import Diagnostic
from polyloop.runtime.views import call_error

__all__ = ["named"]


def named(
    kernel: str, positions: Sequence[str], arrays: Sequence[str], given: tuple[object, ...],
    arguments: Mapping[str, object],
) -> Mapping[str, object]:  # fmt: skip
    """Return *arguments* with those that are *given* by position under their names.

    Parameters
    ----------
    positions
        The arguments that have a position, in their order.
    arrays
        The arrays of the kernel.

    Raises
    ------
    ArgumentError
        ``unnamed-argument``.
    """
    if not given:
        return arguments
    by_name = f"run({', '.join(f'{name}={name}' for name in arrays)})"
    if type(given[0]).__name__ == "CommandQueue":
        problem = Diagnostic(
            "unnamed-argument", "the first argument is a queue, and a kernel has none", (),
            (f"leave it out: {by_name}; stream= says where a kernel for CUDA runs",))
    elif not positions:
        problem = Diagnostic(
            "unnamed-argument", "the arguments of a kernel are passed by their names", (), (by_name,))
    elif len(given) > len(positions):
        problem = Diagnostic(
            "unnamed-argument",
            f"{len(given)} arguments are passed by position, of which there are {len(positions)}",
            (f"by position: {', '.join(positions)}; others have no declared order",), (by_name,))
    elif twice := [name for name in positions[: len(given)] if name in arguments]:
        problem = Diagnostic(
            "unnamed-argument", f"'{twice[0]}' is passed by position and by name",
            (f"by position: {', '.join(positions)}",), (f"leave out {twice[0]}=",))
    else:
        return dict(zip(positions, given, strict=False)) | dict(arguments)
    raise call_error(kernel, problem)
