"""What the demo prints: the same lines on a terminal, where the present call moves below them, and in a file."""

import textwrap
from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.console import Console
from rich.rule import Rule
from rich.status import Status
from rich.table import Table
from rich.text import Text
from typing_extensions import Self

from .recorder import Call

__all__ = ["Display"]

CACHED, NEW, NOT_SENT = "▒", "█", "·"
_STYLES = {CACHED: "steel_blue1", NEW: "dark_orange", NOT_SENT: "grey42"}
_BAR_CELLS = 12
_WIDEST = 110
_NUMBERS = 4 + 2 + 9 + 2 + 8 + 2 + 6 + 2 + _BAR_CELLS


class Display:
    """Prints the story. Use it with `with`: it then leaves the terminal as it was.

    Args:
        console: Where to print; None for standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, emoji=False, markup=False)
        self._width = min(self._console.width, _WIDEST)
        self._status: Status | None = None

    @property
    def is_watched(self) -> bool:
        """Whether this is a terminal."""
        return self._console.is_terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.rest()

    # --- text -------------------------------------------------------------------------------------------------------

    def heading(self, text: str) -> None:
        """Print a heading."""
        self.rest()
        self._console.print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style="grey42"), width=self._width)

    def say(self, text: str, style: str = "") -> None:
        """Print a paragraph."""
        self.rest()
        for line in text.split("\n"):
            self._console.print(
                Text(textwrap.fill(line, self._width, break_long_words=False), style=style), soft_wrap=True
            )

    def quote(self, text: str, style: str = "", most_lines: int | None = None) -> None:
        """Print a text as it is, behind a bar; long lines are wrapped, and lines beyond the most are counted."""
        self.rest()
        lines = text.split("\n")
        shown = lines[:most_lines]
        for line in shown:
            for piece in _wrapped(line, self._width - 2):
                self._console.print(Text.assemble(("│ ", "grey42"), (piece, style)), soft_wrap=True)
        if len(lines) > len(shown):
            self._console.print(Text(f"│ … {len(lines) - len(shown)} more lines", style="grey42"))

    def working(self, text: str) -> None:
        """Say what goes on; on a terminal this line goes away when something else is printed."""
        if not self.is_watched:
            self._console.print(text)
        elif self._status is None:
            self._status = self._console.status(Text(text, style="grey62"), spinner="dots")
            self._status.start()
        else:
            self._status.update(Text(text, style="grey62"))

    def rest(self) -> None:
        """Take the line of `working` away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    # --- calls ------------------------------------------------------------------------------------------------------

    def begin_turn(self, heading: str, task: str) -> None:
        """Print who asks what, and the head of the table of calls."""
        self.heading(heading)
        self.quote(task, style="bold")
        head = f"{'call':>4}  {'the model decides':<{self._action_cells}}{'raw':>9}  {'view':>8}  {'cached':>6}"
        self._console.print(Text(f"{head}  view in raw", style="grey62"))

    def begin_call(self, number: int, view_tokens: int) -> None:
        """Show that the model is at work; on a terminal only."""
        if self.is_watched:
            self.working(f"call {number}: the model reads {view_tokens:,} tokens")

    def end_call(self, call: Call) -> None:
        """Print the line of a call."""
        self.rest()
        action = _cut(call.action, self._action_cells - 2)
        line = Text.assemble(
            (f"{call.number:>4}  ", "grey62"),
            f"{action:<{self._action_cells}}",
            (f"{call.raw_tokens:>9,}", "grey62"),
            (f"  {call.view_tokens:>8,}", "bold"),
            f"  {call.cached_share:>6.0%}  ",
        )
        for cell in _bar(call):
            line.append(cell, _STYLES[cell])
        self._console.print(line, soft_wrap=True)
        if self.is_watched and call.action != "answers":
            self.working(f"call {call.number}: {call.action.split(' ')[0]} at work")

    def legend(self) -> None:
        """Explain the table of calls."""
        line = Text("raw: everything kept; view: what the model reads, in tokens; ", style="grey62")
        for cell, what in ((CACHED, " cached  "), (NEW, " new  "), (NOT_SENT, " not sent")):
            line.append(cell, _STYLES[cell]).append(what, "grey62")
        self._console.print()
        self._console.print(line, width=self._width)

    def end_turn(self, answer: str) -> None:
        """Print the agent's answer."""
        self.quote(answer, style="green")

    @property
    def _action_cells(self) -> int:
        return max(self._width - _NUMBERS, 16)

    # --- the end ----------------------------------------------------------------------------------------------------

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table: a name and figures."""
        self.rest()
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="grey62")
        for number, column in enumerate(columns):
            table.add_column(Text(column), justify="right" if number else "left", no_wrap=number > 0)
        for name, *figures in rows:
            table.add_row(Text(name), *(Text(figure, style="bold") for figure in figures))
        self._console.print(table, width=self._width)

    def problem(self, text: str) -> None:
        """Print what went wrong, on standard error."""
        self.rest()
        Console(stderr=True, highlight=False, markup=False).print(Text(text, style="red"), soft_wrap=True)


def _bar(call: Call) -> str:
    """Return what was sent as a share of everything, at least one cell."""
    if not call.raw_tokens:
        return NEW * _BAR_CELLS
    sent = min(_BAR_CELLS, max(1, round(_BAR_CELLS * call.view_tokens / call.raw_tokens)))
    cached = min(sent, round(sent * call.cached_share))
    return CACHED * cached + NEW * (sent - cached) + NOT_SENT * (_BAR_CELLS - sent)


def _cut(action: str, cells: int) -> str:
    """Shorten an action: of a path the end says most, of anything else the beginning."""
    if len(action) <= cells:
        return action
    more = action[action.rindex(" (and") :] if action.endswith(" more)") else ""
    action = action.removesuffix(more)
    tool, _, rest = action.partition(" ")
    room = cells - len(tool) - len(more) - 2
    if tool == "read_file" and " " not in rest:
        return f"{tool} …{rest[-room:]}{more}" if len(rest) > room else f"{action}{more}"
    return f"{action[: cells - len(more) - 1]}…{more}"


def _wrapped(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    pieces = textwrap.wrap(
        line,
        width,
        subsequent_indent=indent if len(indent) < width // 2 else "",
        break_long_words=True,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
        expand_tabs=True,
        tabsize=4,
    )
    return pieces or [""]
