"""Values that are no classes of the package in a form: numbers, types, arrays, functions, errors and results."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

from polyloop.edge.words import shown
from polyloop.errors import ArgumentError, Diagnostic, PolyloopError, PolyloopWarning
from polyloop.serial.classes import KINDS

__all__ = ["PLAIN", "read_plain", "write_plain"]

PLAIN: Final = frozenset((
    "float", "complex", "bytes", "dtype", "record", "scalar", "array", "type", "function", "...", "error", "result",
))  # fmt: skip
"""Names of these in a form."""


class Absent:
    """A function of the user's that did not come with what was loaded; a call of it says so."""

    def __init__(self, module: str, path: str, digest: str) -> None:
        self.module, self.path, self.digest = module, path, digest

    def __eq__(self, other: object) -> bool:
        return type(other) is Absent and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.module, self.path))

    def __call__(self, *_: object, **__: object) -> object:
        """Refuse the call.

        Raises
        ------
        ArgumentError
            ``function-not-here``.
        """
        raise ArgumentError("call", None, [Diagnostic(
            "function-not-here",
            f"the Python function '{self.path}' of '{self.module}' did not come with what was loaded",
            ("a form names functions and does not hold them, and nothing is imported when it is read",),
            (f"import {self.module} before it is read; a lambda, or a function in another one, cannot be found",))])


_TYPES: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool, "complex": complex}
_RECORD: Final = "polyloop_name"
"""Of the name of a record, in the metadata of its type."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DTYPE: Final = re.compile(r"[<>|=]?\w+", re.ASCII)
_Write = Callable[[object], object]


def write_plain(value: Any, write: _Write) -> list[object]:  # noqa: ANN401, C901 - a case a kind
    """Return the entry of *value*, with *write* for its parts.

    Raises
    ------
    TypeError
        A form cannot hold it.
    """
    match value:
        case np.generic() if value.dtype.names is None and not value.dtype.hasobject:
            return ["scalar", write(value.dtype), value.tobytes().hex()]
        case float():
            return ["float", value.hex()]
        case complex():
            return ["complex", value.real.hex(), value.imag.hex()]
        case bytes():
            return ["bytes", base64.b64encode(value).decode()]
        case np.dtype():
            return _dtype(value, write)
        case np.ndarray() if not value.dtype.hasobject:
            data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            return ["array", write(value.dtype), write(value.shape), data]
        case type():
            return ["type", _type_name(value)]
        case types.EllipsisType():
            return ["..."]
        case PolyloopError() | PolyloopWarning():
            found = value.found
            return ["error", type(value).__name__, write(value.operation), write(value.kernel), write(found)]
    if type(value).__name__ == "Result" and type(value).__module__ == KINDS["Result"]:
        return ["result", write(dict(value.items()))]
    if isinstance(value, Absent):
        return ["function", value.module, value.path, value.digest]
    if callable(value) and not isinstance(value, partial) and hasattr(value, "__qualname__"):
        return ["function", str(value.__module__), value.__qualname__, _code_digest(value)]
    raise TypeError(f"it holds {shown(value)}")


def _dtype(value: np.dtype[Any], write: _Write) -> list[object]:
    if value.hasobject:
        raise TypeError(f"it holds {shown(value)}")
    if value.names is None:
        return ["dtype", value.name if np.dtype(value.name) == value else value.str]
    assert value.fields is not None
    members = [(name, value.fields[name][0], value.fields[name][1]) for name in value.names]
    metadata: Mapping[str, object] = value.metadata or {}
    name = str(metadata.get(_RECORD, ""))
    return ["record", write(tuple(members)), value.itemsize, value.isalignedstruct, name]


def _type_name(value: type) -> str:
    if _TYPES.get(value.__name__) is value:
        return value.__name__
    if issubclass(value, np.generic):
        return f"np.{np.dtype(value).name}"
    raise TypeError(f"it holds {shown(value)}")


def _code_digest(value: Any) -> str:  # noqa: ANN401
    """Return a digest of a function that its name does not lead to: a lambda, or one inside of another."""
    code = getattr(value, "__code__", None)
    if code is None or _found(value.__module__, value.__qualname__) is value:
        return ""
    return hashlib.sha256(repr((code.co_code, code.co_names, code.co_varnames)).encode()).hexdigest()


# {{{ reading


def read_plain(name: str, parts: list[Any]) -> object:
    """Return the value of an entry.

    Raises
    ------
    ValueError, TypeError
        It is none of ours.
    """
    return _READERS[name](*parts)


def _read_dtype(name: object) -> np.dtype[Any]:
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise ValueError(f"{shown(name)} is no type")
    import_module("ml_dtypes")  # which gives NumPy its types
    found = np.dtype(name)
    if found.hasobject or found.names is not None:
        raise ValueError(f"{shown(name)} is no type of numbers")
    return found


def _read_record(members: Any, size: Any, aligned: Any, called: Any) -> np.dtype[Any]:  # noqa: ANN401
    names, formats, offsets = [], [], []
    for name, dtype, offset in members:
        if not isinstance(name, str) or not isinstance(dtype, np.dtype) or type(offset) is not int:
            raise ValueError(f"{shown(name)} is no field of a record")
        names.append(name)
        formats.append(dtype)
        offsets.append(offset)
    if type(size) is not int or type(aligned) is not bool or not 0 < size < 2**20:
        raise ValueError("a record has no size")
    if not isinstance(called, str) or not all(map(_NAME.fullmatch, (*names, *([called] if called else [])))):
        raise ValueError("a record or a field of it has no name")
    made = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}, align=aligned)
    return np.dtype(made, metadata={_RECORD: called}) if called else made


def _read_scalar(dtype: Any, data: Any) -> object:  # noqa: ANN401
    if not isinstance(dtype, np.dtype) or not isinstance(data, str):
        raise ValueError("a number has no type or no value")
    (found,) = np.frombuffer(bytes.fromhex(data), dtype)
    return found


def _read_array(dtype: Any, shape: Any, data: Any) -> object:  # noqa: ANN401
    if not isinstance(dtype, np.dtype) or not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        raise ValueError("an array has no type or no shape")
    return np.frombuffer(base64.b64decode(data, validate=True), dtype).reshape(shape).copy()


def _read_type(name: str) -> type:
    if name in _TYPES:
        return _TYPES[name]
    if not name.startswith("np."):
        raise ValueError(f"{shown(name)} is no type of numbers")
    return _read_dtype(name[3:]).type


def _read_float(text: str) -> float:
    found = float.fromhex(text)
    if found.hex() != text:
        raise ValueError(f"{shown(text)} is no number as it is written here")
    return found


def _found(module: object, path: object) -> object:
    """Return the object at *path* in a module that is loaded, None if there is none; nothing is imported."""
    found: object = sys.modules.get(str(module))
    for part in str(path).split("."):
        found = None if found is None else vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _read_function(module: str, path: str, digest: str) -> object:
    """Return a user's function of this name, or what says at a call that it is not here; nothing is imported."""
    found = _found(module, path)
    if isinstance(found, types.FunctionType) and not digest and module.partition(".")[0] != "polyloop":
        return found
    return Absent(str(module), str(path), str(digest))


