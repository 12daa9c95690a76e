# SPDX-License-Identifier: Apache-2.0
"""Programs that go on by themselves."""

from __future__ import annotations

import codecs
import json
import re
import time
from typing import Any, Dict, List, Mapping, Optional, Pattern, Tuple, Union

from ._answer import decode
from ._client import Call, failure
from ._commands import command_of, read_output
from ._http import Exchange
from ._link import Link
from ._settings import absolute, given, in_seconds, milliseconds, texts
from ._sse import ServerEvent
from ._stream import AsyncStream, Follower, named
from .errors import BadGatewayError, CayError, ProcessExitedBeforeReadyError, ProcessNotFoundError, ProcessReadyTimeoutError
from .types import (
    Command,
    Duration,
    ExitEvent,
    GapEvent,
    HasId,
    HttpResponse,
    LogEvent,
    LogLine,
    OutputEvent,
    ProcessInfo,
    ProcessLogs,
    ProcessStatus,
    User,
)

ProcessRef = Union[str, int, HasId]
"""A process, its id, or the number that it has in the sandbox."""

WAIT_SECONDS = 50.0  # of one request that waits; then the next one does: proxies cut off what is quiet for long
PROBE_SECONDS = 0.2


def read_log_event(event: ServerEvent) -> Optional[LogEvent]:
    body = json.loads(event.data)
    if event.name in ("stdout", "stderr"):
        return read_output(event, body)
    if event.name == "gap":
        return GapEvent.read(body)
    return ExitEvent.read(body) if event.name == "exit" else None


def literal(text: str) -> str:
    """An extended regular expression for just this."""
    return re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", text)


class Deadline:
    def __init__(self, timeout: Optional[Duration]) -> None:
        self._end = None if timeout is None else time.monotonic() + in_seconds(timeout)

    def left(self) -> Optional[float]:
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def is_over(self) -> bool:
        return self.left() == 0.0


class Processes:
    """Starting and finding them."""

    _link: Link

    async def start_process(
        self,
        command: Command,
        *,
        process_id: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        user: Optional[User] = None,
        keep_awake: Optional[bool] = None,
        stdin: bool = False,
    ) -> AsyncProcess:
        """Starts a program in the background.

        keep_awake: the sandbox does not fall asleep while it runs.
        stdin: it can be written to; otherwise it reads the end of its input at once."""
        own = {**self._link.env, **(texts(env) or {})}
        body = {
            **command_of(command),
            **given(
                id=process_id,
                cwd=None if cwd is None else absolute(cwd),
                env=own or None,
                timeout=milliseconds(timeout),
                user=user,
                keepAwake=keep_awake,
                stdin=stdin,
            ),
        }
        return self._handle((await self._link.post("/processes", body, once=True))["process"])

    spawn = start_process

    def _handle(self, process: Mapping[str, Any]) -> AsyncProcess:
        return AsyncProcess(self._link, ProcessInfo.read(process))

    async def list_processes(self) -> List[AsyncProcess]:
        """Those that run and the newest that have ended."""
        return [self._handle(p) for p in (await self._link.look("/processes"))["processes"]]

    async def _find(self, process: ProcessRef) -> str:
        if isinstance(process, str):
            return process
        if not isinstance(process, int):
            return process.id
        for one in await self.list_processes():
            if one.pid == process and one.status == "running":
                return one.id
        raise ProcessNotFoundError(f"there is no process with the number {process}", status=404, code="NOT_FOUND")

    async def get_process(self, process: ProcessRef) -> Optional[AsyncProcess]:
        """None where there is none."""
        try:
            return self._handle((await self._link.look(f"/processes/{await self._find(process)}"))["process"])
        except ProcessNotFoundError:
            return None

    async def is_process_running(self, process: ProcessRef) -> bool:
        found = await self.get_process(process)
        return found is not None and found.status == "running"

    async def kill_process(self, process: ProcessRef, signal: Union[str, int] = "SIGTERM") -> None:
        """Sends a signal to all of its process group. One that has ended is left alone."""
        found = await self.get_process(process)
        if found is None:
            raise ProcessNotFoundError(f"there is no process '{process}'", status=404, code="NOT_FOUND")
        await found.kill(signal)

    async def kill_all_processes(self) -> int:
        """Ends all that run, at once, and says how many that were."""
        running = [p for p in await self.list_processes() if p.status == "running"]
        for process in running:
            await process.kill("SIGKILL")
        return len(running)

    async def get_process_logs(self, process: ProcessRef) -> ProcessLogs:
        """What it has written so far."""
        return await read_logs(self._link, await self._find(process))

    def stream_process_logs(self, process: Union[str, HasId]) -> AsyncStream[LogEvent]:
        """What it has written and writes, from the beginning until its end. Leaving early does not end it."""
        return stream_logs(self._link, process if isinstance(process, str) else process.id)

    async def fetch(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[bytes] = None,
    ) -> HttpResponse:
        """Asks a server that listens on a port in the sandbox, whatever status it answers with. BadGatewayError where
        nobody listens."""
        return await fetch(self._link, port, path, method, headers or {}, body)


