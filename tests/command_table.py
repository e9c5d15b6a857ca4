"""The table of commands in docs/command-line.md, made from the commands; `make commands` writes it."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from memory_context.surfaces.cli import make_app

from .conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "command-line.md"
BEGIN, END = "<!-- commands -->", "<!-- /commands -->"
COMMON = {
    "--url": "the database",
    "--user": "whose memory",
    "--json": "JSON instead of a table",
    "--yes": "asks nothing",
}


def command_table() -> str:
    """Return a row for each command: its arguments, what it does, and its options."""
    lines = ["| `memory-context …` | what it does | options |", "|---|---|---|"]
    lines += [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in _rows(get_command(make_app()))
    ]
    common = ", ".join(f"`{name}`: {what}" for name, what in COMMON.items())
    return "\n".join([*lines, "", f"Most also take {common}. `memory-context COMMAND --help` says more."])


def with_table(text: str) -> str:
    """Return a page with the table between its marks."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{command_table()}\n{END}{after}"


def _rows(command: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    parts: dict[str, Any] = getattr(command, "commands", {})
    for part_name, part in parts.items():
        yield from _rows(part, f"{name} {part_name}".strip())
    if not parts:
        arguments = [_argument(one) for one in command.params if one.param_type_name == "argument"]
        options = [max(one.opts, key=len) for one in command.params if one.param_type_name == "option"]
        shown = " ".join(f"`{option}`" for option in options if option not in COMMON)
        yield f"`{' '.join([name, *arguments])}`", command.help.split("\n\n")[0].replace("\n", " "), shown


def _argument(argument: Any) -> str:
    name: str = (argument.metavar or argument.name.upper()) + ("…" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