def _read_error(kind: str, operation: Any, kernel: Any, found: Any) -> object:  # noqa: ANN401
    if KINDS.get(kind) != "polyloop.errors" or not isinstance(operation, str):
        raise ValueError(f"there is no error {shown(kind)}")
    if kernel is not None and not isinstance(kernel, str):
        raise ValueError(f"{shown(kernel)} is no name of a kernel")
    made: Callable[..., object] = getattr(import_module(KINDS[kind]), kind)
    findings = (found,) if isinstance(found, Diagnostic) else found
    if not isinstance(findings, tuple) or not all(isinstance(entry, Diagnostic) for entry in findings):
        raise ValueError("an error has no findings")
    return made(operation, kernel, found)


def _read_result(outputs: Any) -> object:  # noqa: ANN401
    if not isinstance(outputs, dict) or not all(isinstance(value, np.ndarray) for value in outputs.values()):
        raise ValueError("a result has outputs that are no arrays")
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in outputs):
        raise ValueError(f"a result has outputs that are called {', '.join(map(shown, outputs))}")
    return import_module(KINDS["Result"]).Result.of(outputs)


_READERS: Final[Mapping[str, Callable[..., object]]] = {
    "float": _read_float,
    "complex": lambda real, imag: complex(_read_float(real), _read_float(imag)),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dtype": _read_dtype,
    "record": _read_record,
    "scalar": _read_scalar,
    "array": _read_array,
    "type": _read_type,
    "function": _read_function,
    "...": lambda: ...,
    "error": _read_error,
    "result": _read_result,
}

# }}}
