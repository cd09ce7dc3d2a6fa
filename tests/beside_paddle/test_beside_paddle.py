"""The examples of Paddle's documents with the import alone changed, beside Paddle's own profiler (both.py).

Calls must be equal. Times are of different runs, so they are held against the variation from run to run; no absolute
time is asserted. docs/paddle.md lists what differs.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from beside_paddle.running import HERE, made_once, run_under_paddle
from support import corpus_root, without_corpus

SUMMARISED = ("0", "2", "3", "4", "5", "6")
"""The examples that print tables; the case study (8) too, in another way."""
BY_HAND, BENCHMARK, CASE_STUDY = "3", "7", "8"
PHASES = ["ProfileStep", "Forward", "Backward", "Optimization", "Others"]
BLOCK = re.compile(r"^[ ]*```python\n(.*?)^[ ]*```", re.M | re.S)
PADDLE_ROW = re.compile(r"^( *)(\S.*?)  +(\d+|-)  +(\S.*)$")


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what both.py writes."""
    documents = [path.read_text(encoding="utf-8") for path in sorted((corpus_root().parent / "seeds").glob("*.txt"))]
    document = next((text for text in documents if "### 使用案例" in text), None)
    if document is None:
        without_corpus("the document of Paddle's profiler is not in seeds/")
        raise AssertionError
    examples = [textwrap.dedent(block) for block in BLOCK.findall(document)]

    def run(folder: Path) -> None:
        (folder / "examples.json").write_text(json.dumps(examples), encoding="utf-8")
        run_under_paddle(HERE / "both.py", folder, "examples.json", "results.json")

    folder = made_once(tmp_path_factory, "both", run)
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def paddle_rows(text: str, title: str) -> dict[str, tuple[str, str]]:
    """Rows of a table of Paddle's layout: "parent/child" to (calls, the other cells)."""
    found: dict[str, tuple[str, str]] = {}
    section = re.search(rf"(?ms)^-+{title}-+$(.*?)(^Note:|^-+[A-Z][A-Za-z ]+ Summary-+$|\Z)", text)
    assert section, f"no {title}"
    top = ""
    for line in section[1].splitlines():
        row = PADDLE_ROW.match(line)
        if row is None or row[3] == "Calls":
            continue
        top = row[2] if not row[1] else top
        found[row[2] if not row[1] else f"{top}/{row[2]}"] = row[3], row[4].strip()
    return found


def our_rows(text: str, title: str) -> dict[str, tuple[str, str]]:
    """Rows of a table of ours, down to the first level below a name: "parent/child" to (calls, the other cells)."""
    lines = text[text.index(f"\n{title}\n") :].splitlines()[2:]
    header = next(line for line in lines if "Calls" in line)
    at, found, top = header.index("  Name") + 2, {}, ""
    for line in lines[lines.index(header) + 2 :]:
        if not line.strip() or not re.match(r" *(\d+|-) ", line) or len(line) <= at:
            break
        level = (len(line[at:]) - len(line[at:].lstrip())) // 2
        name = line[at:].strip()
        top = name if not level else top
        if level < 2:
            calls, rest = line[:at].split(maxsplit=1)
            found[name if not level else f"{top}/{name}"] = calls, rest.strip()
    return found


