"""The web connector: a page that an agent sees and acts on, behind a boundary of the network."""

from .guard import CHROMIUM_FLAGS, NavigationGuard, Refusal

__all__ = ["CHROMIUM_FLAGS", "NavigationGuard", "Refusal"]
