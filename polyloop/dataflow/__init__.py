"""Value-based dataflow: for each read, the write whose value it sees, and facts that follow from it.

``last_writes`` asks ISL and proves the answer; ``value_flow`` caches the dataflow of a program.  ``conflicts`` are
pairs of accesses to one element, by the loop that orders them; ``nosync`` removes those that the user denies.
``address_spaces`` are inferred from the readers of each temporary; ``uniformity`` finds the threads that agree on a
loop bound in memory.
"""
