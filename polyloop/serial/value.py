"""The base of values: what Python asks of a value, answered through its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from polyloop.errors import ArgumentError
from polyloop.serial.form import dumps, fingerprint, loads

__all__ = ["Value"]


class Value:
    """A value: equal to others with the same fingerprint, copied as itself, and sent by its form."""

    is_lasting = True
    """Of objects that are more than their value to who holds them: see :mod:`polyloop.memo`."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the value's form, in hexadecimal digits: the same in every process, for equal values alone.

        It is a key for caches of what is made of the value.  Where statements stand in a file, and how long proofs
        took, is no part of it.
        """
        return fingerprint(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        try:
            return fingerprint(self) == fingerprint(other)
        except ArgumentError:  # of what is no data: it is equal to itself alone
            return False

    def __hash__(self) -> int:
        try:
            return int(fingerprint(self)[:15], 16)
        except ArgumentError:
            return object.__hash__(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return, for pickle, the function that reads forms, and the form."""
        return loads, (dumps(self),)

    if not TYPE_CHECKING:

        def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
            return self.__reduce__()
