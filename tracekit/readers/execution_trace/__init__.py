"""Execution traces: operators, what each read and wrote, and what it waited for; mostly without times."""
