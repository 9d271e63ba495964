"""Expressions as C expressions: types, addresses, literals, linear forms; and bounds of intermediate index values.

``expressions.Expressions`` prints any expression, by a table with one rule for each kind of node. The rules are
functions of a ``renderer.Renderer``, which prints the parts of a node by their rules; ``types`` has the types of these
parts. Rules are in ``elements`` (variables and arrays; ``addresses`` has their subscripts), ``arithmetic``, ``calls``,
``conditions``, ``vectors`` and ``stores``. ``operands`` inserts casts, ``wrapping`` computes with unsigned numbers
where signed ones may overflow, ``records`` has helper functions of records and vectors. ``linear`` prints affine forms
and rows, ``literals`` constants, ``conversions`` casts; ``combine`` has updates of accumulators. ``magnitude`` bounds
values of index arithmetic, and ``spans`` the elements of arrays.
"""
