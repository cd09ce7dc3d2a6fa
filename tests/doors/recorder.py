"""What a guest keeps while the program runs, how it ends, and what it does where each of its parts fails."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.recorder import _exit_summary as recorder_exit_summary
from tracekit.recorder import _jsonl as recorder_jsonl
from tracekit.recorder import _modes as recorder_modes
from tracekit.recorder import _process as recorder_clock
from tracekit.recorder import _recorder as recorder_recorder
from tracekit.recorder import _session as recorder_session
from tracekit.recorder import _values as recorder_values
from tracekit.recorder import torch as torch_module_calls
