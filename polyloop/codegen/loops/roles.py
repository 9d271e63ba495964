"""Text of threads with different roles: one branch for those that copy, one for the others.

::

    if (threadIdx.x >= 256) {
        fewer registers;
        if (threadIdx.x == 256) {copies}
    } else {
        more registers;
        everything else
    }

Where blocks go on to the next launch, the threads that copy end before (``return``), and the others stand behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from polyloop.codegen.device.entries import Roles, Threads
from polyloop.codegen.language import Language
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Block, Comment, If, Sync
from polyloop.poly.axes import THREAD_AXES
from polyloop.schedule.copy_engine import Crew

__all__ = ["in_roles"]


def in_roles(
    crew: Crew, language: Language, copies: Mapping[int, Block], rest: Block, *, goes_on: bool = False
) -> Block:  # fmt: skip
    """Return the text of a block of threads; *copies* has that of each thread that copies, by its number.

    *goes_on*: whether something follows that the others alone execute.
    """
    entry, thread = language.need(Roles), language.need(Threads).axes[THREAD_AXES[0]]
    copying: list[If | Sync | Comment] = []
    for watch in crew.watches:
        if copies[watch.thread]:
            comment = Comment(watch.role.name)
            copying.append(If(c.Raw(f"{thread} == {watch.thread}"), (comment, *copies[watch.thread])))
    few, many = crew.watches[0].role.registers, crew.rest.registers
    less = (Sync(entry.fewer.format(registers=few)),) if many else ()
    more = (Sync(entry.more.format(registers=many)),) if many else ()
    begin = c.Raw(f"{thread} >= {crew.threads}")
    others = (Comment(crew.rest.name), *more, *rest)
    if goes_on:
        return (If(begin, (*less, *copying, Sync("return;"))), *others)
    return (If(begin, (*less, *copying), others),)
