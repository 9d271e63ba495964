"""Code generation: from a schedule to the text of a program in C or CUDA C.

``walk`` goes down the loop tree with a context: linear constraints (*rows*, ``form >= 0``) that the code emitted so far
enforces. A statement is guarded by exactly those rows of its domain that the context does not imply. A row that is
missing in the context costs a test, never a wrong result. ``loops.loops`` makes loops, ``loops.lanes`` loops over the
lanes of vectors, ``assignments`` the statements inside. ``expressions.expressions`` has a rule for each kind of node of
an expression, which renders the parts of the node by their rules. The result is a small C tree (``tree``), with passes
that fold, hoist and name, and a printer.

``generate`` is the list of the passes from a schedule to a program. ``unit`` has the state of the whole program,
``scope`` that of a function, ``language`` the tables of a target. Device operations, such as shuffles or asynchronous
copies, are entries that a language fills in (``device.entries``).

Names that are reserved in C or CUDA are replaced in the schedule before (``names``, ``renaming``). An iname of the
reference program that is now a sum of several inames may become a variable, as in ``const int i = 16 * bx + tx``; marks
are its placeholders until the function is complete (``tree.indices``).  Then what several addresses share gets a name,
where that makes the text shorter (``tree.offsets``).

Full tiles get code of their own, without the tests of partial tiles. For a target without threads, axes become loops
around each region without barriers (``loops.regions``). Barriers, shuffles and combines under a condition that depends
on the thread are refused. A temporary with an initializer becomes a constant table. A block that needs more than 48 KiB
of shared memory gets one dynamic array, whose parts are its shared arrays (``memory``).
"""
