"""Loops: bounds and guards from integer rows, full and partial tiles, vector lanes, vector accesses, grids.

A *row* is a linear constraint ``form >= 0`` with integer coefficients (``rows``). ``context`` collects the rows that
hold at a place of the code, and decides which others they imply. ``bounds`` makes loop bounds of rows, ``loops`` the
loops, ``tiles`` the conditions of full tiles, ``grid`` the grids of launches. ``lanes`` and ``vector_access`` make
vector accesses, ``zero_fill`` the conditions of copies with zero fill. ``digits`` defines digits of the thread number,
and ``regions`` turns blocks and threads into loops for a host.
"""
