"""The small C tree, its printer, and what is done to a tree as a whole once it stands."""
