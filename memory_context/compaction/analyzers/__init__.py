"""The built-in analyzers, in the order they are asked: the most particular first.

Each earns its lines in `benchmarks.ablation`, or by a status and a description that no other finds.
"""

from collections.abc import Sequence

from ..compactor import Analyzer
from .diff import analyze_diff
from .json import analyze_json
from .shell import analyze_shell
from .source import analyze_source

__all__ = ["BUILT_IN"]

BUILT_IN: Sequence[Analyzer] = (
    analyze_diff,  # of code, so before source
    analyze_source,
    analyze_json,
    analyze_shell,  # whatever else a command printed
)
