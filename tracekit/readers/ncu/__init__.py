"""Output of Nsight Compute: its CSV pages and its text."""
