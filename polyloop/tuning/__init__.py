"""Autotuning: spaces of choices, pruning before compilation, and a race between the rest."""
