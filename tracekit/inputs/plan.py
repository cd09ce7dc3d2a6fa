"""The plan of a run: which inputs are read, what they have in common, and what is known of their clocks beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tracekit.inputs.clocks.alignment import AlignmentEvidence
from tracekit.inputs.clocks.one_process import Joins
from tracekit.inputs.clocks.placement import LAUNCHES, RANGES
from tracekit.inputs.duplicates import same_bytes, without_copies
from tracekit.inputs.execution_traces import ExecutionJoins
from tracekit.inputs.options import InputOptions
from tracekit.inputs.prescan import Prescan, choices
from tracekit.inputs.reading import InputFiles
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger, Note

__all__ = ["RunPlan", "plan_run"]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Decisions before a row is read; all by the number of an input.

    repeated: names of the same file, which is read once. copies: names of inputs with the same bytes, which are read.
    joins: logs and traces of one process. executions: execution traces and Kineto traces of one run. evidence: what
    decides how clocks meet.
    """

    repeated: Mapping[int, Sequence[str]] = field(default_factory=dict)
    copies: Mapping[int, Sequence[str]] = field(default_factory=dict)
    joins: Joins = field(default_factory=Joins)
    executions: ExecutionJoins = field(default_factory=ExecutionJoins)
    evidence: AlignmentEvidence = field(default_factory=AlignmentEvidence)

    def note_twice(self, number: int, ledger: Ledger, files: InputFiles) -> None:
        """Put into the ledger of an input which other inputs are the same file, or have the same bytes."""
        for name in self.repeated.get(number, ()):
            text = f"{files.shown(name)} is the same file: it is read once"
            ledger.notes["same-file"] = Note("same-file", text, 1)
        for name in self.copies.get(number, ()):
            text = f"{files.shown(name)} has the same bytes: remove it if it is a copy, or its rows count twice"
            ledger.notes["same-bytes"] = Note("same-bytes", text, len(self.copies[number]))


def plan_run(files: InputFiles, options: InputOptions) -> RunPlan:
    """Return the plan. Repeated inputs are taken out of `files`. Raises: UsageError for choices of no input."""
    files.items, repeated = without_copies(files.items)
    items, align = files.items, options.align
    several = len(items) > 1
    copies = same_bytes(items) if several else {}
    joins, executions, evidence = Joins(), ExecutionJoins(), AlignmentEvidence()
    if several and options.same_process:
        wanted = choices(align, [(item.name, item.label) for item in items])
        prescan = Prescan(files.look, files.formats())
        joins = prescan.joins() if align.uses(RANGES) else joins
        executions = prescan.execution_traces()
        followers = {each.log for each in joins.joined}
        relations, launches = prescan.relations(align, followers), prescan.launches(wanted, followers)
        evidence = AlignmentEvidence(relations, launches, wanted)
    elif not several and align.of_first(items[0].name, items[0].label) == LAUNCHES:
        launches = Prescan(files.look, files.formats()).launches([LAUNCHES], ())
        evidence = AlignmentEvidence(launches=launches, choices=[LAUNCHES])
    return RunPlan(repeated, copies, joins, executions, evidence)
