"""Built-in analyzers, in the order in which they are asked: reports of commands, contents by form, any command."""

from collections.abc import Sequence

from ..compactor import Analyzer
from .describe import describe_content
from .shell import analyze_command, analyze_report

__all__ = ["BUILT_IN"]

BUILT_IN: Sequence[Analyzer] = (analyze_report, describe_content, analyze_command)
