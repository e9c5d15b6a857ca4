from .budget import Budget, session_tag
from .explain import SegmentChange, ViewReport, report, stable_tokens
from .history import HistoryPage, folded_text, history_text, read_history
from .render import MEMORY_SOURCE, Renderer, current_task, render
from .view import PartState, Segment, View, ViewMessage

__all__ = [
    "MEMORY_SOURCE",
    "Budget",
    "HistoryPage",
    "PartState",
    "Renderer",
    "Segment",
    "SegmentChange",
    "View",
    "ViewMessage",
    "ViewReport",
    "current_task",
    "folded_text",
    "history_text",
    "read_history",
    "render",
    "report",
    "session_tag",
    "stable_tokens",
]
