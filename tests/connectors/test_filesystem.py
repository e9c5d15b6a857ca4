"""The file system connector: every change by whatever process, its tools, hostile names and many files."""

import mimetypes
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import ConnectorError
from memory_context.connectors import filesystem
from memory_context.connectors.filesystem import FileSystemConnector, changes_between, unified_diff
from memory_context.connectors.folder import FileStat

from ..support.connectors import noticed, use


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[FileSystemConnector]:
    connector = FileSystemConnector(str(tmp_path))
    await connector.on_start()
    yield connector
    await connector.on_stop()


def run_elsewhere(script: str, folder: Path) -> None:
    """Run a script in another process."""
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)


async def test_changes_of_another_process_are_noticed(files: FileSystemConnector, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def area(r):\n    pi = 3\n    return pi * r * r\n")
    (tmp_path / "old.txt").write_text("x")
    assert await noticed(files) == [f"[files] Initial folder: {tmp_path} (2 files)"]
    script = (
        "import os, pathlib; p = pathlib.Path('a.py'); p.write_text(p.read_text().replace('3', '3.14'));"
        "os.rename('old.txt', 'new.txt'); pathlib.Path('made.bin').write_bytes(b'\\0' * 10)"
    )
    run_elsewhere(script, tmp_path)
    changed, made, moved = await noticed(files)
    assert changed.splitlines() == [
        "[files] Changed a.py (3 lines)",
        "@@ -1,3 +1,3 @@ def area(r):",
        " def area(r):",
        "-    pi = 3",
        "+    pi = 3.14",
        "     return pi * r * r",
    ]
    assert made == "[files] Created made.bin (application/octet-stream, 10 bytes)"
    assert moved == "[files] Moved old.txt to new.txt"
    assert await noticed(files) == []
    os.unlink(tmp_path / "new.txt")
    assert await noticed(files) == ["[files] Deleted new.txt"]


async def test_state_names_folder_and_latest_changes(files: FileSystemConnector, tmp_path: Path) -> None:
    await noticed(files)
    await use(files, "write", path="notes/today.md", content="hello")
    assert await noticed(files) == ["[files] Created notes/today.md (1 lines)"]
    (state,) = await files.render_current_state()
    assert state == f"Folder {tmp_path}: 1 files\nChanged lately: notes/today.md\nnotes/"


async def test_edit_of_a_file_that_is_not_utf8_is_refused(files: FileSystemConnector, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 one")
    with pytest.raises(ConnectorError, match="not UTF-8 at byte 3"):
        await use(files, "edit", path="latin.txt", old="one", new="two")
    assert (tmp_path / "latin.txt").read_bytes() == b"caf\xe9 one"


async def test_search_names_file_and_line(files: FileSystemConnector, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\nTOKEN = 2\n")
    await noticed(files)
    assert await use(files, "search", pattern="TOK.N") == "src/a.py:2: TOKEN = 2"
    assert await use(files, "search", pattern="nothing") == "no line matches"


async def test_read_shows_lines_and_says_of_other_files_what_they_are(
    files: FileSystemConnector, tmp_path: Path
) -> None:
    """A PDF is none, though it may be written in ASCII."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    assert await use(files, "read", path="a.txt", first_line=2, lines=1) == "two\n[lines 2-2 of 3]"
    (tmp_path / "figures.pdf").write_text("%PDF-1.4\n%%EOF\n")
    (tmp_path / "book.docx").write_bytes(b"PK\3\4\x14\0")
    (tmp_path / "log.txt").write_bytes(b"x" * (2 << 20))
    for name, about in (
        ("figures.pdf", "application/pdf, 15 bytes"),
        ("book.docx", f"{mimetypes.guess_type('book.docx')[0] or 'binary'}, 6 bytes"),
        ("log.txt", "text/plain, 2,097,152 bytes"),
    ):
        with pytest.raises(ConnectorError) as caught:
            await use(files, "read", path=name)
        assert str(caught.value) == f"{name} is not read ({about}): only text of at most 1,048,576 bytes is"
    with pytest.raises(ConnectorError, match=r"there is no none\.txt"):
        await use(files, "read", path="none.txt")


async def test_ignored_files_are_not_observed(files: FileSystemConnector, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("!kept.log\n")
    await noticed(files)
    for name in ("a.log", "sub/kept.log", "build/x", ".git/HEAD"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    assert await noticed(files) == ["[files] Created sub/kept.log (1 lines)"]


async def test_many_changes_are_counted_by_folder(files: FileSystemConnector, tmp_path: Path) -> None:
    await noticed(files)
    (tmp_path / "many").mkdir()
    for number in range(300):
        (tmp_path / "many" / f"{number}.txt").write_text("x")
    (counted,) = await noticed(files)
    assert counted.startswith("300 files created: 300 in many; for example many/")


states = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(FileStat, st.just(1), st.integers(0, 2), st.integers(0, 3))
)


@given(states, states)
def test_changes_account_for_every_path_once(before: dict[str, FileStat], after: dict[str, FileStat]) -> None:
    now = dict(before)
    for change in changes_between(before, after):
        if change.before is not None:
            assert now.pop(change.moved_from or change.path) == change.before
        if change.after is not None:
            now[change.path] = change.after
    assert now == after


def test_diff_of_a_long_file_is_bounded() -> None:
    text = "\n".join(f"line {number}" for number in range(4000))
    diff = unified_diff(text, text.replace("line ", "row "))
    assert len(diff) < 7000
    assert diff.endswith("(cut; read the file)")
    assert "too long" in unified_diff("x\n" * 6000, "y\n" * 6000)


async def test_change_is_told_by_the_look_after_one_that_failed(
    files: FileSystemConnector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await noticed(files)
    (tmp_path / "made.txt").touch()
    with monkeypatch.context() as patch:
        patch.setattr(filesystem, "changes_between", None)
        with pytest.raises(TypeError):
            await noticed(files)
    assert await noticed(files) == ["[files] Created made.txt (0 lines)"]
