"""Derivatives of kernels, as kernels: adjoints (reverse mode) and tangents (forward mode).

``statements`` puts the reference program into a form without predicates and nested reductions, ``flow`` finds the write
that each read sees, ``partials`` differentiates expressions; ``reverse`` and ``forward`` make the new program, and
``emitted`` a kernel of it.  No schedule is taken over: the result is transformed and proven like any other kernel.
"""
