"""Display of objects: one short line for Python, everything for a notebook.

``repr`` of a public object is for an interactive session and for what holds the object: it is short, and leaves out
what is as by default.  ``str`` has everything.  A notebook shows the latter, or the HTML of :mod:`polyloop.viz`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

__all__ = ["Drawing", "Shown", "brief", "clipped", "shortened", "told"]


class _Printer(Protocol):
    def text(self, text: str) -> None: ...


class Drawing(Protocol):
    """Interface of a picture: :class:`polyloop.Picture`, for packages below that of pictures."""

    def svg(self, theme: str = "auto") -> str:
        """Return the picture as an SVG document."""
        ...

    def save(self, path: str | Path, theme: str = "auto") -> Path:
        """Write the picture to a file, and return its path."""
        ...


class Shown:
    """Base of what notebooks show in full.

    ``polyloop.viz`` adds ``_repr_html_``, and ``_picture`` for results that draw themselves, when the package is
    imported.
    """

    __slots__ = ()

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """Show everything in a console of IPython."""
        del cycle
        printer.text(str(self) or repr(self))

    if TYPE_CHECKING:

        def _repr_html_(self) -> str | None: ...

        def _picture(self) -> Drawing: ...


_MOST_OF_ALL: Final = 240
_MOST_OF_ONE: Final = 60


def brief(value: object) -> str:
    """Return a dataclass instance as text of at most 240 characters: the fields that are not as by default.

    It is for eyes alone: long values are cut.  Use it as ``__repr__`` of a class.  A first field called name, id or the
    like stands alone.
    """
    shown: list[str] = []
    left = _MOST_OF_ALL - len(type(value).__name__) - 6
    head = dataclasses.fields(value)[:1]  # type: ignore[arg-type]  # a dataclass
    for name, given in told(value):
        is_head = isinstance(given, str) and [name] == [entry.name for entry in head]
        text = f"{'' if is_head else f'{name}='}{shortened(given)}"
        left -= len(text) + 2
        if left < 0:
            shown.append("..")
            break
        shown.append(text)
    return f"{type(value).__name__}({', '.join(shown)})"


def told(value: object) -> Iterator[tuple[str, object]]:
    """Yield the names and values of the fields of a dataclass instance that are not as by default."""
    for entry in dataclasses.fields(value):  # type: ignore[arg-type]  # a dataclass
        given = getattr(value, entry.name, None)
        if entry.repr and not _is_default(entry, given):
            yield entry.name, given


def _is_default(entry: dataclasses.Field[Any], given: object) -> bool:
    if entry.default_factory is not dataclasses.MISSING:
        return hasattr(given, "__len__") and not len(given)
    default = entry.default
    return given is default or (type(given) is type(default) and isinstance(given, str | int | tuple | Enum)
                                and given == default)  # fmt: skip


def shortened(value: object, most: int = _MOST_OF_ONE) -> str:
    """Return a value as text of at most *most* characters."""
    return clipped(_as_text(value, most), most)


def clipped(text: str, most: int = _MOST_OF_ONE) -> str:
    """Return *text* on one line, cut to *most* characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 2]}.."


def _as_text(value: object, most: int) -> str:
    if isinstance(value, str):
        return repr(value if len(value) < most else f"{value[: most - 4]}..")
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Mapping):
        return _listed(((f"{shortened(k, most)}: ", v) for k, v in value.items()), "{}", most)
    if type(value) in (tuple, list, frozenset, set):
        entries = value if isinstance(value, tuple | list) else sorted(value, key=str)  # type: ignore[call-overload]
        return _listed((("", entry) for entry in entries), "()" if isinstance(value, tuple) else "[]", most)
    if hasattr(value, "mapper_method") or hasattr(value, "itemsize") or type(value).__module__ == "islpy._isl":
        return str(value)  # an expression, a type, a set: what they print as is shorter
    return repr(value)


def _listed(entries: Iterator[tuple[str, object]], ends: str, most: int) -> str:
    shown: list[str] = []
    left = most - 2
    for before, entry in entries:
        text = before + shortened(entry, most)
        left -= len(text) + 2
        if left < 0 and shown:
            shown.append("..")
            break
        shown.append(text)
    comma = "," if ends == "()" and len(shown) == 1 else ""
    return f"{ends[0]}{', '.join(shown)}{comma}{ends[1]}"
