"""The commands as a table for docs/command-line.md, made from the commands themselves.

`python -m memory_context.cli.reference` prints it; `--write docs/command-line.md` replaces what stands between the
marks there. A test compares the page with the commands.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from .app import app

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BEGIN", "END", "command_table", "main", "written"]

BEGIN, END = "<!-- commands -->", "<!-- /commands -->"
_COMMON = {
    "--url": "the database",
    "--user": "whose memory",
    "--json": "JSON instead of a table",
    "--yes": "asks nothing",
}


def command_table() -> str:
    """Return a row for each command, with its arguments, what it does, and the names of its options."""
    lines = ["| `memory-context …` | what it does | options |", "|---|---|---|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in _rows(get_command(app))]
    common = ", ".join(f"`{name}`: {what}" for name, what in _COMMON.items())
    lines += ["", f"Most also take {common}. `memory-context COMMAND --help` says more."]
    return "\n".join(lines)


def written(text: str) -> str:
    """Return a document with the table between its marks.

    Raises:
        ValueError: It has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the table goes between {BEGIN} and {END}, which are not there")
    return f"{before}{BEGIN}\n{command_table()}\n{END}{after}"


def _rows(command: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield a row for a command, or for each in a group of them."""
    parts: dict[str, Any] = getattr(command, "commands", {})
    for part_name, part in parts.items():
        yield from _rows(part, f"{name} {part_name}".strip())
    if not parts:
        arguments = [_written_as(one) for one in command.params if one.param_type_name == "argument"]
        options = [
            max(one.opts, key=len)
            for one in command.params
            if one.param_type_name == "option" and not _COMMON.keys() & {*one.opts}
        ]
        said = command.help.split("\n\n")[0].replace("\n", " ")
        yield f"`{' '.join([name, *arguments])}`", said, " ".join(f"`{option}`" for option in options)


def _written_as(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    name += "…" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Print the table, or write it where it belongs; return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description="The table of commands.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the file whose table is replaced")
    path: Path | None = parser.parse_args(arguments).write
    if path is None:
        print(command_table())
        return 0
    try:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