async def fetch(
    link: Link, port: int, path: str, method: str, headers: Mapping[str, str], body: Optional[bytes]
) -> HttpResponse:
    call = link.call(method, f"/proxy/{port}/{path.lstrip('/')}", headers=dict(headers), body=body, any_status=True)
    call.repeatable = method in ("GET", "HEAD", "OPTIONS")

    async def read(exchange: Exchange) -> HttpResponse:
        data = await exchange.read()
        request_id = exchange.headers.get("x-request-id")
        error = failure(call, exchange, data) if exchange.status >= 400 and request_id is not None else None
        if error is not None and error.request_id == request_id and not error.code.startswith("HTTP_"):
            raise error  # Cay's own: whatever else there is, the program said
        return HttpResponse(exchange.status, exchange.headers, data)

    answer: HttpResponse = await link.use(lambda: link.core.send(call, read))
    return answer


async def read_logs(link: Link, id: str) -> ProcessLogs:
    pieces: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
    offset, more, truncated = "0.0", True, False
    while more:
        query = {"stream": "both", "offset": offset}
        headers = {"Accept": "application/json"}
        page = await link.json("GET", f"/processes/{id}/logs", first=False, query=query, headers=headers)
        for event in page["events"]:
            truncated = truncated or event.get("type") == "gap"
            if "data" in event:
                pieces[event["stream"]].append(decode(event["data"], event.get("encoding")))
        following = f"{page['nextOffset']['stdout']}.{page['nextOffset']['stderr']}"
        more, offset = bool(page["more"]) and following != offset, following
    out, err = (b"".join(pieces[name]).decode(errors="replace") for name in ("stdout", "stderr"))
    return ProcessLogs(out, err, id, truncated)


def stream_logs(link: Link, id: str) -> AsyncStream[LogEvent]:
    call = link.call("GET", f"/processes/{id}/logs", query={"stream": "both"})

    async def open_stream(call: Call) -> Any:
        return await link.open(call, first=False)

    follower = Follower(link.core, call, open_stream, last=named("exit"), what=f"the log of process '{id}'")
    return AsyncStream(follower, read_log_event)


