"""The C target: C11, one function, for any C compiler; with OpenMP, for all cores of a processor."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from polyloop.codegen.device.entries import Atomics, Stores, Word
from polyloop.codegen.language import Constants, Definition, Functions, Language, LoopStyle, Syntax
from polyloop.codegen.tree.team import Team
from polyloop.kernel.limits import DeviceLimits
from polyloop.target.base import Target
from polyloop.target.mathtable import C_FUNCTIONS, bit_definitions, c_definitions

__all__ = ["C_LANGUAGE", "OPENMP_LANGUAGE", "CTarget"]

_LIMITS: Final = DeviceLimits(shared_bytes=227 * 1024, local_bytes=4 * 1024 * 1024, has_threads=False)
"""As much shared memory as the largest GPU has, and private arrays of half the stack that Linux gives a thread."""

_TYPES: Final = {
    "bool": "bool",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "unsigned int",
    "uint64": "uint64_t",
    "float16": "_Float16",
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
C_LANGUAGE: Final = Language(
    name="c",
    types=_TYPES,
    syntax=Syntax(
        header="#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>",
        function="void",
        helper="static inline",
        restrict="restrict",
    ),
    functions=Functions(C_FUNCTIONS),
    loops=LoopStyle(
        unroll="#pragma GCC unroll {count}", unroll_hint="#pragma GCC unroll 4", unroll_by="#pragma GCC unroll {count}"
    ),
    constants=Constants(
        infinity={"float32": "INFINITY", "float64": "(double)INFINITY"},
        not_a_number={"float32": "NAN", "float64": "(double)NAN"},
    ),
    definitions={
        **dict(c_definitions()),
        **dict(bit_definitions("static inline", _TYPES, "__builtin_clz{long}({x})", "__builtin_ctz{long}({x})")),
    },
)


_CONTRACT: Final = "#pragma STDC FP_CONTRACT ON"
_WORD: Final = "{type} __attribute__((may_alias))"
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_UPDATES: Final = {
    **dict.fromkeys(("and", "or", "xor"), (_INTEGERS, "#pragma omp atomic")),
    **dict.fromkeys(("sum", "product"), ((*_INTEGERS, "float32", "float64"), "#pragma omp atomic")),
    "exchange": ((*_INTEGERS, "float32", "float64"), "#pragma omp atomic write"),
}


def _word(ctype: str, dtype: str) -> Word:
    """Return the word of a type for compare-and-swap; a union has the bits of one as the other."""
    own = _TYPES[dtype]
    to = f"(union {{{{ {own} as_value; {ctype} as_bits; }}}}){{{{{{0}}}}}}.as_bits"
    back = f"(union {{{{ {ctype} as_bits; {own} as_value; }}}}){{{{{{0}}}}}}.as_value"
    return Word(_WORD.format(type=ctype), to, back)


_LINES: Final = """\
// Stores a vector that caches need not keep; where it does not begin at a multiple of its bytes, in smaller parts.
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
static inline void store_past_caches(void *to, const void *line, int bytes)
{
    char *target = (char *)to;
    const char *source = (const char *)line;
    const uintptr_t place = (uintptr_t)to | (uintptr_t)bytes;
#if defined(__AVX512F__)
    if (place % 64 == 0) {
        for (int n = 0; n < bytes; n += 64)
            _mm512_stream_si512((__m512i *)(target + n), _mm512_loadu_si512(source + n));
        return;
    }
#endif
#if defined(__AVX__)
    if (place % 32 == 0) {
        for (int n = 0; n < bytes; n += 32)
            _mm256_stream_si256((__m256i *)(target + n), _mm256_loadu_si256((const __m256i *)(source + n)));
        return;
    }
#endif
#if defined(__SSE2__)
    if (place % 16 == 0) {
        for (int n = 0; n < bytes; n += 16)
            _mm_stream_si128((__m128i *)(target + n), _mm_loadu_si128((const __m128i *)(source + n)));
        return;
    }
#endif
    memcpy(target, source, (size_t)bytes);
}

