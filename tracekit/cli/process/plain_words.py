"""Commands start without pydantic: typer imports it to convert the words of a command line, even to leave them text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_origin

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click import Command, Context

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)


class _Converter(Protocol):
    def coerce(self, value: object, param: Any, ctx: Any) -> object: ...


class PlainGroup(TyperGroup):
    """Commands whose texts and whole numbers are taken as they are; typer converts all else.

    For each value typer asks pydantic, whose import takes a tenth of a second. A version of typer that does not stays
    as it is.
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
