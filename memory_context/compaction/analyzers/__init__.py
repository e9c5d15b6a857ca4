"""Built-in analyzers, most specific first. Each is justified by `benchmarks.ablation` or by a unique status or
description.
"""

from collections.abc import Sequence

from ..compactor import Analyzer
from .diff import analyze_diff
from .json import analyze_json
from .shell import analyze_shell
from .source import analyze_source

__all__ = ["BUILT_IN"]

BUILT_IN: Sequence[Analyzer] = (
    analyze_diff,  # before source: diffs contain code
    analyze_source,
    analyze_json,
    analyze_shell,  # matches any command output
)