def calls(rows: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {name.removeprefix("ProfileStep/"): count for name, (count, _) in rows.items()}


@pytest.mark.parametrize("number", [*SUMMARISED, CASE_STUDY])
@pytest.mark.parametrize("title", ["Model Summary", "Operator Summary"])
def test_rows_and_calls_are_paddles(both: dict[str, Any], number: str, title: str) -> None:
    [*_, theirs], [*_, ours] = both["examples"][number]["paddle"], both["examples"][number]["tracekit"]
    expected = calls(paddle_rows(theirs["printed"], title))
    assert len(expected) >= (5 if title == "Model Summary" else 8)
    assert calls(our_rows(ours["printed"], title)) == expected


def test_the_model_summary_has_every_phase(both: dict[str, Any]) -> None:
    by_hand = our_rows(both["examples"][BY_HAND]["tracekit"][0]["printed"], "Model Summary")
    assert [(name, count) for name, (count, _) in by_hand.items()] == [
        *((name, "8") for name in PHASES[:4]),
        ("Others", "-"),
    ]
    case_study = our_rows(both["examples"][CASE_STUDY]["tracekit"][0]["printed"], "Model Summary")
    assert case_study["Dataloader"][0] == "11"


@pytest.mark.parametrize("number", SUMMARISED)
def test_with_compat_the_tables_are_paddles_line_for_line(both: dict[str, Any], number: str) -> None:
    theirs = masked(both["examples"][number]["paddle"][-1]["summary"])
    ours = masked(both["examples"][number]["tracekit"][-1]["compat"])
    assert ours == theirs


def masked(text: str) -> Counter[str]:
    """Lines without figures and widths. Rows are in the order of their times, and FLOPs need the shapes of inputs."""
    lines = Counter[str]()
    for line in text.splitlines():
        line = re.sub(r" +(0|-) *$", "", line) if line.count(" / ") == 8 else line
        line = re.sub(r"\d+\.\d+|\b-(?= /)|(?<=/ )-", "#", line)
        lines[" ".join(re.sub("-+", "-", line).split())] += 1
    return lines


def total_ns(cells: str) -> float:
    """Total of a row of Paddle's layout that was printed in ns."""
    return float(cells.split(" / ")[0])


@pytest.mark.parametrize("title", ["Model Summary", "Operator Summary"])
def test_times_have_the_size_of_paddles(both: dict[str, Any], title: str) -> None:
    """The typical row: the two medians are closer than a wrong unit or a wrong divisor would put them.

    The programs run one after the other, and a busy machine lets one take several times as long as the other.
    """
    runs = {
        side: [{name: total_ns(cells) for name, (_, cells) in paddle_rows(run[key], title).items()} for run in told]
        for side, key, told in (
            ("paddle", "summary", both["examples"][BY_HAND]["paddle"]),
            ("tracekit", "compat", both["examples"][BY_HAND]["tracekit"]),
        )
    }
    between = []
    for name in runs["paddle"][0]:
        theirs, ours = ([run[name] for run in runs[side]] for side in ("paddle", "tracekit"))
        between.append(abs(math.log(statistics.median(ours) / statistics.median(theirs))))
    assert statistics.median(between) <= math.log(6)  # a sum over the 8 steps of an example would be 8 times the mean


@pytest.mark.parametrize("number", SUMMARISED)
def test_the_results_hold_the_same_trees(both: dict[str, Any], number: str) -> None:
    theirs, ours = both["examples"][number]["paddle"][-1], both["examples"][number]["tracekit"][-1]
    assert len(ours["trees"]) > 100
    for fact in ("trees", "threads", "version", "extra"):
        assert ours[fact] == theirs[fact], fact


def test_operators_know_their_steps_and_no_word_is_said_of_the_windows_files(both: dict[str, Any]) -> None:
    ours = both["examples"][BY_HAND]["tracekit"][-1]
    assert ours["steps"] == list(range(2, 10))
    assert "process of its own" not in ours["printed"]


def test_paddle_reads_what_tracekit_exports(both: dict[str, Any]) -> None:
    assert both["loaded"]["paddle"] == both["loaded"]["tracekit"]
    assert len(both["loaded"]["paddle"]) > 100


def test_memory_is_that_of_paddle(both: dict[str, Any]) -> None:
    theirs, ours = both["memory"]["paddle"][-1]["summary"], both["memory"]["tracekit"][-1]["compat"]

    def rows(text: str) -> list[str]:
        lines = text[text.index("Memory Summary") :].splitlines()
        return sorted(" ".join(line.split()) for line in lines if re.search(r" (Allocated|Reserved) +\d", line))

    assert len(rows(theirs)) > 5
    assert rows(ours) == rows(theirs)


# The timer


def words(text: str) -> list[list[str]]:
    """The words of each line, with T for each time, speed and ratio."""
    return [re.sub(r"\d+\.\d+", "T", line).split() for line in text.splitlines()]


def test_the_timer_prints_paddles_lines(both: dict[str, Any]) -> None:
    """Each line of Paddle's, with columns of our own to the right, and a last line that says what was counted."""
    theirs, ours = (words(both["examples"][BENCHMARK][side][-1]["printed"]) for side in ("paddle", "tracekit"))
    assert ours[-1][0] == "Over"
    assert [line[: len(like)] for line, like in zip(ours[:-1], theirs, strict=True)] == theirs


def test_with_compat_the_timer_prints_paddles_lines_alone(both: dict[str, Any]) -> None:
    assert words(both["compat timer"]) == words(both["examples"][BENCHMARK]["paddle"][-1]["printed"])


def perf(text: str) -> dict[str, float]:
    found = {name: float(avg) for name, avg in re.findall(r"(?m)^\| +(\w+) +\| +([\d.]+)", text)}
    return found | {"ratio": float(re.search(r"Reader Ratio: ([\d.]+)%", text)[1])}


def test_the_reader_ratio_is_paddles(both: dict[str, Any]) -> None:
    """Both timers on the same steps. Paddle counts one batch more than it divides by: `compat` does too."""
    apart = [perf(run["tracekit"])["ratio"] - perf(run["paddle"])["ratio"] for run in both["timer"]["paddle"]]
    assert abs(statistics.median(apart)) < 2
    for run in both["timer"]["paddle"]:
        assert 0 < perf(run["paddle"])["ratio"] < 100


def test_by_default_the_reader_ratio_is_right(both: dict[str, Any]) -> None:
    """What Paddle prints, less the batch that it counts too much."""
    apart = []
    for run in both["timer"][""]:
        theirs, ours = perf(run["paddle"]), perf(run["tracekit"])
        apart.append(ours["ratio"] - theirs["ratio"] * theirs["batch_cost"] / ours["batch_cost"])
    assert abs(statistics.median(apart)) < 2


# Paddle's own profiler beside it


def test_a_tracer_in_use_is_said_once_and_in_the_summary(both: dict[str, Any]) -> None:
    told = both["in use"]
    lines = [line for line in told["stderr"].splitlines() if line.startswith("tracekit.")]
    unseen = "not seen: data loader, layers, optimizer and operators of Paddle, whose own Profiler is in use"
    assert lines == [f"tracekit.profiler: {unseen}"]
    assert f"window 0: {unseen}" in told["summary"]


def test_nothing_is_left_in_paddle(both: dict[str, Any]) -> None:
    assert both["left"] == {
        "on": False, "hooks": ["timer_hook"], "own": ["current_event", "events", "hooks", "num_samples"],
    }  # fmt: skip
