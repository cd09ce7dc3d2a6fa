"""Readers of paddle.profiler's exports and of its printed summary."""
