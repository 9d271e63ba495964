"""Synchronization needs between threads, warps and blocks, and conflicts that no barrier can resolve.

``races`` finds the conflicts between threads, with the scope of the barrier that resolves each; ``warps`` those that a
warp settles by itself.  Asynchronous copies, shuffles, temporaries that share storage and scans over blocks have rules
of their own.
"""
