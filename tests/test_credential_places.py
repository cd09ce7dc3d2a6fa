"""Secrets of 41 shapes, planted in every place of a file that has texts: none is in any output.

As a script it prints the table: `python tests/test_credential_places.py`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from planting import all_bytes, targets, without_guard
from support import run_command, sample

import tracekit
from tracekit.errors import TracekitError, UsageError

SHAPES = {
    "a key of the environment": "HF_TOKEN=@",
    "DB_PASS": "DB_PASS=@ X=1",
    "SMTP_PASS": "SMTP_PASS='@'",
    "Pwd": "Server=x;Database=y;Uid=z;Pwd=@;",
    "PAT": "PAT=@",
    "--pass": "run --pass @ -n 1",
    "a flag in a list": "['run', '--api-key', '@']",
    "SecretStr": "login(token=SecretStr('@'))",
    "bytes": "Namespace(db_password=b'@')",
    "a list": "password=['@']",
    "JSON": '{"password": "@"}',
    "JSON in a text": 'cfg {"password": ["@"]} x',
    "JSON in JSON": json.dumps({"a": json.dumps({"secret": ["@"]})}),
    "escaped JSON": r'x "{\"api_key\": \"@\"}" y',
    "a shell quote": "token=$'@'",
    "a dictionary": "auth={'password': {'a': '@'}}",
    "a type": 'password: SecretStr = SecretStr("@")',
    "XML": "<password>@</password>",
    "a pair": "[('Authorization', 'Bearer @')]",
    "a row": "EnvVar(name='HF_TOKEN', value='@')",
    "a header": 'curl -H "Cookie: a=b; c=@" x',
    "Basic": "Authorization: Basic @",
    "curl -u": "curl -u user:@ x",
    "sshpass": "sshpass -p @ ssh x",
    "docker": "docker login -u me -p @ x",
    "netrc": "machine h login y password @",
    "a password": "postgres://u:@@h:5432/db",
    "a password with @ and /": "redis://u:a@b/@@h/0",
    "a user alone": "https://@@h/x",
    "a query": "https://h/x?sig=@&b=1",
    "Slack's webhook": "https://hooks.slack.com/services/T00/B00/@",
    "Discord's webhook": "https://discord.com/api/webhooks/123/@",
    "Teams' webhook": "https://a.webhook.office.com/webhookb2/x@y/IncomingWebhook/@/z",
    "NVIDIA": "nvapi-@0123456789abcdefghijABCDEFGHIJ",
    "npm": "npm_@0123456789abcdefghijAB",
    "PyPI": "pypi-AgEIcHlwaS5vcmc@0123456789abcdefghij",
    "Docker's token": "dckr_pat_@0123456789ab",
    "Stripe": "sk_live_@0123456789",
    "SendGrid": "SG.@012345678.@0123456789abcdefghij",
    "Databricks": "dapi#",
    "an unclosed quote": "login(password='@ and",
}
"""Texts with a secret in the place of @, or # for one of hexadecimal digits."""


class Plants:
    """Texts with secrets that are unique, for the places of one file."""

    def __init__(self) -> None:
        self.secrets: dict[str, tuple[str, str]] = {}
        """Place and shape of each secret."""

    def texts(self, place: str) -> list[str]:
        """Return a text of each shape for a place."""
        return [self.text(place, shape) for shape in SHAPES]

    def text(self, place: str, shape: str) -> str:
        """Return a text of one shape for a place."""
        digest = hashlib.md5(f"{place}/{shape}".encode()).hexdigest()
        template = SHAPES[shape]
        secret = digest if "#" in template else f"zQ9{digest[:8]}Xyz77"
        self.secrets[secret] = (place, shape)
        # In "u:@@h" the first one is the secret.
        at = template.replace("a@b", "a\0b").replace("x@y", "x\0y").replace("@@", "@\0")
        return at.replace("@", secret).replace("#", secret).replace("\0", "@")


