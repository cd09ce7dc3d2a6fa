"""Reader of Perfetto's traces."""
