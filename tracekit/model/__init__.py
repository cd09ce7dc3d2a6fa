"""Columns as Arrow and numpy have them: narrow types for both, the members of `args`, the tables of a trace."""
