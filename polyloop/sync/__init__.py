"""Synchronization: which threads, warps and blocks have to wait for which, and where nothing can make them.

``races`` finds the conflicts between threads, and the scope of what settles each; ``warps`` those that a warp settles
by itself.  Asynchronous copies, shuffles, temporaries that share storage and scans over blocks have rules of their own.
"""
