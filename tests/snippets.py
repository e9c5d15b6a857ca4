"""The Python of the README and of docs/ as files, for type checkers: `python -m tests.snippets FOLDER`.

A file for each block, as it stands, under a name that says which it is.
"""

import re
import sys
from pathlib import Path

__all__ = ["snippets", "write_snippets"]

DOCUMENTS = Path(__file__).parents[1]


def snippets() -> list[str]:
    """Return the blocks of Python in the README and the pages of docs/, in order."""
    pages = [DOCUMENTS / "README.md", *sorted(DOCUMENTS.glob("docs/*.md"))]
    return [block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)]


def write_snippets(folder: Path) -> None:
    """Write each block to a file of its own; what an earlier run left there goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for number, block in enumerate(snippets(), 1):
        (folder / f"snippet_{number}.py").write_text(block, encoding="utf-8")


if __name__ == "__main__":
    write_snippets(Path(sys.argv[1]))
