from .budget import Budget, session_tag
from .explain import SegmentChange, ViewReport, report, stable_tokens
from .history import folded_text, history_text
from .masking import Masker
from .pages import HistoryPage, PageRequest, part_address, read_history, read_part
from .planning import ViewPlanner
from .render import Renderer, current_task, render, text_in_view
from .sections import SECTIONS, Place, Price, Section, Slot
from .view import PartState, Segment, View, ViewMessage

__all__ = [
    "SECTIONS",
    "Budget",
    "HistoryPage",
    "Masker",
    "PageRequest",
    "PartState",
    "Place",
    "Price",
    "Renderer",
    "Section",
    "Segment",
    "SegmentChange",
    "Slot",
    "View",
    "ViewMessage",
    "ViewPlanner",
    "ViewReport",
    "current_task",
    "folded_text",
    "history_text",
    "part_address",
    "read_history",
    "read_part",
    "render",
    "report",
    "session_tag",
    "stable_tokens",
    "text_in_view",
]
