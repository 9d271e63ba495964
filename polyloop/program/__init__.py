"""The lowered program: a kernel spelt out as assignments, reductions as accumulators, the tree of loops around them.

``lower`` is what the layers above ask for; ``ir`` has its parts.  ``lower_instruction`` takes one instruction apart,
``loop_sharing`` says which loops statements may share, ``lookback_order`` puts what a block can do by itself before a
wait for other blocks.  Lanes and digits of the thread number are made loops and axes first (``expand_lanes``,
``digits_to_axes``).  Types that were left open are found here too, because they follow from the assignments
(``infer_types``).  Nothing here knows threads, dataflow or proofs.
"""
