"""Bytes that change, and files that end early: each reader gives a trace whose ledger adds up, or one sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import SAMPLES, SHARE

import tracekit
from tracekit.errors import TracekitError
from tracekit.formats import READERS

SAMPLES_OF = {
    folder.name: sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(("_", ".")))
    for folder in sorted(SAMPLES.iterdir())
    if folder.is_dir() and folder.name in READERS
}
OFTEN = {"folded", "firefox", "ncu", "perfetto", "pprof", "rocpd", "rocprof-csv", "rocprof-db", "rocprof-json", "rpd"}
"""Readers whose fuzzing is young."""
CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=12)
LEFT_OUT = st.sampled_from([0, 0, 0, 1, 2, 50, 1 << 12])


@pytest.mark.parametrize("reader", sorted(SAMPLES_OF))
def test_any_damage_is_a_trace_whose_ledger_adds_up_or_a_sentence(reader: str, tmp_path: Path) -> None:
    whole = [path.read_bytes() for path in SAMPLES_OF[reader]]
    path = tmp_path / "x"

    @settings(
        suppress_health_check=[HealthCheck.too_slow],
        deadline=None,
        max_examples=(80 if reader in OFTEN else 25) // SHARE,
    )
    @given(st.sampled_from(whole), CHANGES, LEFT_OUT)
    def check(data: bytes, changes: list[tuple[int, int]], left_out: int) -> None:
        damaged = bytearray(data)
        for place, byte in changes:
            damaged[place % len(data)] = byte
        path.write_bytes(damaged[: max(len(data) - left_out, 0)])
        with contextlib.suppress(TracekitError):
            tracekit.read(path, format=reader).ledgers[0].check()

    check()
