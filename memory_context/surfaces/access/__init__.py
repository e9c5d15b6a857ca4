"""Access control of all servers, as plain ASGI: host and origin checks, body limits, trusted proxies, bearer tokens."""
