"""The way into an inspector on loopback: for who started it, not for other users of the machine, and no other page.

    #/…?enter=CODE ──POST api/enter, once──▶ token, which the page keeps for its origin ──▶ Authorization of requests

The list of processes shows the address, as the browser's argument; so its code works only once. A cookie would reach
servers on other ports of this machine, too.
"""

import hmac
import secrets

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel

from ..access.gate import Tokens

__all__ = ["Entrance"]


class EnterRequest(BaseModel):
    """The code of the address."""

    code: str


class Entrance:
    """Lets in one page of one user; requests carry the token that it got for the code."""

    def __init__(self, user_id: str) -> None:
        self.code = secrets.token_urlsafe(16)
        self._token = secrets.token_urlsafe(32)
        self._tokens = Tokens({self._token: user_id})
        self._is_open = True

    async def user(self, request: Request) -> str:
        """Return the user, as a dependency of routes."""
        user = self._tokens.user_of(request.headers.get("authorization", ""))
        if user is None:
            text = "this page was not opened from the address that memory-context open printed: start it again"
            raise HTTPException(403, text)
        return user

    def add_route(self, router: APIRouter) -> None:
        """Add the route that gives the token for the code, once."""

        @router.post("/api/enter", summary="The token of this page for the code of its address, once")
        async def enter(asked: EnterRequest) -> dict[str, str]:
            is_right = hmac.compare_digest(asked.code.encode("utf-8", "replace"), self.code.encode())
            if not (is_right and self._is_open):
                raise HTTPException(403, "this address was opened before: run memory-context open again")
            self._is_open = False
            return {"token": self._token}

        _ = enter
