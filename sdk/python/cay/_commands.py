# SPDX-License-Identifier: Apache-2.0
"""Commands, and shells that stay."""

from __future__ import annotations

import json
import shlex
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from ._answer import decode
from ._client import new_key
from ._link import Link
from ._settings import absolute, given, milliseconds, texts
from ._sse import ServerEvent
from ._stream import AsyncStream, Follower, Replay, named
from .errors import ConflictError
from .types import (
    Command,
    CompleteEvent,
    Duration,
    ExecEvent,
    ExecResult,
    GapEvent,
    OutputEvent,
    Ref,
    SessionInfo,
    StartEvent,
    User,
    id_of,
)

OnOutput = Callable[[str, str], Any]
"""Called with "stdout" or "stderr" and a piece of text."""


def command_of(command: Command) -> Dict[str, Any]:
    return {"command": command} if isinstance(command, str) else {"argv": list(command)}


def input_of(stdin: Union[str, bytes, None]) -> Optional[str]:
    if not isinstance(stdin, bytes):
        return stdin
    try:
        return stdin.decode()
    except UnicodeDecodeError:
        raise ValueError("stdin: bytes that are no text: write_file() them, and read them from there") from None


def read_output(event: ServerEvent, body: Mapping[str, Any]) -> OutputEvent:
    data = decode(body["data"], body.get("encoding"))
    return OutputEvent.read(body, type=event.name, data=data.decode(errors="replace"), data_bytes=data)


def read_exec_event(event: ServerEvent) -> Optional[ExecEvent]:
    body = json.loads(event.data)
    if event.name == "start":
        return StartEvent.read(body)
    if event.name in ("stdout", "stderr"):
        return read_output(event, body)
    if event.name == "gap":
        return GapEvent.read(body)
    return CompleteEvent.read(body) if event.name == "exit" else None  # one of a later version


