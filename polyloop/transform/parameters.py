"""Argument types of transforms: accepted values, canonical form, names in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias, TypeVar

from polyloop.expr.names import tagged_name
from polyloop.kernel.arrays import AddressSpace
from polyloop.transform.declare import Keyed, Names, Takes

__all__ = [
    "ArgumentName",
    "ArgumentNames",
    "ArrayName",
    "ArrayNames",
    "Axis",
    "DimTags",
    "Iname",
    "InameTags",
    "Inames",
    "InsnId",
    "InsnIds",
    "InsnMatch",
    "NewName",
    "NewNames",
    "Pairs",
    "RuleName",
    "Space",
    "TagText",
    "TemporaryName",
    "TemporaryNames",
    "Word",
    "Words",
    "joined",
    "names_of",
    "pairs",
    "parse_tags",
    "words_of",
]

_T = TypeVar("_T")


def names_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return ``"i, j"`` or a sequence as a tuple of names."""
    if given is None:
        return ()
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def words_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one text, or a sequence of texts, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def joined(given: str | Sequence[object]) -> str:
    """Return a text, or a sequence of parts as one text with commas."""
    return given if isinstance(given, str) else ",".join(map(str, given))


def parse_tags(given: str | Mapping[str, str] | Sequence[tuple[str, str]] | None) -> tuple[tuple[str, str], ...]:
    """Return ``"i:g.0, j:l.0"``, a mapping or pairs as pairs of strings."""
    if isinstance(given, str):
        pairs = []
        for part in given.split(","):
            iname, _, tag = part.partition(":")
            if part.strip():
                pairs.append((iname.strip(), tag.strip()))
        return tuple(pairs)
    items = given.items() if isinstance(given, Mapping) else given or ()
    return tuple((str(iname), str(tag)) for iname, tag in items)


def pairs(given: Mapping[str, _T] | Sequence[tuple[str, _T]] | None) -> tuple[tuple[str, _T], ...]:
    """Return a mapping as pairs."""
    return tuple(given.items() if isinstance(given, Mapping) else given or ())


def _space(given: AddressSpace | str) -> str:
    return given.value if isinstance(given, AddressSpace) else given


Pairs: TypeAlias = tuple[tuple[str, str], ...]

_LIST = Takes(str | Sequence[str], names_of)

Iname: TypeAlias = Annotated[str, Names.INAME]
Inames: TypeAlias = Annotated[tuple[str, ...], _LIST, Names.INAME]
NewName: TypeAlias = Annotated[str, Names.NEW]
NewNames: TypeAlias = Annotated[tuple[str, ...], _LIST, Names.NEW]
ArrayName: TypeAlias = Annotated[str, Names.ARRAY]
ArrayNames: TypeAlias = Annotated[tuple[str, ...], _LIST, Names.ARRAY]
TemporaryName: TypeAlias = Annotated[str, Names.TEMPORARY]
TemporaryNames: TypeAlias = Annotated[tuple[str, ...], _LIST, Names.TEMPORARY]
ArgumentName: TypeAlias = Annotated[str, Names.ARGUMENT]
ArgumentNames: TypeAlias = Annotated[tuple[str, ...], _LIST, Names.ARGUMENT]
RuleName: TypeAlias = Annotated[str, Takes(str, tagged_name), Names.RULE]
InsnId: TypeAlias = Annotated[str, Names.INSTRUCTION]
InsnIds: TypeAlias = Annotated[tuple[str, ...], _LIST, Names.INSTRUCTION]
InsnMatch: TypeAlias = Annotated[str, Names.MATCH]
TagText: TypeAlias = Annotated[str, Names.TAG]
Word: TypeAlias = Annotated[str, Names.NOTHING]
Words: TypeAlias = Annotated[tuple[str, ...], Takes(str | Sequence[str], words_of), Names.NOTHING]
Space: TypeAlias = Annotated[str, Takes(AddressSpace | str, _space), Names.NOTHING]
DimTags: TypeAlias = Annotated[str, Takes(str | Sequence[str], joined), Names.NOTHING]
InameTags: TypeAlias = Annotated[Pairs, Takes(Mapping[str, str] | None, parse_tags), Names.INAME, Keyed(Names.TAG)]
Axis: TypeAlias = Annotated[int, Takes(int | str)]
"""The number of an axis; callers may write its name, which ``resolved`` looks up."""
