"""Names of a kernel in the generated code.

Most names stay as they are.  A reserved word gets an underscore at its end.  So does a name that is a reserved word
with underscores at its end already, which makes the renaming injective.  It depends on the name and the words alone.
There are two sets of reserved words.

* *Local* words cannot name an argument, a variable of a loop or a temporary.  These are keywords, macros of the
  standard headers, and every function, type and helper that the text of a function may use.  A variable may hide all
  other functions.
* *File* words cannot name a function, a table or a type: also the declarations in headers of C and CUDA.

Identifiers with an underscore and a capital letter in front are reserved for the compiler, at file scope all with an
underscore in front.  Such names get the prefix ``name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from polyloop.codegen.device.entries import MOST_PENDING
from polyloop.codegen.helpers import OPERATIONS
from polyloop.codegen.language import Language
from polyloop.expr.foreign import foreign_calls, words
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import RESERVED
from polyloop.expr.records import VECTORS
from polyloop.kernel.intrinsic import BUILT_IN, INTRINSICS
from polyloop.schedule.plan import Schedule

__all__ = ["Names", "Spelling", "foreign_words", "listed_words", "local_words", "spelling"]

_DATA: Final = Path(__file__).parent.parent / "data"
_WORD: Final = re.compile(r"(?<![\w.{%])[A-Za-z_]\w*")
_REMARK: Final = re.compile(r"//[^\n]*")
_MACRO: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_OURS: Final = re.compile(r"(?:name)*_[A-Z]\w*")
_OURS_AT_FILE_SCOPE: Final = re.compile(r"(?:name)*_\w*")
_OTHER: Final = re.compile(r"POLYLOOP_\w+|atomic[A-Z]\w*|cuda[A-Z]\w*|(?:CUDA|CUDART|CU|NV)_\w+|CUDARTAPI|CU[a-z]+")
"""Include guards of helpers, and families of names in CUDA."""

# Helpers that are in no table: those of matrix instructions (device/matrix.py), boxes (device/box_text.py), clusters,
# vectors (records.py) and atomics.
_MATRICES: Final = """
pack pack_bytes load_pair to_tf32 to_tf32_pair ldmatrix_x1 ldmatrix_x2 ldmatrix_x4 ldmatrix_x1_trans ldmatrix_x2_trans
ldmatrix_x4_trans publish_stores tile_descriptor products_begin products_commit products_behind
"""
_BOXES: Final = """
TensorMap ring_open ring_open_free ring_free ring_free_group ring_expect ring_wait box_1d box_2d box_3d box_4d box_5d
store_box_1d store_box_2d store_box_3d store_box_4d store_box_5d boxes_read boxes_stored
"""
_CLUSTERS: Final = "cluster_arrive cluster_wait cluster_barrier in_block arrives_last"
_VECTOR_WORDS: Final = ("make", "splat", "add", "sub", "mul", "div", "neg", "min", "max")
_UPDATES: Final = ("sum", "product", "min", "max", "and", "or", "xor", "exchange")
_LANES: Final = (2, 4, 8, 16)


class Names:
    """C identifiers that are taken."""

    def __init__(self, taken: Iterable[str], words: frozenset[str] = frozenset()) -> None:
        self.taken = set(taken)
        self.words = words  # reserved words

    def fresh(self, wish: str) -> str:
        """Return *wish*, or *wish* with the smallest number that makes it unused, and take it."""
        name, number = wish, 0
        while name in self.taken or name in self.words:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name


@cache
def listed_words(name: str) -> frozenset[str]:
    """Return the words of a list in ``polyloop/data``."""
    lines = (_DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _said_by_tables(language: Language) -> Iterator[str]:
    """Yield the texts in the tables of *language* that may occur in a function."""
    yield from language.types.values()
    functions, constants = language.functions, language.constants
    for table in (functions.spellings, functions.fast, functions.extremes, functions.results):
        yield from table.values()
    for values in (constants.infinity, constants.not_a_number):
        yield from values.values()
    yield from (constants.table_bits, language.syntax.restrict)
    for entry in language.device:
        yield from entry.texts()


def _helpers(language: Language) -> Iterator[str]:
    """Yield the names of helpers that are the same in every program."""
    yield from (f"{operation}_{dtype}" for operation in OPERATIONS for dtype in language.types)
    words = (*_VECTOR_WORDS, *OPERATIONS, *FUNCTIONS, *(f"fast_{name}" for name in FUNCTIONS))
    vectors = {*VECTORS}
    if language.vectors is not None:
        vectors |= {language.vectors.names.get(name, language.vectors.packed.format(name=name)) for name in VECTORS}
    yield from (f"{word}_{vector}" for word in words for vector in vectors)
    yield from vectors
    if language.has_axes:
        yield from (*_MATRICES.split(), *_BOXES.split(), *_CLUSTERS.split())
        yield from (f"arrives_last_of_{threads}" for threads in range(32, 1025, 32))
        yield from BUILT_IN
        for entry in (INTRINSICS[name] for name in BUILT_IN):
            if entry.is_shared:
                yield from (f"{entry.name}_{rows}" for rows in ("kk", "kj", "ik", "ij", "rk", "rj"))
                yield from (f"products_{word}_{entry.result_words}" for word in ("ready", "end", "done"))
                yield from (f"products_done_{n}_{entry.result_words}" for n in range(1, MOST_PENDING + 1))
        yield from (f"products_wait_{pending}" for pending in range(MOST_PENDING + 1))
        yield from (f"{dtype}x{count}" for dtype in language.types for count in _LANES)
    if language.is_parallel:
        yield from (f"atomic_{word}_{dtype}" for word in _UPDATES for dtype in language.types)


def _own_words(language: Language, place: int) -> frozenset[str]:
    """Return a list of words that the language alone reserves."""
    return frozenset() if language.syntax.words is None else listed_words(language.syntax.words[place])


@cache
def local_words(language: Language) -> frozenset[str]:
    """Return the words that cannot name a variable."""
    said = (word for text in _said_by_tables(language) for word in _WORD.findall(_REMARK.sub("", text)))
    own = _own_words(language, 0)
    return RESERVED | listed_words("macros") | own | frozenset(said) | frozenset(_helpers(language))


@cache
def _file_words(language: Language) -> frozenset[str]:
    defined = (word for definition in language.definitions.values() for word in re.findall(r"(\w+)\(", definition.text))
    return local_words(language) | listed_words("declared") | _own_words(language, 1) | frozenset(defined)


@cache
def _field_words() -> frozenset[str]:
    return RESERVED.union(listed_words("macros")) - FUNCTIONS.keys()


def _moved(name: str, words: frozenset[str], own: Iterable[str], compilers: re.Pattern[str]) -> str:
    bare = name.rstrip("_")
    if bare in words or bare in own or _OTHER.fullmatch(bare):
        name += "_"
    return f"name{name}" if compilers.fullmatch(name) else name


@dataclass(frozen=True)
class Spelling:
    """Renaming of one program: injective functions of names alone.

    Attributes
    ----------
    language
        The language.
    own
        Further reserved words of this program: macros in preambles of the user.
    types
        Records that keep their names, which no variable and no function may have.
    """

    language: Language
    own: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()

    def local(self, name: str) -> str:
        """Return the C name of an argument, a variable of a loop or a temporary."""
        return _moved(name, local_words(self.language), self.own | self.types, _OURS)

    def field(self, name: str) -> str:
        """Return the C name of a field of a record, which may be the name of a function."""
        return _moved(name, _field_words(), self.own | self.types, _OURS)

    def at_file_scope(self, name: str) -> str:
        """Return the C name of a function or a table."""
        return _moved(name, _file_words(self.language), self.own | self.types, _OURS_AT_FILE_SCOPE)

    def of_record(self, name: str) -> str:
        """Return the C name of a record."""
        return _moved(name, _file_words(self.language), self.own, _OURS_AT_FILE_SCOPE)

    def moved(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the C names of those of *names* that change, as local names."""
        return {name: new for name in names if (new := self.local(name)) != name}


def spelling(language: Language, texts: Iterable[str], types: Iterable[str] = ()) -> Spelling:
    """Return the renaming of a program with preamble *texts* of the user, and with *types*, which keep their names."""
    return Spelling(language, frozenset(word for text in texts for word in _MACRO.findall(text)), frozenset(types))


def foreign_words(schedule: Schedule, target: str) -> frozenset[str]:
    """Return the identifiers in the foreign functions of a program."""
    parts = (part for s in schedule.statements.values() for part in (s.lhs, s.rhs, *s.predicates))
    called = {function for part in parts for function in foreign_calls(part)}
    return frozenset().union(*(words(entry, target) for function in called for entry in function.overloads))
