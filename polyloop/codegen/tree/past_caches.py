"""Stores of arrays that are written once, past the caches.

::

    y[i] = x;                              ->   __stcs(&y[i], x);

    #pragma omp parallel for               ->   #pragma omp parallel
    for (block ..)                              {
        #pragma omp simd                            #pragma omp for nowait
        for (lane = 0; lane < 16; ++lane)           for (block ..) {
            y[.. + lane] = x;                           _Alignas(64) float y_line[16];
                                                        #pragma omp simd
                                                        for (lane = 0; lane < 16; ++lane)
                                                            y_line[lane] = x;
                                                        store_past_caches(&y[..], y_line, 64);
                                                    }
                                                    show_stores();
                                                }

The compiler keeps a line in a register.  Each thread lets others see its lines before it meets them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from polyloop.codegen.device.entries import Stores
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Block, Call, Declare, For, Group, Node, Sync, walk, with_blocks
from polyloop.codegen.tree.c_expr import Apply, Binary, Cast, Code, Literal, Name, Subscript, Unary
from polyloop.codegen.tree.parallel import in_steps
from polyloop.frozen import replace

__all__ = ["Arrays", "fenced", "past_caches", "stored_past_caches"]

Arrays: TypeAlias = Mapping[str, tuple[str, int]]
"""C type of an element, and its bytes, of each array that is written once."""

_BUILT_IN: Final = re.compile(r"(float|int|uint|double|longlong|ulonglong)[24] \*")
"""Types of vectors that are stored at once."""
_LANES: Final = "v"
_STORAGE: Final = "_Alignas({bytes}) "
_MOST_ALIGNED: Final = 64


def past_caches(block: Block, stores: Stores, arrays: Arrays, fresh: Callable[[str], str]) -> Block:
    """Return *block* with stores past the caches; *arrays* are those that are meant."""
    return tuple([new for node in block for new in _of(node, stores, arrays, fresh)])


def stored_past_caches(block: Block, stores: Stores) -> frozenset[str]:
    """Return the arrays that are stored past the caches, some or all of them."""
    own = {stores.once, stores.line}
    calls = [node.code for node in walk(block) if isinstance(node, Call) and isinstance(node.code, Apply)]
    return frozenset().union(*[call.arguments[0].names for call in calls if call.function in own])


def fenced(block: Block, stores: Stores) -> Block:
    """Return the body of a function whose threads let others see what they stored, after loops that they share."""
    found = tuple([_shared(node, stores) for node in block])
    is_left = any(stored_past_caches((node,), stores) for node in found if not _has_fence(node, stores))
    return (*found, Sync(stores.fence)) if is_left else found


def _has_fence(node: Node, stores: Stores) -> bool:
    return any(isinstance(one, Sync) and one.text == stores.fence for one in walk((node,)))


def _shared(node: Node, stores: Stores) -> Node:
    """Return a loop that threads share as a block of all of them, with a fence at the end."""
    if not (isinstance(node, For) and node.pragma.startswith(stores.team)):
        return with_blocks(node, lambda inner: tuple([_shared(one, stores) for one in inner]))
    if not stored_past_caches((node,), stores):
        return node
    more = node.pragma.removeprefix(stores.team).removeprefix(" for")
    return Group((replace(node, pragma=f"{stores.share}{more}"), Sync(stores.fence)), stores.team)


def _of(node: Node, stores: Stores, arrays: Arrays, fresh: Callable[[str], str]) -> Block:
    if stores.once:
        if isinstance(node, Assign) and (call := _at_once(node, stores, arrays)) is not None:
            return (call,)
    elif isinstance(node, For) and node.axis == _LANES and (lines := _line(node, stores, arrays, fresh)):
        return lines
    return (with_blocks(node, lambda inner: past_caches(inner, stores, arrays, fresh)),)


def _at_once(node: Assign, stores: Stores, arrays: Arrays) -> Call | None:
    """Return the call that stores a number or a vector, None if *node* is no such store."""
    if node.type or node.operator != "=" or node.pragma:
        return None
    match node.target:
        case Subscript(base=Name(text=name)) if name in arrays:
            pointer: Code = Unary(c.ADDRESS, node.target)
        case Unary(operand=Cast(type=kind, operand=Unary(operand=Subscript(base=Name(text=name)))) as pointer):
            if name not in arrays or not _BUILT_IN.fullmatch(kind):
                return None
        case _:
            return None
    return Call(Apply(stores.once, (pointer, node.value)), node.instruction)


def _line(loop: For, stores: Stores, arrays: Arrays, fresh: Callable[[str], str]) -> Block:
    """Return a loop over lanes whose results go to a line, and its store; nothing if it is no such loop."""
    *before, last = loop.body
    is_plain = isinstance(last, Assign) and last.operator == "=" and not last.type and not last.pragma
    if not (is_plain and isinstance(last, Assign) and all(isinstance(one, Declare) for one in before)):
        return ()
    target, count = last.target, _count(loop)
    if not (isinstance(target, Subscript) and isinstance(target.base, Name) and target.base.text in arrays and count):
        return ()
    declared = {name: code for one in before if isinstance(one, Declare) for name, code in one.initial}
    ctype, bytes_ = arrays[target.base.text]
    size = count * bytes_
    if size % stores.least or not in_steps(target.index, loop.var, declared):
        return ()
    first = target.index
    for _ in range(len(declared) + 1):
        first = c.put(first, declared)
    first = c.renewed(c.put(first, {loop.var: loop.start}), _without_zero)
    line = fresh(f"{target.base.text}_line")
    storage = _STORAGE.format(bytes=min(_MOST_ALIGNED, size & -size))
    into = replace(last, target=Subscript(Name(line), Name(loop.var)), instruction="")
    place = Unary(c.ADDRESS, Subscript(target.base, first))
    call = Call(Apply(stores.line, (place, Name(line), c.integer(size))), last.instruction)
    return Declare(ctype, line, (count,), storage=storage), replace(loop, body=(*before, into)), call


def _count(loop: For) -> int:
    """Return the number of iterations of a loop from zero, zero if it is not a constant."""
    start, test = loop.start, loop.test
    if not (isinstance(start, Literal) and start.value == 0 and loop.step == 1 and isinstance(test, Binary)):
        return 0
    (operator, limit) = test.rest[-1]
    is_plain = len(test.rest) == 1 and operator.symbol == "<" and test.first == Name(loop.var)
    return int(limit.value) if is_plain and isinstance(limit, Literal) else 0


def _without_zero(code: Code) -> Code | None:
    """Return a sum without a zero at its end, None for other expressions."""
    if not (isinstance(code, Binary) and isinstance(code.rest[-1][1], Literal) and code.rest[-1][1].text == "0"):
        return None
    if code.rest[-1][0].symbol not in {"+", "-"}:
        return None
    return Binary(code.first, code.rest[:-1]) if len(code.rest) > 1 else code.first
