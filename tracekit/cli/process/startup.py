"""A command starts without two libraries that it rarely needs: pandas and pydantic.

Written for pyarrow 21 to 26 and typer 0.26 to 0.29, which offer no switch for either. CPU time of whole commands,
medians of 21 pairs with and without, on a small nvprof CSV:

| left out | `--help` | `formats` | `inspect` | `summary` |
|---|---|---|---|---|
| pandas, which pyarrow imports at its first conversion | 0 % | 0 % | -30 % (0.22 s) | -21 % (0.26 s) |
| pydantic, which typer imports at the first option | 0 % | -9 % (0.09 s) | -15 % (0.11 s) | -10 % (0.10 s) |

Both fail safe. Each is skipped where the library lacks the part that it rests on, and the library then does what it
always X"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_origin

from typer.core import TyperGroup

from tracekit.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from typer._click import Command, Context

__all__ = ["PlainGroup", "postpone_pandas"]

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)


def postpone_pandas() -> None:
    """Let pyarrow do without pandas until something else imports it. For a process of our own, such as a command.

    pyarrow imports pandas at its first conversion, which takes 0.3 s of CPU time and 45 MB. It looks once, finds
    nothing, and looks again when a column is to become a pandas object. `pa.array` of a Series does not look again, so
    the import of pandas, whoever asks for it, makes pyarrow look.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _LatePandas()
    sys.meta_path.insert(0, finder)
    try:
        with suppress(ImportError):  # another version may insist on pandas: it is there again in a moment
            pa.array([])
    finally:
        finder.hides = False


class _LatePandas:
    """Hides pandas while `hides` is true; afterwards the import of pandas makes pyarrow look for it again.

    `importlib.abc` has a base for such a class: its import takes 1 ms, and adds nothing.
    """

    hides = True

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system asks so
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        if self.hides:
            raise ModuleNotFoundError(name=fullname)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_look(module: ModuleType) -> None:
                execute(module)
                import pyarrow as pa

                with suppress(Exception):  # whatever another version does here, pandas itself is loaded
                    pa.nulls(0).to_pandas()

            setattr(spec.loader, "exec_module", execute_and_look)  # noqa: B010 - the published type has no such setter
        return spec


class _Converter(Protocol):
    def coerce(self, value: object, param: Any, ctx: Any) -> object: ...


class PlainGroup(TyperGroup):
    """Commands that take texts and whole numbers as they are; typer converts everything else.

    For each value typer asks pydantic, even to leave a text as it is.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Return the remaining words."""
        _convert_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return the command of that name."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _convert_plainly(found.get_params(ctx))
        return found


def _convert_plainly(parameters: Sequence[object]) -> None:
    for parameter in parameters:
        usual = getattr(parameter, "get_runtime_param", None)
        if usual is not None and hasattr(parameter, "type_descriptor"):
            setattr(parameter, "get_runtime_param", lambda usual=usual: _Plain(usual))  # noqa: B010 - not declared there


@dataclass(frozen=True, slots=True)
class _Plain:
    """Converts what needs no pydantic. usual: returns typer's own converter."""

    usual: Callable[[], _Converter]

    def coerce(self, value: object, param: Any, ctx: Any) -> object:
        with suppress(AttributeError):  # another version describes its parameters in another way
            several = param.multiple or param.nargs == -1
            if value is None:
                return () if several else None
            form = param.type_descriptor
            kind = form.annotation
            if form.parameter_info.parser is None:
                if several and get_origin(kind) is list and isinstance(value, (list, tuple)):
                    found = [_plain(each, get_args(kind)[0], form.parameter_info) for each in value]
                    if None not in found:
                        return found
                elif not several and (one := _plain(value, kind, form.parameter_info)) is not None:
                    return one
        return self.usual().coerce(value, param=param, ctx=ctx)


def _plain(value: object, kind: object, info: Any) -> object:
    """Return the value of a word, None where typer must convert it or refuse it."""
    if kind is str and isinstance(value, str):
        return value
    if kind in (int, float) and type(value) is kind:  # a default
        return value
    if kind is int and isinstance(value, str) and _WHOLE.fullmatch(value) and info.max is None and not info.clamp:
        number = int(value)
        return number if info.min is None or number >= info.min else None
    return None
