# SPDX-License-Identifier: Apache-2.0
"""A sandbox, by its id; and the server that it is on."""

from __future__ import annotations

import atexit
import os
import ssl
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

from ._asyncio import AsyncioNet
from ._client import RETRIES, Call, Core, default_url, new_key
from ._code import Code
from ._commands import Commands
from ._files import Files
from ._git import Git
from ._link import Link
from ._net import Address, Net
from ._processes import Processes
from ._settings import UNSET, Unset, check_id, given, seconds, texts
from ._state import Ports, State
from ._terminal import Terminals
from .types import Duration, Network, Ref, SandboxInfo, Size, id_of

_cores: Dict[Tuple[Type[Net], str, Optional[str], int], Core] = {}


def make_core(
    net: Type[Net],
    url: Optional[str],
    token: Optional[str],
    retries: Optional[int],
    ssl_context: Optional[ssl.SSLContext],
) -> Core:
    """The one for this server, so that all share its connections."""
    where, who = url or default_url(), token or os.environ.get("CAY_TOKEN") or None
    times = RETRIES if retries is None else retries
    if ssl_context is not None:
        return Core(net(Address.of(where), ssl_context), who, times)
    key = (net, where, who, times)
    if key not in _cores:
        _cores[key] = Core(net(Address.of(where)), who, times)
    return _cores[key]


@atexit.register
def _close_all() -> None:
    _cores.clear()  # connections are closed with the last who knows them


class AsyncSandbox(Commands, Processes, Files, Git, Code, Ports, State, Terminals):
    """An isolated Linux environment, by its id. Nothing is asked until it is first used: then it is made, or found.

    id: letters, digits, '.', '_' and '-'; made up unless given. The same id is the same sandbox.
    url: where the server is; $CAY_URL, else http://127.0.0.1:8787. unix:///var/lib/cay/cay.sock needs no token.
    token: $CAY_TOKEN unless given.
    retries: how often a call is sent again before it fails, where that is safe; 5 unless given.

    All others are settings of the sandbox. One that is there gets those that are given here, and keeps its others.

    As a context manager it destroys the sandbox at the end."""

    def __init__(
        self,
        id: Optional[str] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        retries: Optional[int] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        image: Optional[str] = None,
        memory: Optional[Size] = None,
        disk: Optional[Size] = None,
        cpus: Union[float, str, None] = None,
        pids: Optional[int] = None,
        env: Optional[Mapping[str, Any]] = None,
        labels: Optional[Mapping[str, str]] = None,
        sleep_after: Optional[Duration] = None,
        keep_alive: Optional[bool] = None,
        ephemeral: Optional[bool] = None,
        network: Optional[Network] = None,
        secrets: Optional[Sequence[str]] = None,
        languages: Optional[Sequence[str]] = None,
        shared_zygote: Optional[bool] = None,
        durable: Optional[bool] = None,
        sync: Optional[bool] = None,
        restore: Optional[bool] = None,
        archive_after: Union[Duration, None, Unset] = UNSET,
        destroy_after: Union[Duration, None, Unset] = UNSET,
        budget: Optional[Mapping[str, Any]] = None,
        snapshot: Optional[Ref] = None,
        user_id: Optional[str] = None,
        git_url: Optional[str] = None,
        git_branch: Optional[str] = None,
        config: Optional[Mapping[str, Any]] = None,
        _core: Optional[Core] = None,
    ) -> None:
        core = _core or make_core(AsyncioNet, url, token, retries, ssl_context)
        settings = changeable(
            memory=memory,
            disk=disk,
            cpus=cpus,
            pids=pids,
            env=env,
            labels=labels,
            sleep_after=sleep_after,
            keep_alive=keep_alive,
            network=network,
            secrets=secrets,
            languages=languages,
            shared_zygote=shared_zygote,
            durable=durable,
            sync=sync,
            archive_after=archive_after,
            destroy_after=destroy_after,
            budget=budget,
        )
        settings.update(
            given(
                image=image,
                ephemeral=ephemeral,
                restore=restore,
                snapshot=None if snapshot is None else id_of(snapshot),
                userId=user_id,
                gitUrl=git_url,
                gitBranch=git_branch,
                config=config,
            )
        )
        self.id = check_id(id) if id is not None else f"sb-{new_key()[:16]}"
        self._link = Link(core, self.id, settings)

    def __repr__(self) -> str:
        return f"<sandbox {self.id!r}>"

    # -- its life

    async def wake(self) -> SandboxInfo:
        """Makes sure that it is there and runs. Every use does so; this is for who wants it before the first."""
        return SandboxInfo.read(await self._link.post("/wake", repeatable=True))

    async def sleep(self) -> SandboxInfo:
        """Ends its programs and keeps its files."""
        return SandboxInfo.read(await self._link.json("POST", "/sleep", first=False, missing=False, repeatable=True))

    async def info(self) -> SandboxInfo:
        """Settings and state, as they are. Neither makes nor wakes it: SandboxNotFoundError."""
        return SandboxInfo.read(await self._link.json("GET", "", first=False, missing=False))

    async def stats(self) -> Mapping[str, Any]:
        """What it uses now."""
        answer: Mapping[str, Any] = await self._link.json("GET", "/stats", first=False, missing=False)
        return answer

    async def configure(
        self,
        *,
        memory: Optional[Size] = None,
        disk: Optional[Size] = None,
        cpus: Union[float, str, None] = None,
        pids: Optional[int] = None,
        env: Optional[Mapping[str, Any]] = None,
        labels: Optional[Mapping[str, str]] = None,
        sleep_after: Optional[Duration] = None,
        keep_alive: Optional[bool] = None,
        network: Optional[Network] = None,
        secrets: Optional[Sequence[str]] = None,
        languages: Optional[Sequence[str]] = None,
        shared_zygote: Optional[bool] = None,
        durable: Optional[bool] = None,
        sync: Optional[bool] = None,
        archive_after: Union[Duration, None, Unset] = UNSET,
        destroy_after: Union[Duration, None, Unset] = UNSET,
        budget: Optional[Mapping[str, Any]] = None,
    ) -> SandboxInfo:
        """Changes settings; limits and the network change at once. `env`, `labels` and lists are replaced as a whole."""
        settings = changeable(
            memory=memory,
            disk=disk,
            cpus=cpus,
            pids=pids,
            env=env,
            labels=labels,
            sleep_after=sleep_after,
            keep_alive=keep_alive,
            network=network,
            secrets=secrets,
            languages=languages,
            shared_zygote=shared_zygote,
            durable=durable,
            sync=sync,
            archive_after=archive_after,
            destroy_after=destroy_after,
            budget=budget,
        )
        changed = SandboxInfo.read(await self._link.json("PATCH", "", json=settings))
        self._link.settings.update(settings)  # one that has to be made again has them, too
        return changed

    async def set_sleep_after(self, sleep_after: Duration) -> None:
        await self.configure(sleep_after=sleep_after)

    async def set_keep_alive(self, keep_alive: bool) -> None:
        await self.configure(keep_alive=keep_alive)

    async def set_labels(self, labels: Mapping[str, str]) -> None:
        await self.configure(labels=labels)

    async def fork(self, id: Optional[str] = None, *, snapshot: Optional[Ref] = None) -> AsyncSandbox:
        """Another sandbox with its files, environment and sessions, or with those of a snapshot."""
        (made,) = await self._fork(id, None, snapshot)
        return self._other(made)

    async def fork_many(
        self, count: int, prefix: Optional[str] = None, *, snapshot: Optional[Ref] = None
    ) -> List[AsyncSandbox]:
        """Several at once, all of the same instant. Their ids are `prefix` and a number."""
        return [self._other(id) for id in await self._fork(prefix, count, snapshot)]

    def _other(self, id: str) -> AsyncSandbox:
        return AsyncSandbox(id, _core=self._link.core)

    async def destroy(self) -> None:
        """Ends all that runs in it and removes its files. One that is gone already is fine. The next use makes a new
        one."""
        await self._link.remove("")
        self._link.forget()

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.destroy()


