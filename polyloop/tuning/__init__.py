"""Autotuning: spaces of choices, what of them is worth compiling, and a race between the rest."""
