"""Pictures of tables: each of their numbers is in the table, they are small, and those who should stand out do."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from doors.pictures import FORMS, MOST_MULTIPLES, MOST_PLACES, MOST_ROWS, curve, drawn, pictured, tables_of
from hypothesis import given
from hypothesis import strategies as st
from render.reports import HOSTILE
from render.test_axe import axe
from support import SAMPLES, corpus, corpus_next, read_sample
from viewers import chromium_page

from tracekit import pipeline
from tracekit.model.report import Cell, Column, Curve, Picture, Report, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.render.page.data import report_in

EVERY = sorted(
    path.relative_to(SAMPLES).as_posix()
    for path in SAMPLES.glob("*/*")
    if path.is_file() and not path.name.startswith("_") and path.suffix != ".md"
)
MOST_BYTES = 6_400
ICICLE = Picture("icicle", "Kernels", "kernel.kernels", ("total",), ("name",), by="kernel class")
STACK = Picture("stack", "Steps", "v.steps", ("compute", "idle"), ("name", "rank"), "step")
LINES = Picture("multiples", "Ranks", "v.steps", ("time",), ("owner",), "step", "late")


def table(named: str, /, **columns: list[Any]) -> ReportTable:
    units = {"name": Unit.TEXT, "owner": Unit.TEXT, "cause": Unit.TEXT, "metric": Unit.TEXT, "unit": Unit.TEXT}
    units |= {"step": Unit.ID, "rank": Unit.ID, "avg": Unit.NUMBER, "calls": Unit.COUNT}
    made = (Column(key, key.capitalize(), units.get(key, Unit.NS), cells) for key, cells in columns.items())
    return ReportTable(named, named, tuple(made))


def parsed(made: str) -> ElementTree.Element:
    """Return a picture as a tree: it is well-formed, and its marks are those of HTML and SVG at once."""
    return ElementTree.fromstring(made)


def titles(made: str) -> list[str]:
    tree = parsed(made)
    return list(filter(None, (each.text or each.get("title") for each in tree.iter() if each.tag in ("title", "li"))))


def numbers(text: str) -> list[int]:
    """Return the exact values in a title: what is after its name."""
    return [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", text.rpartition(": ")[2].split(" %")[0])]


@cache
def pictures_of(name: str) -> list[tuple[Picture, ReportTable, str]]:
    return _pictures_in(pipeline.report(read_sample(name)))


def _pictures_in(report: Report) -> list[tuple[Picture, ReportTable, str]]:
    tables = tables_of(report)
    pictures = [each for section in report.sections for each in section.figures if isinstance(each, Picture)]
    return [
        (each, tables[each.table], made) for each in pictures if each.table in tables and (made := drawn(each, tables))
    ]


def cells(picture: Picture, shown: ReportTable) -> list[int]:
    """Return the values of the table that a picture may show, and the sums of its groups."""
    values = {name: [v if isinstance(v, int) else 0 for v in shown.column(name).values] for name in picture.values}
    allowed = [value for column in values.values() for value in column]
    if picture.form == "icicle":
        sums: dict[object, int] = defaultdict(int)
        names = shown.column_names()
        group: object = None
        for row, value in enumerate(values[picture.values[0]]):
            if "level" not in names:
                sums[picture.groups[row]] += value
            elif not shown.column("level").values[row]:
                group = row
            elif shown.column("total").values[row] is None:
                sums[group] += value
        allowed += sums.values()
    if picture.form == "stack":
        wholes = [sum(row) for row in zip(*values.values(), strict=True)]
        allowed += wholes
    return allowed


@pytest.mark.parametrize("name", EVERY)
def test_every_number_of_a_picture_is_in_its_table(name: str) -> None:
    for picture, shown, made in pictures_of(name):
        assert not re.search(r"\bnan\b|\binf\b|None", made), picture.title
        assert len(made.encode()) <= MOST_BYTES, (picture.title, len(made))
        if picture.form in ("grouped", "roofline"):
            continue
        allowed = set(cells(picture, shown))
        rows = [numbers(title) for title in titles(made)]
        assert any(rows)
        for found in rows:
            mean = picture.form == "stack" and re.search(r"\(", " ".join(titles(made)))
            assert mean or set(found) <= allowed, (picture.title, found)
        tree = parsed(made)
        assert tree.find("figcaption/b") is not None
        assert all(len(svg.get("aria-label", "")) > len(picture.title) for svg in tree.findall("svg"))


def test_all_forms_are_drawn_of_some_sample_or_real_file() -> None:
    forms = {picture.form for name in EVERY for picture, _, _ in pictures_of(name)}
    assert forms >= FORMS.keys() - {"roofline"}


@pytest.mark.parametrize("name", ["kineto/hta_nccl_data.json.gz", "kineto/hta_alexnet.json.gz"])
def test_pictures_of_real_traces_have_the_numbers_of_their_tables(name: str) -> None:
    found = _pictures_in(pipeline.report(pipeline.read([corpus(name)])))
    assert {picture.form for picture, _, _ in found} >= {"icicle"}
    for picture, shown, made in found:
        allowed = set(cells(picture, shown))
        assert {number for title in titles(made) for number in numbers(title)} <= allowed, picture.title
        assert len(made.encode()) <= MOST_BYTES


def test_device_time_of_operators_is_that_of_their_kernels() -> None:
    report = pipeline.report(pipeline.read([corpus("kineto/hta_nccl_data.json.gz")]))
    operators = report.section("operator").tables[0]
    rows = zip(*(operators.column(key).values for key in ("level", "device_self", "total")), strict=True)
    own: dict[int, int] = {}
    below: dict[int, int] = defaultdict(int)
    for number, (level, ns, on_host) in enumerate(rows):
        if not level:
            group = number
            own[group] = ns if isinstance(ns, int) else 0
        elif on_host is None and isinstance(ns, int):
            below[group] += ns
    assert sum(own.values()) == sum(below.values()) > 0
    assert {group: ns for group, ns in own.items() if ns} == dict(below)


# Stacks


def test_a_stack_has_each_step_and_its_exact_parts() -> None:
    shown = table("steps", step=[4, 5, 6], compute=[100, 120, 0], idle=[900, 880, 700])
    made = drawn(STACK, {"v.steps": shown})
    assert titles(made) == ["4: 100 + 900 ns", "5: 120 + 880 ns", "6: 0 + 700 ns"]
    assert "mean" not in made
    assert [each.text for each in parsed(made).iter("text")][-3:] == ["step 4", "5", "6"]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=2, max_size=400))
def test_many_steps_are_means_that_keep_the_sum_and_show_the_spread(parts: list[tuple[int, int]]) -> None:
    compute, idle = (list(column) for column in zip(*parts, strict=True))
    made = drawn(STACK, {"v.steps": table("steps", step=list(range(len(parts))), compute=compute, idle=idle)})
    if not any(map(any, parts)):
        assert made == ""
        return
    shown = titles(made)
    assert len(shown) == len(parts) if len(parts) <= MOST_PLACES else len(shown) <= MOST_PLACES
    assert ("is the mean of up to" in made) == (len(parts) > MOST_PLACES)
    assert len(made.encode()) <= MOST_BYTES
    wholes = [sum(row) for row in parts]
    used = [i for i, column in enumerate((compute, idle)) if any(column)]
    total = 0.0
    for title in shown:
        label, _, values = title.partition(": ")
        first, _, last = label.partition(" to ")
        rows = range(int(first), int(last or first) + 1)
        means, _, spread = values.partition(" ns")
        expected = [sum(parts[row][i] for row in rows) / len(rows) for i in used]
        assert all(abs(a - b) <= 0.5 for a, b in zip(numbers(f": {means}"), expected, strict=True))
        total += sum(expected) * len(rows)
        of_rows = [wholes[row] for row in rows]
        if min(of_rows) < max(of_rows):
            assert numbers(f": {spread}") == [min(of_rows), max(of_rows)]
    assert round(total) == sum(wholes)


def test_steps_of_several_devices_are_one_column_with_their_spread() -> None:
    shown = table(
        "steps", name=["GPU", "GPU"] * 2, rank=[0, 0, 1, 1], step=[1, 2] * 2, compute=[10, 20, 30, 20], idle=[0] * 4
    )
    made = drawn(STACK, {"v.steps": shown})
    assert titles(made) == ["1: 20 ns (10 to 30)", "2: 20 ns"]
    assert "up to 2 devices" in made


# Ranks


def ranks(count: int, steps: int, slow: int | None, since: int = 0) -> ReportTable:
    owners: list[Cell] = [f"rank {rank}" for rank in range(count) for _ in range(steps)]
    times = [
        2_800_000 + 1000 * ((rank * 7 + step * 3) % 11) + (900_000 if rank == slow and step >= since else 0)
        for rank in range(count)
        for step in range(steps)
    ]
    return table("steps", owner=owners, step=list(range(steps)) * count, time=times)


def lines(shown: ReportTable) -> str:
    section = pictured(Section("v", "V", (shown,)), [LINES])
    (picture,) = section.figures
    assert isinstance(picture, Picture)
    return drawn(picture, {"v.steps": shown})


@pytest.mark.parametrize(("count", "steps"), [(32, 120), (2, 8), (MOST_MULTIPLES + 20, 30)])
def test_the_late_rank_is_marked_and_no_other(count: int, steps: int) -> None:
    slow = min(17, count - 1)
    made = lines(ranks(count, steps, slow, steps // 2))
    assert len(made.encode()) <= MOST_BYTES
    late = [each for each in parsed(made).iter("li") if each.get("class") == "late"]
    assert [(each[0].tail or "").split(" ")[:2] for each in late] == [["rank", str(slow)]]
    assert [each.find("b").text for each in late] == ["late, +16 %"]  # type: ignore[union-attr]
    assert len(list(parsed(made).iter("li"))) == min(count, MOST_MULTIPLES)


def test_no_rank_of_a_healthy_run_is_marked() -> None:
    made = lines(ranks(8, 50, None))
    assert 'class="late"' not in made
    # One scale: the lines of equal ranks are at the same height.
    assert len({each.get("d", "")[:5] for each in parsed(made).iter("path")}) == 1


def trace_of_ranks(folder: Path, count: int, steps: int, slow: int) -> list[Path]:
    """Write traces as Kineto has them, of which one rank is slower from the middle on."""
    paths = []
    for rank in range(count):
        events: list[dict[str, Any]] = []
        at = 1_000_000.0
        for step in range(steps):
            late = step >= steps // 2
            time = 2500 * (1.35 if late and rank == slow else 1)
            host = {"ph": "X", "pid": 100 + rank, "tid": 1, "ts": at}
            device = {"ph": "X", "pid": rank % 8, "tid": 7, "ts": at + 10}
            ids = {"stream": 7, "device": rank % 8, "correlation": step}
            events += [
                host | {"name": f"ProfilerStep#{step}", "cat": "user_annotation", "dur": time + 300},
                host | {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "dur": 5, "args": {"correlation": step}},
                device | {"name": "gemm", "cat": "kernel", "dur": time, "args": ids},
            ]
            at += 2500 * (1.35 if late else 1) + 320
        path = folder / f"rank{rank:02}.pt.trace.json"
        info = {"backend": "nccl", "rank": rank, "world_size": count}
        whole = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
        path.write_text(json.dumps(whole), encoding="utf-8")
        paths.append(path)
    return paths


def test_ranks_that_the_others_wait_for_are_seen_by_their_compute_time() -> None:
    ids: list[Cell] = [rank for rank in range(8) for _ in range(20)]
    compute = [9_000_000 + (rank >= 4) * 1_350_000 + 1000 * (step % 7) for rank in range(8) for step in range(20)]
    shown = table("steps", rank=ids, step=list(range(20)) * 8, compute=compute)
    picture = Picture("multiples", "Compute", "breakdown.steps", ("compute",), ("rank", "name"), "step", "slow")
    (made,) = pictured(Section("breakdown", "B", (shown,)), [picture]).figures
    assert isinstance(made, Picture)
    assert made.marks == tuple((f"rank {rank}", "slow, +15 %") for rank in range(4, 8))
    tree = parsed(drawn(made, {"breakdown.steps": shown}))
    late = [(each[0].tail or "").split(" ")[1] for each in tree.iter("li") if each.get("class")]
    assert late == ["4", "5", "6", "7"]


@pytest.mark.viewer
def test_rank_17_of_32_is_seen_to_be_late_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(trace_of_ranks(tmp_path, 32, 40, 17)), page)
    script = """[...document.querySelectorAll("#steps .pic-multiples li")].map((each) => [each.textContent.slice(0, 7),
      each.classList.contains("late"), getComputedStyle(each.querySelector("path")).strokeWidth])"""
    for width in (1300, 420):
        seen = chromium_page(page, width=width, script=script)
        assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
        assert len(seen.value) == 32
        late = [each for each in seen.value if each[1]]
        assert [name.strip() for name, *_ in late] == ["rank 17"]
        assert late[0][2] != seen.value[0][2]


@pytest.mark.viewer
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_break_no_rule_for_people_who_cannot_see_well(tmp_path: Path, scheme: str) -> None:
    page = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(trace_of_ranks(tmp_path, 8, 90, 3)), page)
    run = f"""(() => {{ {axe()}; return axe.run({{ include: [[".pic"]] }}, {{ resultTypes: ["violations"] }})
      .then((found) => [document.querySelectorAll(".pic").length, found.violations.map((each) => each.id)]); }})()"""
    seen = chromium_page(page, width=420, scheme=scheme, script=run)
    count, violations = seen.value
    assert count > 3
    assert violations == []
    assert seen.overflow_px == 0


# Bars, icicles, speed of light


def test_idle_causes_are_one_bar_a_device_and_none_for_one_device() -> None:
    picture = Picture("bars", "Idle", "v.causes", ("total",), ("name",), by="cause")
    shown = table(
        "causes", name=["GPU 0", "GPU 0", "GPU 1"], cause=["host late", "unknown", "unknown"], total=[70, 30, 80]
    )
    made = drawn(picture, {"v.causes": shown})
    assert titles(made) == ["host late: 70 ns", "unknown: 30 ns", "unknown: 80 ns"]
    one = table("causes", name=["GPU 0", "GPU 0"], cause=["host late", "unknown"], total=[70, 30])
    assert drawn(picture, {"v.causes": one}) == ""


def test_of_many_bars_the_largest_are_drawn_and_the_rest_is_counted() -> None:
    picture = Picture("bars", "Held", "v.held", ("total",), ("name",))
    shown = table("held", name=[f"n{i}" for i in range(50)], total=list(range(50)))
    made = drawn(picture, {"v.held": shown})
    assert titles(made) == [f"total: {i} ns" for i in range(49, 49 - MOST_ROWS, -1)]
    assert f"{MOST_ROWS} of 49 rows" in made


def test_speed_of_light_takes_shares_alone_and_orders_by_time() -> None:
    picture = Picture(
        "grouped", "SOL", "v.metrics", ("avg",), ("name",), by="metric", only=(("Memory Throughput", "memory"),)
    )
    names = [name for i in range(10) for name in [f"k{i}"] * 3]
    metrics = ["Memory Throughput", "Memory Throughput", "Duration"] * 10
    values = [value for i in range(10) for value in (8.43e9, 40.0 + i, 1000.0 * i)]
    shown = table("metrics", name=names, metric=metrics, avg=values, unit=["B/s", "%", "ns"] * 10, calls=[1] * 30)
    made = drawn(picture, {"v.metrics": shown})
    assert titles(made)[0] == "memory: 49.00 %"
    assert "8 of 10 rows, those with the most time" in made
    assert "8,430,000,000" not in made


def test_an_icicle_groups_by_class_and_is_as_wide_as_the_time() -> None:
    shown = table("kernels", name=["gemm_a", "gemm_b", "softmax", "tiny"], total=[600, 200, 199, 1])
    section = pictured(Section("kernel", "Kernels", (shown,)), [ICICLE])
    (picture,) = section.figures
    assert isinstance(picture, Picture)
    assert picture.groups == ("gemm", "gemm", "normalization", "other")
    made = drawn(picture, {"kernel.kernels": shown})
    widths = [(each.get("x", "0%"), each.get("width")) for each in parsed(made).iter("svg") if each.get("width")]
    assert widths == [("0%", "80%"), ("80%", "19.9%"), ("0%", "60%"), ("60%", "20%"), ("80%", "19.9%")]
    assert "1 small one not drawn" in made


def test_a_table_without_what_a_picture_needs_has_none() -> None:
    shown = table("steps", step=[1, 2], compute=[5, 6])
    for form in FORMS:
        for along in ("", "step"):
            assert drawn(Picture(form, "T", "v.steps", ("gone",), ("name",), along), {"v.steps": shown}) == ""
    assert drawn(STACK, {}) == ""
    assert drawn(Picture("unheard of", "T", "v.steps", ("compute",)), {"v.steps": shown}) == ""
    nothing = pictured(Section("v", "V", notes=("needs steps",)), [STACK])
    assert nothing.figures == ()


@pytest.mark.parametrize("form", sorted(FORMS))
def test_text_of_a_trace_is_escaped_and_odd_values_are_left_out(form: str) -> None:
    names: list[Any] = [*HOSTILE, "", None]
    values: list[Any] = [3 + i for i in range(len(names))]
    values[1], values[2] = None, float("nan")
    shown = table(
        "steps", name=names, owner=names, step=list(range(len(names))), total=values, cause=names,
        rate=values, intensity=values, time=values,
    )  # fmt: skip
    picture = Picture(form, HOSTILE[0], "v.steps", ("total",), ("name",), "step", groups=tuple(map(str, names)))
    made = drawn(picture, {"v.steps": shown})
    assert HOSTILE[0] not in made
    if made:
        parsed(made.replace("&#x27;", "'"))
        assert "nan" not in made.replace("nanosecond", "")


def test_a_page_that_is_read_back_has_its_pictures() -> None:
    report = pipeline.report(read_sample("kineto/gpu.pt.trace.json"))
    again = report_in(pipeline.render(report, "html").encode(), "page.html")
    assert [made for *_, made in _pictures_in(again)] == [made for *_, made in _pictures_in(report)] != []


def test_text_and_data_have_no_picture() -> None:
    report = pipeline.report(read_sample("kineto/gpu.pt.trace.json"))
    without = [
        replace(section, figures=tuple(each for each in section.figures if not isinstance(each, Picture)))
        for section in report.sections
    ]
    bare = replace(report, sections=tuple(without))
    for form in ("text", "json", "csv", "markdown"):
        assert pipeline.render(report, form) == pipeline.render(bare, form)
    assert repr(report) == repr(bare)


# Memory


def test_the_peak_of_a_curve_is_marked_where_it_is() -> None:
    figure = Curve("Memory", Unit.BYTES, [0, 10, 20, 30, 40], ["allocated"], [[1 << 20, 3 << 20, 2 << 20, None]])
    made = curve(figure)
    assert "allocated, peak 3,145,728 bytes, 10 ns to 19 ns" in titles(made)
    dot = next(parsed(made).iter("circle"))
    assert (dot.get("cx"), dot.get("cy")) == ("37.5%", "0")
    assert titles(made)[-2:] != titles(made)[:2]
    nothing = curve(Curve("Memory", Unit.BYTES, [0, 1, 2], ["x"], [[0, 0]]))
    assert "<circle" not in nothing


def test_who_holds_the_peak_is_drawn_below_the_curve_of_a_snapshot() -> None:
    report = pipeline.report(pipeline.read([corpus_next("torch_memory/cs336_training128.pickle.gz")]))
    page = pipeline.render(report, "html")
    at = page.index("Who holds the memory at its peak")
    assert page.index('class="pic pic-curve"') < at
    held = report.section("memory")
    (table_of_peak,) = (each for each in held.tables if each.name == "at_peak")
    assert sum(v for v in table_of_peak.column("held").values if isinstance(v, int)) == 7_013_335_044
    assert "7,013,335,044 bytes" in page


def test_a_counter_of_memory_has_a_curve() -> None:
    section = pipeline.report(read_sample("recorder-log/rank0.jsonl")).section("memory")
    (figure,) = (each for each in section.figures if isinstance(each, Curve))
    (counters,) = section.tables
    assert max(v for v in figure.values[0] if v is not None) == max(counters.column("max").values)  # type: ignore[type-var]
    assert figure.title == "Counter memory over time"
