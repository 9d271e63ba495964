"""Expressions as C text: types, addresses, literals, linear forms; and how large what they compute can become."""
