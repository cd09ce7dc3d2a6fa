"""A file that `load_profiler_result` has read: a trace with the methods of Paddle's result object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tracekit import pipeline
from tracekit.model.trace import Trace
from tracekit.profiler.paddle._nodes import HostNode, trees_of


@dataclass(frozen=True, repr=False)
class LoadedResult(Trace):
    """The trace of a file, with the methods of Paddle's result object."""

    @classmethod
    def of(cls, trace: Trace) -> LoadedResult:
        """Return the trace as a result."""
        return cls(trace.events, trace.totals, trace.run, trace.ledgers, trace.failures)

    def get_data(self) -> dict[int, HostNode]:
        """Return the tree of ranges of each thread, by thread id; its root is an artificial one.

        Raises: TracekitError for a file without a timeline.
        """
        return trees_of(self).by_thread

    def get_extra_info(self) -> dict[str, str]:
        """Return what the file says beside its events: names of threads, load of the processors."""
        names = {str(thread): name for (_, _, thread), name in self.run.threads.items()}
        stated = self._fact("extra_info", {})
        return names | ({str(key): str(value) for key, value in stated.items()} if isinstance(stated, dict) else {})

    def get_version(self) -> str:
        """Return the version of Paddle's format, "" for a file of another format."""
        return str(self._fact("version", ""))

    def get_span_index(self) -> int:
        """Return the number of the recording in its program, from 0."""
        number = self._fact("span_indx", 0)
        return number if isinstance(number, int) else 0

    def save(self, path: str, format: str = "json") -> None:
        """Write the trace: "json" a Chrome trace, "pb" Paddle's protobuf; a file there is replaced.

        Raises: ValueError for another format; TracekitError.
        """
        if format not in ("json", "pb"):
            raise ValueError(f"format {format!r} is not 'json' or 'pb'")
        pipeline.write(self, Path(path), to="chrome" if format == "json" else "paddle-pb", force=True)

    def _fact(self, name: str, default: object) -> object:
        facts = (source.facts for source in self.run.sources)
        return next((found[name] for found in facts if name in found), default)
