"""Access control of all servers, as plain ASGI: host and origin checks, bearer tokens, a limit of bodies."""
