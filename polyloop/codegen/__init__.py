"""Code generation: from a schedule to the text of a program in C or CUDA C.

``walk`` goes down the loop tree with a context, the rows of integers that the text emitted so far enforces. A
statement is guarded by exactly those rows of its domain that the context does not imply: a row too few in the context
costs a test, never a wrong result. ``loops.loops`` makes its loops, ``loops.lanes`` those over the lanes of vectors,
``assignments`` the statements inside. The result is a small C tree (``tree``), whose passes fold, hoist and name, and
which the printer turns into text. ``generate`` is the list of the passes from a schedule to a program; ``unit`` is
what they know of the whole program, ``scope`` what they know of a function, ``language`` all that is known of a target.
What threads do together, such as shuffles or copies, are entries that a language fills in (``device.entries``).

Names that mean something else in the text are replaced in the schedule before (``names``, ``renaming``). An index
that several inames make up gets the program's name for it, ``const int i = 16 * bx + tx``, where that pays: marks
stand for such indices while the tree is made.

Full tiles have a text of their own, apart from partial ones. For a target without threads, axes become loops around
each region without barriers (``loops.regions``). Barriers, shuffles and combines are refused below anything that
depends on the thread. A temporary with an initializer becomes a constant table; where a block needs more than 48 KiB
of shared memory, its arrays are parts of one piece whose size the launch gives (``memory``).
"""
