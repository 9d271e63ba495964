"""Names of values and annotations in messages."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, EnumMeta
from itertools import islice
from typing import Annotated, Any, Final, Literal, NoReturn, Union, get_args, get_origin

import numpy as np

from polyloop.edge.checks import EXPLAINED, HIGHEST, LISTS, LOWEST, NO, fits, is_writable, take
from polyloop.errors import ArgumentError, Diagnostic

__all__ = ["Choice", "misfit", "said", "shown", "spelt"]

_WORDS: Final[Mapping[object, str]] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    Callable: "a function",
}
_PLURALS: Final = {"a string": "strings", "an integer": "integers", "a number": "numbers", "a function": "functions"}


def said(hint: Any) -> str:  # noqa: ANN401 - an annotation
    """Return the values that an annotation allows, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    word = _WORDS.get(hint) or _WORDS.get(origin)
    if word is not None:
        return word
    if origin is Annotated:
        return " ".join([said(arguments[0]), *(str(rule) for rule in hint.__metadata__ if rule is not EXPLAINED)])
    if origin in (Union, types.UnionType):
        parts = list(dict.fromkeys(said(part) for part in arguments))
        return " or ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in LISTS or (origin is tuple and len(arguments) == 2 and arguments[1] is ...):
        return f"a sequence of {_many(arguments[0])}"
    if origin is tuple:
        return f"a tuple of {' and '.join(map(said, arguments))}" if arguments else "an empty tuple"
    if origin is Mapping:
        return f"a mapping from {_many(arguments[0])} to {_many(arguments[1])}"
    kind = origin if isinstance(origin, type) else hint
    return _with_article(kind.__name__) if isinstance(kind, type) and kind not in (object, Any) else "any value"


def _with_article(word: str) -> str:
    return f"{'an' if word[:1] in 'AEIOUaeiou' else 'a'} {word}"


def _many(hint: Any) -> str:  # noqa: ANN401 - an annotation
    word = said(hint)
    return _PLURALS.get(word) or ("values" if word == "any value" else f"entries, each {word}")


_LONGEST: Final = 60


def shown(value: object) -> str:
    """Return a short text for *value*; only Python's and NumPy's own ``__repr__`` are called."""
    if isinstance(value, bool | np.bool_ | float | complex | np.inexact | type(None)) or value is ...:
        return repr(value)
    if isinstance(value, int | np.integer):
        number = int(value)
        return repr(number) if number.bit_length() <= 128 else f"an integer of {number.bit_length()} bits"
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}.. ({len(value)} letters)"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, list | tuple | set | frozenset | dict):
        return _shown_entries(value)
    name = getattr(value, "name", None)
    kind = type(value).__name__
    named = f" '{name}'" if type(value).__module__.startswith("polyloop.") and isinstance(name, str) else ""
    return f"{_with_article(kind)}{named}"


def spelt(value: object) -> str:
    """Return ``repr(value)``, or a short text if that raises."""
    try:
        return repr(value)
    except Exception:
        return shown(value)


def _shown_entries(value: Collection[object]) -> str:
    kind = type(value).__name__
    if not value:
        return f"an empty {kind}"
    entries = list(islice(value, 4))
    if len(value) > 3 or any(isinstance(entry, list | tuple | set | frozenset | dict) for entry in entries):
        return f"a {kind} of {len(value)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(entry)}" for key, entry in value.items()) + "}"
    inside = ", ".join(sorted(map(shown, entries)) if isinstance(value, set | frozenset) else map(shown, entries))
    return {list: f"[{inside}]", tuple: f"({inside}{',' * (len(entries) == 1)})"}.get(type(value), f"{{{inside}}}")


def _reasons(hint: Any, value: Any, where: str = "it") -> Iterator[str]:  # noqa: ANN401
    """Yield the errors inside of a value: an entry, a letter, a size."""
    if isinstance(value, str) and not is_writable(value):
        yield f"{where} has a letter that no program text may have: NUL, or half of a surrogate pair"
    elif isinstance(value, int | np.integer) and not LOWEST <= int(value) <= HIGHEST:
        yield f"{where} has more than 64 bits"
    elif isinstance(value, list | tuple):
        for option in (hint, *get_args(hint)):
            origin, arguments = get_origin(option), get_args(option)
            if origin in LISTS or (origin is tuple and arguments[1:] == (...,)):
                check = take(arguments[0])
                wrong = next((n for n, part in enumerate(value) if check and check(part) is NO), None)
                if wrong is not None:
                    yield f"entry {wrong} is {shown(value[wrong])}, not {said(arguments[0])}"
                    yield from _reasons(arguments[0], value[wrong], f"entry {wrong}")
                    return


_HINTS: Final[Mapping[str, str]] = {
    "LoopKernel": "pass what make_kernel or a transform returned; transforms leave their kernel alone and return a new "
    "one: knl = pl.split_iname(knl, ..)",
    "Target": "write target=pl.CudaTarget() or target=pl.CTarget()",
    "Trace": "a kernel has its trace as knl.trace, and pl.trace_from_json reads one",
}


_WRITTEN: Final[Mapping[str, str]] = {
    "kernel_data": 'write a list: [pl.GlobalArg("x", np.float32, shape="n"), ...]',
    "iname_to_tag": 'write "i:g.0, j:l.0", or {"i": "g.0", "j": "l.0"}',
    "sizes": 'write sizes={"n": 1024}',
}
"""The form in which arguments of these names are written."""


class _ChoiceType(EnumMeta):
    """Metaclass of enumerations whose calls look up a member by value, and refuse a value without a member."""

    def __call__(cls, value: Any, *more: Any, **others: Any) -> Any:  # noqa: ANN401 - the user's argument
        if cls.__members__ and (more or others or not isinstance(value, str | cls)):
            raise _no_member(cls, value)
        return super().__call__(value, *more, **others)


def _no_member(kind: EnumMeta, value: object) -> ArgumentError:
    members: Iterable[Enum] = iter(kind)
    hints = (f"one of {', '.join(repr(entry.value) for entry in members)}",)
    problem = Diagnostic("wrong-argument-type", f"no {kind.__name__} is {shown(value)}", hints=hints)
    return ArgumentError(kind.__name__, None, [problem])


class Choice(Enum, metaclass=_ChoiceType):
    """Enumeration whose members users name by value; other values raise ``wrong-argument-type``."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise _no_member(cls, value)


def misfit(name: str, hint: Any, value: object) -> Diagnostic:  # noqa: ANN401 - an annotation
    """Return the diagnostic of a value that does not fit."""
    hints = [text for kind, text in _HINTS.items() if any(getattr(o, "__name__", "") == kind for o in _options(hint))]
    found = next((entry for entry in value if fits(hint, entry)), None) if isinstance(value, list | tuple) else None
    if hints and found is not None:
        hints = [f"it has {shown(found)}: pass that"]
    hints = [_WRITTEN[name]] if name in _WRITTEN else hints
    return Diagnostic(
        "wrong-argument-type",
        f"argument '{name}' cannot be {shown(value)}",
        (f"it takes {said(hint)}", *_reasons(hint, value)),
        tuple(hints),
    )


def _options(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - an annotation
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
