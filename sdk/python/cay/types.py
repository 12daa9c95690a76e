# SPDX-License-Identifier: Apache-2.0
"""What goes in and comes out, where it has no methods that ask the server. Times are seconds, sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Dict, List, Literal, Mapping, Match, Optional, Protocol, Sequence, Union

from ._answer import Answer, decode
from .errors import CommandFailedError

__all__ = [
    "Backup",
    "CodeCompleteEvent",
    "CodeContext",
    "CodeError",
    "CodeErrorEvent",
    "CodeEvent",
    "CodeOutputEvent",
    "CodeResultEvent",
    "CodeStartEvent",
    "Command",
    "CompleteEvent",
    "Duration",
    "EndReason",
    "ExecEvent",
    "ExecResult",
    "Execution",
    "ExitEvent",
    "ExposedPort",
    "FileInfo",
    "GapEvent",
    "GitCheckout",
    "GitCommit",
    "GitDiff",
    "GitFile",
    "GitStatus",
    "HasId",
    "HttpResponse",
    "Language",
    "LogEvent",
    "LogLine",
    "Logs",
    "Network",
    "OutputEvent",
    "ProcessInfo",
    "ProcessLogs",
    "ProcessStatus",
    "Ref",
    "Result",
    "SandboxInfo",
    "SessionInfo",
    "Size",
    "Snapshot",
    "StartEvent",
    "StreamName",
    "SyncResult",
    "SyncStatus",
    "TerminalExit",
    "User",
    "WatchEvent",
    "WrittenFile",
]

Duration = Union[float, str, timedelta]
"""Seconds, a timedelta, or a text with a unit: "500ms", "1.5s", "2m"."""
Size = Union[int, str]
"""Bytes, or a text such as "64m", "1.5g"."""
Network = Union[str, Dict[str, Any]]
""" "none", "internet", or {"allow": ["api.example.com", "*.pypi.org:443"]}."""
User = Union[str, int]
""" "root" (the default), "user" (1000), a user id, or "33:33"."""
Command = Union[str, Sequence[str]]
"""A line for a shell; or a program and its arguments, without a shell."""
EndReason = Literal["exit", "signal", "timeout", "killed", "oom", "box_lost"]
StreamName = Literal["stdout", "stderr"]


class HasId(Protocol):
    """Whatever has an id stands for it."""

    @property
    def id(self) -> str: ...


Ref = Union[str, HasId]


def id_of(ref: Ref) -> str:
    return ref if isinstance(ref, str) else ref.id


# -- sandboxes


@dataclass
class SandboxInfo(Answer):
    id: str = ""
    slug: str = ""
    status: Literal["running", "sleeping", "destroying"] = "running"
    image: str = ""
    limits: Dict[str, float] = field(default_factory=dict)  # memory, disk, pids, cpus
    labels: Dict[str, str] = field(default_factory=dict)
    user_id: Optional[str] = None
    network: Network = "none"
    secrets: List[str] = field(default_factory=list)
    languages: List[str] = field(default_factory=list)
    sleep_after: float = 0
    destroy_after: Optional[float] = None
    archive_after: Optional[float] = None
    budget: Dict[str, Any] = field(default_factory=dict)
    keep_alive: bool = False
    ephemeral: bool = False
    durable: bool = False
    sync: bool = False
    archived: bool = False
    box: Optional[int] = None  # the number of the box that runs for it; None while it sleeps
    boxes: int = 0
    created_at: str = ""
    updated_at: str = ""
    last_active_at: str = ""
    workspace_synced_at: Optional[str] = None
    ports: List[Dict[str, Any]] = field(default_factory=list)
    stats: Optional[Dict[str, Any]] = None
    git: Optional[Dict[str, Any]] = None


# -- commands


@dataclass
class ExecResult(Answer):
    """How a command ended and what it wrote."""

    success: bool = False  # whether the exit code is 0
    exit_code: int = -1  # as a shell says it: 124 when its time was up, 128 and the signal, 137 when memory ran out
    stdout: str = ""  # what was not UTF-8 is U+FFFD; stdout_bytes has it as it was
    stderr: str = ""
    reason: EndReason = "exit"
    signal: Optional[int] = None
    limits_hit: List[str] = field(default_factory=list)
    truncated: bool = False  # there was more than is kept
    duration: float = 0
    cpu: Optional[float] = None  # not known of a command in a session
    peak_memory: Optional[int] = None
    command: Union[str, List[str]] = ""
    timestamp: str = ""
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)

    @classmethod
    def read(cls, body: Mapping[str, Any], **more: Any) -> ExecResult:
        encoding = body.get("encoding")
        for name in ("stdout", "stderr"):
            if name in body:
                data = decode(body[name], encoding)
                more.setdefault(f"{name}_bytes", data)
                more.setdefault(name, body[name] if encoding is None else data.decode(errors="replace"))
        return super().read(body, **more)

    def check(self) -> ExecResult:
        """Itself, or CommandFailedError when the command has failed."""
        if not self.success:
            raise CommandFailedError(self)
        return self


@dataclass
class StartEvent(Answer):
    process_id: Optional[str] = None
    pid: Optional[int] = None
    timestamp: str = ""
    type: Literal["start"] = "start"


@dataclass
class OutputEvent(Answer):
    """A piece of what was written; characters are never cut."""

    type: StreamName = "stdout"
    data: str = ""
    data_bytes: bytes = field(default=b"", repr=False)
    offset: int = 0  # of its first byte in the stream


@dataclass
class GapEvent(Answer):
    """The middle of a long log was given up for room."""

    stream: StreamName = "stdout"
    from_offset: int = 0
    to_offset: int = 0
    type: Literal["gap"] = "gap"


@dataclass
class CompleteEvent(Answer):
    """The last event of a command."""

    success: bool = False
    exit_code: int = -1
    reason: EndReason = "exit"
    signal: Optional[int] = None
    limits_hit: List[str] = field(default_factory=list)
    truncated: bool = False
    duration: float = 0
    cpu: Optional[float] = None
    peak_memory: Optional[int] = None
    timestamp: str = ""
    type: Literal["complete"] = "complete"


@dataclass
class ExitEvent(Answer):
    """The last event of a process's log."""

    process_id: str = ""
    success: bool = False
    exit_code: int = -1
    reason: EndReason = "exit"
    signal: Optional[int] = None
    limits_hit: List[str] = field(default_factory=list)
    duration: float = 0
    timestamp: str = ""
    type: Literal["exit"] = "exit"


