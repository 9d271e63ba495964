"""Value-based dataflow: for each read, the write whose value it sees, and facts that follow from it.

``value_flow`` computes and memoises the dataflow of a program, without ISL in simple cases; ``last_writes`` finds the
write that each read sees, by the loops around both.  ``times`` orders the statements of the loop tree,
``direct_links`` has the cases that need no ISL.  ``must_write``
finds branches of which one writes an element.  ``pass_through`` follows values through copy instructions.
``conflicts`` are pairs of accesses to one element, by the loop that orders them; ``nosync`` removes those that the
user denies.  ``address_spaces`` infers address spaces from the readers of each temporary.  ``uniformity`` finds the
threads that have equal values of a loop bound in memory.
"""
