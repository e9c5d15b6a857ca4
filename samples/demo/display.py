"""What the demo prints: the same lines on a terminal, where the present call moves below them, and in a file."""

import io
import re
import sys
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

_WIDEST = 110
_BAR_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BESIDE_THE_ACTION = 5 + 8 + 8 + 8 + 2 + _BAR_CELLS


class Display:
    """Prints the story. Use it with `with`: it then leaves the terminal as it was.

    Args:
        console: Where to print; None for standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # where bars cannot be encoded they become question marks
            sys.stdout.reconfigure(errors="replace")
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

    def quote(self, text: str, style: str = "") -> None:
        """Print a text behind a bar, long lines wrapped."""
        self.rest()
        for line in text.split("\n"):
            for piece in _wrapped(line, self._width - 2):
                self._behind_bar(piece, style)

    def quote_lines(self, text: str, most_lines: int) -> None:
        """Print a long text behind a bar: its first lines, cut if they are long, and its last line."""
        self.rest()
        lines = [line.expandtabs(4) for line in text.split("\n")]
        for line in lines[:-1][:most_lines]:
            self._behind_bar(line if len(line) <= self._width - 2 else f"{line[: self._width - 3]}…")
        if len(lines) - 1 > most_lines:
            self._behind_bar(f"… {len(lines) - 1 - most_lines} lines more", "grey62")
        self.quote(lines[-1])

    def _behind_bar(self, line: str, style: str = "") -> None:
        self._console.print(Text.assemble(("│ ", "grey42"), (line, style)), soft_wrap=True)

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
        head = f"call {'the model decides':<{self._action_cells}}{'raw':>8}{'view':>8}{'cached':>8}"
        self._console.print(Text(f"{head}  view / raw", style="grey62"))

    def begin_call(self, number: int, view_tokens: int) -> None:
        """Show that the model is at work; on a terminal only."""
        if self.is_watched:
            self.working(f"call {number}: the model reads {view_tokens:,} tokens")

    def end_call(self, call: Call) -> None:
        """Print the line of a call."""
        self.rest()
        action = _cut(call.action, self._action_cells - 1)
        sent, not_sent = _bar(call)
        line = Text.assemble(
            (f"{call.number:>4} ", "grey62"),
            f"{action:<{self._action_cells}}",
            (f"{call.raw_tokens:>8,}", "grey62"),
            (f"{call.view_tokens:>8,}", "bold"),
            f"{'-' if call.cached_share is None else f'{call.cached_share:.0%}':>8}  ",
            (sent, "dark_orange"),
            (not_sent, "grey42"),
        )
        self._console.print(line, soft_wrap=True)
        if self.is_watched and call.action != "answers":
            self.working(f"call {call.number}: {call.action.split(' ')[0]} at work")

    def legend(self) -> None:
        """Explain the table of calls."""
        self.say(
            "In tokens of messages: raw is what keeping everything would send, view is what the model reads, cached "
            "the share of the view that stands unchanged at its head.",
            style="grey62",
        )

    def end_turn(self, answer: str) -> None:
        """Print the agent's answer."""
        self.quote(answer, style="green")

    @property
    def _action_cells(self) -> int:
        return max(self._width - _BESIDE_THE_ACTION, 16)

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


def _bar(call: Call) -> tuple[str, str]:
    """Return what was sent as a share of everything, in eighths of a cell but at least one, and the rest."""
    share = min(call.view_tokens / call.raw_tokens, 1.0) if call.raw_tokens else 1.0
    full, eighths = divmod(max(round(_BAR_CELLS * 8 * share), 1), 8)
    sent = "█" * full + (_EIGHTHS[eighths] if eighths else "")
    return sent, "·" * (_BAR_CELLS - len(sent))


def _cut(action: str, cells: int) -> str:
    """Shorten an action: of a path the end says most, of anything else the beginning."""
    if len(action) <= cells:
        return action
    more = re.search(r" \(\+\d+\)$", action)
    end = more[0] if more else ""
    action = action.removesuffix(end)
    tool, _, path = action.partition(" ")
    if "/" in path and " " not in path:
        name = path[path.rindex("/") :]
        return f"{tool} …{name[len(tool) + len(end) + 2 - cells :]}{end}"
    return f"{action[: cells - len(end) - 1]}…{end}"


def _wrapped(line: str, width: int) -> list[str]:
    """Wrap a line, with the later ones indented like its text: behind a number or a dash of a list."""
    text = line.expandtabs(4)
    indent = len(re.match(r"\s*(?:\d+\. |- )?", text)[0])  # type: ignore[index]  # it matches the empty text too
    pieces = textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * indent if indent < width // 2 else "",
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return pieces or [""]