ExecEvent = Union[StartEvent, OutputEvent, GapEvent, CompleteEvent]
LogEvent = Union[OutputEvent, GapEvent, ExitEvent]


@dataclass
class SessionInfo(Answer):
    id: str = ""
    cwd: str = ""
    running: bool = False
    created_at: str = ""
    last_used_at: str = ""


# -- processes

ProcessStatus = Literal["running", "completed", "failed", "killed", "error"]


@dataclass
class ProcessInfo(Answer):
    """A process, as it was when somebody looked."""

    id: str = ""
    pid: int = 0
    command: Union[str, List[str]] = ""
    cwd: str = ""
    keep_awake: bool = False
    success: Optional[bool] = None
    exit_code: Optional[int] = None  # None while it runs
    signal: Optional[int] = None
    reason: Optional[EndReason] = None
    limits_hit: List[str] = field(default_factory=list)
    started_at: str = ""
    ended_at: Optional[str] = None
    status: ProcessStatus = "running"

    @classmethod
    def read(cls, body: Mapping[str, Any], **more: Any) -> ProcessInfo:
        return super().read(body, status=status_of(body), **more)


def status_of(process: Mapping[str, Any]) -> ProcessStatus:
    reason = process.get("reason")
    if process.get("status") == "running":
        return "running"
    if process.get("success"):
        return "completed"
    if reason == "box_lost":
        return "error"
    return "failed" if reason == "exit" else "killed"


@dataclass
class ProcessLogs:
    stdout: str
    stderr: str
    process_id: str
    truncated: bool  # the middle was given up for room


@dataclass
class LogLine:
    line: str
    match: Optional[Match[str]] = None  # where a compiled pattern was waited for


# -- files


@dataclass
class WrittenFile(Answer):
    path: str = ""
    size: int = 0
    etag: str = ""
    created: bool = False


