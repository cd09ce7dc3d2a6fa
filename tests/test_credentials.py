"""Credentials never reach an output, whatever field of whatever format has them; everything else stays as it is."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from planting import ONE_OF_EACH, all_bytes, planted, targets, without_guard
from support import run_command, sample

import tracekit
from tracekit.credentials import MASK, SUSPECT, is_secret_key, masked, masked_value
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.inputs import stored_name

A36 = "0123456789abcdefghijABCDEFGHIJ012345"
SHAPES = {
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS session": "ASIAIOSFODNN7EXAMPLE",
    "GitHub": f"ghp_{A36}",
    "GitHub fine": f"github_pat_{A36}",
    "GitLab": f"glpat-{A36[:20]}",
    "Slack": f"xoxb-{A36[:24]}",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "Google": f"AIza{A36[:35]}",
    "Hugging Face": "hf_abcdefghijabcdefghijABCDEFGHIJabcd",
    "OpenAI": f"sk-proj-{A36}",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc+/\n-----END RSA PRIVATE KEY-----",
}
KEYS = """
    token access_token accessToken HF_TOKEN secret client_secret password passwd PGPASSWORD api_key apiKey
    OPENAI_API_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN private_key authorization cookie
    Set-Cookie MYSQL_PWD AccountKey
""".split()  # noqa: SIM905
SECRET = "zq9-Plant3d.value"
OTHERS = (
    "key_averages", "TokenEmbedding", "sk_gemm_kernel<float, 128>", "aten::embedding", "eos_token=</s>",
    "num_tokens=128",
    "cache_key=ab12", "correlation_key: 7", "PWD=/srv/run", "key: value", "task-learn-something-long-with-1-number",
    "void cutlass::Kernel<cutlass_80_tensorop_s16816gemm_bf16_256x128_32x3_nn_align8>(Params)", "step token 5",
    "decode[token=5]", "autograd::engine::evaluate_function: AddmmBackward0", "std::token::type",
    "hf_transformers_modeling_llama_forward", "D84EEAE1F7B4478F9F2D86023BDD9BA9", "https://example.org/a?part=2&key=1",
    "git@github.com:a/b.git", "http://host:8080/a@b", "author: me", "passthrough=1", "token=$TOKEN", "PASSWORD=",
    "forward_pass: 3", "secretary", "tokenizer(text)", "kernel_key=0xAKIA", "eyJust a name.of a thing",
)  # fmt: skip


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES.keys())
def test_a_well_known_shape_is_masked_wherever_it_is(secret: str) -> None:
    for text in (secret, f"run {secret} now", f"--x={secret}", f"https://h/a/{secret}?b=1", f"[{secret}]"):
        assert secret not in masked(text)
        assert masked(masked(text)) == masked(text)
        assert secret not in str(masked_value({"a": [text]}))
        args = json.dumps({"n": 1, "x": text})
        assert json.loads(masked(args))["x"] == masked(text)


@pytest.mark.parametrize("key", KEYS)
def test_the_value_of_a_secret_key_is_masked_and_the_key_stays(key: str) -> None:
    assert is_secret_key(key)
    for text in (
        f"{key}={SECRET}", f"a=1 {key}={SECRET} b=2", f"--{key} {SECRET} -n 1", f"--{key}={SECRET}",
        f"{key} = '{SECRET}'",
        f'{{"{key}": "{SECRET}"}}', f"{{'{key}': '{SECRET}', 'b': 2}}", f"X=1;{key}={SECRET};Y=2",
    ):  # fmt: skip
        assert SECRET not in masked(text), text
        assert key in masked(text)
        assert masked(masked(text)) == masked(text)
    for value in (
        {key: SECRET}, {key: [SECRET]}, {key: {"a": SECRET}}, {"a": [{key: SECRET}]}, {"env": [f"{key}={SECRET}"]},
        {"argv": ["x", f"--{key}", SECRET]}, {"name": key, "value": SECRET}, {"text": json.dumps({key: SECRET})},
    ):  # fmt: skip
        told: list[str] = []
        for out in (str(masked_value(value)), masked(json.dumps(value), told.append)):
            assert SECRET not in out, value
            assert MASK in out
        assert told
        assert SECRET not in str(told)


def test_a_password_with_separators_in_it_is_masked_whole() -> None:
    for text in (
        "DB_PASSWORD=a;b,c&d X=1",
        "DB_PASSWORD=a;b,c&d",
        "--password 'a b;c' x",
        "Cookie: a=b; c=d",
        '"password": "a, b"',
    ):
        out = masked(text)
        assert not re.search(r"(?<![a-z])[bcd](?![a-z_])", out), out


def test_urls_keep_all_but_user_and_signature() -> None:
    assert masked("s3://me:pw@bucket/a.json?part=2") == "s3://masked@bucket/a.json?part=2"
    url = f"https://h/a.json?X-Amz-Credential=AK%2F1&X-Amz-Signature={SECRET}&sig={SECRET}&token={SECRET}&part=2"
    assert (
        masked(url) == "https://h/a.json?X-Amz-Credential=masked&X-Amz-Signature=masked&sig=masked&token=masked&part=2"
    )


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_credential_stays(text: str) -> None:
    assert masked(text) == text
    args = json.dumps({"x": text, "n": 1})
    assert masked(args) == args


def test_the_other_characters_of_args_stay() -> None:
    text = '{"a":1.50,"b" : [1e5, 12345678901234567890],"password":"p9","c":"\\u00e9\\/"}'
    assert masked(text) == text.replace('"p9"', f'"{MASK}"')


def test_arrow_and_python_find_the_same_suspects() -> None:
    texts = [*SHAPES.values(), *(f"{key}={SECRET}" for key in KEYS), *OTHERS, "https://a:b@c", "?sig=1"]
    found = pc.match_substring_regex(pa.array(texts), SUSPECT).to_pylist()
    assert found == [re.search(SUSPECT, text) is not None for text in texts]


def test_errors_do_not_quote_credentials() -> None:
    url = f"s3://me:{SECRET}@bucket/a?X-Amz-Signature={SECRET}"
    assert SECRET not in str(InputError(f"{url}: cannot be opened ({url} failed)", hint=url))
    assert SECRET not in InputError("x", hint=url).hint


def test_names_of_inputs_are_stored_without_the_way_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert stored_name(str(tmp_path / "a" / "b.json")) == "a/b.json"
    assert stored_name("../x/b.json") == "../x/b.json"
    assert stored_name("/home/alice/b.json") == "~/b.json"
    assert stored_name("/home/alice/runs/a/b/c.json") == ".../a/b/c.json"
    assert stored_name("/srv/b.json") == ".../srv/b.json"
    assert stored_name("-") == "-"


def kineto_file(path: Path) -> Path:
    """Write a trace with a credential in its metadata, a name, args, and the name of a process."""
    event = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "dur": 2.0}
    path.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "deviceProperties": [],
                "access_token": SECRET,
                "distributedInfo": {"backend": "nccl", "env": {"HF_TOKEN": SECRET}},
                "command": f"train.py --api-key {SECRET}",
                "traceEvents": [
                    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": f"x PASSWORD={SECRET}"}},
                    event | {"name": f"get https://me:{SECRET}@h/x", "ts": 1.0, "args": {"External id": 1}},
                    event
                    | {"name": "aten::add", "ts": 9.0, "args": {"headers": {"authorization": [f"Basic {SECRET}"]}}},
                    event
                    | {"name": f"get https://me:{SECRET}2@h/x", "ts": 20.0, "args": {"argv": ["--token", SECRET]}},
                ],
            }
        ),
        encoding="utf-8",
    )
    return path


def test_a_credential_in_any_field_reaches_no_output(tmp_path: Path) -> None:
    path = kineto_file(tmp_path / "a.pt.trace.json")
    for name, target in targets(tmp_path):
        tracekit.convert(path, target, to=name)
        assert SECRET.encode() not in all_bytes(target), name
    trace = tracekit.read(path)
    tracekit.write_report(trace, tmp_path / "page.html")
    assert SECRET.encode() not in all_bytes(tmp_path / "page.html")
    for form in ("text", "json", "csv", "markdown"):
        tracekit.write_report(trace, tmp_path / f"x.{form}", form=form)
        assert SECRET.encode() not in all_bytes(tmp_path / f"x.{form}"), form
    added = run_command("archive", "add", tmp_path / "archive", path)
    shown = run_command("archive", "show", tmp_path / "archive", added.stdout.strip(), "--format", "json")
    inspected = run_command("inspect", path, "--format", "json")
    for text in (repr(trace), added.output, shown.output, inspected.output, str(trace.run.to_json())):
        assert SECRET not in text
    for file in (tmp_path / "archive").rglob("*.parquet"):
        assert SECRET.encode() not in all_bytes(file)
    answer = tracekit.query(path, "SELECT * FROM events").to_pylist()
    assert SECRET not in str(answer)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    kineto_file(tmp_path / "runs" / "one" / "a.pt.trace.json")
    run_command("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1")
    assert (tmp_path / "out" / "index.json").is_file()
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in all_bytes(file), file


def test_a_note_names_the_key_and_the_place(tmp_path: Path) -> None:
    trace = tracekit.read(kineto_file(tmp_path / "a.pt.trace.json"))
    notes = {code.partition(": ")[2]: note for code, note in trace.ledgers[0].notes.items()}
    assert notes["access_token"].places == ["fact access_token"]
    assert [place.partition(", ")[2] for place in notes["authorization"].places] == ["args"]
    assert notes["password in a URL"].count == 2
    assert all(SECRET not in str(note) for note in notes.values())
    with pytest.raises(TracekitError, match="credential"):
        tracekit.read(tmp_path / "a.pt.trace.json", strict=True)


def test_two_names_that_become_alike_are_one_name(tmp_path: Path) -> None:
    names = tracekit.read(kineto_file(tmp_path / "a.pt.trace.json")).events.column("name")
    assert sorted(names.to_pylist()) == ["aten::add", "get https://masked@h/x", "get https://masked@h/x"]
    dictionary = names.chunk(0).dictionary.to_pylist()
    assert len(set(dictionary)) == len(dictionary)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_format_is_masked_at_one_door(name: str, tmp_path: Path) -> None:
    secret = SHAPES["AWS"]
    path = planted(name, secret, tmp_path)
    assert secret.encode() in path.read_bytes()
    trace = tracekit.read(path)
    assert secret not in str([trace.events.to_pylist(), trace.totals.to_pylist(), trace.run.to_json()])
    assert any(code.startswith("credential-masked") for ledger in trace.ledgers for code in ledger.notes)
    for to, target in targets(tmp_path):
        try:
            tracekit.convert(path, target, to=to)
        except UsageError:
            continue  # totals alone have no timeline
        assert secret.encode() not in all_bytes(target), to


@pytest.mark.parametrize("target", ["x.paddle_trace.pb", "x.prof", "x.jsonl", "x.parquet", "x.json"])
def test_what_tracekit_wrote_without_masks_is_masked_when_it_is_read(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = SHAPES["AWS"]
    path = planted("kineto/gpu.pt.trace.json", secret, tmp_path)
    with monkeypatch.context() as patch:
        without_guard(patch)
        tracekit.convert(path, tmp_path / target)
    assert secret.encode() in all_bytes(tmp_path / target)
    trace = tracekit.read(tmp_path / target)
    assert secret not in str([trace.events.to_pylist(), trace.run.to_json()])
    assert any(code.startswith("credential-masked") for ledger in trace.ledgers for code in ledger.notes)
    tracekit.convert(tmp_path / target, tmp_path / "again.json")
    assert secret.encode() not in all_bytes(tmp_path / "again.json")


def test_the_environment_of_a_database_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(sample("nsys-sqlite/two-processes.sqlite").read_bytes())
    with closing(sqlite3.connect(path)) as db, db:
        texts = db.execute(
            "update StringIds set value = value || ? where id % 2 = 0", (f" HF_TOKEN={SECRET}",)
        ).rowcount
        for (table,) in db.execute(
            "select name from sqlite_master where name like '%META_DATA%' or name like 'TARGET%'"
        ):
            for column in [row[1] for row in db.execute(f'pragma table_info("{table}")')]:
                if column.lower() in ("value", "commandline"):
                    db.execute(f'update "{table}" set "{column}" = "{column}" || ?', (f" --password {SECRET}",))
    assert texts
    tracekit.convert(path, tmp_path / "a.json")
    assert SECRET.encode() not in all_bytes(tmp_path / "a.json")
    assert b"HF_TOKEN=[masked]" in all_bytes(tmp_path / "a.json")


def test_files_without_credentials_are_untouched() -> None:
    for name in ONE_OF_EACH:
        trace = tracekit.read(sample(name))
        assert not [code for ledger in trace.ledgers for code in ledger.notes if code.startswith("credential")], name


def test_an_archive_of_an_older_version_is_masked_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kineto_file(tmp_path / "a.pt.trace.json")
    with monkeypatch.context() as patch:  # a version that knew no credentials
        without_guard(patch)
        added = run_command("archive", "add", tmp_path / "archive", path)
    (file,) = (tmp_path / "archive").rglob("*.parquet")
    assert SECRET.encode() in all_bytes(file)
    shown = run_command("archive", "show", tmp_path / "archive", added.stdout.strip(), "--format", "json")
    answer = tracekit.query(file, "SELECT * FROM events").to_pylist()
    again = tracekit.read(file)
    assert SECRET not in shown.output + str(answer) + str(again.events.to_pylist()) + str(again.run.to_json())
