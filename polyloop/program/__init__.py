"""The lowered program: assignments, reductions as accumulators, and the loop tree around them.

``lower`` is the entry point, ``ir`` the data. ``lower_instruction`` takes one instruction apart, ``loop_sharing``
decides which loops statements may share, ``written_barriers`` places the user's barriers, and ``lookback_order`` moves
independent work of a block ahead of its wait for other blocks. ``infer_types`` and ``open_types`` find the types that
were left open, ``index_types`` the width of index expressions, and ``scan_patterns`` the reductions that can run as
scans. ``reference`` makes the reference program. Nothing here knows threads, dataflow or proofs.

Reductions. ``y[i] = sum(k, a[i, k])`` becomes three kinds of statements::

    Init     acc = 0
    Update   acc = acc + a[i, k]
    Assign   y[i] = acc

A reduction over a thread axis has a fourth one, ``Combine``, in which the threads of a block exchange their partial
results. Every thread of the block executes it, so the axes of a block are projected out of its domain and of the
domain of its init. A reduction in stages is two reductions: the inner one has the terms, and the outer one combines
the results of the inner one, with the operation marked ``of_states``. A scan is a reduction whose accumulator is kept
``along`` loops of its instruction (``scan_patterns``): a running total along a sequential loop, a combine along a
thread axis, and a decoupled look-back along a block axis, in which every block passes its total on.

Conditions. A read under ``if``, ``and`` or ``or`` has a domain of its own, as far as the condition is affine; its
``guards`` are the conditions that depend on data. ``Lowered.is_certain`` tells if the element of an access is known for
each instance, ``Lowered.is_unconditional`` if, in addition, each instance makes the access. A reduction is computed
ahead of the expression around it, so only conditions inside of it count; where a term may fail, the conditions around
the reduction become part of it (``conditions``).

Bound variables. A domain that depends on a scalar temporary gives a statement two domains. ``exact`` has the variable
as a parameter, for code generation; ``domain`` holds every instance that some value allows, for conflicts and dataflow.
Such a statement reads the variable, and is conditional.

Records and C text. An assignment of a field reads and writes its whole element (``Kept``); only the proof of
initialisation distinguishes fields. C text of the user is one statement with several may-writes.

Lanes and digits. Inames tagged ``ilp`` or ``vec`` become the innermost loops of each statement, and temporaries get
an axis for them (``expand_lanes``). Where threads combine along digits of the thread number, the digits become axes
(``digits_to_axes``). Both are rewrites of the kernel ahead of lowering.
"""
