"""The edge of the library: arguments of public functions are checked against their declarations."""
