"""Rows of EVENTS on the tracks of a viewer: lanes, phases, overlaps and arrows, for every timeline format."""
