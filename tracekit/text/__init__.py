"""Texts for people: cells, names and their short forms."""
