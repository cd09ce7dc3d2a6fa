"""Profiles for speedscope."""
