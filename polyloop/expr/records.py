"""Records: element types with named fields, and the short vectors among them.

A record is a structured ``np.dtype``.  Its name in generated code is in the metadata of the dtype (:func:`record`), so
that no registry is needed; a record without one is named after its fields.  A record of fields ``x, y``, ``x, y, z`` or
``x, y, z, w`` of one arithmetic type without gaps is a vector, named as in CUDA: ``float4``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.names import RESERVED, is_identifier

__all__ = [
    "VECTORS",
    "component",
    "field_dtype",
    "field_names",
    "field_offset",
    "is_record",
    "is_vector",
    "leaf_fields",
    "record",
    "record_fault",
    "record_name",
    "record_text",
    "struct_alignment",
    "struct_padding",
]

_DType: TypeAlias = np.dtype[Any]

_COMPONENTS: Final[Mapping[str, str]] = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
}
_PREFIXES: Final = {np.dtype(component): prefix for prefix, component in _COMPONENTS.items()}
_AXES: Final = ("x", "y", "z", "w")


def _vector(base: str, count: int) -> _DType:
    return np.dtype([(axis, base) for axis in _AXES[:count]], align=True)


VECTORS: Final[Mapping[str, _DType]] = MappingProxyType(
    {f"{prefix}{count}": _vector(base, count) for prefix, base in _COMPONENTS.items() for count in (2, 3, 4)}
)
"""Vector types by name: ``char2`` to ``double4``."""


def is_record(kind: object) -> TypeGuard[np.dtype[Any]]:
    """Return whether *kind* is a type with named fields, vectors included."""
    return isinstance(kind, np.dtype) and kind.names is not None


def is_vector(kind: object) -> TypeGuard[np.dtype[Any]]:
    """Return whether *kind* is a vector type: fields x, y, .. of one arithmetic type, without gaps."""
    if not isinstance(kind, np.dtype) or kind.names is None or kind.names != _AXES[: len(kind.names)]:
        return False
    assert kind.fields is not None, "a dtype with names has fields"
    base = kind.fields["x"][0]
    count = len(kind.names)
    return (
        2 <= count <= 4
        and base in _PREFIXES
        and kind.itemsize == count * base.itemsize
        and all(kind.fields[axis][:2] == (base, n * base.itemsize) for n, axis in enumerate(kind.names))
    )


def component(dtype: _DType) -> _DType:
    """Return the type of the components of a vector; any other type itself."""
    return field_dtype(dtype, "x") if is_vector(dtype) else dtype


def field_names(dtype: _DType) -> tuple[str, ...]:
    """Return the names of the fields of a record, in order."""
    assert dtype.names is not None, f"{dtype} is no record"
    return dtype.names


def field_dtype(dtype: _DType, name: str) -> _DType:
    """Return the type of one field of a record."""
    assert dtype.fields is not None, f"{dtype} is no record"
    return dtype.fields[name][0]


def field_offset(dtype: _DType, name: str) -> int:
    """Return the offset of a field of a record [bytes]."""
    assert dtype.fields is not None, f"{dtype} is no record"
    return dtype.fields[name][1]


def leaf_fields(dtype: _DType, path: tuple[str, ...] = ()) -> Iterable[tuple[str, ...]]:
    """Yield the path to each scalar in a record: ``("pos", "x")``; the empty path of a scalar type."""
    if dtype.names is None:
        yield path
        return
    for name in dtype.names:
        yield from leaf_fields(field_dtype(dtype, name), (*path, name))


def record_name(dtype: _DType) -> str:
    """Return the name of a record: as :func:`record` was told, or after its fields."""
    if is_vector(dtype):
        return f"{_PREFIXES[field_dtype(dtype, 'x')]}{len(field_names(dtype))}"
    return _given_name(dtype) or "record_" + "_".join(field_names(dtype))


def _given_name(dtype: _DType) -> str:
    metadata: Mapping[str, object] = dtype.metadata or {}
    return str(metadata.get("polyloop_name", ""))


def record(name: str, fields: Sequence[tuple[str, object]] | np.dtype[Any], *, align: bool = True) -> np.dtype[Any]:
    """Return a record type: a structured NumPy dtype with the name *name* in generated code.

    ::

        particle = pl.record("particle", [("pos", pl.vec.float3), ("charge", np.int32)])
        particles = np.zeros(100, particle)

    Parameters
    ----------
    name
        Name of the C struct.
    fields
        Names and types, as for ``np.dtype``; or a structured dtype, which is given the name.
    align
        Align each field as CUDA does, a ``float4`` to 16 bytes; False leaves no gaps. Has no effect on a dtype.

    Raises
    ------
    KernelError
        ``bad-identifier``, ``bad-record``.
    """
    try:
        plain = fields if isinstance(fields, np.dtype) else np.dtype(list(fields))
    except (TypeError, ValueError, SyntaxError) as error:
        fault = _fault(f"NumPy says of its fields: {error}", "give pairs of a name and a type")
        raise KernelError("record", None, [fault]) from error
    wrong = record_fault(plain) if plain.names is not None else _fault("it has no fields", "give names and types")
    if wrong is None and (not is_identifier(name) or name in RESERVED):
        hint = "use ASCII letters, digits and '_', no digit first, and no name that C or CUDA defines"
        wrong = Diagnostic("bad-identifier", f"'{name}' cannot be the name of a record", hints=(hint,))
    if wrong is not None:
        raise KernelError("record", None, [wrong])
    if align and not isinstance(fields, np.dtype):
        plain = _aligned(plain)
    return np.dtype(plain, metadata={"polyloop_name": name})


def _aligned(dtype: _DType) -> _DType:
    """Return *dtype* with its fields in the same order, each where CUDA puts it."""
    formats = [field_dtype(dtype, name) for name in field_names(dtype)]
    alignments = [struct_alignment(kind, wide=True) for kind in formats]
    offsets, end = [], 0
    for kind, alignment in zip(formats, alignments, strict=True):
        offsets.append(-(-end // alignment) * alignment)
        end = offsets[-1] + kind.itemsize
    whole = max(alignments)
    fields = {"names": list(field_names(dtype)), "formats": formats, "offsets": offsets}
    return np.dtype({**fields, "itemsize": -(-end // whole) * whole})  # type: ignore[call-overload, no-any-return]


def _fault(why: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-record", f"this is no record type: {why}", hints=(hint,))


def record_fault(dtype: _DType) -> Diagnostic | None:
    """Return the reason why a structured *dtype* cannot be an element type, or None."""
    end = 0
    assert dtype.fields is not None, f"{dtype} is no record"
    for name, entry in sorted(dtype.fields.items(), key=lambda item: item[1][1]):
        kind, offset = entry[0], entry[1]
        if not is_identifier(name) or name in RESERVED:
            return _fault(f"'{name}' cannot be the name of a field", "use a name that C allows")
        if kind.subdtype is not None:
            return _fault(f"field '{name}' is an array", "make each of its elements a field: x, y, z")
        if offset < end:
            return _fault(f"field '{name}' overlaps another one", "give each field its own bytes")
        end = offset + kind.itemsize
        if kind.names is not None:
            inner = record_fault(kind)
            if inner is not None:
                return inner
        elif kind.kind not in "biufc" or not kind.isnative:
            return _fault(f"field '{name}' has the type {kind}", "use bool, integers and floating-point numbers")
    if not dtype.names:
        return _fault("it has no fields", "give names and types")
    return None


def record_text(dtype: _DType) -> str:
    """Return Python that makes a type again, its name included: ``pl.vec.float4``, ``pl.record("particle", ..)``."""
    if is_vector(dtype):
        return f"pl.vec.{record_name(dtype)}"
    if not is_record(dtype):
        return repr(dtype.name)
    formats = ", ".join(record_text(field_dtype(dtype, name)) for name in field_names(dtype))
    offsets = [field_offset(dtype, name) for name in field_names(dtype)]
    plain = (
        f"np.dtype({{'names': {list(field_names(dtype))}, 'formats': [{formats}], 'offsets': {offsets}, "
        f"'itemsize': {dtype.itemsize}}})"
    )
    return f"pl.record({_given_name(dtype)!r}, {plain})" if _given_name(dtype) else plain


def struct_alignment(dtype: _DType, *, wide: bool) -> int:
    """Return the alignment [bytes] that the C type of *dtype* has in generated code.

    Parameters
    ----------
    wide
        Whether complex numbers, and vectors of 2 and 4 components up to 16 bytes, are aligned as a whole, as in CUDA.
    """
    if not is_record(dtype):
        return dtype.itemsize if wide and dtype.kind == "c" else dtype.alignment
    if is_vector(dtype):
        count = len(field_names(dtype))
        return min(16, dtype.itemsize) if wide and count != 3 else component(dtype).alignment
    packed, _ = struct_padding(dtype, wide=wide)
    return 1 if packed else max(struct_alignment(field_dtype(dtype, name), wide=wide) for name in field_names(dtype))


def struct_padding(dtype: _DType, *, wide: bool) -> tuple[bool, Mapping[int, int]]:
    """Return whether the C struct of a record must be packed, and the bytes to fill in before some offsets.

    The offset ``itemsize`` stands for the end.  Gaps that C leaves by itself are not filled.
    """
    assert dtype.fields is not None, f"{dtype} is no record"
    fields = [
        (entry[1], entry[0].itemsize, struct_alignment(entry[0], wide=wide))
        for entry in sorted(dtype.fields.values(), key=lambda entry: entry[1])
    ]
    whole = max(alignment for _, _, alignment in fields)
    packed = dtype.itemsize % whole != 0 or any(offset % alignment for offset, _, alignment in fields)
    padding: dict[int, int] = {}
    end = 0
    for offset, size, alignment in [*fields, (dtype.itemsize, 0, whole)]:
        natural = end if packed else -(-end // alignment) * alignment
        if offset != natural:
            padding[offset] = offset - end
        end = offset + size
    return packed, padding