def _kineto(folder: Path, plants: Plants) -> Path:
    """Plant in a trace of PyTorch: names, args, facts of the run, names of processes and threads."""
    rows: list[dict[str, object]] = []
    for number, text in enumerate(plants.texts("name of a range")):
        rows.append(_event(number, name=text))
    for place, args in (
        ("args: a text", lambda text: {"cfg": text}),
        ("args: JSON in a text", lambda text: {"cfg": json.dumps({"a": [text]})}),
        ("args: a list", lambda text: {"argv": ["x", text, 1]}),
        ("args: a key", lambda text: {text: 1}),
        ("args: deep down", lambda text: {"a": [{"b": {"c": [text]}}]}),
    ):
        for number, text in enumerate(plants.texts(place)):
            rows.append(_event(number, name=f"aten::add {place}", args={"External id": number, **args(text)}))
    for what, place in (("process_name", "name of a process"), ("process_labels", "label of a process")):
        for number, text in enumerate(plants.texts(place)):
            args = {"labels" if what == "process_labels" else "name": text}
            rows.append({"ph": "M", "name": what, "pid": number + 1, "tid": 0, "args": args})
    for number, text in enumerate(plants.texts("name of a thread")):
        rows.append({"ph": "M", "name": "thread_name", "pid": number + 1, "tid": number + 1, "args": {"name": text}})
    facts = {
        "distributedInfo": {"backend": "nccl", "env": {f"X{n}": t for n, t in enumerate(plants.texts("environment"))}},
        "command_line": plants.texts("command line"),
        **{f"fact{n}": text for n, text in enumerate(plants.texts("fact of the run"))},
    }
    return _json(folder / "a.pt.trace.json", {"schemaVersion": 1, "deviceProperties": [], **facts, "traceEvents": rows})


def _event(number: int, **more: object) -> dict[str, object]:
    row = {"ph": "X", "cat": "cpu_op", "pid": number + 1, "tid": number + 1, "ts": 10.0 * number, "dur": 5.0}
    return row | more


def _json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def _chrome(folder: Path, plants: Plants) -> Path:
    """Plant in a Chrome trace: names of spans, instants and counters, its metadata, and rows that cannot be read."""
    rows = [_event(n, name=text) for n, text in enumerate(plants.texts("name (Chrome)"))]
    for ph, place, more in (
        ("i", "instant", {}), ("C", "counter", {"args": {"v": 1}}), ("X", "row without a time", {"ts": None}),
        ("B", "range without an end", {}), ("?", "kind that nobody knows", {}),
    ):  # fmt: skip
        rows += [_event(n, name=text) | {"ph": ph} | more for n, text in enumerate(plants.texts(place))]
    rows += [_event(n, name="x") | {"cat": text} for n, text in enumerate(plants.texts("category"))]
    other = {f"x{n}": text for n, text in enumerate(plants.texts("otherData"))}
    return _json(folder / "chrome.json", {"traceEvents": rows, "otherData": other, "displayTimeUnit": "ms"})


def _folded(folder: Path, plants: Plants) -> Path:
    """Plant in the frames of folded stacks."""
    path = folder / "a.folded"
    texts = (text.replace("; ", ", ") for text in plants.texts("frame of a stack"))  # ";" is between frames
    path.write_text("".join(f"main;{text};leaf 7\n" for text in texts), encoding="utf-8")
    return path


def _firefox(folder: Path, plants: Plants) -> Path:
    """Plant in a profile of Firefox: the functions, the name of the program and of its thread."""
    profile = json.loads(sample("firefox/samply.json").read_text(encoding="utf-8"))
    thread = profile["threads"][0]
    profile["meta"]["product"] = " & ".join(plants.texts("name of the program"))
    thread["name"] = " & ".join(plants.texts("thread (Firefox)"))
    strings = plants.texts("table of strings")
    table = thread["stringArray"] if "stringArray" in thread else profile["shared"]["stringArray"]
    size = len(table)
    table += strings
    first = {key: thread[key] for key in ("funcTable", "frameTable", "stackTable")}
    for number in range(len(strings)):
        for name, values in first.items():
            values["length"] += 1
            for column in values.values():
                if isinstance(column, list):
                    column.append(column[0])
            if name == "funcTable":
                values["name"][-1] = size + number
            elif name == "frameTable":
                values["func"][-1] = first["funcTable"]["length"] - 1
            else:
                values["frame"][-1], values["prefix"][-1] = first["frameTable"]["length"] - 1, None
        samples = thread["samples"]
        for key in ("stack", "weight", "timeDeltas", "threadCPUDelta"):
            samples[key].append(first["stackTable"]["length"] - 1 if key == "stack" else 10)
        samples["length"] += 1
    return _json(folder / "firefox.json", profile)


