"""Tables for the terminal: by rich if it is installed, else plain."""

from collections.abc import Sequence

__all__ = ["print_table"]


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is a name, the others are figures."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(f"\n{_plain(title, head, rows)}")
        return
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a log file has room for every column
    console.print(table)


def _plain(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]
    return "\n".join([title, *lines])
