"""What is wrong with a run, what it rests on, and what fixing it could save."""
