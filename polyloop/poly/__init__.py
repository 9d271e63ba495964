"""Polyhedra: ISL sets and maps by the names of their dimensions, affine forms, counts, and the budget of questions.

``affine`` has forms over names, ``sets`` the conversions to ISL and back, ``axes`` the names of hardware axes.
``counting`` counts the points of a set as a polynomial: sums over one dimension after the other, on systems of
integer rows (``system``), or Barvinok's algorithm where it is installed and needed. ``order`` reads constraints in an
order of our own, as ISL rearranges them in place. ``relations`` has operations on relations whose results are kept.
``budget`` limits the steps of ISL for each question, and ``collector`` the runs of the garbage collector in a call.
"""
