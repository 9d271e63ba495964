"""Passes over parsed statements that leave plain assignments: no calls, no ``cse``, no two statements in one.

``passes`` runs all of them; each file is one.
"""
