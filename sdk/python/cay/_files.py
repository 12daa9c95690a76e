# SPDX-License-Identifier: Apache-2.0
"""Files: bytes in and out, directories, and what changes."""

from __future__ import annotations

import json
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Union, overload

from ._client import Call
from ._http import Body, Broken, Exchange
from ._link import Link
from ._settings import absolute, encoded, given
from ._sse import ServerEvent
from ._stream import AsyncStream, Follower
from .errors import FileNotFoundError, NotDirectoryError, StreamInterruptedError
from .types import FileInfo, WatchEvent, WrittenFile

PAGE = 10000
UNWATCHED = (".git", "node_modules", ".DS_Store")

Content = Union[str, bytes, bytearray, memoryview, IO[bytes], IO[str]]


def read_watch_event(event: ServerEvent) -> Optional[WatchEvent]:
    return WatchEvent.read(json.loads(event.data))


def is_stopped(event: ServerEvent) -> bool:
    return bool(json.loads(event.data).get("type") == "stopped")


class AsyncPieces:
    """The bytes of a file as they come, for `async for`. They are all of it, or there is an error."""

    def __init__(self, link: Link, call: Call) -> None:
        self._link, self._call = link, call
        self._exchange: Optional[Exchange] = None

    def __aiter__(self) -> AsyncPieces:
        return self

    async def __anext__(self) -> bytes:
        try:
            if self._exchange is None:
                self._exchange = await self._link.open(self._call)
            piece = await self._exchange.piece()
        except Broken as broken:
            raise StreamInterruptedError(f"the file is not complete: {broken}", code="STREAM_INTERRUPTED") from broken
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        if self._exchange is not None:
            self._exchange.abandon()

    async def __aenter__(self) -> AsyncPieces:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Files:
    """Paths without a slash in front are below /workspace."""

    _link: Link

    def _path(self, path: str) -> str:
        return f"/files{encoded(absolute(path))}"

    async def _op(self, name: str, body: Dict[str, Any], repeatable: bool) -> Any:
        return await self._link.json("POST", f"/files:{name}", json=body, repeatable=repeatable)

    # -- bytes

    async def write_file(
        self,
        path: str,
        content: Content,
        *,
        mode: Optional[int] = None,
        if_match: Optional[str] = None,
        if_none_match: Optional[str] = None,
    ) -> WrittenFile:
        """Gives a file new content, all at once: a text, bytes, or all that is left in a file of this machine. Directories
        above it are made.

        mode: such as 0o755. if_match: only what has this etag is replaced. if_none_match="*": only what is new is made."""
        body: Body
        if isinstance(content, str):
            body = content.encode()
        elif isinstance(content, (bytes, bytearray, memoryview)):
            body = bytes(content)
        else:
            body = content
        headers = given(**{"If-Match": if_match, "If-None-Match": if_none_match})
        call = self._link.call(
            "PUT",
            self._path(path),
            query={"mode": None if mode is None else f"{mode:04o}"},
            body=body,
            headers={"Content-Type": "application/octet-stream", **headers},
            # With a condition the second one would find what the first one wrote.
            repeatable=not headers,
        )
        if isinstance(body, bytes):
            return WrittenFile.read(await self._link.use(lambda: self._link.core.json(call)))
        return WrittenFile.read(await self._send_file(call, body))

    async def _send_file(self, call: Call, file: IO[Any]) -> Any:
        again = file.seekable() if hasattr(file, "seekable") else False
        start = file.tell() if again else 0

        async def send() -> Any:
            if again:
                file.seek(start)
            return await self._link.core.json(call)

        return await self._link.use(send, missing=again)

    @overload
    async def read_file(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str: ...

    @overload
    async def read_file(self, path: str, *, encoding: None) -> bytes: ...

    async def read_file(
        self, path: str, *, encoding: Optional[str] = "utf-8", errors: str = "strict"
    ) -> Union[str, bytes]:
        """A file's text; with encoding=None its bytes."""
        data = await self.read_bytes(path)
        return data if encoding is None else data.decode(encoding, errors)

    async def read_bytes(self, path: str, *, start: Optional[int] = None, end: Optional[int] = None) -> bytes:
        """A file's bytes, or those from `start` up to `end`, which is not one of them."""
        call = self._link.call("GET", self._path(path))
        if start is not None or end is not None:
            if (start or 0) < 0 or (end is not None and end <= (start or 0)):
                return b""
            call.headers["Range"] = f"bytes={start or 0}-{'' if end is None else end - 1}"
        return await self._link.use(lambda: self._link.core.bytes(call))

    def read_file_stream(self, path: str) -> AsyncPieces:
        """A file's bytes as they come, for one that is too large to have at once."""
        return AsyncPieces(self._link, self._link.call("GET", self._path(path)))

    async def delete_file(self, path: str, *, recursive: bool = False) -> None:
        """A file, a link (not what it leads to), or an empty directory; `recursive` takes trees."""
        query = {"recursive": 1 if recursive else None}
        await self._link.json("DELETE", self._path(path), query=query)

    # -- what is done to them

    async def mkdir(self, path: str, *, recursive: bool = False, mode: Optional[int] = None) -> None:
        """`recursive` makes those above it, too, and takes one that is there already."""
        octal = None if mode is None else f"{mode:04o}"
        body = given(path=absolute(path), parents=recursive or None, mode=octal)
        await self._op("mkdir", body, repeatable=recursive)

    async def move_file(self, source: str, destination: str, *, replace: bool = False) -> None:
        """A file or a directory; what is at `destination` stays unless `replace` is given."""
        body = given(to=absolute(destination), replace=replace or None)
        await self._op("move", {"from": absolute(source), **body}, repeatable=False)

    rename_file = move_file

    async def copy_file(self, source: str, destination: str, *, replace: bool = False) -> None:
        """A file, or a directory with all in it."""
        body = given(to=absolute(destination), replace=replace or None)
        await self._op("copy", {"from": absolute(source), **body}, repeatable=replace)

    async def chmod(self, path: str, mode: int) -> None:
        await self._op("chmod", {"path": absolute(path), "mode": f"{mode:04o}"}, repeatable=True)

    # -- looking

    async def stat(self, path: str) -> FileInfo:
        """What the path is; of a link the link itself."""
        return FileInfo.read(await self._link.json("GET", self._path(path), query={"stat": ""}))

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path)
        except (FileNotFoundError, NotDirectoryError):
            return False
        return True

    async def list_files(
        self, path: str = ".", *, recursive: bool = False, include_hidden: bool = False
    ) -> List[FileInfo]:
        """What is in a directory, by name."""
        entries: List[FileInfo] = []
        query: Dict[str, Any] = {
            "list": "",
            "recursive": 1 if recursive else None,
            "hidden": 1 if include_hidden else None,
            "limit": PAGE,
        }
        while True:
            page = await self._link.json("GET", self._path(path), query=query)
            entries += [FileInfo.read(entry) for entry in page["entries"]]
            if not page.get("next"):
                return entries
            query["after"] = page["next"]

    async def readdir(self, path: str = ".") -> List[str]:
        """The names of all that is in a directory, in order."""
        return [entry.name for entry in await self.list_files(path, include_hidden=True)]

    async def search_files(
        self, path: str = ".", *, name: Optional[str] = None, text: Optional[str] = None, ignore_case: bool = False
    ) -> List[Mapping[str, Any]]:
        """Names by a glob, contents by a text, or both: {"path", "line", "column", "text"} of each match."""
        body = given(path=absolute(path), name=name, text=text, ignoreCase=ignore_case or None, limit=PAGE)
        matches: List[Mapping[str, Any]] = (await self._op("search", body, repeatable=True))["matches"]
        return matches

    def watch(
        self,
        path: str = ".",
        *,
        recursive: bool = True,
        include: Optional[Sequence[str]] = None,
        exclude: Optional[Sequence[str]] = None,
    ) -> AsyncStream[WatchEvent]:
        """What changes below a directory. The first event, "watching", says that from now on nothing is missed.

        include, exclude: globs on names; .git, node_modules and .DS_Store are left out unless one of the two is given."""
        if include is None and exclude is None:
            exclude = UNWATCHED
        call = self._link.call(
            "GET",
            "/watch",
            query={
                "path": absolute(path),
                "recursive": None if recursive else 0,
                "include": ",".join(include) if include else None,
                "exclude": ",".join(exclude) if exclude else None,
            },
        )
        # All that happens while nobody listens would be missed, so it is not gone on with.
        follower = Follower(self._link.core, call, self._link.open, last=is_stopped, what="the watch", resumable=False)
        return AsyncStream(follower, read_watch_event)
