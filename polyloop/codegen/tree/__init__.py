"""The small C tree, its printer, and passes over whole trees.

``c_ast`` has the statements, ``c_expr`` the expressions; ``cprinter`` prints them. Passes: ``declare`` places
declarations, ``indices`` names indices, ``branches`` merges and unswitches conditions, ``fold_initial_value`` removes
neutral elements, and ``shuffles`` eliminates common shuffles. ``divergence`` refuses shuffles and matrix instructions
that not all lanes reach. ``registers`` finds private arrays that cannot be in registers.
"""
