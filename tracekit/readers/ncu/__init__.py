"""What Nsight Compute prints: its CSV pages and its text."""
