"""The public functions, on our samples: reading, joining, converting, writing, filtering."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import corpus, sample

import tracekit
from tracekit import compat as upstreams
from tracekit import pipeline
from tracekit.errors import (
    AllInputsError,
    InputError,
    OutputExistsError,
    ParseError,
    TracekitError,
    UnknownFormatError,
    UsageError,
)
from tracekit.inputs import InputOptions, expand
from tracekit.inputs.selection import Selection
from tracekit.views import VIEWS

GPU = sample("nvprof-csv/gpu-trace-20-columns.csv")
BOTH = sample("nvprof-csv/gpu-and-api-trace.csv")
APPENDED = sample("nvprof-csv/appended-runs.csv")
EPOCH = sample("cuda-profile/kvp-timestamps.log")


def test_inputs_that_were_converted_from_each_other_are_labelled_as_they_are_named(tmp_path: Path) -> None:
    run, other = tmp_path / "run.csv", tmp_path / "run.parquet"
    run.write_bytes(GPU.read_bytes())
    made = tmp_path / "made.json"
    for target in (made, other):
        tracekit.convert(run, target)

    def labels(*inputs: str | Path) -> list[str]:
        trace = tracekit.read(list(inputs))
        (table,) = tracekit.view(trace, "device").tables
        return list(map(str, table.column("source").values))

    assert labels(made, run) == ["made.json", "run.csv"]
    assert labels(run, made, other) == ["run.csv", "made.json", "run.parquet"]
    assert labels(f"a={made}", run) == ["a", "run.csv"]
    assert sorted(labels(tmp_path)) == ["made.json", "run.csv", "run.parquet"]
    both = tmp_path / "both.parquet"
    tracekit.convert([run, made], both)
    assert labels(both) == ["run.csv", "made.json"]
    assert labels(both, run) == ["both.parquet: run.csv", "both.parquet: made.json", "run.csv"]
    # Alone it is its source: a report of an archived run equals that of the run.
    assert tracekit.read(made).run.sources[0].label == ""


def test_expand_knows_files_folders_patterns_labels_and_urls(tmp_path: Path) -> None:
    (tmp_path / "a=b.csv").write_bytes(GPU.read_bytes())
    (tmp_path / "notes.txt").write_text("not a trace")
    assert [i.name for i in expand(tmp_path)] == [str(tmp_path / "a=b.csv")]
    assert [(i.name, i.label) for i in expand([f"x={GPU}", str(tmp_path / "a=b.csv"), "-", "s3://b/c=d"])] == [
        (str(GPU), "x"), (str(tmp_path / "a=b.csv"), ""), ("-", ""), ("s3://b/c=d", ""),
    ]  # fmt: skip
    assert len(expand(str(GPU.parent / "gpu-trace-*.csv"))) >= 4
    with pytest.raises(UsageError):
        expand([])


def test_a_folder_is_one_run_of_its_readable_files(tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_bytes(GPU.read_bytes())
    (tmp_path / "README").write_text("hello")
    trace = tracekit.read(tmp_path)
    assert len(trace.run.sources) == 2
    assert trace.events.num_rows == 2 * tracekit.read(GPU).events.num_rows


def test_bad_inputs_among_good_ones_are_handed_over_or_raised(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"")
    trace = tracekit.read([GPU, tmp_path / "bad"], partial=True)
    assert trace.events.num_rows
    assert [f.name for f in trace.failures] == [str(tmp_path / "bad")]
    for call in (lambda: tracekit.read([GPU, tmp_path / "bad"]), lambda: tracekit.inspect([GPU, tmp_path / "bad"])):
        with pytest.raises(UnknownFormatError):
            call()
    with pytest.raises(UnknownFormatError):
        tracekit.convert([GPU, tmp_path / "bad"], tmp_path / "x.parquet")
    with pytest.raises(AllInputsError):
        tracekit.read([tmp_path / "bad", tmp_path / "bad"], partial=True)
    assert not (tmp_path / "x.parquet").exists()


def test_streaming_equals_collecting(tmp_path: Path) -> None:
    for number, source in enumerate([GPU, BOTH, APPENDED, EPOCH, [GPU, BOTH], [EPOCH, EPOCH]]):
        streamed, collected = tmp_path / f"s{number}.parquet", tmp_path / f"c{number}.parquet"
        tracekit.convert(source, streamed)
        tracekit.write(tracekit.read(source), collected)
        one, two = tracekit.read(streamed), tracekit.read(collected)
        key = lambda row: (row["ts_ns"], -(row["dur_ns"] or -1), row["source"], row["event_id"])  # noqa: E731
        assert sorted(one.events.to_pylist(), key=key) == sorted(two.events.to_pylist(), key=key)
        assert one.totals.to_pylist() == two.totals.to_pylist()


def test_a_file_out_of_order_is_sorted_on_the_way(tmp_path: Path) -> None:
    tracekit.convert(APPENDED, tmp_path / "x.jsonl")
    starts = tracekit.read(tmp_path / "x.jsonl").events.column("ts_ns").to_pylist()
    assert starts == sorted(starts)


def test_clocks_of_several_inputs_are_brought_together(tmp_path: Path) -> None:
    alone = tracekit.read(EPOCH)
    two = tracekit.read([EPOCH, EPOCH])
    assert two.run.origin_ns == alone.run.origin_ns
    assert two.span() == alone.span()
    mixed = tracekit.read([EPOCH, GPU])
    assert mixed.run.origin_ns is None
    assert any("clocks-not-comparable" in ledger.notes for ledger in mixed.ledgers)


def test_an_output_is_never_replaced_without_force(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    out.write_text("old")
    for call in (lambda: tracekit.convert(GPU, out), lambda: tracekit.write(tracekit.read(GPU), out)):
        with pytest.raises(OutputExistsError):
            call()
    assert out.read_text() == "old"
    tracekit.convert(GPU, out, force=True)
    assert tracekit.read(out).run.sources[0].sha256


def test_selection_counts_what_it_leaves_out() -> None:
    trace = tracekit.read(BOTH, selection=Selection(kinds=frozenset({"kernel"})))
    (ledger,) = trace.ledgers
    assert set(trace.events.column("kind").to_pylist()) == {"kernel"}
    assert ledger.filtered + ledger.kept == tracekit.read(BOTH).ledgers[0].kept


def test_strict_stops_at_the_first_note() -> None:
    with pytest.raises(TracekitError, match=r"truncated\.csv"):
        tracekit.read(sample("nvprof-csv/truncated.csv"), strict=True)


def test_views_see_the_columns_that_they_ask_for() -> None:
    whole = tracekit.read(BOTH)
    for name in pipeline.TABLE_VIEWS:
        narrow = tracekit.read(BOTH, columns=pipeline.columns_of([name]))
        assert tracekit.view(narrow, name) == tracekit.view(whole, name), name
    with pytest.raises(UsageError):
        pipeline.columns_of(["nonsense"])
    with pytest.raises(UsageError):
        tracekit.view(whole, "nonsense")


def test_a_summary_reads_args_of_the_kinds_that_its_views_name_and_a_report_all() -> None:
    path = sample("kineto/gpu.pt.trace.json")
    whole, shown = tracekit.read(path), pipeline.read(path, pipeline.for_report(InputOptions()))
    narrow = pipeline.read(path, pipeline.for_summary(InputOptions(), views=["all"]))
    assert pipeline.render(pipeline.report(shown), "json") == pipeline.render(pipeline.report(whole), "json")
    kept, drawn, every = (
        {row["kind"] for row in trace.events.select(["kind", "args"]).to_pylist() if row["args"]}
        for trace in (narrow, shown, whole)
    )
    assert drawn == every  # the timeline shows them
    assert kept == every - {"flow", "overhead", "other"}  # marks may be the nodes of graphs
    assert pipeline.args_of(["api"]) == frozenset()
    # The shapes of the operators that launched the kernels, and what shows the operators in graphs.
    graphs = {"runtime", "driver", "kernel", "memcpy", "memset", "mark"}
    assert pipeline.args_of(["kernel"]) == {"operator", "python_op"} | graphs
    assert pipeline.args_of(["critical_path", "memory"]) == {"sync", "memory", "operator", "python_op"}


def test_report_names_its_input_and_every_view() -> None:
    made = pipeline.report(tracekit.read([f"mine={BOTH}", str(GPU)]))
    assert made.title == "mine and 1 more"
    assert [s.view for s in made.sections] == list(VIEWS)
    assert dict(made.facts)["tool"]
    with pytest.raises(UsageError):
        pipeline.render(made, "nonsense")


def test_targets_are_chosen_by_the_longest_suffix() -> None:
    assert pipeline.writer_for("x.trace.json.gz").name == "chrome"
    assert pipeline.writer_for("X.PARQUET").name == "parquet"
    assert pipeline.writer_for("x.events.jsonl").name == "jsonl"
    with pytest.raises(UsageError):
        pipeline.writer_for("x")


def test_progress_is_told_a_share(tmp_path: Path) -> None:
    seen: list[float] = []
    tracekit.read(GPU, progress=seen.append)
    assert seen
    assert all(0 <= share <= 1 for share in seen)


@pytest.mark.corpus
def test_reading_a_whole_corpus_folder_names_no_bad_file() -> None:
    folder = corpus("nvprof_gputrace_csv/batchCUBLAS.csv").parent
    trace = tracekit.read(folder)
    assert len(trace.run.sources) == len([p for p in folder.iterdir() if p.is_file()])


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        tracekit.read(tmp_path / "nothing")
    with pytest.raises((ParseError, UnknownFormatError)):
        tracekit.read(GPU, format="parquet")
    with pytest.raises(UsageError):
        tracekit.read(GPU, format="nonsense")


def test_an_unknown_compat_and_a_view_it_has_not_are_refused() -> None:
    with pytest.raises(UsageError, match="compat caffe2"):
        pipeline.views_of("caffe2")
    for compat in upstreams.COMPATS:
        assert pipeline.views_of(compat) == tuple(view.name for view in upstreams.load(compat).views)
        with pytest.raises(UsageError, match="prints no such table"):
            pipeline.views_of(compat, ["metrics"])


def test_an_upstreams_tables_are_shown_unasked_for_its_own_formats_alone() -> None:
    shown = [section.view for section in pipeline.summary(tracekit.read(GPU)).sections]
    assert "kernel" in shown
    assert not set(shown) & set(upstreams.VIEWS)
    assert not {section.view for section in pipeline.report(tracekit.read(GPU)).sections} & set(upstreams.VIEWS)
    theano = tracekit.read(next(sample("theano").glob("*.txt")))
    assert "theano" in [section.view for section in pipeline.summary(theano).sections]
    assert pipeline.views_of("", ["all"], theano) == (*pipeline.TABLE_VIEWS, "theano")


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(devices=frozenset({99})), "the filters removed 137 records: no record is left to show"),
        (Selection(kinds=frozenset({"memset"})), '"this trace has none" is about the other records'),
    ],
)
def test_a_report_says_that_a_filter_is_why_there_is_nothing(selection: Selection, words: str) -> None:
    trace = tracekit.read(sample("nvprof-csv/gpu-and-api-trace.csv"), selection=selection)
    assert any(words in note for note in pipeline.summary(trace).notes)
    whole = tracekit.read(sample("nvprof-csv/gpu-and-api-trace.csv"))
    assert not any("filters" in note for note in pipeline.summary(whole).notes)


def test_a_filter_that_removes_everything_is_one_line() -> None:
    path = sample("nvprof-csv/gpu-and-api-trace.csv")
    trace = tracekit.read(path, selection=Selection(name="no such name"))
    for made in (pipeline.summary(trace), pipeline.summary(trace, views=["kernel"]), pipeline.report(trace)):
        assert made.sections == ()
        assert made.notes == ("the filters removed 137 records: no record is left to show",)
        for form in ("text", "markdown", "json", "csv", "html"):
            assert pipeline.render(made, form).count("this trace has none") == 0
    late = tracekit.read(path, selection=Selection(times_ns=(10**18, None)))
    assert len(pipeline.summary(late).sections) == 0


def test_selecting_steps_that_are_not_there_names_those_that_are() -> None:
    for name, there in (
        ("kineto/gpu.pt.trace.json", "the steps are 10 to 12"),
        ("paddle-pb/gpu.paddle_trace.pb", "the only step is 3"),
    ):
        trace = tracekit.read(sample(name), selection=Selection(steps=(99, 100)))
        assert [str(note) for note in trace.ledgers[0].notes.values()] == [f"no event passes the filter: {there}"]


def test_selecting_steps_of_a_trace_without_steps_is_an_error(tmp_path: Path) -> None:
    selection = Selection(steps=(1, 2))
    with pytest.raises(InputError, match="selects steps, and this trace has none"):
        tracekit.read(sample("nvprof-csv/gpu-and-api-trace.csv"), selection=selection)
    with pytest.raises(InputError, match="this trace has none"):
        tracekit.convert(sample("nvprof-csv/gpu-and-api-trace.csv"), tmp_path / "x.json", selection=selection)
    assert not list(tmp_path.iterdir())
    log = sample("recorder-log/rank0.jsonl")
    some = pipeline.read(
        [log, sample("nvprof-csv/gpu-and-api-trace.csv")], InputOptions(selection=selection, partial=True)
    )
    assert (len(some.events) > 0, len(some.failures)) == (True, 1)
    # A step that is not there is no error: the trace has steps.
    assert len(tracekit.read(log, selection=Selection(steps=(90, 91))).events) == 0


def test_the_head_gives_a_span_only_where_there_is_one_clock(tmp_path: Path) -> None:
    totals = tracekit.read(sample("nvprof-csv/summary-new.csv"))
    assert not {"span", "clocks"} & dict(pipeline.summary(totals).facts).keys()
    log = tmp_path / "old.log"
    log.write_text("method,gputime,cputime\nk,1.5,2.5\n", encoding="utf-8")
    assert dict(pipeline.summary(tracekit.read(log)).facts)["span"] == "not known: durations without starts"
    two = [sample("nvprof-csv/gpu-trace-17-columns.csv"), sample("nvprof-csv/gpu-trace-22-columns.csv")]
    assert "clocks" in dict(pipeline.summary(tracekit.read(two)).facts)


def test_a_summary_shows_what_only_an_unasked_view_has(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 10 reader_cost: 0.00123 s batch_cost: 0.04567 s ips: 123.456 samples/s\n", encoding="utf-8")
    names = pipeline.columns_of(pipeline.views_of(""))
    sections = pipeline.summary(tracekit.read([str(log)], columns=names)).sections
    assert [section.view for section in sections if section.tables] == ["benchmark"]
    assert "memory" not in {section.view for section in pipeline.summary(tracekit.read(GPU)).sections}
