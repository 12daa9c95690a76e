# SPDX-License-Identifier: Apache-2.0
"""Ports that others reach, and state that stays: snapshots, forks, backups, sync."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from ._link import Link
from ._settings import absolute, given, seconds
from .types import Backup, Duration, ExposedPort, Ref, Snapshot, SyncResult, SyncStatus, id_of


class Ports:
    _link: Link

    async def expose_port(self, port: int, *, name: Optional[str] = None, token: Optional[str] = None) -> ExposedPort:
        """Gives a port of the sandbox an address of its own, at which browsers find it."""
        return ExposedPort.read(await self._link.post("/ports", given(port=port, name=name, token=token), repeatable=True))

    async def unexpose_port(self, port: int) -> None:
        """Closes its address and ends the connections that use it. One that is not open stays so."""
        await self._link.remove(f"/ports/{port}")

    async def get_exposed_ports(self) -> List[ExposedPort]:
        return [ExposedPort.read(p) for p in (await self._link.look("/ports"))["ports"]]

    async def is_port_exposed(self, port: int) -> bool:
        return any(p.port == port for p in await self.get_exposed_ports())


class State:
    _link: Link

    # -- snapshots

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Remembers its files, environment and sessions as they are now; takes milliseconds, whatever is on the disk."""
        return Snapshot.read(await self._link.post("/snapshots", given(name=name), once=True))

    async def list_snapshots(self) -> List[Snapshot]:
        """Oldest first."""
        return [Snapshot.read(s) for s in (await self._link.look("/snapshots"))["snapshots"]]

    async def delete_snapshot(self, snapshot: Ref) -> None:
        await self._link.json("DELETE", f"/snapshots/{id_of(snapshot)}", first=False)

    async def rollback(self, snapshot: Ref) -> None:
        """Goes back to a snapshot: what runs ends, and the next use starts from it."""
        await self._link.post("/rollback", {"snapshot": id_of(snapshot)}, once=True)

    async def _fork(self, id: Optional[str], count: Optional[int], snapshot: Optional[Ref]) -> List[str]:
        source = None if snapshot is None else id_of(snapshot)
        made = await self._link.post("/fork", given(id=id, count=count, snapshot=source), once=True)
        return [one["id"] for one in made["sandboxes"]]

    # -- backups

    async def create_backup(
        self,
        dir: Optional[str] = None,
        *,
        name: Optional[str] = None,
        ttl: Optional[Duration] = None,
        excludes: Optional[Sequence[str]] = None,
        gitignore: bool = False,
    ) -> Backup:
        """Puts a directory, or the whole disk, into the server's store as one archive.

        ttl: seconds, or a text such as "7d", after which it is deleted. excludes: as in a .gitignore."""
        body = given(
            dir=None if dir is None else absolute(dir),
            name=name,
            ttl=seconds(ttl),
            excludes=None if excludes is None else list(excludes),
            gitignore=gitignore or None,
        )
        return Backup.read(await self._link.post("/backups", body, once=True))

    async def list_backups(self) -> List[Backup]:
        """Newest first."""
        found: List[Backup] = []
        query: Any = {"limit": 1000}
        while True:
            page = await self._link.look("/backups", **query)
            found += [Backup.read(b) for b in page["backups"]]
            if not page.get("next"):
                return found
            query["before"] = page["next"]

    async def restore_backup(self, backup: Ref, dir: Optional[str] = None) -> None:
        """Goes back to a backup, of this sandbox or another, all of it or nothing. What runs ends."""
        target = None if dir is None else absolute(dir)
        await self._link.post("/restore", given(backup=id_of(backup), dir=target), once=True)

    async def delete_backup(self, backup: Ref) -> None:
        await self._link.json("DELETE", f"/backups/{id_of(backup)}", first=False)

    # -- sync

    async def sync(
        self,
        *,
        include: Optional[Sequence[str]] = None,
        exclude: Optional[Sequence[str]] = None,
        gitignore: Optional[bool] = None,
    ) -> SyncResult:
        """Stores what has changed in /workspace; include and exclude are as in a .gitignore, and remembered."""
        body = given(
            include=None if include is None else list(include),
            exclude=None if exclude is None else list(exclude),
            gitignore=gitignore,
        )
        return SyncResult.read(await self._link.post("/sync", body, repeatable=True))

    async def get_sync_status(self) -> SyncStatus:
        """How the last sync went."""
        return SyncStatus.read(await self._link.look("/sync"))
