"""Device operations: collective operations of threads, atomics, asynchronous copies, matrix instructions.

``entries`` declares the device functions that a language can have. ``warp_reduce`` makes reductions over threads,
``block_scan`` scans over threads, ``decoupled_lookback`` scans over blocks. ``tensors`` rewrites statements on matrix
instructions, and ``matrix`` prints them.
"""
