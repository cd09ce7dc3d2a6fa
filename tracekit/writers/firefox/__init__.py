"""Profiles for profiler.firefox.com."""
