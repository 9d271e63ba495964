"""Tags of scripts' own: objects on inames, arrays and instructions, which say nothing to the package.

A unit keeps them beside its kernels, by name: :attr:`polyloop.loopy.TranslationUnit.marks`.  An instruction also has
the name of the tag's class among its tags, so that match expressions find it.
"""
# ruff: noqa: ANN401  # tags are objects of any class

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from polyloop.kernel.tags import InameTag

__all__ = ["Declared", "Iname", "Marked", "Marks", "is_own", "of_type", "parted", "tag_name", "with_marks"]

Marks: TypeAlias = Mapping[tuple[str, str], frozenset[Any]]
"""(``"iname"``, ``"array"`` or ``"tag"``, name) -> tags."""


def is_own(tag: object) -> bool:
    """Return whether *tag* is an object of a script's, and neither text nor a tag of the package."""
    return tag is not None and not isinstance(tag, str | InameTag)


def tag_name(tag: object) -> str:
    """Return the name by which match expressions find the instructions with a tag: ``tag:name``."""
    return tag if isinstance(tag, str) else type(tag).__name__


def parted(tags: Any) -> tuple[list[str], list[Any]]:
    """Return the tags of one iname, of which there may be several, as texts and as objects of the script's."""
    several = tags if isinstance(tags, list | tuple | set | frozenset) else [tags]
    texts = [str(tag) for tag in several if tag is not None and not is_own(tag)]
    return texts, [tag for tag in several if is_own(tag)]


def with_marks(marks: Marks, kind: str, more: Mapping[str, Iterable[Any]]) -> Marks:
    """Return *marks* with more of one kind."""
    found = dict(marks)
    for name, tags in more.items():
        if given := frozenset(tags):
            found[kind, name] = found.get((kind, name), frozenset()) | given
    return found


def of_type(tags: Iterable[Any], kind: type) -> frozenset[Any]:
    """Return the tags of one class."""
    return frozenset(tag for tag in tags if isinstance(tag, kind))


@dataclass(frozen=True)
class Iname:
    """An iname and its tags, as Loopy's ``kernel.inames`` holds them."""

    name: str
    tags: frozenset[Any]

    def tags_of_type(self, kind: type) -> frozenset[Any]:
        """Return its tags of one class."""
        return of_type(self.tags, kind)


class Declared:
    """An entry of ``kernel_data`` with tags of the script's."""

    def __init__(self, entry: Any, tags: Iterable[Any]) -> None:
        self.entry, self.tags = entry, frozenset(tags)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entry, name)


class Marked:
    """An array or an instruction of a kernel, with tags of the script's."""

    def __init__(self, entry: Any, tags: Iterable[Any]) -> None:
        self.entry, self.tags = entry, frozenset(tags)

    def tags_of_type(self, kind: type) -> frozenset[Any]:
        """Return its tags of one class."""
        return of_type(self.tags, kind)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entry, name)

    def __str__(self) -> str:
        return str(self.entry)
