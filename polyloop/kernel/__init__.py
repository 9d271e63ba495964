"""Kernels as data: ``LoopKernel``, its instructions, domains, arrays and tags.

``text`` parses what users write, ``build`` makes a kernel of it, and nothing here analyses a program. Kernels and their
parts are frozen; a transform makes new ones that share unchanged parts.

The reference program of a kernel is settled while it is built: rules get parameters that no other name can have
(``build.plain.binders``), nested reductions get different inames, several assignments at once and ``dup=`` are written
out (``build.plain.desugar``), ``cse`` becomes a temporary, ``dep=`` patterns are resolved (``build.sequence``),
variables that live across a written barrier get an element for each iteration (``build.scalar_expansion``), and calls
of foreign functions are bound to their definitions (``build.plain.foreign``). Text order, ``dep=`` and the sharing
rules of loops then give one loop program (``build.text_order``).

Layouts. Strides, padding and swizzles change addresses only: analyses know subscripts.
"""
