"""PDF and Office documents as texts: real ones, broken, encrypted and hostile ones."""

import importlib
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from autogen_core import CancellationToken

from memory_context import ConnectorError
from memory_context.connectors import child_processes, filesystem
from memory_context.connectors.filesystem import FileSystemConnector, document_text
from memory_context.connectors.folder import shown

from ..support.pdf import pdf_of

pytestmark = pytest.mark.thorough

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_ENCRYPTED = (
    b"5 0 obj<</Filter/Standard/V 1/R 2/O(%s)/U(%s)/P -4>>endobj\ntrailer<</Root 1 0 R/Encrypt 5 0 R/ID[(a)(a)]>>"
)


def docx_of(body: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("word/document.xml", b"<w:document %s><w:body>%s</w:body></w:document>" % (_W.encode(), body))
    return file.getvalue()


@pytest.fixture
def reader_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's program runs in this process: one of its own imports its parsers anew, for a second a document."""

    async def answer(program: str, suffix: str, *, data: bytes, **limits: float) -> bytes:
        reader = importlib.import_module(f"memory_context.connectors.{program}")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [program, suffix])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            return json.dumps(reader._answer()).encode()

    monkeypatch.setattr(filesystem, "run_limited", answer)


async def read(files: FileSystemConnector, **arguments: Any) -> str:
    tool = next(one for one in files.tools() if one.name == "files_read")
    return str(await tool.run_json(arguments, CancellationToken()))


async def test_file_system_reads_documents_by_lines(tmp_path: Path) -> None:
    (tmp_path / "Report.PDF").write_bytes(pdf_of("Revenue 4217", "Costs 1200", "Margin 3017"))
    (tmp_path / "note.docx").write_bytes(docx_of(b"<w:p><w:r><w:t>Ada owes 42</w:t></w:r></w:p>"))
    files = FileSystemConnector(str(tmp_path))
    await files.on_start()
    text = await read(files, path="Report.PDF")
    assert [line for line in text.splitlines() if line] == ["Revenue 4217", "Costs 1200", "Margin 3017"]
    assert await read(files, path="note.docx") == "Ada owes 42"
    number = text.splitlines().index("Costs 1200") + 1
    assert (await read(files, path="Report.PDF", first_line=number, lines=1)).startswith("Costs 1200\n[lines ")
    await files.on_stop()


async def test_unreadable_document_says_why(reader_here: None) -> None:
    encrypted = pdf_of("x").replace(b"trailer<</Root 1 0 R>>", _ENCRYPTED % (b"1" * 32, b"2" * 32))
    cases = (
        ("cut.pdf", pdf_of("x")[:200], "is damaged"),
        ("old.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 encrypted", "is encrypted, or of an Office before 2007"),
        ("encrypted.pdf", encrypted, "is encrypted"),
        ("\u202e\n.pdf", b"no pdf", "is damaged"),
    )
    for name, data, reason in cases:
        with pytest.raises(ConnectorError) as caught:
            await document_text(name, data)
        assert str(caught.value).startswith(f"{shown(name)} cannot be read: it {reason}")


async def test_document_without_text_says_so(reader_here: None) -> None:
    assert await document_text("scan.pdf", pdf_of()) == "(scan.pdf holds no text; its pages may be images)"


async def test_zip_bomb_is_refused_before_it_is_unpacked(reader_here: None) -> None:
    """By the size that its directory tells."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w") as archive:
        archive.writestr("word/document.xml", b"<w:document/>")
        archive.filelist[0].file_size = 257 << 20
    with pytest.raises(ConnectorError, match="unpacks to 269,484,032 bytes"):
        await document_text("bomb.docx", bomb.getvalue())


async def test_document_that_needs_too_much_memory_ends_its_reader_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "_MEMORY_BYTES", 400 << 20)
    large = docx_of(b"<w:p><w:r><w:t>%s</w:t></w:r></w:p>" % (b"0" * (80 << 20)))
    with pytest.raises(ConnectorError, match="cannot be read: it needs more than 400 MB"):
        await document_text("a.docx", large)


async def test_document_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "_SECONDS", 0.1)
    monkeypatch.setattr(child_processes, "_BEGIN", "import time; time.sleep(1000)")
    with pytest.raises(ConnectorError, match=r"a\.pdf cannot be read: it took more than 0.1 s"):
        await document_text("a.pdf", pdf_of("x"))


async def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "find_spec", lambda name: None)
    with pytest.raises(ConnectorError, match=r"pip install 'memory-context\[documents\]'"):
        await document_text("a.pdf", pdf_of("x"))


async def test_large_document_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "_DOCUMENT_BYTES", 10)
    with pytest.raises(ConnectorError, match="larger than 10 bytes"):
        await document_text("a.pdf", pdf_of("x"))
