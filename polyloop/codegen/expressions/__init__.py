"""Expressions as C expressions: types, addresses, literals, linear forms; and bounds of intermediate index values.

``expressions.Expressions`` prints any expression. Its base classes are ``addresses`` (elements and indices),
``wrapping`` (integer overflow), ``operands`` (C's types of operands) and ``vectors``; ``records`` has their helper
functions. ``linear`` prints affine forms and rows, ``literals`` constants, ``conversions`` casts; ``combine`` has
updates of accumulators. ``magnitude`` bounds values of index arithmetic, and ``spans`` the elements of arrays.
"""
