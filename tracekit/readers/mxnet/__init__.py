"""Readers of MXNet's trace and of its aggregate table."""
