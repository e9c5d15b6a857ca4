"""PDF documents, made from bytes."""

__all__ = ["pdf_of"]

_HEAD = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1<</Type/Font/Subtype/Type1\
/BaseFont/Helvetica>>>>>>>>endobj
"""


def pdf_of(*lines: str) -> bytes:
    """Return a document of one page with these lines of ASCII text."""
    shown = b"\n".join(b"(%s) Tj T*" % line.encode("ascii") for line in lines)
    content = b"BT /F1 12 Tf 14 TL 50 790 Td\n%s\nET" % shown
    stream = b"4 0 obj<</Length %d>>stream\n%s\nendstream endobj\n" % (len(content), content)
    return _HEAD + stream + b"trailer<</Root 1 0 R>>\n%%EOF\n"
