"""What every analyzer owes, whatever the content: checked for all of them in the same way."""

import json

from hypothesis import strategies as st

from memory_context.foundation.compactors.compactor import Analysis, Analyzer, Result

__all__ = ["analyze_soundly", "bash", "spoiled"]

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


def analyze_soundly(analyzer: Analyzer, result: Result) -> Analysis | None:
    """Return what a analyzer sees, twice the same, its lines short and single."""
    analysis = analyzer(result)
    assert analysis == analyzer(result)
    if analysis is None:
        return None
    assert analysis.description
    assert not set("\r\n") & set(analysis.description)
    for line in analysis.facts:
        assert len(line) <= 200, line
        assert not set("\r\n\x00") & set(line)
    assert len(analysis.facts) <= 12
    assert len(analysis.names) <= 60
    assert all(isinstance(name, str) and name for name in analysis.names)
    return analysis


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
