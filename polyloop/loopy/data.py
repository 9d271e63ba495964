"""Entries of ``kernel_data`` with Loopy's parameters, of which some have no effect."""
# ruff: noqa: N802, ANN401  # classes in Loopy; arguments of any type

from __future__ import annotations

from typing import Any, Final

from polyloop.expr.records import VECTORS
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.layout import Auto
from polyloop.kernel.text import specs
from polyloop.kernel.text.specs import auto
from polyloop.loopy.tags import Declared, Marks, is_own, with_marks

__all__ = ["ConstantArg", "GlobalArg", "TemporaryVariable", "ValueArg", "element_type", "listed", "marks_of"]

_WITHOUT_EFFECT: Final = frozenset({
    "_base_storage_access_may_be_aliasing", "approximately", "for_atomic", "tags", "target",
})  # fmt: skip


def element_type(given: Any) -> Any:
    """Return an element type; a vector of PyOpenCL, whose components have several names, as one of ``pl.vec``."""
    given = getattr(given, "numpy_dtype", given)
    fields = getattr(given, "fields", None) or {}
    if "s0" not in fields or "x" not in fields:
        return given
    base = fields["x"][0]
    count = given.itemsize // base.itemsize
    wanted = next((dtype for dtype in VECTORS.values() if dtype.itemsize == given.itemsize
                   and len(dtype.names or ()) == min(count, 4) and dtype[0] == base), given)
    return wanted


def _accepted(more: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in more.items() if name not in _WITHOUT_EFFECT}


def GlobalArg(
    name: str, dtype: object = None, shape: Any = auto, dim_tags: Any = None, offset: Any = None, **more: Any
) -> Any:  # fmt: skip
    """Return a :class:`polyloop.GlobalArg`; ``for_atomic`` and ``target`` have no effect."""
    given = {key: value for key, value in _accepted(more).items() if key != "address_space"}
    entry = specs.GlobalArg(name, element_type(dtype), shape, dim_tags=dim_tags, offset=offset, **given)
    return _declared(entry, more.get("tags"))


def ConstantArg(
    name: str, dtype: object = None, shape: Any = auto, dim_tags: Any = None, **more: Any
) -> Any:  # fmt: skip
    """Return a :class:`polyloop.ConstantArg`; ``target`` has no effect."""
    entry = specs.ConstantArg(name, element_type(dtype), shape, dim_tags=dim_tags, **_accepted(more))
    return _declared(entry, more.get("tags"))


def ValueArg(name: str, dtype: object = None, approximately: object = None, **more: Any) -> Any:
    """Return a :class:`polyloop.ValueArg`; ``approximately``, ``is_input`` and ``target`` have no effect."""
    del approximately
    given = {key: value for key, value in _accepted(more).items() if key != "is_input"}
    return _declared(specs.ValueArg(name, element_type(dtype), **given), more.get("tags"))


def TemporaryVariable(
    name: str, dtype: object = None, shape: Any = auto, address_space: Any = None, dim_tags: Any = None, **more: Any
) -> Any:  # fmt: skip
    """Return a :class:`polyloop.TemporaryVariable`; ``for_atomic``, and ``offset`` of 0 have no effect."""
    space = AddressSpace.AUTO if address_space is None or isinstance(address_space, Auto) else address_space
    given = {key: value for key, value in _accepted(more).items() if key != "offset" or value}
    entry = specs.TemporaryVariable(name, element_type(dtype), shape, space, dim_tags=dim_tags, **given)
    return _declared(entry, more.get("tags"))


def _declared(entry: Any, tags: Any) -> Any:
    """Return an entry, with the tags of the script's own that it was given."""
    given = tags if isinstance(tags, list | tuple | set | frozenset) else [tags]
    own = [tag for tag in given if is_own(tag)]
    return Declared(entry, own) if own else entry


def listed(kernel_data: Any) -> Any:
    """Return the entries of ``kernel_data``, which may be ``...`` by itself."""
    if kernel_data is ... or kernel_data == "...":
        return [...]
    if kernel_data is None:
        return None
    return [entry.entry if isinstance(entry, Declared) else entry for entry in kernel_data]


def marks_of(kernel_data: Any) -> Marks:
    """Return the tags of the script's own in ``kernel_data``."""
    entries = kernel_data if isinstance(kernel_data, list | tuple) else ()
    found = {name.strip(): entry.tags for entry in entries if isinstance(entry, Declared)
             for name in entry.name.split(",")}  # fmt: skip
    return with_marks({}, "array", found)
