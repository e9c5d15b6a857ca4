from .connector import WebConnector, WebConnectorConfig
from .guard import CHROMIUM_FLAGS, NavigationGuard, Refusal

__all__ = ["CHROMIUM_FLAGS", "NavigationGuard", "Refusal", "WebConnector", "WebConnectorConfig"]
