"""The recorder: NVTX ranges and a JSONL log from inside the user's program."""
