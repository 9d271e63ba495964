"""Expressions: pymbolic's nodes and ours, their parser, printer, types and rewriting.

``nodes`` has what pymbolic does not know (reductions, casts, fields), ``promotion`` and ``typing`` NumPy's rules for
types, ``rewrite`` substitution that does not capture, ``rules`` the user's substitution rules, ``operations`` and
``functions`` what reductions and calls compute. No kernel is known here.
"""
