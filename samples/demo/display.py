"""Prints the demo: headings, paragraphs, quotations, a line for each model call, and tables."""

import io
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

__all__ = ["Display"]

_WIDEST = 110
_BAR_CELLS = 10
_BESIDE_THE_ACTION = 5 + 8 + 8 + 8 + 2 + _BAR_CELLS


class Display:
    """Prints the story."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # where bars cannot be encoded they become question marks
            sys.stdout.reconfigure(errors="replace")
        self._console = Console(highlight=False, emoji=False, markup=False)
        self._width = min(self._console.width, _WIDEST)
        self._action_cells = max(self._width - _BESIDE_THE_ACTION, 16)

    def _print(self, *parts: tuple[str, str]) -> None:
        self._console.print(Text.assemble(*parts), soft_wrap=True)

    def heading(self, text: str) -> None:
        self._print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style="grey42"), width=self._width)

    def say(self, text: str, style: str = "") -> None:
        """Print paragraphs."""
        for line in text.split("\n"):
            self._print((textwrap.fill(line, self._width, break_long_words=False), style))

    def quote(self, text: str, style: str = "", most_lines: int | None = None) -> None:
        """Print a text behind a bar; with `most_lines`, its first lines, cut if they are long, and its last line."""
        *lines, last = text.expandtabs(4).split("\n")
        shown = [*lines, last]
        if most_lines is not None:
            shown = [_cut(line, self._width - 2) for line in lines[:most_lines]]
            shown += [f"… {len(lines) - most_lines} lines more"] if len(lines) > most_lines else []
            shown.append(last)
        for line in shown:
            indent = " " * len(re.match(r"\s*(?:\d+\. |- )?", line)[0])  # type: ignore[index]  # matches any text
            pieces = textwrap.wrap(line, self._width - 2, subsequent_indent=indent, break_on_hyphens=False)
            for piece in pieces or [""]:
                self._print(("│ ", "grey42"), (piece, style))

    def begin_turn(self, heading: str, task: str) -> None:
        """Print who asks what, and the head of the table of calls."""
        self.heading(heading)
        self.quote(task, style="bold")
        head = f"call {'the model decides':<{self._action_cells}}{'raw':>8}{'view':>8}{'cached':>8}"
        self._print((f"{head}  view / raw", "grey62"))

    def end_call(self, number: int, action: str, raw_tokens: int, view_tokens: int, cached_tokens: int) -> None:
        """Print the line of a call; the bar shows what was sent as a share of everything."""
        bar = "█" * max(round(_BAR_CELLS * min(view_tokens / max(raw_tokens, 1), 1.0)), 1)
        self._print(
            (f"{number:>4} ", "grey62"),
            (f"{_cut(action, self._action_cells - 1):<{self._action_cells}}", ""),
            (f"{raw_tokens:>8,}", "grey62"),
            (f"{view_tokens:>8,}", "bold"),
            (f"{cached_tokens / max(view_tokens, 1):>8.0%}  ", ""),
            (bar, "dark_orange"),
            ("·" * (_BAR_CELLS - len(bar)), "grey42"),
        )

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table: a name and figures."""
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="grey62")
        for number, column in enumerate(columns):
            table.add_column(Text(column), justify="right" if number else "left", no_wrap=number > 0)
        for name, *figures in rows:
            table.add_row(Text(name), *(Text(figure, style="bold") for figure in figures))
        self._console.print(table, width=self._width)

    def problem(self, text: str) -> None:
        """Print what went wrong, on standard error."""
        Console(stderr=True, highlight=False, markup=False).print(Text(text, style="red"), soft_wrap=True)


def _cut(text: str, cells: int) -> str:
    return text if len(text) <= cells else f"{text[: cells - 1]}…"
