"""A program: reads a document from stdin and writes its text, as markdown, or what is wrong with it, as JSON.

It is run by path, in a limited process, and imports nothing of this package.
"""

import io
import json
import sys
import zipfile

from markitdown import StreamInfo
from markitdown.converters import DocxConverter, PdfConverter, PptxConverter, XlsxConverter

__all__ = ["markdown_of"]

_CONVERTERS = {".pdf": PdfConverter, ".docx": DocxConverter, ".pptx": PptxConverter, ".xlsx": XlsxConverter}
_UNPACKED_BYTES = 256 << 20
_TEXT_CHARACTERS = 4 << 20
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def markdown_of(data: bytes, suffix: str) -> str:
    """Return the text of a document; ValueError says in words what is wrong with it, other errors are its parser's."""
    if suffix != ".pdf":
        if data.startswith(_OLD_OFFICE):
            raise ValueError("it is encrypted, or of an Office before 2007; ask for a .docx or .xlsx without password")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
        if unpacked > _UNPACKED_BYTES:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, more than {_UNPACKED_BYTES:,}")
    try:
        return _CONVERTERS[suffix]().convert(io.BytesIO(data), StreamInfo(extension=suffix)).markdown
    except Exception as error:
        if type(error).__name__ == "PDFPasswordIncorrect":
            raise ValueError("it is encrypted; ask for a copy without a password") from None
        raise


def _answer() -> dict[str, str]:
    try:
        return {"text": markdown_of(sys.stdin.buffer.read(), sys.argv[1])[:_TEXT_CHARACTERS]}
    except MemoryError:
        raise
    except ValueError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"it is damaged ({type(error).__name__}: {error})"[:300]}


if __name__ == "__main__":
    sys.stdout.buffer.write(json.dumps(_answer()).encode())
