"""One canonical form of values: JSON with a version, in which each part stands once, in the order of its first mention.

::

    {"format": "polyloop", "version": 1, "sha256": "..",
     "values": [["tuple", "i"], .., ["LoopKernel", {"name": "f", ..}]]}

Texts, integers, true, false and null stand for themselves, ``[3]`` for entry 3 of ``values``, which has to come before;
the last entry is the value.  Equal values have equal bytes, in every process.

Reading executes nothing: no function that the data names is called, and no module that it names is imported.  It names
classes, of the table in ``classes.py`` alone; each field is checked against its annotation, each name against the
spelling of names, and kernels by :func:`polyloop.creation.loaded.faults`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

from polyloop.edge.checks import EXPLAINED
from polyloop.edge.data import parse_json
from polyloop.edge.words import shown
from polyloop.errors import ArgumentError, Diagnostic, PolyloopError, SerialError
from polyloop.memo import Same
from polyloop.serial.checks import problem_of
from polyloop.serial.classes import ADAPTED, CHECKED, class_of, name_of, stored_fields
from polyloop.serial.plain import PLAIN, read_plain, write_plain

__all__ = ["VERSION", "Adapter", "adapt", "dumps", "fingerprint", "loads"]

VERSION: Final = 1
"""Of forms that this version of the package writes and reads."""

_FORMAT: Final = "polyloop"
_MOST: Final = 256 * 2**20
"""Bytes of a form."""
_KEPT: Final = "polyloop.serial.form.fingerprint"


@dataclass(frozen=True)
class Adapter:
    """The data that a value which is no dataclass is written as, and how it is read.

    Attributes
    ----------
    data
        Returns the value as data that a form can hold; it raises ``TypeError``, with the reason, if it cannot.
    made
        Returns the value for such data; it raises ``ValueError``, with the reason, for what is no data of ours.
    """

    name: str
    data: Callable[[Any], object]
    made: Callable[[Any], object]


_BY_KIND: Final[dict[type, Adapter]] = {}
_BY_NAME: Final[dict[str, Adapter]] = {}


def adapt(kind: type, adapter: Adapter) -> None:
    """Let values of the type *kind* be written and read by *adapter*; its name is in ``classes.py``."""
    assert adapter.name in ADAPTED, f"'{adapter.name}' is no name in a form"
    _BY_KIND[kind] = _BY_NAME[adapter.name] = adapter


def _adapter(kind: type) -> Adapter | None:
    """Return the adapter for values of a type, from the module that has it; a type has the name of its adapter."""
    if kind not in _BY_KIND and kind.__name__ in ADAPTED:
        import_module(ADAPTED[kind.__name__])
    return _BY_KIND.get(kind)


# {{{ writing


class _Writer:
    """Entries of a form, each once."""

    def __init__(self, *, is_print: bool) -> None:
        self.entries: list[str] = []
        self.numbers: dict[str, int] = {}
        self.known: dict[Same[object], object] = {}
        self.is_print = is_print
        """True if only what tells values apart is written."""

    def write(self, value: object) -> object:
        """Return the part that stands for *value* in an entry."""
        if value is None or type(value) in (str, int, bool):
            return value
        key = Same(value)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._added(self._entry(value))
        return found

    def _added(self, entry: list[object]) -> list[int]:
        text = json.dumps(entry, separators=(",", ":"))
        number = self.numbers.setdefault(text, len(self.entries))
        if number == len(self.entries):
            self.entries.append(text)
        return [number]

    def _entry(self, value: Any) -> list[object]:  # noqa: ANN401
        adapter = _adapter(type(value))
        if adapter is not None:
            return [adapter.name, self.write(adapter.data(value))]
        name = name_of(type(value))
        if name is not None:
            return [name, *self._members(value)]
        match value:
            case tuple() | list():
                return [type(value).__name__, *[self.write(entry) for entry in value]]
            case frozenset() | set():
                return ["set", *[self.write(entry) for entry in sorted(value, key=_text)]]
            case Mapping():
                return ["dict", *[self.write((key, entry)) for key, entry in value.items()]]
        return write_plain(value, self.write)

    def _members(self, value: Any) -> list[object]:  # noqa: ANN401
        if isinstance(value, Enum):
            return [value.name]
        kind: Any = type(value)
        entries = stored_fields(kind)
        return [{name: self.write(getattr(value, name)) for name, tells in entries if tells or not self.is_print}]


def _text(value: object) -> str:
    """Return the form of *value* alone, by which members of sets are in order."""
    return json.dumps(value) if isinstance(value, str | int) else "\n".join(_written(value, is_print=False))


def _written(value: object, *, is_print: bool) -> list[str]:
    writer = _Writer(is_print=is_print)
    last = writer.write(value)
    return writer.entries if isinstance(last, list) else [json.dumps(["value", last])]


def _content(value: object, *, is_print: bool = False) -> str:
    try:
        return f"[{','.join(_written(value, is_print=is_print))}]"
    except TypeError as error:
        hints = ("make it again where it is loaded, or send what it was made of",)
        message = f"{shown(value)} has no form that can be stored"
        raise ArgumentError("dumps", None, [Diagnostic("not-picklable", message, (str(error),), hints)]) from None


def dumps(value: object) -> bytes:
    """Return the canonical form of a value: kernels, recipes, traces, certificates, programs, results, errors.

    ::

        data = pl.dumps(knl)             # b'{"format": "polyloop", "version": 1, "sha256": ..
        assert pl.loads(data) == knl

    Returns
    -------
    bytes
        JSON, in ASCII; the same bytes for the same value, in every process.  ``pickle`` sends these.

    Raises
    ------
    ArgumentError
        ``not-picklable``: the value holds something that is no data, such as a bound call.
    """
    content = _content(value)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f'{{"format": "{_FORMAT}", "version": {VERSION}, "sha256": "{digest}", "values": {content}}}'.encode()


def fingerprint(value: object) -> str:
    """Return the SHA-256 of the parts of a value's form that tell it apart, in hexadecimal digits."""
    kept = getattr(value, "__dict__", {})
    found = kept.get(_KEPT)
    if found is None:
        text = f"{VERSION} {_content(value, is_print=True)}"
        found = kept[_KEPT] = hashlib.sha256(text.encode()).hexdigest()
    return str(found)


