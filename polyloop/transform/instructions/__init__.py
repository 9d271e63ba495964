"""Transforms of instructions: rules, order, what is known of sizes and types; and which instructions are meant."""
