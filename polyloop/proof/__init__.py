"""Proof obligations of a kernel, their results, and witnesses against them.

An ``obligation`` is a claim with a function that yields counterexamples, within ISL's budget; its result is cached.  A
``witness`` is an instance that violates a claim.
"""
