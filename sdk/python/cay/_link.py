# SPDX-License-Identifier: Apache-2.0
"""The way to one sandbox. It is made sure of before it is first used, once for all who use it at the same time, and once
more when somebody else has destroyed it meanwhile."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, Mapping, Optional, TypeVar

from ._client import Call, Core, backoff
from ._http import Exchange
from ._settings import CHANGEABLE, FIXED
from .errors import ConflictError, GitError, NotFoundError, SandboxNotFoundError

T = TypeVar("T")

TRIES = 8  # for one that is being destroyed, or made, by others


class Link:
    def __init__(self, core: Core, id: str, settings: Dict[str, Any]) -> None:
        self.core, self.id = core, id
        self.base = f"/sandbox/{id}"  # an id has nothing to encode
        self.env: Dict[str, str] = {}  # of all that is started through this object: set_env_vars
        self.settings = settings
        self._made = 0  # how often it was; 0: it has to be
        self._times = 0
        self._lock = core.net.lock()

    # -- being there

    async def ready(self) -> None:
        """Makes it, or finds it."""
        if self._made:
            return
        async with self._lock:
            if not self._made:
                await self._make()
                self._times += 1
                self._made = self._times

    def forget(self, made: Optional[int] = None) -> None:
        """It is not there any more: the next use makes it. `made`: unless somebody else has made it since."""
        if made is None or made == self._made:
            self._made = 0

    async def _make(self) -> None:
        for tries in range(TRIES):
            try:
                made = await self.core.json(Call("PUT", self.base, json=self.settings, key=self.core.key()))
                _check_clone(made.get("git"))
                return
            except ConflictError as error:
                there = await self._look()
                if there is not None:
                    await self._adopt(there, error)
                    return
                if tries + 1 == TRIES:
                    raise
            await self.core.net.sleep(backoff(tries))

    async def _look(self) -> Optional[Mapping[str, Any]]:
        """None while it is being destroyed or made."""
        try:
            there: Mapping[str, Any] = await self.core.json(Call("GET", self.base))
            return None if there["status"] == "destroying" else there
        except (NotFoundError, ConflictError):
            return None

    async def _adopt(self, there: Mapping[str, Any], conflict: ConflictError) -> None:
        """One that others made differently gets the settings that were asked for, and keeps all the others."""
        for name in FIXED:
            asked = self.settings.get(name)
            if asked is not None and asked != there.get(name):
                raise ConflictError(
                    f"sandbox '{self.id}' exists with {name} {there.get(name)!r}, and {asked!r} was asked for: destroy it, "
                    "or use another id",
                    status=conflict.status,
                    code=conflict.code,
                    request_id=conflict.request_id,
                )
        change = {name: self.settings[name] for name in CHANGEABLE if name in self.settings}
        if change:
            await self.core.json(Call("PATCH", self.base, json=change))

    # -- using it

    async def use(self, act: Callable[[], Awaitable[T]], *, first: bool = True, missing: bool = True) -> T:
        """Does it, after making sure that the sandbox is there. `first`: before it is tried; what only looks need not wake
        it. `missing`: when it turns out that it is not there."""
        if first and not self._made:
            await self.ready()
        made = self._made
        try:
            return await act()
        except SandboxNotFoundError:
            if not missing:
                raise
            self.forget(made)  # others who were told the same share the new one
        await self.ready()
        return await act()

    def call(self, method: str, path: str, **more: Any) -> Call:
        return Call(method, self.base + path, **more)

    async def json(self, method: str, path: str, *, first: bool = True, missing: bool = True, **more: Any) -> Any:
        call = self.call(method, path, **more)
        return await self.use(lambda: self.core.json(call), first=first, missing=missing)

    async def look(self, path: str, **query: Any) -> Any:
        """A GET that does not wake."""
        return await self.json("GET", path, first=False, query=query)

    async def remove(self, path: str) -> None:
        """What is gone already is fine."""
        try:
            await self.json("DELETE", path, first=False, missing=False)
        except NotFoundError:
            pass

    async def post(
        self,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        once: bool = False,
        repeatable: Optional[bool] = None,
    ) -> Any:
        """`once`: the route takes an Idempotency-Key."""
        return await self.json("POST", path, json=body, key=self.core.key() if once else None, repeatable=repeatable)

    async def open(self, call: Call, *, first: bool = True) -> Exchange:
        return await self.use(lambda: self.core.open(call), first=first)


def _check_clone(git: Optional[Mapping[str, Any]]) -> None:
    """The sandbox is there whether or not `git_url` could be cloned: then the next use goes on without it."""
    if git is not None and not git["success"]:
        raise GitError(str(git.get("error")), code=str(git.get("error_code")), details=dict(git))
