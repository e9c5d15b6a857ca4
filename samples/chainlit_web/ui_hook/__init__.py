"""Where a user interface takes its agents from."""

from .components import Checked, ComponentError, check_component, read_component
from .ui_agent_builder import BuiltAgent, UIAgentBuilder

__all__ = ["BuiltAgent", "Checked", "ComponentError", "UIAgentBuilder", "check_component", "read_component"]
