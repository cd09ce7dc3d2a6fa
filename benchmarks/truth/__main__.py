"""The command `python -m benchmarks.truth`."""

from benchmarks.truth.run import main

main()
