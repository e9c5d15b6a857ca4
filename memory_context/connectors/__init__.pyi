from .action import ActionTool, direct_observations
from .filesystem import FileSystemConnector
from .host import ConnectorHost, ConnectorState, Noticed
from .protocols import Connector, ConnectorObservation, Element, TextObservation
from .shell import ShellConnector

__all__ = [
    "ActionTool",
    "Connector",
    "ConnectorHost",
    "ConnectorObservation",
    "ConnectorState",
    "Element",
    "FileSystemConnector",
    "Noticed",
    "ShellConnector",
    "TextObservation",
    "direct_observations",
]