@dataclass
class FileInfo(Answer):
    name: str = ""
    path: str = ""
    type: Literal["file", "directory", "symlink", "other"] = "file"
    size: int = 0
    mode: str = ""  # octal: "0644"
    uid: int = 0
    gid: int = 0
    mtime: str = ""
    target: Optional[str] = None  # where a link leads
    etag: Optional[str] = None  # of stat() alone


@dataclass
class WatchEvent(Answer):
    """`type` is "watching" (from now on nothing is missed), "event", "overflow" (there was more than could be told: look
    at all of it again), "error" or "stopped"."""

    type: Literal["watching", "event", "overflow", "error", "stopped"] = "event"
    event_type: Optional[Literal["create", "modify", "delete", "move_from", "move_to", "attrib"]] = None
    path: str = ""
    is_directory: bool = False
    cookie: Optional[int] = None  # the same for the two halves of a move
    timestamp: str = ""
    watch_id: Optional[str] = None
    message: Optional[str] = None
    reason: Optional[str] = None
    error: Optional[str] = None


# -- git


@dataclass
class GitCheckout(Answer):
    success: bool = True
    repo_url: str = ""
    branch: Optional[str] = None
    target_dir: str = ""
    commit: str = ""
    duration: float = 0


@dataclass
class GitFile(Answer):
    path: str = ""
    status: str = ""
    old_path: Optional[str] = None
    index: Optional[str] = None
    worktree: Optional[str] = None


@dataclass
class GitStatus(Answer):
    path: str = ""
    branch: Optional[str] = None
    commit: Optional[str] = None
    upstream: Optional[str] = None
    ahead: int = 0
    behind: int = 0
    clean: bool = True
    files: List[GitFile] = field(default_factory=list)
    truncated: bool = False

    @classmethod
    def read(cls, body: Mapping[str, Any], **more: Any) -> GitStatus:
        return super().read(body, files=[GitFile.read(f) for f in body.get("files", [])], **more)


@dataclass
class GitDiff(Answer):
    path: str = ""
    diff: str = ""
    diff_bytes: bytes = field(default=b"", repr=False)
    files: List[GitFile] = field(default_factory=list)
    truncated: bool = False

    @classmethod
    def read(cls, body: Mapping[str, Any], **more: Any) -> GitDiff:
        data = decode(body.get("diff", ""), body.get("encoding"))
        files = [GitFile.read(f) for f in body.get("files", [])]
        return super().read(body, diff=data.decode(errors="replace"), diff_bytes=data, files=files, **more)


@dataclass
class GitCommit(Answer):
    path: str = ""
    commit: str = ""
    branch: Optional[str] = None


# -- code


@dataclass
class CodeContext(Answer):
    """An interpreter that stays; its id, or itself, is what `run_code(context=...)` takes."""

    id: str = ""
    language: str = ""
    cwd: str = ""
    status: Literal["starting", "idle", "busy", "dead"] = "idle"
    reason: Optional[str] = None  # of a dead one: how it ended
    detail: Optional[str] = None
    execution_count: int = 0
    queued: int = 0
    is_default: bool = False
    pid: Optional[int] = None
    created_at: str = ""
    last_used: str = ""


@dataclass
class CodeError(Answer):
    name: str = ""
    message: str = ""
    traceback: List[str] = field(default_factory=list)
    line_number: Optional[int] = None


FORMS = ("text", "html", "markdown", "svg", "latex", "javascript", "png", "jpeg", "json", "chart", "data")


@dataclass
class Result(Answer):
    """A value in every form that it has. `type` is "result" for the value of the last expression, "display" for what
    was shown on the way."""

    type: Literal["result", "display"] = "result"
    text: Optional[str] = None
    html: Optional[str] = field(default=None, repr=False)
    markdown: Optional[str] = None
    svg: Optional[str] = field(default=None, repr=False)
    latex: Optional[str] = None
    javascript: Optional[str] = None
    png: Optional[str] = field(default=None, repr=False)  # base64
    jpeg: Optional[str] = field(default=None, repr=False)  # base64
    json: Any = None
    chart: Optional[Dict[str, Any]] = field(default=None, repr=False)
    data: Optional[Dict[str, Any]] = None
    metadata: Optional[Dict[str, Any]] = None

    def formats(self) -> List[str]:
        """The names of the forms that it has."""
        return [name for name in FORMS if name in self.raw]


