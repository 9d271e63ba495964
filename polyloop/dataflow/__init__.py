"""Value-based dataflow: for each read, the write whose value it sees, and what follows from that alone.

``last_writes`` asks ISL and proves the answer; ``value_flow`` keeps what is known of a program.  ``conflicts`` are
pairs of accesses to one element, by the loop that orders them; ``nosync`` takes out those that the user denies.
``address_spaces`` follow from who reads what; ``uniformity`` says which threads agree on a bound that is read.
"""
