"""Device memory, and copies and memsets."""
