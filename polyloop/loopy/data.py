"""Entries of ``kernel_data`` with Loopy's parameters, of which some have no effect."""
# ruff: noqa: N802, ANN401  # classes in Loopy; arguments of any type

from __future__ import annotations

from typing import Any, Final

from polyloop.expr.records import VECTORS
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.layout import Auto
from polyloop.kernel.text import specs
from polyloop.kernel.text.specs import auto

__all__ = ["ConstantArg", "GlobalArg", "TemporaryVariable", "ValueArg", "element_type", "listed"]

_WITHOUT_EFFECT: Final = frozenset({
    "_base_storage_access_may_be_aliasing", "approximately", "for_atomic", "tags", "target",
})  # fmt: skip


def element_type(given: Any) -> Any:
    """Return an element type; a vector of PyOpenCL, whose components have several names, as one of ``pl.vec``."""
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
) -> specs.GlobalArg:  # fmt: skip
    """Return a :class:`polyloop.GlobalArg`; ``for_atomic``, ``tags`` and ``target`` have no effect."""
    given = {key: value for key, value in _accepted(more).items() if key != "address_space"}
    return specs.GlobalArg(name, element_type(dtype), shape, dim_tags=dim_tags, offset=offset, **given)


def ConstantArg(
    name: str, dtype: object = None, shape: Any = auto, dim_tags: Any = None, **more: Any
) -> specs.ConstantArg:  # fmt: skip
    """Return a :class:`polyloop.ConstantArg`; ``tags`` and ``target`` have no effect."""
    return specs.ConstantArg(name, element_type(dtype), shape, dim_tags=dim_tags, **_accepted(more))


def ValueArg(name: str, dtype: object = None, approximately: object = None, **more: Any) -> specs.ValueArg:
    """Return a :class:`polyloop.ValueArg`; ``approximately``, ``is_input``, ``tags`` and ``target`` have no effect."""
    del approximately
    given = {key: value for key, value in _accepted(more).items() if key != "is_input"}
    return specs.ValueArg(name, element_type(dtype), **given)


def TemporaryVariable(
    name: str, dtype: object = None, shape: Any = auto, address_space: Any = None, dim_tags: Any = None, **more: Any
) -> specs.TemporaryVariable:  # fmt: skip
    """Return a :class:`polyloop.TemporaryVariable`; ``for_atomic``, ``offset`` of 0 and ``tags`` have no effect."""
    space = AddressSpace.AUTO if address_space is None or isinstance(address_space, Auto) else address_space
    given = {key: value for key, value in _accepted(more).items() if key != "offset" or value}
    return specs.TemporaryVariable(name, element_type(dtype), shape, space, dim_tags=dim_tags, **given)


def listed(kernel_data: Any) -> Any:
    """Return the entries of ``kernel_data``, which may be ``...`` by itself."""
    return [...] if kernel_data is ... or kernel_data == "..." else kernel_data
