"""MXNet's aggregate statistics: its tables, and its layout."""
