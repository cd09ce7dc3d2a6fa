"""BatchResult -> CheckList: each run as a check, as CI systems show it."""

from __future__ import annotations

from tracekit.batch import BatchResult
from tracekit.model.checks import Check, CheckList, CheckState
from tracekit.model.display import plural

__all__ = ["checks_of"]


def checks_of(done: BatchResult, title: str) -> CheckList:
    """Return a check for each run, and one for each place that could not be scanned. title: what was scanned."""
    failed, partial, over = dict(done.failed), dict(done.partial), dict(done.over)
    incomplete: dict[str, list[str]] = {}
    for name, text in done.incomplete:
        incomplete.setdefault(name, []).append(text)
    dropped, cut = dict(done.dropped), dict(done.cut)
    checks = []
    for name in done.names:
        if name in failed:
            checks.append(Check(name, CheckState.ERROR, "failed", "; ".join(failed[name])))
            continue
        # A run may be partial and beyond a budget: it fails once, for both reasons.
        bad = [
            ("over budget", over.get(name, ())),
            ("partial", partial.get(name, ())),
            ("cut", (f"was cut: {cut[name]}",) if name in cut else ()),
            ("incomplete", incomplete.get(name, ())),
            ("empty", ("neither events nor totals",) if name in done.without_events else ()),
        ]
        reasons = [(word, texts) for word, texts in bad if texts]
        if reasons:
            text = "; ".join(text for _, texts in reasons for text in texts)
            checks.append(Check(name, CheckState.FAILED, reasons[0][0], text))
        else:
            lost = f"{plural(dropped[name], 'record')} dropped" if name in dropped else ""
            checks.append(Check(name, CheckState.PASSED, "ok", lost))
    if not done.runs and not done.forgotten:
        checks += [Check(root, CheckState.ERROR, "no run", "no run is in this folder") for root in done.empty]
    checks += [Check(path, CheckState.ERROR, "not scanned", reason) for path, reason in done.problems]
    verdict = f"{plural(done.runs, 'run')}: {sum(done.done.values()):,} done, {done.unchanged:,} unchanged"
    notes = (
        *(f"slower: {title}: {text}" for title, text in done.slower),
        *(f"{name}: {text}" for name, text in done.left_out if name not in cut),
    )
    return CheckList("batch", title, tuple(checks), verdict, notes)