def _nsys(folder: Path, plants: Plants) -> Path:
    """Plant in an export of Nsight Systems: names, command line, environment, processes, what the tool says."""
    path = folder / "a.sqlite"
    path.write_bytes(sample("nsys-sqlite/two-processes.sqlite").read_bytes())
    with closing(sqlite3.connect(path)) as db, db:
        ids = [row[0] for row in db.execute("select id from StringIds order by id desc")]
        for number, text in zip(ids, plants.texts("StringIds"), strict=False):
            db.execute("update StringIds set value = ? where id = ?", (text, number))
        for place, table, column in (
            ("NVTX text", "NVTX_EVENTS", "text"), ("environment of the system", "TARGET_INFO_SYSTEM_ENV", "value"),
            ("facts of the capture", "META_DATA_CAPTURE", "value"), ("process (nsys)", "PROCESSES", "name"),
            ("diagnostics", "DIAGNOSTIC_EVENT", "text"), ("device (nsys)", "TARGET_INFO_GPU", "name"),
        ):  # fmt: skip
            rows = [row[0] for row in db.execute(f"select rowid from {table}")]
            for number, text in enumerate(plants.texts(place)):
                row = rows[number % len(rows)]
                db.execute(
                    f"update {table} set {column} = coalesce({column}, '') || ? where rowid = ?", (f" & {text}", row)
                )
    return path


def _nsys_lines(folder: Path, plants: Plants) -> Path:
    """Plant in the lines of Nsight Systems: its strings, and texts of NVTX."""
    head, *lines = sample("nsys-jsonl/texts-first.jsonl").read_text(encoding="utf-8").splitlines()
    strings = json.loads(head)
    for number, text in enumerate(plants.texts("strings (nsys)")):
        strings["data"][1 + number % (len(strings["data"]) - 1)] += f" & {text}"
    nvtx = next(json.loads(line) for line in lines if '"NvtxEvent"' in line)
    for text in plants.texts("NVTX (lines)"):
        nvtx["NvtxEvent"]["Text"] = text
        lines.append(json.dumps(nvtx))
    path = folder / "a.jsonl"
    path.write_text("\n".join((json.dumps(strings), *lines)) + "\n", encoding="utf-8")
    return path


def _recorder(folder: Path, plants: Plants) -> Path:
    """Plant in a log of the recorder: command, process, names, threads."""
    head, *lines = sample("recorder-log/rank0.jsonl").read_text(encoding="utf-8").splitlines()
    facts = json.loads(head)
    facts["command"] = plants.texts("command of the recorder")
    facts["process"] = " & ".join(plants.texts("process (recorder)"))
    out = [json.dumps(facts)]
    names, threads = plants.texts("name (recorder)"), plants.texts("thread (recorder)")
    count = sum('"k":"name"' in line for line in lines)
    for line in lines:
        row = json.loads(line)
        if row.get("k") == "name":
            row["name"] = " & ".join(names[row["id"] % count :: count])
        if row.get("k") == "thread":
            row["name"] = " & ".join(threads)
        out.append(json.dumps(row))
    path = folder / "rank0.jsonl"
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    return path


def _nvprof(folder: Path, plants: Plants) -> Path:
    """Plant in the CSV of nvprof: the names of kernels and the command."""
    lines = sample("nvprof-csv/gpu-trace-20-columns.csv").read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if "maxwell_scudnn_128x64_relu_interior_nn_v1" in line)
    for text in plants.texts("name (nvprof)"):
        lines.append(row.replace("maxwell_scudnn_128x64_relu_interior_nn_v1", text.replace('"', '""')))
    command = " & ".join(plants.texts("command (nvprof)"))
    lines[:2] = [line.replace("python train.py", f"python train.py {command}") for line in lines[:2]]
    path = folder / "a.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _ncu(folder: Path, plants: Plants) -> Path:
    """Plant in the CSV of Nsight Compute: the names of kernels and of the process."""
    lines = sample("ncu/details.csv").read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if '"void gemm' in line and line.startswith('"0"'))
    name = row.split('","')[4]
    for number, text in enumerate(plants.texts("name (ncu)")):
        lines.append(row.replace(name, text.replace('"', '""')).replace('"0"', f'"{number + 50}"', 1))
    for number, text in enumerate(plants.texts("process (ncu)")):
        quoted = text.replace('"', '""')
        lines.append(row.replace('"train"', f'"{quoted}"').replace('"0"', f'"{number + 150}"', 1))
    path = folder / "ncu.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


FILES: dict[str, Callable[[Path, Plants], Path]] = {
    "PyTorch": _kineto, "Chrome": _chrome, "folded": _folded, "Firefox": _firefox, "nsys": _nsys,
    "nsys lines": _nsys_lines, "recorder": _recorder, "nvprof": _nvprof, "ncu": _ncu,
}  # fmt: skip
AGAIN = ("x.paddle_trace.pb", "x.pftrace", "x.parquet", "x.jsonl")
"""Files of versions that masked nothing, which are read again."""


