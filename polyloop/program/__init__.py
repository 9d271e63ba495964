"""The lowered program: assignments, reductions as accumulators, and the loop tree around them.

``lower`` is the entry point, ``ir`` the data. ``lower_instruction`` takes one instruction apart, ``loop_sharing``
decides which loops statements may share, ``lookback_order`` moves what a block computes by itself ahead of a wait for
other blocks, and ``infer_types`` finds the types that were left open. Nothing here knows threads, dataflow or proofs.

Reductions. ``y[i] = sum(k, a[i, k])`` becomes three kinds of statements::

    Init     acc = 0
    Update   acc = acc + a[i, k]
    Assign   y[i] = acc

A reduction over a thread axis has a fourth one, ``Combine``, in which the threads of a block exchange their partial
results. Every thread of the block executes it, so the axes of a block are projected out of its domain and of the
domain of its init. A reduction in stages is two reductions: the inner one has the terms, the outer one the operation
``of_states``, and combines the results of the inner one. A scan is a reduction whose accumulator is kept ``along``
loops of its instruction (``scan_patterns``): a running total along a sequential loop, a combine along a thread axis,
and along a block axis a decoupled look-back, at which every block passes its total on.

Conditions. A read under ``if``, ``and`` or ``or`` has a domain of its own, as far as the condition is affine, and
``guards`` are the conditions that data decides. Whether data decides anything about an access, or an instance may go
without it, is asked of the statement: ``is_certain``, ``is_unconditional``. A reduction is computed ahead of the
expression around it: only conditions inside of it count.

Bound variables. A domain that depends on a scalar temporary gives a statement two domains: ``exact`` has the variable
as a parameter, and code is generated from it; ``domain`` holds every instance that some value allows, and conflicts
are found by it. Such a statement reads the variable, and may or may not run.

Records and C text. An assignment of a field reads and writes its whole element (``Kept``); only the proof of
initialisation tells fields apart. C text of the user's is one statement with several writes, each of which may or may
not happen.

Lanes and digits. Inames tagged ``ilp`` or ``vec`` become the innermost loops of each statement, and temporaries get
an axis for them (``expand_lanes``). Where threads combine along digits of the thread number, the digits become axes
(``digits_to_axes``). Both are rewrites of the kernel ahead of lowering.
"""