// Lets other threads see what this one stored past the caches.
static inline void show_stores(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}"""
_STORES: Final = Stores(
    line="store_past_caches",
    least=16,
    fence="show_stores();",
    team="#pragma omp parallel",
    share="#pragma omp for nowait",
)
"""Intel Intrinsics Guide, "Store" with the word "stream"; such stores of a thread are seen in order after a fence."""

_TEAM: Final = Team(
    whole="#pragma omp parallel",
    share="#pragma omp for",
    alone="#pragma omp single",
    meet="#pragma omp barrier",
    unmet="nowait",
)

_CALLED_NAMES: Final = """
cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
erf erfc tgamma lgamma atan2 pow fmod remainder hypot nextafter ldexp
"""
_CALLED: Final = frozenset(name + suffix for name in _CALLED_NAMES.split() for suffix in ("", "f"))
"""GCC and Clang take those of a vector library only with ``-ffast-math`` or ``-fveclib``."""

OPENMP_LANGUAGE: Final = replace(
    C_LANGUAGE,
    definitions={**C_LANGUAGE.definitions, "store_past_caches": Definition(_LINES)},
    loops=replace(C_LANGUAGE.loops, lanes="#pragma omp simd", called=_CALLED, blocks=_TEAM.launch, team=_TEAM),
    device=(
        Atomics(
            native={},
            swap="__sync_val_compare_and_swap({0}, {1}, {2})",
            words={
                **{name: _word(_TYPES[f"u{name.removeprefix('u')}"], name) for name in _INTEGERS},
                "float16": _word("uint16_t", "float16"),
                "bfloat16": _word("uint16_t", "bfloat16"),
                **{name: _word("uint8_t", name) for name in ("float8_e4m3fn", "float8_e5m2")},
                "float32": _word("unsigned int", "float32"),
                "float64": _word("uint64_t", "float64"),
            },
            directives={
                (operation, dtype): line for operation, (dtypes, line) in _UPDATES.items() for dtype in dtypes
            },
        ),
        _STORES,
    ),
)
"""OpenMP Application Programming Interface 5.2, section 15.8.4, and GCC's "Legacy __sync Built-in Functions"."""


@cache
def _language(*, openmp: bool, contract: bool, full_blocks: bool) -> Language:
    """Return the C language; *contract* is a line of the file, which compilers and :mod:`~polyloop.runtime` follow."""
    language = OPENMP_LANGUAGE if openmp else C_LANGUAGE
    language = replace(language, loops=replace(language.loops, full_blocks=full_blocks))
    if not contract:
        return language
    return replace(language, syntax=replace(language.syntax, header=f"{language.syntax.header}\n\n{_CONTRACT}"))


def CTarget(  # noqa: N802 - reads as the class that it is to users
    *, openmp: bool = False, contract: bool = False, full_blocks: bool = True
) -> Target:
    """Return the C target; kernels that are tagged for a GPU run on it too, as loops.

    Parameters
    ----------
    openmp
        True: the threads of a processor share the blocks of a launch, so that loops with the tags ``g.0``, ``g.1`` and
        ``g.2`` run in parallel.  The environment says how many threads there are (``OMP_NUM_THREADS``).  The compiler
        has to know OpenMP (``-fopenmp``).
    contract
        True: the compiler may make one instruction of a product and a sum, which rounds once and takes half the time.
        Then results differ in the last digits from machine to machine.  CUDA C does so always.
    full_blocks
        False: with *openmp*, blocks inside of the arrays have no text of their own, without the tests of vectors that
        the edge of a block cuts.

    Notes
    -----
    ::

        for (int bx = 0; bx < (n + 255) / 256; ++bx) {..}
        ->
        #pragma omp parallel for
        for (int bx = 0; bx < (n + 255) / 256; ++bx) {..}

    Several launches, and loops of the host around them, have one team of threads, which wait for each other where a
    launch ends; one of them executes what is no loop over blocks.

    Loops with the tag ``vec`` are written for the vector unit then (``#pragma omp simd``), as are those with the tag
    ``ilp`` whose iterations use neighbouring elements.  Where blocks have unequal work, as those of a triangle have, a
    thread takes the next one when it is done (``schedule(dynamic)``).

    Blocks of a launch are proven to be independent, as for a GPU.  A launch without blocks is executed by one thread,
    which a note of the program says (``serial-launch``).  Sums by atomic updates are added in any order.
    """
    language = _language(openmp=openmp, contract=contract, full_blocks=full_blocks)
    return Target("c", language, _LIMITS, full_blocks=full_blocks, openmp=openmp, contract=contract)
