# SPDX-License-Identifier: Apache-2.0
"""Git, which runs in the sandbox: `network` has to allow the host."""

from __future__ import annotations

from typing import Mapping, Optional

from ._link import Link
from ._settings import absolute, given, milliseconds
from .types import Duration, GitCheckout, GitCommit, GitDiff, GitStatus


class Git:
    _link: Link

    async def git_checkout(
        self,
        repo_url: str,
        target_dir: Optional[str] = None,
        *,
        branch: Optional[str] = None,
        depth: Optional[int] = None,
        secret: Optional[str] = None,
        timeout: Optional[Duration] = None,
    ) -> GitCheckout:
        """Clones a repository, into /workspace/NAME unless told otherwise.

        secret: one of the sandbox's secrets, for a private repository. timeout: ten minutes unless given."""
        body = given(
            repoUrl=repo_url,
            targetDir=None if target_dir is None else absolute(target_dir),
            branch=branch,
            depth=depth,
            secret=secret,
            timeout=milliseconds(timeout),
        )
        return GitCheckout.read(await self._link.post("/git/checkout", body, once=True))

    async def git_status(self, path: str = ".") -> GitStatus:
        """Branch and changed files."""
        return GitStatus.read(await self._link.json("GET", "/git/status", query={"path": absolute(path)}))

    async def git_diff(self, path: str = ".") -> GitDiff:
        """All that is not committed, new files too, as one patch."""
        return GitDiff.read(await self._link.json("GET", "/git/diff", query={"path": absolute(path)}))

    async def git_commit(
        self,
        message: str,
        path: str = ".",
        *,
        author: Optional[Mapping[str, str]] = None,
        all: bool = True,
    ) -> GitCommit:
        """Commits all that git_status() lists; with all=False what is staged. author: {"name", "email"}."""
        body = given(message=message, path=absolute(path), author=author, all=None if all else False)
        return GitCommit.read(await self._link.post("/git/commit", body, once=True))
