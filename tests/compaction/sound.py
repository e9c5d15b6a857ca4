"""What every reader owes, whatever the content: checked for all of them in the same way."""

import json

from hypothesis import strategies as st

from memory_context.compaction.analysis import Reader, Reading
from memory_context.compaction.compactor import Result

__all__ = ["bash", "read_soundly", "spoiled"]

_JUNK = [
    "\x00",
    "\ud800",
    "\r",
    "\n\n\n",
    "\x1b[31m",
    "(" * 200,
    "{[" * 100,
    "@@ -1 +1 @@",
    "é漢😀",
    "\t\t",
    ": " * 50,
    "=" * 80,
]


def bash(content: str, command: str) -> Result:
    """Return the output of a shell command."""
    return Result(content, "bash", json.dumps({"command": command}))


def read_soundly(reader: Reader, result: Result) -> Reading | None:
    """Return what a reader sees, twice the same, its lines short and single."""
    reading = reader(result)
    assert reading == reader(result)
    if reading is None:
        return None
    assert 0 < len(reading.description) <= 110
    assert not set("\r\n]") & set(reading.description)
    for line in reading.facts:
        assert len(line) <= 200, line
        assert not set("\r\n\x00") & set(line)
    assert len(reading.facts) <= 12
    assert len(reading.names) <= 60
    assert all(isinstance(name, str) and name for name in reading.names)
    return reading


def spoiled(samples: list[str]) -> st.SearchStrategy[str]:
    """Samples that were cut, repeated, shuffled and filled with junk."""

    @st.composite
    def build(draw: st.DrawFn) -> str:
        lines = draw(st.sampled_from(samples)).split("\n")
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, len(lines)))
            change = draw(st.sampled_from(["drop", "junk", "repeat", "swap", "join", "cut"]))
            if change == "drop":
                del lines[at : at + 2]
            elif change == "junk":
                lines.insert(at, draw(st.sampled_from(_JUNK) | st.text(max_size=30)))
            elif change == "repeat":
                lines[at:at] = lines[max(0, at - 3) : at]
            elif change == "swap":
                lines = lines[at:] + lines[:at]
            elif change == "join" and at + 1 < len(lines):
                lines[at : at + 2] = [lines[at] + lines[at + 1]]
            elif at < len(lines):
                lines[at] = lines[at][: draw(st.integers(0, 20))]
        return draw(st.sampled_from(["\n", "\r\n"])).join(lines)

    return build()
