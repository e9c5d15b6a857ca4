"""Texts as models take them: valid Unicode, cut to a bound, in batches of bounded size."""

from collections.abc import Iterator, Sequence

__all__ = ["batches", "cut_to_bytes", "well_formed"]


def well_formed(text: str) -> str:
    """Return the text as UTF-8 and C libraries take it: halves of pairs joined or U+FFFD, NUL as a space."""
    if "\x00" in text:
        text = text.replace("\x00", " ")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut_to_bytes(text: str, limit_bytes: int) -> str:
    """Return the longest start of a well-formed text that has at most `limit_bytes` bytes in UTF-8."""
    start = text[:limit_bytes]  # a character is at least one byte
    if start.isascii():
        return start
    return start.encode()[:limit_bytes].decode(errors="ignore")


def batches(texts: Sequence[str], most_texts: int, most_characters: int) -> Iterator[list[str]]:
    """Yield the texts in order, in batches of at most so many texts and characters; a longer text comes alone."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == most_texts or characters + len(text) > most_characters):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
