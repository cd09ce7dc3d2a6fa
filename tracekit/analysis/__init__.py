"""Exact arithmetic on plain integer arrays: ranges, statistics, nesting, lanes, links. Knows no trace and no file."""