class Commands:
    """Running commands."""

    _link: Link

    def _command(
        self,
        command: Command,
        session: Optional[Ref],
        cwd: Optional[str],
        env: Optional[Mapping[str, Any]],
        timeout: Optional[Duration],
        user: Optional[User],
        stdin: Union[str, bytes, None],
    ) -> Dict[str, Any]:
        own = texts(env)
        if session is None and self._link.env:  # a session has had them from its beginning
            own = {**self._link.env, **(own or {})}
        return {
            **command_of(command),
            **given(
                session=None if session is None else id_of(session),
                cwd=None if cwd is None else absolute(cwd),
                env=own,
                timeout=milliseconds(timeout),
                user=user,
                stdin=input_of(stdin),
            ),
        }

    async def exec(
        self,
        command: Command,
        *,
        session: Optional[Ref] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        user: Optional[User] = None,
        stdin: Union[str, bytes, None] = None,
        on_output: Optional[OnOutput] = None,
        check: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> ExecResult:
        """Runs a command and waits for its end. A command that fails is a result, unless `check` is given.

        command: a line for a shell, or a list of a program and its arguments, without a shell.
        session: in this session's shell, with its directory and variables; otherwise in a new one.
        timeout: seconds, or a text such as "2m"; then all of it is killed, and the exit code is 124.
        stdin: what it reads from standard input; nothing unless given.
        on_output: is called with "stdout" or "stderr" and each piece as it is written; in a session, at the end.
        check: CommandFailedError when it fails.
        idempotency_key: a command that is asked for twice with the same one is run once. One is made up for each call,
        so that a broken connection is no reason to run it again, nor to end it."""
        body = self._command(command, session, cwd, env, timeout, user, stdin)
        key = idempotency_key or self._link.core.key()
        if on_output is None or session is not None:
            result = ExecResult.read(await self._link.json("POST", "/exec", json=body, key=key))
            if on_output is not None:
                for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
                    if text:
                        await self._link.core.net.call(on_output, name, text)
        else:
            result = await self._gather_output(self._stream_output(body, key), command, on_output)
        return result.check() if check else result

    async def _gather_output(self, stream: AsyncStream[ExecEvent], command: Command, on_output: OnOutput) -> ExecResult:
        pieces: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        holes = False
        async with stream:
            async for event in stream:
                if isinstance(event, OutputEvent):
                    pieces[event.type].append(event.data_bytes)
                    await self._link.core.net.call(on_output, event.type, event.data)
                elif isinstance(event, CompleteEvent):
                    out, err = b"".join(pieces["stdout"]), b"".join(pieces["stderr"])
                    return ExecResult.read(
                        event.raw,
                        command=command if isinstance(command, str) else list(command),
                        stdout=out.decode(errors="replace"),
                        stderr=err.decode(errors="replace"),
                        stdout_bytes=out,
                        stderr_bytes=err,
                        truncated=holes or event.truncated,
                    )
                else:
                    holes = holes or isinstance(event, GapEvent)
        raise AssertionError("a stream that ends without its last event raises")

    def exec_stream(
        self,
        command: Command,
        *,
        session: Optional[Ref] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        user: Optional[User] = None,
        stdin: Union[str, bytes, None] = None,
        idempotency_key: Optional[str] = None,
    ) -> AsyncStream[ExecEvent]:
        """Runs a command and tells what it writes as it does: StartEvent, OutputEvent, CompleteEvent. The command begins
        with the first event that is asked for. A connection that breaks is made again; leaving early ends the command. In
        a session the events come when the command is over."""
        body = self._command(command, session, cwd, env, timeout, user, stdin)
        key = idempotency_key or self._link.core.key()
        return self._stream_output(body, key) if session is None else self._stream_in_session(body, key)

    def _stream_output(self, body: Dict[str, Any], key: Optional[str]) -> AsyncStream[ExecEvent]:
        link, started = self._link, [""]
        call = link.call("POST", "/exec", json=body, key=key)
        follower = Follower(link.core, call, link.open, last=named("exit"), what="the output of the command")

        def read(event: ServerEvent) -> Optional[ExecEvent]:
            value = read_exec_event(event)
            if isinstance(value, StartEvent):
                if started[0]:
                    return None  # told again by a new connection
                started[0] = value.process_id or ""
            return value

        async def end() -> None:
            if started[0]:
                await link.remove(f"/processes/{started[0]}")

        return AsyncStream(follower, read, end)

    def _stream_in_session(self, body: Dict[str, Any], key: Optional[str]) -> AsyncStream[ExecEvent]:
        async def work() -> List[ServerEvent]:
            result = await self._link.json("POST", "/exec", json=body, key=key)
            events = [ServerEvent(None, "start", json.dumps({"timestamp": result["timestamp"]}))]
            for name in ("stdout", "stderr"):
                if result[name]:
                    piece = {"data": result[name], "encoding": result.get("encoding"), "offset": 0}
                    events.append(ServerEvent(None, name, json.dumps(piece)))
            return [*events, ServerEvent(None, "exit", json.dumps(result))]

        return AsyncStream(Replay(work), read_exec_event)

    async def set_env_vars(self, variables: Mapping[str, Any]) -> None:
        """Variables of everything that is started through this object from now on: commands, processes, sessions, code.
        None removes one. (`env` of get_sandbox() and update() is the sandbox's own, for everybody.)"""
        for name, value in variables.items():
            if value is None:
                self._link.env.pop(name, None)
            else:
                self._link.env[name] = str(value)

    # -- sessions

    async def create_session(
        self, id: Optional[str] = None, *, cwd: Optional[str] = None, env: Optional[Mapping[str, Any]] = None
    ) -> AsyncSession:
        """A shell that stays: its directory, variables and functions are there for the next command."""
        name = id or f"session-{new_key()[:16]}"
        own = {**self._link.env, **(texts(env) or {})}
        body = {"id": name, **given(cwd=None if cwd is None else absolute(cwd), env=own or None)}
        try:
            # Nobody else has a name that was just made up, so that it can be asked for twice.
            await self._link.post("/sessions", body, repeatable=id is None)
        except ConflictError:
            if id is not None:
                raise
        return AsyncSession(self, name)

    def get_session(self, id: str) -> AsyncSession:
        """One that is there; whether it is shows with its first command."""
        return AsyncSession(self, id)

    async def list_sessions(self) -> List[SessionInfo]:
        return [SessionInfo.read(s) for s in (await self._link.look("/sessions"))["sessions"]]

    async def delete_session(self, session: Ref) -> None:
        """Ends its shell and all that runs in it."""
        await self._link.json("DELETE", f"/sessions/{id_of(session)}", first=False)


class AsyncSession:
    """A shell that stays. It, or its id, is what `session=` takes."""

    def __init__(self, commands: Commands, id: str) -> None:
        self._commands = commands
        self.id = id

    def __repr__(self) -> str:
        return f"<session {self.id!r}>"

    async def exec(
        self,
        command: str,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        stdin: Union[str, bytes, None] = None,
        on_output: Optional[OnOutput] = None,
        check: bool = False,
    ) -> ExecResult:
        """Runs a command in it. `cwd` and `env` are for this command alone."""
        return await self._commands.exec(
            command, session=self, cwd=cwd, env=env, timeout=timeout, stdin=stdin, on_output=on_output, check=check
        )

    def exec_stream(
        self,
        command: str,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        stdin: Union[str, bytes, None] = None,
    ) -> AsyncStream[ExecEvent]:
        """The same as events, which come when the command is over."""
        return self._commands.exec_stream(command, session=self, cwd=cwd, env=env, timeout=timeout, stdin=stdin)

    async def set_env_vars(self, variables: Mapping[str, Any]) -> None:
        """Exports variables to all later commands in it; None removes one."""
        lines = [
            f"unset -v {shlex.quote(name)}" if value is None else f"export {shlex.quote(name)}={shlex.quote(str(value))}"
            for name, value in variables.items()
        ]
        if lines:
            await self.exec(" && ".join(lines), check=True)

    async def delete(self) -> None:
        """Ends its shell and all that runs in it."""
        await self._commands.delete_session(self)
