"""Declarations of records as C structs with NumPy's layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyloop.codegen.language import Language
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import dtype_name, is_complex
from polyloop.expr.records import (
    component,
    field_names,
    is_record,
    is_vector,
    record_name,
    struct_alignment,
    struct_padding,
)

__all__ = ["struct_source"]

_DType = np.dtype[Any]
_MOST_ALIGNED = 16
"""Alignment of a vector that :func:`~polyloop.expr.records.struct_alignment` knows of [bytes]."""


def struct_source(
    dtype: _DType, name: str, language: Language, ctype: Callable[[_DType], str], spelt: Callable[[str], str]
) -> str | Diagnostic:
    """Return the declaration of a record as the C type *name*, or a diagnostic if its layout in C is not NumPy's.

    Parameters
    ----------
    ctype
        Function from the type of a field to its C name, which declares the type if need be.
    spelt
        Function from a field to its C name.
    """
    if is_vector(dtype):
        return f"typedef struct {{ {ctype(component(dtype))} {', '.join(field_names(dtype))}; }} {name};"
    wide, vectors = language.vectors is not None, language.vectors
    packed, padding = struct_padding(dtype, wide=wide)
    assert dtype.fields is not None, f"{name} has no fields"
    lines = []
    for field, entry in sorted(dtype.fields.items(), key=lambda item: item[1][1]):
        kind, offset = entry[0], entry[1]
        if offset in padding:
            lines.append(f"    char padding_{offset}[{padding[offset]}];")
        is_struct = is_record(kind) or (wide and is_complex(kind))
        if vectors is not None and is_vector(kind) and record_name(kind) in vectors.names:
            most = min(vectors.most_aligned, kind.itemsize)
            if most > _MOST_ALIGNED and (offset % most or dtype.itemsize % most):
                return _misplaced(dtype, field, offset, most, language)
        if packed and is_struct and struct_alignment(kind, wide=wide) > 1:
            return _misplaced(dtype, field, offset, struct_alignment(kind, wide=wide), language)
        lines.append(f"    {ctype(kind)} {spelt(field)};")
    if dtype.itemsize in padding:
        lines.append(f"    char padding_{dtype.itemsize}[{padding[dtype.itemsize]}];")
    attribute = "__attribute__((packed)) " if packed else ""
    says = f"{name} is not laid out as in NumPy"
    check = f'{language.syntax.static_assert}(sizeof({name}) == {dtype.itemsize}, "{says}");'
    return "\n".join([f"typedef struct {attribute}{{", *lines, f"}} {name};", check])


def _misplaced(dtype: _DType, field: str, offset: int, alignment: int, language: Language) -> Diagnostic:
    assert dtype.fields is not None, f"{dtype} has no fields"
    kind = dtype_name(dtype.fields[field][0])
    return Diagnostic(
        "unsupported-dtype",
        f"target '{language.name}' cannot lay out '{record_name(dtype)}' as NumPy does",
        notes=(
            f"its field '{field}' ({kind}) needs a multiple of {alignment} bytes",
            f"the field lies at byte {offset}, the record has {dtype.itemsize} bytes",
        ),
        hints=("put the field first, and fill the record up to such a multiple",),
    )
