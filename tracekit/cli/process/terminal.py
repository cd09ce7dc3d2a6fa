"""Results on stdout: through a pager, and without anything that a terminal would obey."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, BinaryIO

from tracekit.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "STDOUT",
    "draws_bars",
    "escape_what_streams_lack",
    "in_color",
    "message_width",
    "name_stdout",
    "one_line",
    "output_width",
    "paged",
    "printable",
    "show",
    "show_bytes",
    "wrapped_message",
]

# A stdout whose errors name it, and that takes every character: it escapes what its encoding lacks.
#
# A full disk behind it is no fault of an input or an output file. Windows redirects in the encoding of the machine, and
# a
# name may have any character.


STDOUT = "stdout"
"""The `filename` of its errors."""


ESCAPE = "tracekit-escape"
"""The name of the error handler that escapes."""


def _escaped(err: UnicodeError) -> tuple[str, int]:
    r"""Return what an encoding lacks as \uXXXX, which JSON knows too; a character of 32 bits is two of them."""
    if not isinstance(err, UnicodeEncodeError):
        raise err
    wide = err.object[err.start : err.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{wide[at : at + 2].hex()}" for at in range(0, len(wide), 2)), err.end


codecs.register_error(ESCAPE, _escaped)


class _RawStdout(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        """Return the number of bytes written. Raises: OSError with `STDOUT` as its file."""
        try:
            return super().write(data)
        except OSError as err:
            raise OSError(err.errno, err.strerror, STDOUT) from err


def is_utf8() -> bool:
    """Return whether stdout can print every character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-").startswith(("utf", "u8"))


def escape_what_streams_lack() -> None:
    """Let stdout and stderr escape the characters that their encodings lack. For a process of our own."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=ESCAPE)


def name_stdout() -> None:
    """Let errors of stdout name it, where it is a file or a pipe. For a process of our own."""
    old = sys.stdout
    try:
        number = old.fileno()
        if old.isatty():
            return
        old.flush()
        raw = io.BufferedWriter(_RawStdout(number, "w", closefd=False))
    except (OSError, ValueError, AttributeError):
        return  # closed, or no file at all
    sys.stdout = io.TextIOWrapper(raw, encoding=old.encoding, errors=old.errors, line_buffering=False)


_BLOCK = 1 << 18


def output_width() -> int:
    """Return the columns of the terminal that results go to; for a file or a pipe COLUMNS, or 0 (no limit)."""
    if not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isascii() and columns.isdigit() else 0
    import shutil

    return shutil.get_terminal_size().columns


def message_width() -> int:
    """Return the columns of the terminal that messages go to; for a file or a pipe COLUMNS, or 0 (no limit)."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit():
        return int(columns)
    # A result may go to a file while its messages are read on a terminal.
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns
    return 0


def wrapped_message(text: str, width: int) -> list[str]:
    """Return the lines of a message, broken at spaces; all but the first are indented, so none looks like another one.

    A longer word, such as a path, stays whole: it can be copied. width: 0 for no limit.
    """
    if width <= 0 or (text.isascii() and len(text) <= width):
        return [text]
    from tracekit.model.display import cell_width

    if cell_width(text) <= width:
        return [text]
    words = text.lstrip(" ").split(" ")
    lines = [" " * (len(text) - len(text.lstrip(" "))) + words[0]]
    for word in words[1:]:
        if cell_width(longer := f"{lines[-1]} {word}") <= width:
            lines[-1] = longer
        else:
            lines.append(f"  {word}")
    return lines


def in_color() -> bool:
    """Return whether results may have colours: on a terminal that has them, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def draws_bars() -> bool:
    """Return whether results may have bars of block characters: on a terminal whose encoding has them."""
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")


def printable(text: str) -> str:
    """Return text safe for a terminal: control characters (names are hostile input) are shown escaped."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return text as `printable` does, in one line: no name in it looks like a line of ours."""
    return printable(text.replace("\n", "\\n"))


def show(text: str, *, pager: bool = True, form: str = "text") -> None:
    """Print a result; on a terminal with fewer lines through the pager that PAGER names, else less.

    An empty PAGER or "cat" means no pager. A pager that is missing is as none. form: of the result. Text may have
    colours and has no other control characters. All other forms are for programs, which get every character; on a
    terminal what it would obey is shown escaped, and lines end as the terminal's do.
    """
    if not is_utf8():
        text = text.translate(_PLAIN) if form == "text" else _ascii_json(text) if form == "json" else text
    if form != "text" and sys.stdout.isatty():
        text = printable(text.replace("\r\n", "\n"))
    command = _pager(text) if pager else []
    if command:
        import subprocess

        # As git does: quit if it fits on one screen, show colours, leave the text on the terminal.
        environment = {"LESS": "FRX", "LV": "-c"} | os.environ
        with suppress(OSError), subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
            # Who has read enough quits the pager before the end, or interrupts it.
            with suppress(BrokenPipeError):
                process.communicate(text.encode("utf-8", "replace"))
            return
    sys.stdout.write(text)


_PLAIN = str.maketrans({"…": "...", "·": "-", "–": "-", "—": "-", "×": "x", "→": "->"})
"""Signs of our own, for a stdout whose encoding may lack them."""


def _ascii_json(text: str) -> str:
    """Return JSON in ASCII, which is the same in every encoding."""
    return text.encode("ascii", ESCAPE).decode("ascii")


def show_bytes(file: BinaryIO) -> None:
    """Copy a result to stdout, every byte of it; on a terminal as `show` prints what is for programs.

    Raises: OutputError where the result is not text and stdout is a terminal.
    """
    import shutil

    if not sys.stdout.isatty():
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if b"\0" in file.read(_BLOCK):
        raise OutputError("the output is not text, and stdout is a terminal", hint="-o FILE writes a file")
    file.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    held = ""
    while block := file.read(_BLOCK):
        text = held + decoder.decode(block)
        held = "\r" if text.endswith("\r") else ""
        sys.stdout.write(printable(text.removesuffix("\r").replace("\r\n", "\n")))
    sys.stdout.write(printable(held + decoder.decode(b"", final=True)))
    sys.stdout.flush()


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed within at once, as `show` does; also what was printed before an error."""
    import io

    held = io.StringIO()
    try:
        with redirect_stdout(held):
            yield
    finally:
        show(held.getvalue())


def _pager(text: str) -> list[str]:
    """Return the words of the pager's command, none where the text goes to the terminal as it is."""
    import shlex
    import shutil

    if not sys.stdout.isatty() or not sys.stdin.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return []
    if text.count("\n") < shutil.get_terminal_size().lines:
        return []
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:
        return []
    return words if words and words != ["cat"] and shutil.which(words[0]) else []
