from .action import ActionTool, direct_observations
from .agent_context import AgentContext, HistoryThought, HistoryTurn
from .editor import EditorConnector
from .filesystem import FileSystemConnector
from .host import ConnectorHost, Look
from .protocols import Connector, ConnectorObservation, ConnectorState, Element, Noticed, TextObservation
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
