"""Claims that have to be proven of a kernel, what came of them, and how an instance is shown to the user.

An ``obligation`` is a claim with a function that yields what speaks against it, within ISL's budget; what holds is
kept.  A ``witness`` is an instance that shows why something does not hold.
"""
