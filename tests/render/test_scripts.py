"""Scripts of the pages: checked as sources, joined to one scope, and made lean."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from npm_viewers import npm_package
from support import ROOT, TEMPLATES
from viewers import missing

from tracekit.render.page import shell
from tracekit.render.page.lean import lean_script
from tracekit.render.page.scripts import JoinError, joined
from tracekit.render.page.shorten import OF_THE_BROWSER, short_script

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
def test_lean_scripts_have_the_syntax_tree_of_their_source() -> None:
    sources = {part: joined(TEMPLATES, part) for part in PARTS} | {
        path.stem: path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.js")
    }
    pairs = [(text, lean_script(text)) for text in sources.values()]
    assert all(len(lean) < 0.9 * len(text) for text, lean in pairs)
    assert dict(zip(sources, ask("same", pairs), strict=True)) == dict.fromkeys(sources, True)


@pytest.mark.viewer
def test_short_scripts_are_their_sources_with_other_names_of_variables() -> None:
    unpacker = (TEMPLATES / "unpack.js").read_text(encoding="utf-8")
    sources = {part: joined(TEMPLATES, part) for part in PARTS} | {"unpack": unpacker}
    pairs = [(text, short_script(text)) for text in sources.values()]
    assert all(len(short) < 0.95 * len(lean_script(text)) for text, short in pairs)
    assert dict(zip(sources, ask("renamed", pairs), strict=True)) == dict.fromkeys(sources, True)


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        ("let x=1;f.one=x;({one:x});", True),
        ("let x=1;f.x=x;({one:x});", False),
        ("let x=1;f.one=y;({one:x});", False),
        ("let f=1;f.one=f;({one:f});", False),
        ("let x=1;g.one=x;({one:x});", False),
    ],
)
def test_a_wrong_name_is_noticed(after: str, is_same: bool) -> None:
    assert ask("renamed", [["let one = 1; f.one = one; ({ one: one });", after]]) == [is_same]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("let first = 1, second = first;", "let e=1,t=e;"),
        ("let first = 1; use.first = first;", "let e=1;t.first=e;"),
        ("const make = (first) => ({ first, other: 1 });", "const e=(t)=>({first:t,other:1});"),
        ("const { first, second: third = 2, last = 3 } = made;", "const{first:e,second:t=2,last:n=3}=r;"),
        ("let one = two ? three : { four: two ? three : one };", "let e=t?n:{four:t?n:e};"),
        ("class Made { one; two = 1; held() { const one = this.one; return one; } get two() { return held(); } }",
         "class e{one;two=1;held(){const t=this.one;return t}get two(){return n()}}"),
        ("class Made extends Other { one; }", "class e extends t{one}"),
        ("const text = `first ${first} ${`${ first }`}`;", "const e=`first ${t} ${`${t}`}`;"),
        ("const first = /first/giu.test(second) ? third : window.name;",
         "const e=/first/giu.test(t)?n:window.name;"),
        ("function first(...second) { return [...second, first]; }", "function e(...t){return[...t,e]}"),
        ("switch (first) { case first: { break; } }", "switch(e){case e:{break}}"),
    ],
)  # fmt: skip
def test_names_of_variables_alone_are_shortened(text: str, short: str) -> None:
    assert short_script(text).strip() == short


@pytest.mark.parametrize(
    ("text", "lean"),
    [
        ("const a = 1; // one\n", "const a=1;"),
        ("/** Two\n * lines. */\nlet  b;\n\n", "let b;"),
        ("a = b + +c - -d++ + ++e;", "a=b+ +c- -d++ + ++e;"),
        ("f(\"a  b // c\", 'd  e');", "f(\"a  b // c\",'d  e');"),
        ("x = `a  ${ b ? `c  ${d }` : {} }  // e`;", "x=`a  ${b?`c  ${d}`:{}}  // e`;"),
        ("y = s.replace(/[/'\"`]  */g, ' ') / 2 / z;", "y=s.replace(/[/'\"`]  */g,' ')/2/z;"),
        ("return /a  b/.test(c);", "return/a  b/.test(c);"),
        ("q = a / b; // it's\nr = c / d;", "q=a/b;r=c/d;"),
        ("if (a) return b;\nelse throw c;", "if(a)return b;else throw c;"),
        ("const ä = in_ in ö;", "const ä=in_ in ö;"),
    ],
)
def test_blanks_and_comments_are_all_that_a_lean_script_lacks(text: str, lean: str) -> None:
    assert lean_script(text) == f"{lean}\n"


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


@pytest.mark.source
def test_eslint_knows_no_name_of_the_browser_that_could_be_shortened() -> None:
    listed = re.search(r'BROWSER = "([^"]+)"', (ROOT / "eslint.config.mjs").read_text(encoding="utf-8"))
    assert listed
    assert set(listed[1].split()) <= OF_THE_BROWSER


def test_each_module_is_in_its_part() -> None:
    for part in PARTS:
        text = joined(TEMPLATES, part)
        for path, module in modules_of(part).items():
            lines = [line for line in module.splitlines() if line and not line.startswith(("import", "export", "//"))]
            assert not lines or lines[-1] in text.splitlines(), path
