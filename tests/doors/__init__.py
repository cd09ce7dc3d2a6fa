"""The private parts that tests use, each named once: one module an area, with the reason."""
