"""Definitions, line numbers and reports of errors in texts."""

import pytest

from memory_context.foundation.text.landmarks import definitions_in, error_lines, line_number


@pytest.mark.parametrize(
    ("line", "kind", "name", "indent"),
    [
        ("def load(path):", "def", "load", 0),
        ("    async def load(self):", "def", "load", 4),
        ("export default class Order {", "class", "Order", 0),
        ("protected abstract class Store {", "class", "Store", 0),
        ("pub(crate) fn parse(text: &str) {", "fn", "parse", 0),
        ("func (s *Server) Listen() {", "func", "Listen", 0),
        ("  12\tdef numbered():", "def", "numbered", 0),
        ("## Heading", "", "", 0),
    ],
)
def test_definition_has_kind_name_and_indent(line: str, kind: str, name: str, indent: int) -> None:
    """Of many languages, with modifiers, receivers or a line number in front."""
    (found,) = definitions_in(f"x = 1\n{line}\ny = 2")
    assert (found.kind, found.name, found.indent) == (kind, name, indent)


@pytest.mark.parametrize("line", ["define it", "# a comment", "classes = 3", "the type of x", "x = def_of(y)"])
def test_other_lines_define_nothing(line: str) -> None:
    """Neither prose nor names that begin like a keyword; one hash and a blank is a heading of Markdown."""
    assert [one.name for one in definitions_in(line) if one.kind] == []


def test_line_number_is_read_from_numbered_lines_only() -> None:
    """As `cat -n` and editors print them."""
    assert [line_number(line) for line in ("   7\tx", "12: y", "3 | z", "4x", "text")] == [7, 12, 3, None, None]


def test_error_line_is_found_and_source_code_about_errors_is_not() -> None:
    """Offsets are characters, also behind characters of several bytes."""
    content = "naïve ☃ start\nraise ValueError: no\nValueError: bad ☃ row\nall good\ncommand not found"
    assert [content[one.start : one.end] for one in error_lines(content, 0, len(content), 9)] == [
        "ValueError: bad ☃ row",
        "command not found",
    ]
    assert len(error_lines(content, 0, len(content), 1)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 10:00:00,123 [main] ERROR c.a.Billing - no row",
        "[2026-01-01T10:00:00Z] CRITICAL disk is full",
        "10:00:00 FATAL no memory",
        'ts=1 level=error msg="no row"',
        '{"time": 1, "level": "ERROR", "msg": "no row"}',
        "2026-01-01 错误：无法连接数据库",
        "Ошибка: нет файла",
        "FEHLER: Verbindung zu db-17 abgelehnt",
        "ERREUR : connexion refusée",
    ],
)
def test_error_line_is_found_by_its_level_or_in_another_language(line: str) -> None:
    content = f"2026-01-01 10:00:00 INFO ERRORS = 0\n{line}\n10:00:01 INFO level=info 错误 0"
    assert [content[one.start : one.end] for one in error_lines(content, 0, len(content), 9)] == [line]