# }}}
# {{{ reading


_FAILURES: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, PolyloopError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""Errors of parts that make no value: ours, and those of NumPy and ISL."""
_OPEN: Final = frozenset({"not-proven", "out-of-time"})
"""Codes of kernels that take more time, or more of ISL's steps, to be made again than there are."""


def loads(data: Annotated[bytes, EXPLAINED]) -> Any:  # noqa: ANN401 - whatever was written
    """Return the value that :func:`polyloop.dumps` wrote; nothing is executed, and everything is checked.

    Raises
    ------
    SerialError
        ``bad-form``: the data is no form of ours, was cut off, or was changed; ``form-version``: another version of the
        package wrote it; ``out-of-time``, ``not-proven``: a kernel in it takes longer to be made again, as it did to be
        made.  It is a ``pickle.UnpicklingError``, too.

    Notes
    -----
    The SHA-256 in it tells damage, not who wrote it: whoever changes the data can change that as well.  Then the parts
    still have the types that they must have, and names, sets and subscripts fit each other; the program of a kernel is
    made again from its parts, as :func:`polyloop.make_kernel` does; and a schedule is proven before code is generated.
    """
    entries = _opened(data)
    made: list[object] = []
    for number, entry in enumerate(entries):
        try:
            made.append(_value(entry, made))
        except SerialError:
            raise
        except _FAILURES as error:
            if isinstance(error, PolyloopError) and not _OPEN.isdisjoint(error.codes):
                raise SerialError("loads", error.kernel, error.found) from error
            _refuse(f"entry {number} is no part of a form: {error}")
    return made[-1]


