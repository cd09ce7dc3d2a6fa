"""The first screen as text: one screen of 80 columns that has headline, bars, findings and names of every input."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render.reports import HOSTILE
from support import SAMPLE_FILES, SAMPLES, read_sample, sample

import tracekit
from tracekit.model.display import cell_width, escape_controls
from tracekit.model.report import DeviceTime, Finding, Headline, Report, StepTime, TimePart, TopName, TopNames
from tracekit.render import first_screen
from tracekit.render.base import RenderOptions
from tracekit.render.first_screen import LINES, text
from tracekit.render.screen import screen

EVERY = [path.relative_to(SAMPLES).as_posix() for path in SAMPLE_FILES]
_STYLES = re.compile("\x1b\\[[0-9]+m")

PARTS = (TimePart("compute", 175, 0.1, 0.17, 0.2), TimePart("exposed_comm", 60, 0.0, 0.06, 0.1),
         TimePart("exposed_copies", 1, 0.0, 0.0, 0.1), TimePart("idle", 764, 0.7, 0.75, 0.9))  # fmt: skip
FINDING = Finding("launch-bound", "", "Late.", (), (1,), 1_500_000, 0.471, "high", "measured", "Fuse kernels.", "See.")
FULL = Headline(
    step=StepTime(5, 1, 1, 128_000_000, 132_100_000, 148_200_000, 132_100_000, 132_100_000),
    run_ns=900_000_000,
    devices=(DeviceTime("GPU 0", 1, "steps", 1000, PARTS),),
    top=TopNames("kernel", "total", "kernels", "", 100, 3, (TopName("void a::gemm<4>(int)", 60, 2, 0.6),)),
    findings=(FINDING,),
    findings_count=1,
)


def shown(headline: Headline, **options: object) -> list[str]:
    report = Report("run.json", "0", (("format", "Kineto"),), headline=headline)
    return text(report, RenderOptions(**options)).splitlines()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EVERY)
def test_every_sample_fits_on_a_screen_of_30_lines_and_80_columns(name: str) -> None:
    made = tracekit.summary(read_sample(name))
    for drawn in (False, True):
        lines = text(made, RenderOptions(bars=drawn)).splitlines()
        assert len(lines) <= LINES
        assert max(map(cell_width, lines)) <= 80
        whole = "\n".join(lines)
        assert made.headline is not None
        assert made.headline.opening is not None
        sentence = escape_controls(made.headline.opening.sentence)
        first = " ".join([*made.incomplete, sentence]).replace("  ", " ").strip()[:60]
        flat = whole.replace("\n", " ").removeprefix("The file ends in the middle: all later events are missing. ")
        assert flat.startswith(first)
        for number, finding in enumerate(made.headline.findings, 1):
            assert f"  {number} {finding.rule}" in whole
        if made.headline.devices or (drawn and made.headline.top is not None):
            assert ("░" in whole or "█" in whole) == drawn


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("nvprof-csv/mpirun.csv", 1),
        ("nvprof-csv/appended-runs.csv", 1),
        ("nvprof-csv/gpu-and-api-trace.csv", 0),
        ("kineto/gpu.pt.trace.json", 0),
    ],
)
def test_it_says_how_many_notes_it_does_not_show_and_which_command_does(name: str, count: int) -> None:
    last = text(tracekit.summary(read_sample(name)), RenderOptions()).splitlines()[-1]
    assert ("; 1 note: --view overview shows it" in last) == bool(count)


def test_a_note_that_is_among_the_warnings_is_not_counted_again(tmp_path: Path) -> None:
    whole = sample("nvprof-csv/mpirun.csv").read_text(encoding="utf-8")
    (tmp_path / "half.csv").write_text(whole[: len(whole) // 2].rpartition(",")[0], encoding="utf-8")
    made = tracekit.summary(str(tmp_path / "half.csv"))
    assert made.headline is not None
    assert sum("process" in note or note.startswith("dropped: ") for note in made.notes) == 2
    assert any(each.endswith("the last line is cut (first at line 73)") for each in made.headline.reservations)
    flat = " ".join(text(made, RenderOptions()).split())
    assert "; 1 note: --view overview shows it" in flat


def test_its_numbers_are_those_of_the_headline() -> None:
    lines = shown(FULL)
    assert "A step takes 132.1 ms (median)" in lines
    assert "  5 steps after 1 warm-up step, p95 148.2 ms, spread 15.3 % (p5 to p95)" in lines
    assert "GPU 0, of the steps: 1 us" in lines
    assert [line.split() for line in lines if "exposed" in line or "idle" in line or "compute" in line] == [
        ["compute", "17.5", "%", "175", "ns"], ["exposed", "communication", "6.0", "%", "60", "ns"],
        ["exposed", "copies", "0.1", "%", "1", "ns"], ["idle", "76.4", "%", "764", "ns"],
    ]  # fmt: skip
    assert "  1 launch-bound: up to 1.5 ms (47.1 %)" in lines
    assert ["60", "ns", "60.0", "%", "2", "void", "a::gemm<4>(int)"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("windows", "title", "gains"),
    [
        ((0, 0), "2 findings (savings", ("(47.1 %)", "(47.1 %)")),
        ((1000, 1010), "2 findings (savings", ("(47.1 %)", "(47.1 %)")),
        ((1000, 1060), "2 findings (savings", ("(47.1 %)", "(47.1 % of 1.06 us)")),
        ((300, 300), "2 findings (% of 300 ns; savings", ("(47.1 %)", "(47.1 %)")),
        ((1000, 300), "2 findings (savings", ("(47.1 %)", "(47.1 % of 300 ns)")),
    ],
)
def test_a_percentage_names_its_window_where_the_bar_has_another(
    windows: tuple[int, int], title: str, gains: tuple[str, str]
) -> None:
    findings = tuple(replace(FINDING, window_ns=window) for window in windows)
    lines = shown(replace(FULL, findings=findings, findings_count=2))
    assert any(line.startswith(title) for line in lines)
    for number, gain in enumerate(gains, 1):
        assert f"  {number} launch-bound: up to 1.5 ms {gain}" in lines


def test_low_confidence_is_said() -> None:
    lines = shown(replace(FULL, findings=(replace(FINDING, confidence="low"),)))
    assert "  1 launch-bound: up to 1.5 ms (47.1 %, low confidence)" in lines


def test_a_group_of_devices_says_how_they_differ() -> None:
    group = DeviceTime("4 devices A100", 4, "steps", 1000, PARTS)
    line = next(line for line in shown(replace(FULL, devices=(group,))) if "compute" in line)
    assert line.split("ns")[-1].strip() == "10.0 to 20.0 %, median 17.0 %"
    parts = tuple(replace(part, low=0.0001, middle=0.0002, high=0.0003) for part in PARTS)
    alike = shown(replace(FULL, devices=(replace(group, parts=parts),)))
    assert not any("0.0 to 0.0" in line for line in alike)


def test_colours_change_nothing_but_colours() -> None:
    assert _STYLES.sub("", "\n".join(shown(FULL, color=True, bars=True))) == "\n".join(shown(FULL, bars=True))


def test_times_are_exact_in_the_unit_that_was_asked_for() -> None:
    lines = shown(FULL, time_unit="ns")
    assert "A step takes 132,100,000 ns (median)" in lines
    assert "  1 launch-bound: up to 1,500,000 ns (47.1 %)" in lines


@given(shares=st.lists(st.integers(0, 10**12), min_size=4, max_size=4).filter(any), room=st.integers(10, 118))
def test_the_cells_of_a_bar_add_up_and_show_every_part(shares: list[int], room: int) -> None:
    whole = sum(shares)
    parts = tuple(TimePart(part.name, ns, 0, 0, 0) for part, ns in zip(PARTS, shares, strict=True))
    report = Report("t", "0")
    (bar,) = screen(report, Headline(devices=(DeviceTime("d", 1, "run", whole, parts),))).bars
    cells = [count for _, count in first_screen._cells(bar, room)]
    assert sum(cells) == room
    for ns, count in zip(shares, cells, strict=True):
        assert (count > 0) == (ns > 0)
        assert abs(count - ns * room / whole) < len(shares)


@given(
    names=st.lists(st.sampled_from(HOSTILE) | st.text(max_size=200), min_size=1, max_size=8, unique=True),
    width=st.integers(40, 140),
)
def test_hostile_text_stays_in_its_lines(names: list[str], width: int) -> None:
    top = TopNames(
        "kernel", "total", names[0], names[-1], 100, len(names), tuple(TopName(n, 5, None, 0.1) for n in names)
    )
    finding = replace(FINDING, claim=names[0] * 9, advice=names[-1] * 9, owner=names[0])
    headline = replace(FULL, top=top, findings=(finding,) * 3, findings_count=9, reservations=tuple(names[:3]))
    report = Report(names[0], "0", tuple(("command", name) for name in names), headline=headline)
    lines = text(report, RenderOptions(width=width)).split("\n")
    assert len(lines) <= LINES + 1
    assert max(map(cell_width, lines)) <= width
    assert all(escape_controls(line) == line for line in lines)


@pytest.mark.parametrize("width", [40, 57, 80, 111])
def test_what_is_cut_ends_with_a_whole_word(width: int) -> None:
    said = "The device is idle for most of the step because nothing has been launched and the host pauses. " * 4
    lines = shown(replace(FULL, findings=(replace(FINDING, claim=said, advice=said),)), width=width)
    cut = [line.removesuffix(" …").split()[-1] for line in lines if line.endswith(" …")]
    assert len(cut) >= 2
    assert set(cut) <= {*said.split(), "fix:"}


def test_a_long_name_that_is_cut_keeps_its_first_part() -> None:
    said = f"It lies {'a b ' * 25}before {'kernel_name_' * 8}."
    lines = shown(replace(FULL, findings=(replace(FINDING, claim=said),)))
    assert any(line.endswith("…") and "before kernel_name_" in line for line in lines)


@pytest.mark.parametrize("width", [80, 111])
@pytest.mark.parametrize("part", ["section Average time per layer, of all iterations of one run", "run 3", ""])
def test_titles_are_whole(width: int, part: str) -> None:
    top = TopNames("model", "total", "phases and layers", part, 5_060_000, 4, FULL.top.names if FULL.top else ())
    only = Headline(run_note="totals do not say when work ran", top=top)
    text = " ".join(line.strip() for line in shown(only, width=width))
    assert f"Top phases and layers{f', {part}' if part else ''} (1 of 4, 5.06 ms in total)" in text
    # Of several runs or sections, the first figure is that of one.
    assert f"Phases and layers took 5.06 ms in total{f' ({part})' if part else ''}. The time" in text.replace(
        "total The", "total. The"
    ).replace(") The", "). The")


def test_a_finding_without_savings_needs_no_window() -> None:
    lost = replace(FINDING, rule="lost rows", saving_ns=0, share=0.0, window_ns=300)
    assert "1 finding" in shown(replace(FULL, findings=(lost,)))
    both = shown(replace(FULL, findings=(lost, replace(FINDING, window_ns=300)), findings_count=2))
    assert any(line.startswith("2 findings (% of 300 ns; savings") for line in both)
