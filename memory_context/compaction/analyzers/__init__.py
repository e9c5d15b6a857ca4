"""The readers of the sorts of content whose status and description an agent needs, in the order they are asked.

The most particular come first. MCP's wrappers are taken off before anybody is asked (`compaction.registry`). A reader
earns its lines in `benchmarks.ablation`, or by a status that nobody else finds.
"""

from collections.abc import Sequence

from ..analysis import Reader
from .diff import read_diff
from .json import read_json
from .shell import read_shell
from .source import read_source

__all__ = ["BUILT_IN"]

BUILT_IN: Sequence[Reader] = (
    read_diff,  # of code, so before source
    read_source,
    read_json,
    read_shell,  # whatever else a command printed
)