@dataclass
class Logs:
    stdout: List[str] = field(default_factory=list)
    stderr: List[str] = field(default_factory=list)


@dataclass
class Execution(Answer):
    """What became of a cell."""

    code: str = ""
    logs: Logs = field(default_factory=Logs)
    results: List[Result] = field(default_factory=list)
    error: Optional[CodeError] = None
    success: bool = False
    reason: str = "done"
    execution_count: Optional[int] = None
    duration: float = 0
    id: str = ""
    context: Optional[str] = None
    language: str = ""
    truncated: bool = False
    context_died: bool = False  # the interpreter has ended, with all it knew
    message: Optional[str] = None

    @property
    def text(self) -> Optional[str]:
        """The value of the last expression, as the language prints it."""
        texts = [r.text for r in self.results if r.type == "result"]
        return texts[-1] if texts else None

    @classmethod
    def read(cls, body: Mapping[str, Any], **more: Any) -> Execution:
        more["logs"] = Logs(**body.get("logs") or {})
        more["results"] = [Result.read(r) for r in body.get("results") or []]
        more["error"] = CodeError.read(body["error"]) if body.get("error") else None
        return super().read(body, **more)


@dataclass
class CodeStartEvent(Answer):
    id: str = ""
    context: Optional[str] = None
    language: str = ""
    type: Literal["start"] = "start"


@dataclass
class CodeOutputEvent(Answer):
    type: StreamName = "stdout"
    text: str = ""


@dataclass
class CodeResultEvent(Answer):
    type: Literal["result", "display"] = "result"
    result: Result = field(default_factory=Result)


@dataclass
class CodeErrorEvent(Answer):
    error: CodeError = field(default_factory=CodeError)
    type: Literal["error"] = "error"


@dataclass
class CodeCompleteEvent(Answer):
    """The last event of a cell."""

    success: bool = False
    reason: str = "done"
    execution_count: Optional[int] = None
    duration: float = 0
    truncated: bool = False
    context_died: bool = False
    message: Optional[str] = None
    type: Literal["execution_complete"] = "execution_complete"


CodeEvent = Union[CodeStartEvent, CodeOutputEvent, CodeResultEvent, CodeErrorEvent, CodeCompleteEvent]


@dataclass
class Language(Answer):
    name: str = ""
    aliases: List[str] = field(default_factory=list)
    available: bool = False
    stateful: bool = False  # it has contexts
    version: Optional[str] = None
    package: Optional[str] = None  # Debian's, of one that is missing
    libraries: Dict[str, str] = field(default_factory=dict)


# -- ports, state


@dataclass
class ExposedPort(Answer):
    url: str = ""
    port: int = 0
    name: Optional[str] = None
    token: str = ""
    path: str = ""  # the same under the API's own address
    created_at: str = ""


@dataclass
class HttpResponse:
    """What a program in the sandbox answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


@dataclass
class Snapshot(Answer):
    id: str = ""
    name: Optional[str] = None
    bytes: int = 0
    created_at: str = ""


@dataclass
class Backup(Answer):
    id: str = ""
    sandbox_id: str = ""
    kind: str = ""
    name: Optional[str] = None
    dir: Optional[str] = None
    image: Optional[str] = None
    state: str = ""
    size: int = 0
    bytes: int = 0
    entries: int = 0
    sha256: str = ""
    created_at: str = ""
    expires_at: Optional[str] = None


@dataclass
class SyncResult(Answer):
    files: int = 0
    bytes: int = 0
    put: int = 0
    put_bytes: int = 0
    deleted: int = 0
    duration: float = 0
    warning: Optional[str] = None


@dataclass
class SyncStatus(Answer):
    state: Literal["never", "running", "done", "failed"] = "never"
    synced_at: Optional[str] = None
    files: int = 0
    bytes: int = 0
    error: Optional[str] = None
    warning: Optional[str] = None
    retry_at: Optional[str] = None


@dataclass
class TerminalExit(Answer):
    code: int = -1
    signal: Optional[str] = None  # such as "SIGKILL"
    reason: str = ""
