# SPDX-License-Identifier: Apache-2.0
"""The same for threads: each method here runs the one of its name in `cay.aio` to its end."""

from __future__ import annotations

import functools
import ssl
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Coroutine,
    Generic,
    Iterator,
    List,
    Optional,
    Type,
    TypeVar,
    Union,
    overload,
)

from ._blocking import BlockingNet, run
from ._commands import AsyncSession
from ._files import AsyncPieces
from ._processes import AsyncProcess
from ._sandbox import AsyncSandbox, list_all, make_core
from ._stream import AsyncStream
from ._terminal import AsyncTerminal
from .types import ProcessInfo, ProcessStatus, SandboxInfo, TerminalExit

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
S = TypeVar("S", bound="Stream[Any]")

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

    class Method(Generic[P, R]):
        """With the parameters of a method elsewhere, but not its `self`."""

        def __get__(self, obj: Any, owner: Any = None) -> Callable[P, R]: ...


# -- making methods


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Method[P, R]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> R:
        return run(method(self._inner, *args, **kwargs))

    return call  # type: ignore[return-value]


def blocking_as(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, A]], wrap: Callable[[A], B]
) -> Method[P, B]:
    """`wrap` makes a thing for threads of what it returns."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> B:
        return wrap(run(method(self._inner, *args, **kwargs)))

    return call  # type: ignore[return-value]


def each(wrap: Callable[[A], B]) -> Callable[[List[A]], List[B]]:
    return lambda values: [wrap(value) for value in values]


# -- streams


class Stream(Generic[T]):
    """Events, for a loop. `with`, close(), and leaving the loop for good end it early. What it tells of goes on, unless the
    method that made it says otherwise."""

    def __init__(self, inner: Union[AsyncStream[T], AsyncPieces]) -> None:
        self._inner = inner

    def __iter__(self: S) -> S:
        return self

    def __next__(self) -> T:
        try:
            value: Any = run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        run(self._inner.aclose())

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # nobody is there to be told
            pass


def streaming(method: Callable[Concatenate[Any, P], AsyncStream[T]]) -> Method[P, Stream[T]]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Stream[T]:
        return Stream(method(self._inner, *args, **kwargs))

    return call  # type: ignore[return-value]


# -- handles


class Session:
    """A shell that stays. It, or its id, is what `session=` takes."""

    def __init__(self, inner: AsyncSession) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def id(self) -> str:
        return self._inner.id

    exec = blocking(AsyncSession.exec)
    exec_stream = streaming(AsyncSession.exec_stream)
    set_env_vars = blocking(AsyncSession.set_env_vars)
    delete = blocking(AsyncSession.delete)


class Process:
    """A program in the background. Its fields are as they were when somebody looked; `refresh()` looks again."""

    def __init__(self, inner: AsyncProcess) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def info(self) -> ProcessInfo:
        return self._inner.info

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def pid(self) -> int:
        """The number that it has in the sandbox."""
        return self._inner.pid

    @property
    def command(self) -> Union[str, List[str]]:
        return self._inner.command

    @property
    def status(self) -> ProcessStatus:
        return self._inner.status

    @property
    def exit_code(self) -> Optional[int]:
        """None while it runs."""
        return self._inner.exit_code

    @property
    def start_time(self) -> str:
        return self._inner.start_time

    @property
    def end_time(self) -> Optional[str]:
        return self._inner.end_time

    refresh = blocking(AsyncProcess.refresh)
    get_status = blocking(AsyncProcess.get_status)
    kill = blocking(AsyncProcess.kill)
    write_stdin = blocking(AsyncProcess.write_stdin)
    get_logs = blocking(AsyncProcess.get_logs)
    stream_logs = streaming(AsyncProcess.stream_logs)
    wait_for_exit = blocking(AsyncProcess.wait_for_exit)
    wait_for_log = blocking(AsyncProcess.wait_for_log)
    wait_for_port = blocking(AsyncProcess.wait_for_port)


def _process_or_none(inner: Optional[AsyncProcess]) -> Optional[Process]:
    return None if inner is None else Process(inner)


class Terminal:
    """A terminal that is open: its bytes by recv() or a loop, send(), resize(), close(). One thread may read while another
    writes. A connection that breaks is made again, and goes on behind the last byte that came. Closing it leaves its
    program running, for the next who opens it."""

    def __init__(self, inner: AsyncTerminal) -> None:
        self._inner = inner

    @property
    def session(self) -> str:
        return self._inner.session

    @property
    def process(self) -> str:
        """The id of its process."""
        return self._inner.process

    @property
    def exit(self) -> Optional[TerminalExit]:
        """How its program ended, when it has."""
        return self._inner.exit

    send = blocking(AsyncTerminal.send)
    recv = blocking(AsyncTerminal.recv)
    resize = blocking(AsyncTerminal.resize)
    close = blocking(AsyncTerminal.close)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.recv, b"")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# -- sandboxes


class Sandbox:
    """An isolated Linux environment. get_sandbox() is the way to one, and takes its settings."""

    def __init__(self, inner: Union[AsyncSandbox, str, None] = None) -> None:
        self._inner: AsyncSandbox = inner if isinstance(inner, AsyncSandbox) else get_sandbox(inner)._inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def id(self) -> str:
        return self._inner.id

    # commands
    exec = blocking(AsyncSandbox.exec)
    exec_stream = streaming(AsyncSandbox.exec_stream)
    set_env_vars = blocking(AsyncSandbox.set_env_vars)
    create_session = blocking_as(AsyncSandbox.create_session, Session)
    list_sessions = blocking(AsyncSandbox.list_sessions)
    delete_session = blocking(AsyncSandbox.delete_session)

    # processes
    start_process = blocking_as(AsyncSandbox.start_process, Process)
    spawn = start_process
    list_processes = blocking_as(AsyncSandbox.list_processes, each(Process))
    get_process = blocking_as(AsyncSandbox.get_process, _process_or_none)
    is_process_running = blocking(AsyncSandbox.is_process_running)
    kill_process = blocking(AsyncSandbox.kill_process)
    kill_all_processes = blocking(AsyncSandbox.kill_all_processes)
    get_process_logs = blocking(AsyncSandbox.get_process_logs)
    stream_process_logs = streaming(AsyncSandbox.stream_process_logs)
    fetch = blocking(AsyncSandbox.fetch)

    # files
    write_file = blocking(AsyncSandbox.write_file)
    read_bytes = blocking(AsyncSandbox.read_bytes)
    delete_file = blocking(AsyncSandbox.delete_file)
    mkdir = blocking(AsyncSandbox.mkdir)
    move_file = blocking(AsyncSandbox.move_file)
    rename_file = move_file
    copy_file = blocking(AsyncSandbox.copy_file)
    chmod = blocking(AsyncSandbox.chmod)
    stat = blocking(AsyncSandbox.stat)
    exists = blocking(AsyncSandbox.exists)
    list_files = blocking(AsyncSandbox.list_files)
    readdir = blocking(AsyncSandbox.readdir)
    search_files = blocking(AsyncSandbox.search_files)
    watch = streaming(AsyncSandbox.watch)

    @overload
    def read_file(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str: ...

    @overload
    def read_file(self, path: str, *, encoding: None) -> bytes: ...

    def read_file(
        self, path: str, *, encoding: Optional[str] = "utf-8", errors: str = "strict"
    ) -> Union[str, bytes]:
        """A file's text; with encoding=None its bytes."""
        data = self.read_bytes(path)
        return data if encoding is None else data.decode(encoding, errors)

    def read_file_stream(self, path: str) -> Stream[bytes]:
        """A file's bytes as they come, for one that is too large to have at once."""
        return Stream(self._inner.read_file_stream(path))

    # git
    git_checkout = blocking(AsyncSandbox.git_checkout)
    git_status = blocking(AsyncSandbox.git_status)
    git_diff = blocking(AsyncSandbox.git_diff)
    git_commit = blocking(AsyncSandbox.git_commit)

    # code
    create_code_context = blocking(AsyncSandbox.create_code_context)
    list_code_contexts = blocking(AsyncSandbox.list_code_contexts)
    get_code_context = blocking(AsyncSandbox.get_code_context)
    delete_code_context = blocking(AsyncSandbox.delete_code_context)
    interrupt_code_context = blocking(AsyncSandbox.interrupt_code_context)
    restart_code_context = blocking(AsyncSandbox.restart_code_context)
    list_languages = blocking(AsyncSandbox.list_languages)
    run_code = blocking(AsyncSandbox.run_code)
    run_code_stream = streaming(AsyncSandbox.run_code_stream)

    # ports and terminals
    expose_port = blocking(AsyncSandbox.expose_port)
    unexpose_port = blocking(AsyncSandbox.unexpose_port)
    get_exposed_ports = blocking(AsyncSandbox.get_exposed_ports)
    is_port_exposed = blocking(AsyncSandbox.is_port_exposed)
    terminal = blocking_as(AsyncSandbox.terminal, Terminal)
    list_terminals = blocking(AsyncSandbox.list_terminals)
    delete_terminal = blocking(AsyncSandbox.delete_terminal)

    # state
    snapshot = blocking(AsyncSandbox.snapshot)
    list_snapshots = blocking(AsyncSandbox.list_snapshots)
    delete_snapshot = blocking(AsyncSandbox.delete_snapshot)
    rollback = blocking(AsyncSandbox.rollback)
    create_backup = blocking(AsyncSandbox.create_backup)
    list_backups = blocking(AsyncSandbox.list_backups)
    restore_backup = blocking(AsyncSandbox.restore_backup)
    delete_backup = blocking(AsyncSandbox.delete_backup)
    sync = blocking(AsyncSandbox.sync)
    get_sync_status = blocking(AsyncSandbox.get_sync_status)

    # its life
    wake = blocking(AsyncSandbox.wake)
    sleep = blocking(AsyncSandbox.sleep)
    info = blocking(AsyncSandbox.info)
    stats = blocking(AsyncSandbox.stats)
    configure = blocking(AsyncSandbox.configure)
    set_sleep_after = blocking(AsyncSandbox.set_sleep_after)
    set_keep_alive = blocking(AsyncSandbox.set_keep_alive)
    set_labels = blocking(AsyncSandbox.set_labels)
    destroy = blocking(AsyncSandbox.destroy)

    def get_session(self, id: str) -> Session:
        """One that is there; whether it is shows with its first command."""
        return Session(self._inner.get_session(id))

    def fork(self, id: Optional[str] = None, *, snapshot: Any = None) -> Sandbox:
        """Another sandbox with its files, environment and sessions, or with those of a snapshot."""
        return Sandbox(run(self._inner.fork(id, snapshot=snapshot)))

    def fork_many(self, count: int, prefix: Optional[str] = None, *, snapshot: Any = None) -> List[Sandbox]:
        """Several at once, all of the same instant. Their ids are `prefix` and a number."""
        return [Sandbox(one) for one in run(self._inner.fork_many(count, prefix, snapshot=snapshot))]

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.destroy()


def _way_in(make: Callable[P, AsyncSandbox]) -> Callable[P, Sandbox]:
    @functools.wraps(make, assigned=("__module__", "__doc__"), updated=())
    def get_sandbox(
        id: Optional[str] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        retries: Optional[int] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        **settings: Any,
    ) -> Sandbox:
        core = make_core(BlockingNet, url, token, retries, ssl_context)
        return Sandbox(AsyncSandbox(id, _core=core, **settings))

    return get_sandbox  # type: ignore[return-value]


get_sandbox = _way_in(AsyncSandbox)


def list_sandboxes(
    *,
    label: Optional[str] = None,
    status: Optional[str] = None,
    url: Optional[str] = None,
    token: Optional[str] = None,
) -> List[SandboxInfo]:
    """All that the token may see, by id. label: NAME or NAME=VALUE. status: "running" or "sleeping"."""
    return run(list_all(make_core(BlockingNet, url, token, None, None), label, status))