def _opened(data: bytes) -> list[Any]:
    """Return the entries of a form, whose format, version and digest are as they must be."""
    if not isinstance(data, bytes | bytearray | memoryview):
        _refuse(f"it is no bytes, but {shown(data)}")
    if len(data) > _MOST:
        _refuse(f"it has {len(data)} bytes, more than {_MOST}")
    try:
        found = parse_json(bytes(data).decode("ascii"))
    except (ValueError, RecursionError) as error:
        _refuse(str(error))
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        _refuse("it does not say that it is a form of polyloop")
    version = found.get("version")
    if type(version) is not int or version != VERSION:
        age = "newer" if type(version) is int and version > VERSION else "older"
        raise SerialError("loads", None, [Diagnostic(
            "form-version", "another version of polyloop wrote this",
            (f"it has version {shown(version)} of the form, which is {age}; this package reads version {VERSION}",),
            ("make it again with this version; kernels go between versions as scripts: pl.kernel_to_python(knl)",))])
    entries = found.get("values")
    if found.keys() != {"format", "version", "sha256", "values"} or not isinstance(entries, list) or not entries:
        _refuse("it has other parts than a form")
    content = json.dumps(entries, separators=(",", ":"))
    if hashlib.sha256(content.encode()).hexdigest() != found["sha256"]:
        _refuse("its SHA-256 is another one: it was changed or damaged")
    return entries


def _refuse(why: str) -> NoReturn:
    hints = ("pass what pl.dumps or pickle wrote, whole and unchanged",)
    raise SerialError("loads", None, [Diagnostic("bad-form", "this is no value of polyloop's", (why,), hints)])


def _value(entry: object, made: list[object]) -> object:
    """Return the value of an entry, whose parts are among those that were made before it."""
    if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
        raise ValueError(f"{shown(entry)} has no name in front")
    name, *parts = entry

    def part(given: object) -> object:
        if given is None or type(given) in (str, int, bool):
            return given
        if isinstance(given, list) and len(given) == 1 and type(given[0]) is int and 0 <= given[0] < len(made):
            return made[given[0]]
        raise ValueError(f"{shown(given)} is no part that comes before")

    if name in _GROUPS:
        return _GROUPS[name]([part(given) for given in parts])
    if name in PLAIN:
        return read_plain(name, [part(given) for given in parts])
    if name in ADAPTED:
        import_module(ADAPTED[name])
        return _BY_NAME[name].made(part(*parts))
    kind = class_of(name)
    if kind is None:
        raise ValueError(f"there is no class {shown(name)}")
    if issubclass(kind, Enum):
        return kind[_only_text(parts)]
    return _instance(kind, name, dict(_fields(parts, part)))


def _only_text(parts: list[object]) -> str:
    (name,) = parts
    if not isinstance(name, str):
        raise ValueError(f"{shown(name)} is no name")
    return name


def _distinct(members: list[Any]) -> list[Any]:
    if len(set(members)) < len(members):
        raise ValueError("a member of a set stands twice in it")
    return members


def _mapping(pairs: list[Any]) -> dict[Any, Any]:
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("a mapping has entries that are no pairs")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key of a mapping stands twice in it")
    return found


def _alone(parts: list[Any]) -> object:
    (value,) = parts
    return value


_GROUPS: Final[Mapping[str, Callable[[list[Any]], object]]] = {
    "value": _alone, "tuple": tuple, "list": list, "set": lambda parts: frozenset(_distinct(parts)), "dict": _mapping,
}  # fmt: skip
"""Entries that only hold others, and what they are made by."""


def _fields(parts: list[object], part: Callable[[object], object]) -> Iterator[tuple[str, object]]:
    (given,) = parts
    if not isinstance(given, dict):
        raise ValueError(f"{shown(given)} are no fields")
    for name, value in given.items():
        yield name, part(value)


def _instance(kind: Any, name: str, given: dict[str, object]) -> object:  # noqa: ANN401 - a class
    """Return an instance of one of our classes with checked fields, made without calling its constructor."""
    wanted = [field for field, _ in stored_fields(kind)]
    if [*given] != wanted:
        other = ", ".join(sorted({*wanted}.symmetric_difference(given))) or "their order"
        raise ValueError(f"'{name}' has other fields: {other}")
    problem = problem_of(kind, given)
    if problem:
        raise ValueError(f"'{name}': {problem}")
    if issubclass(kind, tuple):
        return kind(**given)
    made = kind.__new__(kind)
    for field, value in given.items():
        object.__setattr__(made, field, value)
    finish = getattr(kind, "_loaded", None) or getattr(kind, "__post_init__", None)
    if finish is not None:
        finish(made)
    if name in CHECKED:
        for fault in import_module(CHECKED[name]).faults(made):
            raise ValueError(f"'{name}': {fault}")
    return made

# }}}
