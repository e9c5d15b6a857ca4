"""The readers of the sorts of content that tools return, in the order in which they are asked.

The most particular come first: who is asked later may take for granted that it is none of what was asked before. MCP's
wrappers are taken off before anybody is asked (`compaction.registry`).
"""

from collections.abc import Sequence

from ..reading import Reader
from .accessibility import read_accessibility
from .commits import read_commits
from .diff import read_diff
from .listing import read_listing
from .page import read_page
from .prose import read_prose
from .records import read_json
from .shell import read_shell
from .source import read_source
from .table import read_table
from .trace import read_trace

__all__ = ["BUILT_IN"]

BUILT_IN: Sequence[Reader] = (
    read_accessibility,  # a dash list, so before records and pages
    read_diff,  # of code, so before source; of commits, so before their log
    read_commits,
    read_source,  # numbered, so before listings
    read_listing,  # a search for "Traceback" is a search
    read_trace,
    read_json,
    read_table,
    read_shell,  # whatever else a command printed
    read_page,
    read_prose,
)