def changeable(
    *,
    env: Optional[Mapping[str, Any]],
    labels: Optional[Mapping[str, str]],
    sleep_after: Any,
    keep_alive: Optional[bool],
    secrets: Optional[Sequence[str]],
    languages: Optional[Sequence[str]],
    shared_zygote: Optional[bool],
    archive_after: Any,
    destroy_after: Any,
    **same: Any,
) -> Dict[str, Any]:
    """Settings that can change, in the server's names. None removes what can be removed, and is nothing elsewhere."""
    settings = given(
        **same,
        env=texts(env),
        labels=None if labels is None else dict(labels),
        sleepAfter=seconds(sleep_after),
        keepAlive=keep_alive,
        secrets=None if secrets is None else list(secrets),
        languages=None if languages is None else list(languages),
        sharedZygote=shared_zygote,
    )
    for name, value in (("archiveAfter", archive_after), ("destroyAfter", destroy_after)):
        if not isinstance(value, Unset):
            settings[name] = seconds(value)
    return settings


get_sandbox = AsyncSandbox
"""The sandbox of this id. Nothing is sent: it is made, or found, when it is first used."""


async def list_all(core: Core, label: Optional[str], status: Optional[str]) -> List[SandboxInfo]:
    found: List[SandboxInfo] = []
    query: Dict[str, Any] = {"label": label, "status": status, "limit": 1000}
    while True:
        page = await core.json(Call("GET", "/sandbox", query=query))
        found += [SandboxInfo.read(one) for one in page["sandboxes"]]
        if not page.get("next"):
            return found
        query["after"] = page["next"]


async def list_sandboxes(
    *,
    label: Optional[str] = None,
    status: Optional[str] = None,
    url: Optional[str] = None,
    token: Optional[str] = None,
) -> List[SandboxInfo]:
    """All that the token may see, by id. label: NAME or NAME=VALUE. status: "running" or "sleeping"."""
    return await list_all(make_core(AsyncioNet, url, token, None, None), label, status)
