"""The numbers that `cat -n`, `nl` and editors put in front of lines: whether there are any, and the code behind.

Spans must be those of the content as it came, so a number is not cut off but skipped.
"""

import re
from itertools import pairwise

__all__ = ["Code", "codes_in", "numbering_of"]

_NUMBER = re.compile(r" *(\d{1,7})(\t|→|: ?| ?\|| +│ ?|  (?=\S)|$)")

Code = tuple[int, int, str]
"""Where a line's code starts, its number in the file, and the code."""


def numbering_of(head: list[tuple[int, str]]) -> tuple[bool, int]:
    """Whether nearly all lines have rising numbers in front, and the first number."""
    numbers = [int(match[1]) for _, text in head if (match := _NUMBER.match(text))]
    filled = sum(bool(text.strip()) for _, text in head)
    rising = sum(b == a + 1 for a, b in pairwise(numbers))
    is_numbered = len(numbers) >= 2 and len(numbers) >= 0.7 * filled and rising >= 0.8 * (len(numbers) - 1)
    return is_numbered, numbers[0] if is_numbered else 1


def codes_in(lines: list[tuple[int, str]], is_numbered: bool, first: int) -> list[Code]:
    """Return the lines without the numbers in front, but with them; without lines that have none among such."""
    if not is_numbered:
        return [(start, number, text) for number, (start, text) in enumerate(lines, first)]
    codes: list[Code] = []
    for start, text in lines:
        if match := _NUMBER.match(text):
            offset = match.end()
            codes.append((start + offset, int(match[1]), text[offset:]))
    return codes