class AsyncProcess:
    """A program in the background. Its fields are as they were when somebody looked; `refresh()` looks again."""

    def __init__(self, link: Link, info: ProcessInfo) -> None:
        self._link, self.info = link, info

    def __repr__(self) -> str:
        return f"<process {self.id!r} {self.status}>"

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def pid(self) -> int:
        """The number that it has in the sandbox."""
        return self.info.pid

    @property
    def command(self) -> Union[str, List[str]]:
        return self.info.command

    @property
    def status(self) -> ProcessStatus:
        return self.info.status

    @property
    def exit_code(self) -> Optional[int]:
        """None while it runs."""
        return self.info.exit_code

    @property
    def start_time(self) -> str:
        return self.info.started_at

    @property
    def end_time(self) -> Optional[str]:
        return self.info.ended_at

    @property
    def _path(self) -> str:
        return f"/processes/{self.id}"

    async def refresh(self) -> ProcessInfo:
        self.info = ProcessInfo.read((await self._link.look(self._path))["process"])
        return self.info

    async def get_status(self) -> ProcessStatus:
        return (await self.refresh()).status

    async def kill(self, signal: Union[str, int] = "SIGTERM") -> None:
        """Sends a signal to all of its process group. One that has ended is left alone."""
        try:
            # Two of a kind may mean something else to it than one; but for this one.
            twice = True if signal in ("SIGKILL", "KILL", 9) else None
            await self._link.json("POST", f"{self._path}/signal", first=False, json={"signal": signal}, repeatable=twice)
        except CayError:
            if (await self.refresh()).status == "running":
                raise

    async def write_stdin(self, data: Union[str, bytes], *, end: bool = False) -> None:
        """Writes to its standard input; `end` closes it then. It must have been started with stdin=True."""
        body = data.encode() if isinstance(data, str) else data
        headers = {"Content-Type": "application/octet-stream"}
        await self._link.json(
            "POST", f"{self._path}/stdin", first=False, query={"end": 1 if end else None}, body=body, headers=headers
        )

    async def get_logs(self) -> ProcessLogs:
        return await read_logs(self._link, self.id)

    def stream_logs(self) -> AsyncStream[LogEvent]:
        """What it has written and writes, until its end. Leaving early does not end it."""
        return stream_logs(self._link, self.id)

    # -- waiting

    async def _wait(self, what: Dict[str, Any], deadline: Deadline) -> Mapping[str, Any]:
        while True:
            left = deadline.left()
            limit = WAIT_SECONDS if left is None else min(left, WAIT_SECONDS)
            body = {**what, "timeout": milliseconds(limit)}
            answer: Mapping[str, Any] = await self._link.json(
                "POST", f"{self._path}/wait", first=False, json=body, repeatable=True
            )
            self.info = ProcessInfo.read(answer["process"])
            if not answer["timedOut"] or deadline.is_over():
                return answer

    def _not_ready(self, what: str, timed_out: bool, timeout: Optional[Duration]) -> CayError:
        if timed_out:
            return ProcessReadyTimeoutError(f"{what} of process '{self.id}' did not come within {timeout}", code="TIMEOUT")
        text = f"process '{self.id}' ended (exit code {self.exit_code}) before {what} came: get_logs() says what it wrote"
        return ProcessExitedBeforeReadyError(text, code="PROCESS_EXITED", details=dict(self.info.raw))

    async def wait_for_exit(self, timeout: Optional[Duration] = None) -> int:
        """Its exit code. ProcessReadyTimeoutError when it still runs then; it goes on."""
        answer = await self._wait({"exit": True}, Deadline(timeout))
        if answer["timedOut"]:
            raise self._not_ready("the end", True, timeout)
        assert self.exit_code is not None
        return self.exit_code

    async def wait_for_log(self, pattern: Union[str, Pattern[str]], timeout: Optional[Duration] = None) -> LogLine:
        """The first line of its output, from the beginning, that has this text, or in which a compiled pattern is
        found."""
        if not isinstance(pattern, str):
            return await self._wait_for_match(pattern, timeout)
        answer = await self._wait({"log": literal(pattern)}, Deadline(timeout))
        if answer["matched"] is None:
            raise self._not_ready(f"{pattern!r} in the output", answer["timedOut"], timeout)
        return LogLine(answer["line"])

    async def _wait_for_match(self, pattern: Pattern[str], timeout: Optional[Duration]) -> LogLine:
        """Python's patterns are not the server's: the log is looked through here."""
        deadline, seen = Deadline(timeout), LineReader()
        async with self.stream_logs() as events:
            while True:
                try:
                    event = await events.within(deadline.left())
                except (StopAsyncIteration, TimeoutError) as end:
                    await self.refresh()
                    what = f"{pattern.pattern!r} in the output"
                    raise self._not_ready(what, isinstance(end, TimeoutError), timeout) from None
                for line in seen.feed(event):
                    match = pattern.search(line)
                    if match is not None:
                        return LogLine(line, match)

    async def wait_for_port(
        self,
        port: int,
        *,
        mode: str = "http",
        path: str = "/",
        status: Union[int, Tuple[int, int]] = (200, 399),
        timeout: Optional[Duration] = None,
    ) -> None:
        """Waits until somebody listens on the port (`mode="tcp"`), or until a request to it is answered with one of these
        statuses."""
        if mode not in ("http", "tcp"):
            raise ValueError(f"mode: 'http' or 'tcp', not {mode!r}")
        deadline = Deadline(timeout)
        answer = await self._wait({"port": port}, deadline)
        if answer["matched"] is None:
            raise self._not_ready(f"a listener on port {port}", answer["timedOut"], timeout)
        low, high = (status, status) if isinstance(status, int) else status
        while mode == "http" and not await self._answers(port, path, low, high):
            if deadline.is_over():
                raise self._not_ready(f"a good answer on port {port}", True, timeout)
            if (await self.refresh()).status != "running":
                raise self._not_ready(f"a good answer on port {port}", False, timeout)
            await self._link.core.net.sleep(PROBE_SECONDS)

    async def _answers(self, port: int, path: str, low: int, high: int) -> bool:
        try:
            answer = await fetch(self._link, port, path, "GET", {}, None)
        except BadGatewayError:
            return False
        return low <= answer.status <= high


class LineReader:
    """Lines of both streams. The one that has not ended yet counts, too: a prompt has no line end."""

    def __init__(self) -> None:
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: make(errors="replace") for name in ("stdout", "stderr")}
        self._pending = {"stdout": "", "stderr": ""}

    def feed(self, event: LogEvent) -> List[str]:
        if not isinstance(event, OutputEvent):
            return []
        text = self._pending[event.type] + self._decoders[event.type].decode(event.data_bytes)
        lines = text.split("\n")
        self._pending[event.type] = lines[-1]
        return lines
