"""Transforms of instructions: rules, order, assumptions on sizes and types; and selection of instructions."""
