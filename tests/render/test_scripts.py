"""Scripts of the pages: checked as sources, joined to one scope, and built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from build_scripts import build
from npm_viewers import npm_package
from support import ROOT, TEMPLATES
from viewers import missing

from tracekit.render.page import shell
from tracekit.render.page.scripts import BUILT, SOURCES, JoinError, joined, script, source_hash

SCRIPTS = TEMPLATES / "scripts"
PARTS = tuple(name.removesuffix(".js") for name, _ in shell.SCRIPTS)
HERE = Path(__file__).parent


def node(*words: str | Path, said: str = "", cwd: Path = ROOT) -> str:
    """Run Node and return what it prints; fails the test with that where it finds something wrong."""
    program = shutil.which("node")
    if program is None:
        missing("node", "Node.js 20 or newer")
    env = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [program, *map(str, words)],
        input=said,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def ask(question: str, data: object) -> Any:
    packages = npm_package("eslint", "package.json").parents[1] / "eslint"
    return json.loads(node(ROOT / "tests/oracles/scripts.mjs", said=json.dumps([str(packages), question, data])))


def modules_of(part: str) -> dict[str, str]:
    paths = [SCRIPTS / f"{part}.js", *sorted((SCRIPTS / part).rglob("*.js"))]
    return {path.relative_to(SCRIPTS).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.viewer
@pytest.mark.source
def test_types_of_the_scripts_hold() -> None:
    node(npm_package("typescript", "bin/tsc"), "-p", ROOT)


@pytest.mark.viewer
@pytest.mark.source
def test_eslint_finds_nothing_in_the_scripts() -> None:
    node(npm_package("eslint", "bin/eslint.js"), "--max-warnings", "0", "templates/scripts")


@pytest.mark.viewer
@pytest.mark.source
def test_the_pure_parts_do_what_they_say() -> None:
    files = sorted((HERE / "scripts").glob("*.test.mjs"))
    assert files
    said = node("--test", "--test-reporter=tap", *files)
    assert "# fail 0" in said
    assert int(said.split("# pass ")[1].split()[0]) >= len(files)


@pytest.mark.viewer
def test_no_name_of_a_part_means_two_things() -> None:
    assert ask("collisions", [modules_of(part) for part in PARTS]) == []


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("function a() {}\n", "a is declared in one.js and two.js"),
        ("let [x, { y: a }] = [];\n", "a is declared in one.js and two.js"),
        ("export const b = () => a();\n", "a in two.js would be that of one.js"),
        ("export const b = (a) => a();\n", ""),
        ('import { a } from "./one.js";\nexport const b = a;\n', ""),
    ],
)
def test_a_name_that_means_two_things_is_found(other: str, said: str) -> None:
    assert ask("collisions", [{"one.js": "export const a = 1;\n", "two.js": other}]) == ([said] if said else [])


@pytest.mark.viewer
@pytest.mark.source
def test_built_scripts_are_those_of_the_sources(tmp_path: Path) -> None:
    npm_package("terser", "bin/terser")
    build(TEMPLATES, tmp_path / "built")
    made = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "built").iterdir()}
    held = {path.name: path.read_text(encoding="utf-8") for path in (TEMPLATES / BUILT).iterdir()}
    assert made == held, "run make scripts, and commit templates/built"
    assert {f"{part}.js" for part in PARTS} < made.keys()


def test_a_checkout_whose_sources_changed_runs_what_is_edited(tmp_path: Path) -> None:
    made = folder(tmp_path, page="export { on };\nconst on = 1; // why\n")
    (made / BUILT).mkdir()
    (made / BUILT / "page.js").write_text("small", encoding="utf-8")
    (made / BUILT / SOURCES).write_text(source_hash(made), encoding="utf-8")
    other = Path(shutil.copytree(made, tmp_path / "other"))
    (other / "scripts" / "page.js").write_text("export { on };\nconst on = 2;\n", encoding="utf-8")
    assert script(made, "page", is_checkout=True) == "small"
    assert "const on = 2;" in script(other, "page", is_checkout=True)
    assert script(other, "page", is_checkout=False) == "small"


def folder(tmp_path: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = tmp_path / "scripts" / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_modules_are_joined_in_the_order_in_which_they_run(tmp_path: Path) -> None:
    made = folder(
        tmp_path,
        page='import { on } from "./page/bus.js";\nexport { on };\n',
        page__bus="export const on = 1;\n",
        a='import "./a/last.js";\nimport { one, two } from "./a/one.js";\n'
        'import { on as hear } from "./page/bus.js";\nhear(one);\n',
        a__one='import { on } from "../page.js";\nimport { last } from "./last.js";\n'
        "export const one = 1;\nexport async function two() {}\n",
        a__last='import { one } from "./one.js";\nexport let last = () => one;\n',
    )  # fmt: skip
    assert joined(made, "page") == ('"use strict";\n(async () => {\nconst on = 1;\nwindow.tracekit = { on };\n})();\n')
    assert joined(made, "a") == (
        '"use strict";\n(async () => {\nconst { on: hear, on } = window.tracekit;\n'
        "const one = 1;\nasync function two() {}\nlet last = () => one;\nhear(one);\n})();\n"
    )


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ('import { x as y } from "./a/b.js";\n', "another name than there"),
        ('import { x } from "./c.js";\n', "from itself and from page only"),
        ('import { nothing } from "./page.js";\n', "page.js does not export"),
        ('import { on } from "./page.js";\nimport { off as on } from "./page/bus.js";\n', "another name elsewhere"),
        ('import all from "./a/b.js";\n', "cannot be joined"),
        ("export default 1;\n", "cannot be joined"),
        ("export * from './a/b.js';\n", "cannot be joined"),
    ],
)
def test_a_module_that_cannot_be_joined_is_an_error(tmp_path: Path, module: str, said: str) -> None:
    made = folder(tmp_path, page="export { off, on };\n", a=module, a__b="export const x = 1;\n", c="")
    with pytest.raises(JoinError, match=said):
        joined(made, "a")


def test_each_module_is_in_its_part() -> None:
    for part in PARTS:
        text = joined(TEMPLATES, part)
        for path, module in modules_of(part).items():
            lines = [line for line in module.splitlines() if line and not line.startswith(("import", "export", "//"))]
            assert not lines or lines[-1] in text.splitlines(), path
