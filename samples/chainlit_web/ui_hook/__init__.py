"""Agents with memory for a user interface: `UIAgentBuilder` makes them of component JSON. Imports no user interface."""

from .builder import BuiltAgent, UIAgentBuilder
from .components import Checked, ComponentError, check_component, read_component

__all__ = ["BuiltAgent", "Checked", "ComponentError", "UIAgentBuilder", "check_component", "read_component"]
