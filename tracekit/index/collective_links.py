"""The bandwidth of the links between the ranks of a collective, where their devices and their host tell it.

The name of a device tells how fast its links to other devices are (NVLink, Infinity Fabric), not whether they are
plugged in: it is the most that ranks within one host can have, in one direction. Between hosts it is the network that
counts, which a trace does not name. A group is within one host if as many of its ranks as it has are in inputs of one
host, or in one input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tracekit.index import owners as _owners
from tracekit.index.collectives import Collective
from tracekit.index.device_peaks import device_of
from tracekit.index.trace_index import TraceIndex
from tracekit.model import sets
from tracekit.model.arrow import F64, I64

__all__ = ["links_of"]

_ANY_HOST = frozenset({"", "localhost", "localhost.localdomain", "127.0.0.1"})
"""Names that each host may have."""


def links_of(index: TraceIndex, rows: I64, described: Sequence[Collective]) -> F64:
    """Return shape (n,): bytes/s in one direction between the ranks of each collective, nan where it is not known.

    rows: of EVENTS, one a collective of a rank; described: what they are.
    """
    found = np.full(rows.size, np.nan)
    if not rows.size or "device" not in index.events.schema.names:
        return found
    sources = index.ints("source")[rows]
    devices = np.where(index.has("device")[rows], index.ints("device")[rows], -1)
    owners = _owners.find(index).codes[rows]
    hosts = {source: _host(index, source) for source in sets.unique(sources).tolist()}
    groups: dict[tuple[str | None, str | None, int | None], int] = {}
    group = np.array([groups.setdefault((g.group, g.ranks, g.members), len(groups)) for g in described], np.int64)
    members = [key[2] or 0 for key in groups]
    places, place = np.unique(np.column_stack((group, sources, owners, devices)), axis=0, return_inverse=True)
    peers: dict[tuple[int, str], set[tuple[int, int]]] = {}
    rates: dict[int, set[float | None]] = {}
    for number, source, owner, device in places.tolist():
        peers.setdefault((number, hosts[source]), set()).add((owner, device))
        rated = device_of(index, source, device if device >= 0 else None)
        # One that is found by its size may be one of several, which differ in their links; a slice has none.
        rate = rated.peaks.link_gbps if rated.peaks is not None and not rated.note else None
        rates.setdefault(number, set()).add(rate)
    within = {number for (number, _), ranks in peers.items() if members[number] >= 2 and len(ranks) >= members[number]}
    on_hosts = Counter(number for number, _ in peers)
    known = np.full(len(groups), np.nan)
    for number in within:
        if on_hosts[number] > 1:
            continue
        # The slowest of its devices is the limit; the table counts both directions.
        each = [rate for rate in rates[number] if rate is not None]
        if each and None not in rates[number]:
            known[number] = min(each) / 2 * 1e9
    found[:] = known[places[place.reshape(-1), 0]]
    return found


def _host(index: TraceIndex, source: int) -> str:
    """Return the host of an input; one that names none is alone on its own."""
    name = _owners.host_of(index, source)
    return name if name not in _ANY_HOST else f"input {source}"
