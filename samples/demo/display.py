"""What the demo prints: the same lines on a terminal, where the present call moves below them, and in a file."""

import io
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.status import Status
from rich.table import Table
from rich.text import Text
from typing_extensions import Self

__all__ = ["Display"]

_WIDEST = 110
_BAR_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BESIDE_THE_ACTION = 5 + 8 + 8 + 8 + 2 + _BAR_CELLS


class Display:
    """Prints the story. Use it with `with`: it then leaves the terminal as it was."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # where bars cannot be encoded they become question marks
            sys.stdout.reconfigure(errors="replace")
        self._console = Console(highlight=False, emoji=False, markup=False)
        self._width = min(self._console.width, _WIDEST)
        self._action_cells = max(self._width - _BESIDE_THE_ACTION, 16)
        self._status: Status | None = None
        self.is_watched = self._console.is_terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()

    def _print(self, *parts: tuple[str, str]) -> None:
        self.rest()
        self._console.print(Text.assemble(*parts), soft_wrap=True)

    def heading(self, text: str) -> None:
        self._print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style="grey42"), width=self._width)

    def say(self, text: str, style: str = "") -> None:
        """Print paragraphs."""
        for line in text.split("\n"):
            self._print((textwrap.fill(line, self._width, break_long_words=False), style))

    def quote(self, text: str, style: str = "") -> None:
        """Print a text behind a bar, long lines wrapped, the later ones indented like the text of a list's item."""
        for line in text.expandtabs(4).split("\n"):
            indent = len(re.match(r"\s*(?:\d+\. |- )?", line)[0])  # type: ignore[index]  # it matches the empty text too
            options: dict[str, Any] = {"break_on_hyphens": False, "replace_whitespace": False}
            for piece in textwrap.wrap(line, self._width - 2, subsequent_indent=" " * indent, **options) or [""]:
                self._print(("│ ", "grey42"), (piece, style))

    def quote_lines(self, text: str, most_lines: int) -> None:
        """Print a long text behind a bar: its first lines, cut if they are long, and its last line."""
        *lines, last = text.expandtabs(4).split("\n")
        for line in lines[:most_lines]:
            self._print(("│ ", "grey42"), (_cut(line, self._width - 2), ""))
        if len(lines) > most_lines:
            self._print(("│ ", "grey42"), (f"… {len(lines) - most_lines} lines more", "grey62"))
        self.quote(last)

    def working(self, text: str) -> None:
        """Say what goes on; on a terminal this line goes away when something else is printed."""
        if self._status is None and self.is_watched:
            self._status = self._console.status("", spinner="dots")
            self._status.start()
        if self._status is None:
            self._console.print(text)
        else:
            self._status.update(Text(text, style="grey62"))

    def rest(self) -> None:
        """Take the line of `working` away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def begin_turn(self, heading: str, task: str) -> None:
        """Print who asks what, and the head of the table of calls."""
        self.heading(heading)
        self.quote(task, style="bold")
        head = f"call {'the model decides':<{self._action_cells}}{'raw':>8}{'view':>8}{'cached':>8}"
        self._print((f"{head}  view / raw", "grey62"))

    def begin_call(self, number: int, view_tokens: int) -> None:
        """Show that the model is at work; on a terminal only."""
        if self.is_watched:
            self.working(f"call {number}: the model reads {view_tokens:,} tokens")

    def end_call(self, number: int, action: str, raw_tokens: int, view_tokens: int, cached: float | None) -> None:
        """Print the line of a call; the bar shows what was sent as a share of everything, in eighths of a cell."""
        share = min(view_tokens / raw_tokens, 1.0) if raw_tokens else 1.0
        full, eighths = divmod(max(round(_BAR_CELLS * 8 * share), 1), 8)
        bar = "█" * full + (_EIGHTHS[eighths] if eighths else "")
        self._print(
            (f"{number:>4} ", "grey62"),
            (f"{_cut_action(action, self._action_cells - 1):<{self._action_cells}}", ""),
            (f"{raw_tokens:>8,}", "grey62"),
            (f"{view_tokens:>8,}", "bold"),
            (f"{'-' if cached is None else f'{cached:.0%}':>8}  ", ""),
            (bar, "dark_orange"),
            ("·" * (_BAR_CELLS - len(bar)), "grey42"),
        )
        if self.is_watched and action != "answers":
            self.working(f"call {number}: {action.split(' ')[0]} at work")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table: a name and figures."""
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="grey62")
        for number, column in enumerate(columns):
            table.add_column(Text(column), justify="right" if number else "left", no_wrap=number > 0)
        for name, *figures in rows:
            table.add_row(Text(name), *(Text(figure, style="bold") for figure in figures))
        self.rest()
        self._console.print(table, width=self._width)

    def problem(self, text: str) -> None:
        """Print what went wrong, on standard error."""
        self.rest()
        Console(stderr=True, highlight=False, markup=False).print(Text(text, style="red"), soft_wrap=True)


def _cut(text: str, cells: int) -> str:
    return text if len(text) <= cells else f"{text[: cells - 1]}…"


def _cut_action(action: str, cells: int) -> str:
    """Shorten an action: of a path the end says most, of anything else the beginning."""
    end = found[0] if (found := re.search(r" \(\+\d+\)$", action)) else ""
    tool, _, path = action.removesuffix(end).partition(" ")
    if len(action) > cells and "/" in path and " " not in path:
        return f"{tool} …{path[path.rindex('/') :][len(tool) + len(end) + 2 - cells :]}{end}"
    return _cut(action.removesuffix(end), cells - len(end)) + end
