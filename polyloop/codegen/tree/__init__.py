"""The small C tree, its printer, and passes over whole trees."""
