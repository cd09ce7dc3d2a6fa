"""Damaged JSON traces: a defect costs the event that has it, is counted once, and never ends the trace."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_limits import Limit, small
from support import run_command

import tracekit
from tracekit.doctor import diagnose
from tracekit.model.trace import Ledger, Trace

ARGS = (
    {},
    {"dims": [[1, 2], [3, 4]], "types": ["float", "int"]},
    {"o": [{"name": "n"}, {"name": "m", "x": [{"y": 1}]}], "s": '},{"ph":"X","name":"no event"'},
    {"s": "größe 名前 {x} [y], ph: 3"},
    {"a": {"b": {"c": [1, [2, [3]]]}}},
)
LAYOUTS = {"one line": ", ", "tight": ",", "lines": ",\n", "crlf": ",\r\n", "pretty": ",\n"}
FORMS = (("[", "]"), ('{"traceEvents":[', "]}"), ('{"a":1,"traceEvents":[', '],"unit":"ms","o":{"a":[1,{"b":2}]}}'))


def event(number: int, rng: random.Random) -> dict[str, object]:
    found: dict[str, object] = {"name": f"op{number}", "ph": "X", "ts": number * 10, "dur": 5, "tid": "stream 7"}
    found |= {"pid": rng.choice([1, "CPU functions"])}
    if rng.random() < 0.7:
        found["args"] = rng.choice(ARGS)
    return dict(reversed(found.items())) if rng.random() < 0.2 else found


def texts_of(events: list[dict[str, object]], layout: str, rng: random.Random) -> list[str]:
    if layout == "pretty":
        return [json.dumps(each, indent=2, ensure_ascii=False) for each in events]
    separators = (",", ":") if layout == "tight" else None
    return [json.dumps(each, ensure_ascii=rng.random() < 0.5, separators=separators) for each in events]


def outside(text: str, wanted: str) -> list[int]:
    """Return the places of characters of JSON itself; quotes are those around strings."""
    found, inside, slash = [], False, False
    for at, each in enumerate(text):
        if each == '"' and not slash:
            inside = not inside
        if each in wanted and not slash and (each == '"' or not inside):
            found.append(at)
        slash = inside and each == "\\" and not slash
    return found


def without(text: str, wanted: str, rng: random.Random) -> str:
    at = rng.choice(outside(text, wanted))
    return text[:at] + text[at + 1 :]


def doubled(text: str, rng: random.Random) -> str:
    at = rng.choice(outside(text, ","))
    return text[:at] + "," + text[at:]


def put(text: str, what: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(text) - 1)
    return text[:at] + what + text[at:]


def zeroed(text: str, rng: random.Random) -> str:
    size = rng.choice((1, 3, 20))
    at = rng.randrange(1, len(text) - size - 1)
    return text[:at] + "\0" * size + text[at + size :]


BREAK = {
    "quote": lambda text, rng: without(text, '"', rng),
    "bracket": lambda text, rng: without(text, "{}[]", rng),
    "comma": lambda text, rng: without(text, ",:", rng),
    "doubled comma": doubled,
    "control character": lambda text, rng: put(text, "\x01", rng),
    "line end": lambda text, rng: put(text, "\n", rng),
    "zeros": zeroed,
}


def ledger(trace: Trace) -> Ledger:
    found = trace.ledgers[0]
    found.check()
    return found


def names(trace: Trace) -> set[str]:
    return set(trace.events["name"].to_pylist())


def check_broken(path: Path, count: int, seed: int, *, most: int) -> None:
    """Break some of the events, none beside another, and read the file."""
    rng = random.Random(seed)
    layout = rng.choice(list(LAYOUTS))
    begin, end = rng.choice(FORMS)
    texts = texts_of([event(number, rng) for number in range(count)], layout, rng)
    broken = set(rng.sample(range(1, count, 2), rng.randint(1, most)))
    ways = {number: rng.choice(list(BREAK)) for number in broken}
    for number, way in ways.items():
        texts[number] = BREAK[way](texts[number], rng)
    data = (begin + LAYOUTS[layout].join(texts) + end).encode()
    data = b"\xef\xbb\xbf" + data if rng.random() < 0.2 else data
    path.write_bytes(gzip.compress(data, 1) if rng.random() < 0.2 else data)
    trace = tracekit.read(path)
    found = ledger(trace)
    assert names(trace) >= {f"op{number}" for number in range(count) if number not in broken}, (seed, ways)
    assert found.read == count, (seed, ways)
    assert sum(found.dropped.values()) <= len(broken), (seed, ways)
    assert "torn-row" not in found.dropped, (seed, ways)


SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(seed=st.integers(0, 1 << 32), slab=st.sampled_from([701, 5003, 2 << 20]))
def test_broken_events_cost_themselves_alone(seed: int, slab: int, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.JSON_SLAB_BYTES, slab)
        check_broken(tmp_path / "x.json", 24, seed, most=8)


@pytest.mark.parametrize("seed", range(3))
def test_broken_events_cost_themselves_alone_in_files_of_many_blocks(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.JSON_SLAB_BYTES, 512 << 10)  # as many blocks as 40,000 events have
    check_broken(tmp_path / "x.json", 10_000, seed, most=(1, 30, 1_000)[seed])


PLAIN = '{"name": "add","ph": "X","ts": %d,"dur": 5,"tid": 1,"pid": "CPU functions","args": {}}'
LOST_QUOTE = (
    '{"name": "    add","ph": "f","ts": 102.9,tid": 0,"pid": "CUDA functions","id": 0,"cat": "cpu_to_cuda","args": {}}'
)


def plain(count: int, broken: dict[int, str], separator: str = ", ") -> str:
    return "[" + separator.join(broken.get(number, PLAIN % (number * 10)) for number in range(count)) + "]"


@pytest.mark.parametrize("separator", [", ", ",\n"])
@pytest.mark.parametrize("count", [1_000, 60_000])
def test_one_lost_quote_costs_one_event(tmp_path: Path, count: int, separator: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(plain(count, {count // 100: LOST_QUOTE}, separator), "utf-8")
    trace = tracekit.read(path)
    assert len(trace.events) == count - 1
    assert ledger(trace).dropped == {"lost-quote": 1}
    assert trace.incomplete == ()


def test_a_broken_event_is_one_record_and_its_args_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(plain(1_000, dict.fromkeys(range(9, 1_000, 10), LOST_QUOTE)), "utf-8")
    found = ledger(tracekit.read(path))
    assert (found.read, found.kept, found.dropped, found.ignored) == (1_000, 900, {"lost-quote": 100}, {})


@pytest.mark.parametrize("command", [("summary",), ("inspect",), ("convert", "--to", "chrome", "-o")])
def test_more_than_a_hundredth_lost_is_incomplete_and_fails(tmp_path: Path, command: tuple[str, ...]) -> None:
    for broken, code in ((1, 0), (20, 1)):
        path = tmp_path / f"{broken}.json"
        path.write_text(plain(1_000, dict.fromkeys(range(9, 9 + 2 * broken, 2), LOST_QUOTE)), "utf-8")
        words = [*command, tmp_path / f"{broken}.out.json"] if "-o" in command else [*command]
        done = run_command(*words, path, code=code)
        assert ("INCOMPLETE: 20 of 1,000 records" in done.stdout + done.stderr) == bool(code)
        assert "was cut" not in done.stdout + done.stderr


FULL = '{"ph":"X","name":"bad","cat":"op","ts":7,"dur":1,"pid":1,"tid":1,"args":{"dims":[[1,2],[3]],"o":[{"x":"y"}]}}'
DAMAGE = {
    "closing quote": (FULL.replace("bad", 'bad"', 1).replace('bad""', "bad"), "lost-quote"),
    "opening quote": (FULL.replace('"bad', "bad"), "lost-quote"),
    "quote of the last string": (FULL.replace('y"', "y"), "lost-quote"),
    "quote of the first key": (FULL.replace('"ph', "ph"), "lost-quote"),
    "last brace": (FULL[:-1], "lost-bracket"),
    "last two braces": (FULL[:-2], "lost-bracket"),
    "first brace": (FULL[1:], "lost-bracket"),
    "brace of args": (FULL.replace(":{", ":"), "lost-bracket"),
    "closing bracket": (FULL.replace("3]]", "3]"), "lost-bracket"),
    "opening bracket": (FULL.replace("[[", "["), "lost-bracket"),
    "comma": (FULL.replace('"op",', '"op"'), "bad-json"),
    "colon": (FULL.replace('"ts":', '"ts"'), "bad-json"),
    "comma of numbers": (FULL.replace("1,2", "1 2"), "bad-json"),
    "value": (FULL.replace('"op"', ""), "bad-json"),
    "zeros": (FULL.replace('"cat":"op"', "\0" * 10), "bad-json"),
    "last half": (FULL[: len(FULL) // 2], ""),
    "end of a list of objects": (FULL[: FULL.index("]}}")], "lost-bracket"),
}


@pytest.mark.parametrize("separator", [",", ",\r\n"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_the_defect_is_named_where_it_is(tmp_path: Path, damage: str, form: tuple[str, str], separator: str) -> None:
    text, code = DAMAGE[damage]
    path = tmp_path / "x.json"
    for place in (0, 4, 199):
        events = [PLAIN % (number * 10) for number in range(199)]
        path.write_bytes((form[0] + separator.join([*events[:place], text, *events[place:]]) + form[1]).encode())
        trace = tracekit.read(path)
        found = ledger(trace)
        assert (len(trace.events), found.read, sum(found.dropped.values())) == (199, 200, 1)
        note = next(note for code, note in found.notes.items() if code in found.dropped)
        assert note.places == [f"event {place + 1}"]
        if place < 199:
            assert code in ("", *found.dropped)
            assert "was cut" not in note.text
        if code.startswith("lost") and place == 4:
            assert code in [each.defect.code for each in diagnose(str(path)).findings]


def test_a_missing_comma_never_joins_two_numbers(tmp_path: Path) -> None:
    for blank in (" ", "\n", "\t  "):
        path = tmp_path / "x.json"
        path.write_text("[" + (PLAIN % 10).replace("10", f"10{blank}20") + "," + PLAIN % 30 + "]", "utf-8")
        trace = tracekit.read(path)
        assert trace.events["ts_ns"].to_pylist() == [30_000]
        assert ledger(trace).dropped == {"bad-json": 1}


@pytest.mark.parametrize("end", ["]}", '],"unit":"ms"}'])
def test_a_cut_file_is_called_cut_at_every_place(tmp_path: Path, end: str) -> None:
    events = [FULL, PLAIN % 5, FULL.replace("dims", "größe"), '{"ph":"X","name":"}{","ts":1,"dur":1,"pid":1,"tid":1}']
    data = ('{"traceEvents":[' + ",".join(events) + end).encode()
    whole = [data.index(each.encode()) + len(each.encode()) for each in events]
    for cut in range(whole[0], data.rindex(b"}]") + 1, 2):
        path = tmp_path / "x.json"
        path.write_bytes(data[:cut] + b"\0" * (cut % 3 * 100))
        trace = tracekit.read(path)
        assert len(trace.events) == sum(end <= cut for end in whole)
        assert set(ledger(trace).dropped) <= {"torn-row"}
        assert {"torn-row", "no-end"} & set(ledger(trace).notes)
        assert trace.incomplete == ()


def test_a_broken_event_and_a_cut_end_are_two_defects(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(plain(500, {100: LOST_QUOTE})[:-40], "utf-8")
    trace = tracekit.read(path)
    assert len(trace.events) == 498
    assert ledger(trace).dropped == {"lost-quote": 1, "torn-row": 1}


@pytest.mark.parametrize("size", [3, 600, 100_000, 5_000_000])
def test_zeros_in_the_middle_are_counted_in_bytes(tmp_path: Path, size: int) -> None:
    text = plain(2_000, {})
    at = text.index(PLAIN % 10_000)
    path = tmp_path / "x.json"
    for place, events in ((at, 2_000), (at + 20, 1_999)):
        path.write_bytes(text[:place].encode() + bytes(size) + text[place:].encode())
        trace = tracekit.read(path)
        assert len(trace.events) == events
        found = re.search(r"([\d,]+) bytes", ledger(trace).notes["lost-bytes"].text)
        assert found is not None
        assert 0 <= int(found[1].replace(",", "")) - size < 100
        assert bool(trace.incomplete) == (size > 0.01 * (len(text) + size))


def test_zeros_behind_the_last_event_are_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for tail in (b"", b"]"):
        path.write_bytes(plain(2_000, {})[:-1].encode() + tail + bytes(9_000_000))
        trace = tracekit.read(path)
        assert (len(trace.events), set(ledger(trace).dropped), trace.incomplete) == (2_000, set(), ())


def test_text_that_is_no_event_is_counted_in_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(plain(1_000, {300: "[warning] disk full " * 1_000}), "utf-8")
    trace = tracekit.read(path)
    assert len(trace.events) == 999
    assert "19,999 bytes" in ledger(trace).notes["lost-bytes"].text
    assert trace.incomplete


@pytest.mark.parametrize("stray", ["]", "}", "]}", "}}]"])
@pytest.mark.parametrize("form", FORMS)
def test_a_stray_bracket_between_events_does_not_end_the_list(
    tmp_path: Path, form: tuple[str, str], stray: str
) -> None:
    path = tmp_path / "x.json"
    events = [PLAIN % (number * 10) for number in range(200)]
    events[50] += stray
    path.write_text(form[0] + ", ".join(events) + form[1], "utf-8")
    trace = tracekit.read(path)
    assert len(trace.events) == ledger(trace).read == 200
    assert "lost-bytes" in ledger(trace).notes


def test_the_brackets_of_the_list_may_be_missing(tmp_path: Path) -> None:
    events = ",".join(PLAIN % (number * 10) for number in range(200))
    path = tmp_path / "x.json"
    for text, code in (
        (f'{{"traceEvents":{events}]}}', "list-not-opened"),
        (f'{{"traceEvents":[{events},"unit":"ms"}}', "list-not-closed"),
        (f'{{"traceEvents":[{events}}}', "list-not-closed"),
    ):
        path.write_text(text, "utf-8")
        trace = tracekit.read(path)
        assert len(trace.events) == ledger(trace).read == 200
        assert code in ledger(trace).notes


def test_a_character_that_is_cut_costs_no_event(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    bad = FULL.replace("bad", "名").encode().replace("名".encode(), "名".encode()[:2])
    path.write_bytes(b"[" + b",".join([FULL.encode()] * 50 + [bad] + [FULL.encode()] * 50) + b"]")
    assert len(tracekit.read(path).events) == 101


def test_a_mended_name_does_not_take_the_next_event(tmp_path: Path) -> None:
    """A colon or a brace is missing: that no key has quotes inside shows that these are no bare quotes in a name."""
    path = tmp_path / "x.json"
    path.write_text(plain(100, {50: FULL.replace('"tid":', '"tid"'), 51: FULL[1:]}, ","), "utf-8")
    trace = tracekit.read(path)
    assert names(trace) == {"add"}
    assert (ledger(trace).read, sum(ledger(trace).dropped.values())) == (100, 2)


@pytest.mark.parametrize("odd", ['{"cat":"kernel","ts":1}', "{}", '{"name":"a"}', '{"ph":"M"}'])
def test_a_repaired_event_does_not_take_an_odd_one_behind_it(tmp_path: Path, odd: str) -> None:
    events = f'{{"ph":"X","ts":1,"dur":1,"args":[Infinity]}},{odd},{{}},{{"ph":"X","ts":5,"dur":2}}'
    path = tmp_path / "x.json"
    path.write_text(f'{{"traceEvents":[{events}]}}', encoding="utf-8")
    trace = tracekit.read(path, format="chrome-trace")
    assert trace.ledgers[0].read == 4
    assert trace.events.column("event_id").to_pylist() == [1, 4]
