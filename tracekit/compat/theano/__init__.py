"""Theano's profile: its tables, and its layout."""
