"""Values as HTML for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape

from .utf8 import sayable

__all__ = ["html_table"]


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table with escaped text; None is an empty cell."""
    head = f"<tr>{''.join(f'<th>{_text(column)}</th>' for column in columns)}</tr>" if columns else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{_text(title)}</caption>{head}{body}</table>"


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value:,}</td>'
    if value is None:
        return "<td></td>"
    return f'<td style="text-align: left; white-space: pre-wrap">{_text(value)}</td>'


def _text(value: object) -> str:
    return escape(sayable(str(value)))
