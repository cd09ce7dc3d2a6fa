"""Mechanisms that several readers share."""
