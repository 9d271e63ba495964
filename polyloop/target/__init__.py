"""Targets: ``pl.generate_code``, the language tables of C and CUDA, and the reference interpreter.

A target is a name, a ``Language`` (the table that code generation reads) and ``DeviceLimits`` (the numbers that
schedules read). ``interpreter`` executes the reference program with NumPy's arithmetic; ``verify`` and
``certificate`` are ``pl.verify``.
"""
