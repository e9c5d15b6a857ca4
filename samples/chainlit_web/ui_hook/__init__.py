"""Where a user interface takes its agents from."""

from .ui_agent_builder import UIAgentBuilder

__all__ = ["UIAgentBuilder"]
