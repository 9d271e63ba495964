"""The schedule: launches, barriers and storage, proven against the reference program.

``build`` is the list of passes from a kernel to a ``plan.Schedule``. ``obligations`` lists the proof obligations.
``synchronization`` collects the conflicts between threads, their collective operations, and the ends of launches;
``barrier`` places barriers at the fewest positions; ``waits`` then proves that the finished schedule has a barrier, or
the end of a launch, between the two sides of each conflict. ``launches`` cuts the kernel into launches where blocks
depend on each other. ``trust`` lists the assumptions that nothing checks.

Each statement has one ``plan.Action``: an assignment, the start or the arrival of an asynchronous copy, an update, an
atomic update, or a collective operation of all threads of a block (``collective``). Code generation adds one, the
matrix instruction of whole warps.

``allocation`` finds the private and shared variables (``storage``). Temporaries in global memory become ``workspace``,
arrays that the caller of a launch allocates. Copies of partial sums that a scan passes on are propagated, and a
reduction of one term becomes an assignment (``simplification``). ``fronts`` finds the peeled prologues of pipelined
loops. ``spelling`` chooses loop pragmas and names of indices. ``counts`` has the public functions that count operations
and accesses.
"""
