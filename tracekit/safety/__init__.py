"""Limits on what reading costs, a process that watches another one, and temporary folders."""
