"""The schedule: launches, barriers and storage, proven against the reference program.

``build`` is the list of passes from a kernel to a ``plan.Schedule``. ``obligations`` lists everything that has to
hold; ``barrier`` places barriers at the fewest positions; ``waits`` looks every conflict up again in the finished
schedule. Where blocks depend on each other the kernel is cut into launches.

Each statement has one ``plan.Action``: it assigns, starts or awaits a copy, updates, does so atomically, or is what
all threads of a block do together. Code generation adds one, the matrix instruction of whole warps.

Temporaries in global memory become ``workspace``, arrays that the caller of a launch allocates. Copies of partial
sums that a scan passes on are propagated (``copies``), and a reduction of one term becomes an assignment (``terms``).
``counts`` has the public functions that count operations and accesses.
"""
