from .editor import EditorConnector
from .filesystem import FileSystemConnector
from .host import ActionTool, ConnectorHost, Look, direct_observations
from .protocols import (
    AgentContext,
    Connector,
    ConnectorObservation,
    ConnectorState,
    Element,
    HistoryThought,
    HistoryTurn,
    Noticed,
    TextObservation,
)
from .shell import ShellConnector
from .web import WebConnector

__all__ = [
    "ActionTool",
    "AgentContext",
    "Connector",
    "ConnectorHost",
    "ConnectorObservation",
    "ConnectorState",
    "EditorConnector",
    "Element",
    "FileSystemConnector",
    "HistoryThought",
    "HistoryTurn",
    "Look",
    "Noticed",
    "ShellConnector",
    "TextObservation",
    "WebConnector",
    "direct_observations",
]
