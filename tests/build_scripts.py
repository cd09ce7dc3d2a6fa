"""Make the scripts that pages carry, `templates/built/`, from their sources: `make scripts`.

Each part is joined (`tracekit.render.page.scripts`) and made small by terser, a pinned package of oracles/package.json.
The results are committed, so that nobody needs Node to write a page. `SOURCES` is the hash of what they were made of: a
checkout whose sources changed since then writes pages with the sources as they are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tracekit.render.page.scripts import BUILT, SOURCES, parts, source, source_hash

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
TERSER = Path(sys.prefix) / "viewers" / "node_modules" / "terser" / "bin" / "terser"
OPTIONS = ("--compress", "passes=2", "--mangle", "--ecma", "2022", "--format", "ascii_only=false")


def minified(text: str, terser: Path = TERSER) -> str:
    """Return a script made small. Raises: OSError without Node, RuntimeError with what terser says."""
    node = shutil.which("node")
    if node is None or not terser.exists():
        raise FileNotFoundError("Node.js and terser are needed: make test installs terser where npm is there")
    done = subprocess.run(
        [node, str(terser), *OPTIONS], input=text, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip() + "\n"


def build(templates: Path, target: Path) -> None:
    """Write the scripts of all parts to a folder."""
    target.mkdir(exist_ok=True)
    for part in parts(templates):
        (target / f"{part}.js").write_text(minified(source(templates, part)), encoding="utf-8", newline="\n")
    (target / SOURCES).write_text(f"{source_hash(templates)}\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    build(TEMPLATES, TEMPLATES / BUILT)