def outputs(path: Path, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each output that can be made of a file, with all its bytes."""
    for name, target in targets(folder):
        try:
            tracekit.convert(path, target, to=name)
        except UsageError:
            continue  # the target has no such events
        yield f"convert --to {name}", all_bytes(target)
    for form in ("text", "json", "csv", "markdown"):
        yield f"summary {form}", run_command("summary", path, "--format", form, code=None, width=4000).output.encode()
    run_command("report", path, "-o", folder / "page.html", code=None)
    yield "report", all_bytes(folder / "page.html")
    added = run_command("archive", "add", folder / "archive", path, code=None)
    for file in sorted((folder / "archive").rglob("*.parquet")):
        yield "archive", all_bytes(file)
    shown = run_command("archive", "show", folder / "archive", added.stdout.strip(), "--format", "json", code=None)
    yield "archive show", (added.output + shown.output).encode()
    yield "inspect json", run_command("inspect", path, "--format", "json", code=None).output.encode()
    yield "doctor", run_command("doctor", path, "--format", "json", code=None).output.encode()
    yield "query", str(tracekit.query(path, "SELECT * FROM events").to_pylist()).encode()


def found(plants: Plants, path: Path, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield output, place and shape of each secret that came through."""
    for output, data in outputs(path, folder):
        for secret, (place, shape) in plants.secrets.items():
            if secret.encode() in data:
                yield output, place, shape


def written_again(folder: Path, patch: pytest.MonkeyPatch, plants: Plants) -> list[Path]:
    """Return files that a version without masks wrote, in formats that are read again."""
    path = _kineto(folder, plants)
    with patch.context() as without:
        without_guard(without)
        for name in AGAIN:
            tracekit.convert(path, folder / name)
    return [folder / name for name in AGAIN]


@pytest.mark.parametrize("kind", FILES)
def test_a_secret_of_any_shape_in_any_place_reaches_no_output(kind: str, tmp_path: Path) -> None:
    plants = Plants()
    path = FILES[kind](tmp_path, plants)
    data = path.read_bytes()
    assert all(secret.encode() in data for secret in plants.secrets)
    (tmp_path / "out").mkdir()
    assert list(found(plants, path, tmp_path / "out")) == []
    trace = tracekit.read(path)
    for text in trace.events.column("args").to_pylist():
        assert text is None or isinstance(json.loads(text), dict)
    assert any(code.startswith("credential-masked") for ledger in trace.ledgers for code in ledger.notes)


def test_a_file_that_was_written_without_masks_is_masked_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plants = Plants()
    for path in written_again(tmp_path, monkeypatch, plants):
        data = all_bytes(path)
        assert sum(secret.encode() in data for secret in plants.secrets) > 40, path
        trace = tracekit.read(path)
        text = str([trace.events.to_pylist(), trace.run.to_json(), [x.to_json() for x in trace.ledgers]])
        assert [where for secret, where in plants.secrets.items() if secret in text] == [], path


def test_a_secret_in_the_name_of_a_file_or_folder_reaches_no_output(tmp_path: Path) -> None:
    plants = Plants()
    rows = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [_event(0, name="aten::add")]}
    for place in ("name of a file", "name of a folder"):
        for shape in SHAPES:
            text = plants.text(place, shape)
            if "/" in text or len(text) > 200:
                continue
            name = f"{text}.json" if place == "name of a file" else f"{text}/a.json"
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            trace = tracekit.read(_json(path, rows))
            shown = str([trace.run.to_json(), [ledger.to_json() for ledger in trace.ledgers]])
            with pytest.raises(TracekitError) as error:
                tracekit.read(path.with_name(f"{path.stem} is missing.json"))
            shown += str(error.value) + error.value.hint
            assert [where for secret, where in plants.secrets.items() if secret in shown] == [], shown


def main() -> None:
    """Print for each place how many of the planted secrets each kind of output has."""
    total = came = 0
    for kind, make in FILES.items():
        with tempfile.TemporaryDirectory() as name:
            folder, plants = Path(name), Plants()
            path = make(folder, plants)
            (folder / "out").mkdir()
            through = list(found(plants, path, folder / "out"))
        places = dict.fromkeys(place for place, _ in plants.secrets.values())
        for place in places:
            mine = [(output, shape) for output, where, shape in through if where == place]
            print(
                f"{kind:12} {place:28} {len(SHAPES)} planted, {len({s for _, s in mine})} found {sorted(set(mine))[:3]}"
            )
            total, came = total + len(SHAPES), came + len(mine)
    print(f"{total} secrets planted, {came} found in outputs")
    sys.exit(came > 0)


if __name__ == "__main__":
    main()
