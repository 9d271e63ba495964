"""Expressions as C text: types, addresses, literals, linear forms; and bounds of intermediate index values."""
