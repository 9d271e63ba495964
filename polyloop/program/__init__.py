"""The lowered program: a kernel as assignments, reductions as accumulators, in a loop tree.

``lower`` is the interface for the layers above; ``ir`` has its parts.  ``lower_instruction`` splits one instruction
into assignments, ``loop_sharing`` decides the loops that statements may share, ``lookback_order`` moves work of a block
ahead of its wait for other blocks.  Lanes and digits of the thread number are expanded to loops and axes first
(``expand_lanes``, ``digits_to_axes``).  Open types are inferred here too, because they follow from the assignments
(``infer_types``).  Threads, dataflow and proofs belong to the layers above.
"""
