# SPDX-License-Identifier: Apache-2.0
"""The Python SDK against a real server: every method, for threads and for asyncio."""

import builtins
import io
import re
import threading

import pytest
from api_helpers import ADMIN
from python_helpers import Driven, Way, cay, numbers


@pytest.fixture(params=["threads", "asyncio"])
def way(request, server):
    made = Way(request.param, url=f"http://127.0.0.1:{server.port}", token=ADMIN)
    yield made
    made.close()


@pytest.fixture
def box(way):
    return way.sandbox()


# -- commands


def test_exec(box):
    done = box.exec("echo out; echo err >&2; exit 3")
    assert (done.success, done.exit_code, done.reason, done.stdout, done.stderr) == (False, 3, "exit", "out\n", "err\n")
    assert done.command == "echo out; echo err >&2; exit 3" and 0 < done.duration < 60 and done.raw["exitCode"] == 3
    with pytest.raises(cay.CommandFailedError, match="exit code 3.*err") as failed:
        box.exec("echo err >&2; exit 3", check=True)
    assert failed.value.result.exit_code == 3
    assert box.exec("true", check=True).check().success


def test_exec_options(box):
    assert box.exec(["printf", "%s|", "a b", "$HOME"]).stdout == "a b|$HOME|"
    assert box.exec("pwd", cwd="/tmp").stdout == "/tmp\n"
    assert box.exec("echo $A $B", env={"A": "1", "B": 2}).stdout == "1 2\n"
    assert box.exec("cat", stdin="hé").stdout == "hé"
    assert box.exec("cat", stdin="hé".encode()).stdout_bytes == "hé".encode()
    assert box.exec("id -u", user="user").stdout == "1000\n"
    late = box.exec("sleep 600", timeout=0.2)
    assert (late.success, late.exit_code, late.reason) == (False, 124, "timeout")
    assert box.exec("sleep 600", timeout="200ms").reason == "timeout"
    with pytest.raises(ValueError, match="no text"):
        box.exec("cat", stdin=b"\xff")


def test_output_that_is_no_text(box):
    done = box.exec(["printf", r"a\0\377"])
    assert done.stdout_bytes == b"a\0\xff" and done.stdout == "a\0�"


def test_output_as_it_comes(box):
    told = []
    done = box.exec("echo one; sleep 0.1; echo two >&2; exit 4", on_output=lambda *piece: told.append(piece))
    assert told == [("stdout", "one\n"), ("stderr", "two\n")]
    assert (done.exit_code, done.stdout, done.stderr, done.reason) == (4, "one\n", "two\n", "exit")
    assert done.command == "echo one; sleep 0.1; echo two >&2; exit 4"


def test_exec_stream(box):
    events = list(box.exec_stream("echo one; sleep 0.1; printf '\\377' >&2; exit 5"))
    assert [e.type for e in events] == ["start", "stdout", "stderr", "complete"]
    assert events[0].process_id and events[1].data == "one\n" and events[2].data_bytes == b"\xff"
    assert (events[3].exit_code, events[3].success) == (5, False)


def test_leaving_a_stream_ends_the_command(box):
    with box.exec_stream("echo started; sleep 600") as events:
        for event in events:
            if event.type == "stdout":
                break
    (process,) = box.list_processes()
    assert process.wait_for_exit(timeout=60) == 137
    assert not box.is_process_running(process.id)


def test_env_vars(box):
    box.set_env_vars({"STAGE": "dev", "OTHER": "x"})
    assert box.exec("echo $STAGE").stdout == "dev\n"
    assert box.exec("echo $STAGE", env={"STAGE": "own"}).stdout == "own\n"
    box.set_env_vars({"OTHER": None})
    session = box.create_session()
    assert session.exec("echo $STAGE $OTHER").stdout == "dev\n"
    assert box.run_code("import os; os.environ['STAGE']").text == "'dev'"
    box.start_process("echo $STAGE", process_id="env").wait_for_exit()
    assert box.get_process_logs("env").stdout == "dev\n"


# -- sessions


def test_sessions(box):
    session = box.create_session(cwd="/tmp", env={"A": "1"})
    session.exec("cd /var; export B=2; f() { echo fun; }")
    assert box.exec("pwd; echo $A $B; f", session=session).stdout == "/var\n1 2\nfun\n"
    assert box.exec("pwd", session=session.id).stdout == "/var\n"
    assert box.get_session(session.id).exec("pwd", cwd="/").stdout == "/\n"
    session.set_env_vars({"B": None, "C": "it's"})
    assert session.exec("echo $B$C").stdout == "it's\n"
    assert [s.id for s in box.list_sessions()] == [session.id]
    named = box.create_session("work")
    with pytest.raises(cay.ConflictError):
        box.create_session("work")
    named.delete()
    box.delete_session(session)
    assert box.list_sessions() == []
    with pytest.raises(cay.SessionNotFoundError):
        box.exec("true", session=session)


def test_session_output(box):
    session = box.create_session()
    told = []
    assert session.exec("echo a; echo b >&2", on_output=lambda *piece: told.append(piece)).success
    assert told == [("stdout", "a\n"), ("stderr", "b\n")]
    events = list(session.exec_stream("echo a; (exit 7)"))
    assert [(e.type, getattr(e, "data", None)) for e in events] == [("start", None), ("stdout", "a\n"), ("complete", None)]
    assert events[-1].exit_code == 7


def test_a_command_that_ends_its_shell(box):
    session = box.create_session()
    with pytest.raises(cay.SessionTerminatedError) as ended:
        session.exec("echo bye; exit 9")
    assert ended.value.exit_code == 9 and ended.value.result.stdout == "bye\n" and ended.value.status == 410
    assert session.exec("echo back").stdout == "back\n"


# -- processes


def test_processes(box):
    process = box.start_process("echo hello; echo oops >&2; sleep 600", process_id="one", cwd="/tmp", env={"A": "1"})
    assert process.id == "one" and process.status == "running" and process.pid > 0 and process.exit_code is None
    assert box.is_process_running(process) and box.is_process_running("one") and box.is_process_running(process.pid)
    assert process.wait_for_log("hello", timeout=60).line == "hello"
    found = process.wait_for_log(re.compile(r"o(o)ps"), timeout=60)
    assert found.line == "oops" and found.match[1] == "o"
    assert box.get_process("one").command.startswith("echo hello") and box.get_process("nosuch") is None
    assert [p.id for p in box.list_processes()] == ["one"]
    logs = process.get_logs()
    assert (logs.stdout, logs.stderr, logs.process_id, logs.truncated) == ("hello\n", "oops\n", "one", False)
    box.kill_process(process.pid)
    assert process.wait_for_exit() == 143
    assert (process.status, process.exit_code, process.get_status()) == ("killed", 143, "killed")
    process.kill()  # one that has ended is left alone
    assert not box.is_process_running(process) and not box.is_process_running(987654)
    with pytest.raises(cay.ProcessNotFoundError):
        box.kill_process("nosuch")


def test_log_stream(box):
    process = box.spawn("echo a; sleep 0.1; echo b >&2; exit 3")
    events = list(process.stream_logs())
    assert [(e.type, getattr(e, "data", None)) for e in events] == [("stdout", "a\n"), ("stderr", "b\n"), ("exit", None)]
    assert events[-1].exit_code == 3 and events[-1].process_id == process.id
    assert [e.type for e in box.stream_process_logs(process)] == ["stdout", "stderr", "exit"]
    assert process.get_status() == "failed" and process.info.ended_at


def test_stdin_of_a_process(box):
    process = box.start_process("read line; echo got $line; cat", stdin=True)
    process.write_stdin("one\n")
    process.wait_for_log("got one", timeout=60)
    process.write_stdin(b"\xff", end=True)
    assert process.wait_for_exit() == 0 and "�" in process.get_logs().stdout


def test_waiting_in_vain(box):
    process = box.start_process("echo here; sleep 600")
    with pytest.raises(cay.ProcessReadyTimeoutError, match="'there'"):
        process.wait_for_log("there", timeout=0.2)
    with pytest.raises(builtins.TimeoutError):
        process.wait_for_log(re.compile("th.re"), timeout=0.2)
    with pytest.raises(cay.ProcessReadyTimeoutError):
        process.wait_for_exit(timeout=0.2)
    with pytest.raises(cay.ProcessReadyTimeoutError):
        process.wait_for_port(4999, timeout=0.2)
    assert box.kill_all_processes() == 1
    process.wait_for_exit()
    for what in ("there", re.compile("there")):
        with pytest.raises(cay.ProcessExitedBeforeReadyError, match="get_logs"):
            process.wait_for_log(what)
    with pytest.raises(cay.ProcessExitedBeforeReadyError):
        process.wait_for_port(4999)
    assert process.wait_for_log("her.".replace(".", "e")).line == "here"  # what was written stays


def test_special_characters_are_not_a_pattern(box):
    process = box.start_process("printf 'axb\\na.b (1|2) [x] {y} ^$ *+? \\\\d\\n'")
    assert process.wait_for_log("a.b (1|2) [x] {y} ^$ *+? \\d").line.startswith("a.b")


SERVER = "import http.server as h\nh.ThreadingHTTPServer(('127.0.0.1', 3000), h.SimpleHTTPRequestHandler).serve_forever()"


def test_ports(box):
    box.write_file("index.html", "<p>served</p>")
    process = box.start_process(["python3", "-c", SERVER])
    process.wait_for_port(3000, timeout=60)
    assert box.fetch(3000).text == "<p>served</p>"
    assert box.fetch(3000, "/nosuch").status == 404
    assert box.fetch(3000, method="POST", body=b"x").status == 501
    with pytest.raises(cay.BadGatewayError, match="nobody listens on port 3001"):
        box.fetch(3001)
    process.wait_for_port(3000, mode="tcp")
    process.wait_for_port(3000, path="/nosuch", status=404)
    exposed = box.expose_port(3000, name="web")
    assert exposed.port == 3000 and exposed.name == "web" and exposed.token in exposed.url
    assert box.expose_port(3000, name="web").url == exposed.url
    assert [p.url for p in box.get_exposed_ports()] == [exposed.url] and box.is_port_exposed(3000)
    box.unexpose_port(3000)
    box.unexpose_port(3000)
    assert not box.is_port_exposed(3000)


# -- files


def test_files(box):
    written = box.write_file("dir/a.txt", "hé\n")
    assert (written.path, written.size, written.created) == ("/workspace/dir/a.txt", 4, True)
    assert box.read_file("/workspace/dir/a.txt") == "hé\n"
    assert box.read_file("dir/../dir//a.txt", encoding=None) == "hé\n".encode() == box.read_bytes("dir/a.txt")
    assert box.read_bytes("dir/a.txt", start=1, end=3) == "é".encode() and box.read_bytes("dir/a.txt", start=3) == b"\n"
    assert box.read_file("dir/a.txt", encoding="latin-1") == "hÃ©\n"
    box.write_file("tool", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert box.exec("./tool").stdout == "ran\n"
    box.chmod("tool", 0o600)
    found = box.stat("tool")
    assert (found.name, found.type, found.mode, found.size) == ("tool", "file", "0600", 19) and found.etag
    assert box.exists("tool") and not box.exists("nosuch") and not box.exists("tool/below")
    assert box.readdir() == ["dir", "tool"]


def test_odd_names(box):
    for name in ("a b", "ü#?%&+", "-n", "new\nline", '"'):
        box.write_file(f"odd/{name}", name)
        assert box.read_file(f"odd/{name}") == name
    assert sorted(box.readdir("odd")) == sorted(["a b", "ü#?%&+", "-n", "new\nline", '"'])
    with pytest.raises(ValueError):
        box.write_file("a\0b", "")


def test_directories(box):
    box.mkdir("a")
    with pytest.raises(cay.FileExistsError):
        box.mkdir("a")
    with pytest.raises(builtins.FileNotFoundError):
        box.mkdir("x/y/z")
    box.mkdir("x/y/z", recursive=True)
    box.mkdir("x/y/z", recursive=True)
    box.write_file("x/.hidden", "")
    assert [e.name for e in box.list_files("x")] == ["y"]
    assert [e.path for e in box.list_files("x", recursive=True, include_hidden=True)] == [
        "/workspace/x/.hidden",
        "/workspace/x/y",
        "/workspace/x/y/z",
    ]
    assert box.list_files("/", include_hidden=True)
    box.delete_file("a")
    with pytest.raises(cay.ConflictError):
        box.delete_file("x")
    box.delete_file("x", recursive=True)
    assert box.readdir() == []


def test_a_long_directory(box, monkeypatch):
    """It comes in pages."""
    box.exec("mkdir many; cd many; touch a b c d e")
    monkeypatch.setattr(cay._files, "PAGE", 2)
    assert box.readdir("many") == ["a", "b", "c", "d", "e"]


def test_moving_and_copying(box):
    box.write_file("one", "1")
    box.copy_file("one", "two")
    box.move_file("one", "three")
    box.rename_file("two", "four")
    assert box.readdir() == ["four", "three"]
    with pytest.raises(cay.FileExistsError):
        box.move_file("three", "four")
    box.move_file("three", "four", replace=True)
    assert box.readdir() == ["four"] and box.read_file("four") == "1"
    assert [m["path"] for m in box.search_files(text="1")] == ["/workspace/four"]


def test_files_of_this_machine(box, tmp_path):
    path = tmp_path / "big"
    path.write_bytes(bytes(range(256)) * 20000)
    with open(path, "rb") as file:
        file.seek(256)
        assert box.write_file("big", file).size == 256 * 19999
    assert box.write_file("text", io.StringIO("hé")).size == 3
    with box.read_file_stream("big") as pieces:
        assert b"".join(pieces) == bytes(range(256)) * 19999


class NoSeek(io.RawIOBase):
    """As a pipe is."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def readable(self):
        return True

    def read(self, n=-1):
        return self.data.read(n)


def test_a_pipe_as_content(box):
    assert box.write_file("piped", NoSeek(b"x" * 700000)).size == 700000
    assert box.read_bytes("piped") == b"x" * 700000


def test_conditions(box):
    first = box.write_file("once", "1", if_none_match="*")
    with pytest.raises(cay.PreconditionFailedError):
        box.write_file("once", "2", if_none_match="*")
    box.write_file("once", "2", if_match=first.etag)
    with pytest.raises(cay.PreconditionFailedError):
        box.write_file("once", "3", if_match=first.etag)
    assert box.read_file("once") == "2"


def test_watch(box):
    box.mkdir("w")
    with box.watch("w") as events:
        assert next(events).type == "watching"
        box.write_file("w/new", "x")
        paths = []
        for event in events:
            paths.append((event.event_type, event.path))
            if ("create", "/workspace/w/new") in paths:
                break
        box.delete_file("w", recursive=True)
        assert [e.type for e in events][-1] == "stopped"


# -- code


def test_code(box):
    done = box.run_code("x = 6\nprint('hm')\nx * 7")
    assert done.success and done.text == "42" and done.logs.stdout == ["hm\n"] and done.logs.stderr == []
    assert done.results[0].formats() == ["text"] and done.execution_count == 1 and done.code.startswith("x = 6")
    assert box.run_code("x + 1").results[0].text == "7"
    failed = box.run_code("1 / 0")
    assert not failed.success and failed.error.name == "ZeroDivisionError" and failed.error.line_number == 1
    assert failed.error.traceback and failed.text is None
    assert box.run_code("[1, 2]").results[0].json == [1, 2]
    assert box.run_code("1 + 1", language="javascript").text == "2"
    assert box.run_code("while True: pass", timeout=0.3).reason == "timeout"
    assert any(one.name == "python" and one.available for one in box.list_languages())


def test_contexts(box):
    context = box.create_code_context("python", cwd="/tmp", env={"STAGE": "dev"})
    assert box.run_code("import os; os.getcwd(), os.environ['STAGE']", context=context).text == "('/tmp', 'dev')"
    assert box.run_code("y = 1; y", context=context.id).text == "1"
    assert [c.id for c in box.list_code_contexts()] == [context.id]
    assert box.get_code_context(context).execution_count == 2
    died = box.run_code("os._exit(3)", context=context)
    assert died.context_died and died.reason == "exit"
    with pytest.raises(cay.ContextDeadError):
        box.run_code("1", context=context)
    assert box.restart_code_context(context).status == "idle"
    assert box.run_code("'y' in globals()", context=context).text == "False"
    box.delete_code_context(context)
    with pytest.raises(cay.ContextNotFoundError):
        box.run_code("1", context=context)


def test_code_as_it_runs(box):
    told = []
    done = box.run_code(
        "import sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(1)\n1/0",
        on_stdout=lambda text: told.append(("out", text)),
        on_stderr=lambda text: told.append(("err", text)),
        on_result=lambda result: told.append((result.type, result.text)),
        on_error=lambda error: told.append(("error", error.name)),
    )
    assert sorted(told[:2]) == [("err", "b\n"), ("out", "a\n")]
    assert told[2:] == [("display", "1"), ("error", "ZeroDivisionError")]
    assert done.logs.stdout == ["a\n"] and done.logs.stderr == ["b\n"] and done.error.name == "ZeroDivisionError"
    assert done.results[0].type == "display" and done.reason == "error" and done.id and done.context
    events = list(box.run_code_stream("print(1)\n5"))
    assert [e.type for e in events] == ["start", "stdout", "result", "execution_complete"]
    assert events[1].text == "1\n" and events[2].result.text == "5" and events[3].success


def test_leaving_interrupts_the_code(box):
    with box.run_code_stream("import time\nprint('on')\ntime.sleep(600)") as events:
        for event in events:
            if event.type == "stdout":
                break
    assert box.run_code("'still there'").text == "'still there'"


# -- git


def test_git(way, git):
    box = way.sandbox(network={"allow": [git.url.split("//")[1]]})
    done = box.git_checkout(f"{git.url}/open/project.git", "/workspace/repo", depth=1)
    assert done.branch == "main" and done.target_dir == "/workspace/repo" and len(done.commit) == 40
    assert box.git_checkout(f"{git.url}/open/project.git").target_dir == "/workspace/project"
    box.write_file("repo/new.txt", "new\n")
    status = box.git_status("repo")
    assert not status.clean and [(f.path, f.status) for f in status.files] == [("new.txt", "untracked")]
    diff = box.git_diff("repo")
    assert "+new" in diff.diff and diff.files[0].path == "new.txt"
    made = box.git_commit("Add", "repo", author={"name": "Ada", "email": "ada@example.com"})
    assert len(made.commit) == 40 and box.git_status("repo").clean and box.git_status("repo").ahead == 1
    with pytest.raises(cay.GitError) as missing:
        box.git_checkout(f"{git.url}/open/nosuch.git")
    assert missing.value.code == "GIT_REPO_NOT_FOUND"
    with pytest.raises(cay.GitError, match="network"):
        way.sandbox().git_checkout(f"{git.url}/open/project.git")


def test_a_repository_to_begin_with(way, git):
    box = way.sandbox(network={"allow": [git.url.split("//")[1]]}, git_url=f"{git.url}/open/project.git")
    assert box.read_file("project/README.md") == "hello\n"
    other = way.sandbox(network={"allow": [git.url.split("//")[1]]}, git_url=f"{git.url}/open/nosuch.git")
    with pytest.raises(cay.GitError):
        other.exec("true")
    assert other.exec("true").success  # it is there nonetheless


# -- terminals


def read_until(terminal, word):
    seen = b""
    while word not in seen:
        piece = terminal.recv(60)
        assert piece, seen
        seen += piece
    return seen


def test_terminal(box):
    terminal = box.terminal("work", cols=101, rows=33)
    terminal.send("stty size; echo m''ark\n")
    assert b"33 101" in read_until(terminal, b"mark")
    terminal.resize(90, 20)
    terminal.send("stty size; echo do''ne\n")
    assert b"20 90" in read_until(terminal, b"done")
    assert [t["id"] for t in box.list_terminals()] == ["work"] and terminal.session == "work" and terminal.process
    terminal.close()
    again = box.terminal("work")
    assert b"done" in read_until(again, b"done")  # what it showed before
    again.send("exit 3\n")
    while again.recv(60):
        pass
    assert again.exit.code == 3 and again.exit.reason == "exit"


def test_terminal_commands(box):
    with box.terminal("t", command="echo hello; sleep 600") as terminal:
        assert read_until(terminal, b"hello")
        with pytest.raises(builtins.TimeoutError):
            terminal.recv(0.1)
    box.delete_terminal("t")
    with box.terminal("k", command="kill -KILL $$") as terminal:
        assert b"".join(terminal) == b"" and (terminal.exit.code, terminal.exit.signal) == (137, "SIGKILL")
    with box.terminal("u", command="printf '%01000d' 5") as terminal:
        assert b"".join(terminal).strip() == b"0" * 999 + b"5"


# -- state


def test_snapshots(way):
    box = way.sandbox()
    box.write_file("note", "one")
    before = box.snapshot("before")
    box.write_file("note", "two")
    assert [(s.id, s.name) for s in box.list_snapshots()] == [(before.id, "before")] and before.bytes >= 0
    child = box.fork(f"fork-{next(numbers)}")
    way.made.append(child)
    assert child.read_file("note") == "two"
    twins = box.fork_many(2, f"twin-{next(numbers)}", snapshot=before)
    way.made += twins
    assert [twin.read_file("note") for twin in twins] == ["one", "one"]
    box.rollback(before)
    assert box.read_file("note") == "one"
    new = way.sandbox(snapshot=before)
    assert new.read_file("note") == "one"
    box.delete_snapshot(before)
    with pytest.raises(cay.SnapshotNotFoundError):
        box.rollback(before)


def test_backups(box):
    box.write_file("d/note", "one")
    box.write_file("d/x.log", "log")
    backup = box.create_backup("d", name="n", ttl="1h", excludes=["*.log"])
    assert backup.dir == "/workspace/d" and backup.name == "n" and backup.size > 0 and backup.expires_at
    box.delete_file("d", recursive=True)
    box.restore_backup(backup)
    assert box.readdir("d") == ["note"]
    assert [b.id for b in box.list_backups()] == [backup.id]
    box.restore_backup(backup.id, "/workspace/e")
    assert box.read_file("e/note") == "one"
    box.delete_backup(backup)
    with pytest.raises(cay.BackupNotFoundError):
        box.restore_backup(backup)


def test_sync(way):
    box = way.sandbox()
    assert box.wake().status == "running" and box.get_sync_status().state == "never"
    box.write_file("kept.txt", "kept")
    done = box.sync(exclude=["*.log"])
    assert (done.files, done.put, done.deleted) == (1, 1, 0) and done.duration >= 0
    assert box.get_sync_status().state == "done"
    box.destroy()
    again = way.sandbox(box.id, restore=True)
    assert again.read_file("kept.txt") == "kept"


# -- its life


def test_life(way):
    box = way.sandbox(memory="256m", labels={"a": "1"}, sleep_after="1h", env={"A": "x"})
    with pytest.raises(cay.SandboxNotFoundError):
        box.info()
    box.write_file("stays", "1")
    info = box.info()
    assert (info.id, info.status, info.limits["memory"], info.labels) == (box.id, "running", 256 << 20, {"a": "1"})
    assert info.sleep_after == 3600 and info.destroy_after is None
    assert box.sleep().status == "sleeping" and box.info().box in (None, 0)
    assert box.read_file("stays") == "1" and box.exec("echo $A").stdout == "x\n"
    assert box.wake().status == "running" and box.stats()["limits"]["memory"] == 256 << 20
    assert box.configure(memory="300m", destroy_after="7d").destroy_after == 7 * 86400
    assert box.configure(destroy_after=None).destroy_after is None
    box.set_keep_alive(True)
    box.set_sleep_after(60)
    box.set_labels({"b": "2"})
    info = box.info()
    assert (info.keep_alive, info.sleep_after, info.labels, info.limits["memory"]) == (True, 60, {"b": "2"}, 300 << 20)
    box.destroy()
    box.destroy()
    with pytest.raises(cay.SandboxNotFoundError):
        box.info()
    with pytest.raises(cay.SandboxNotFoundError):
        box.sleep()
    assert not box.exists("stays")  # the next use makes a new one


def test_one_that_others_made_differently(way):
    first = way.sandbox(memory="256m", env={"A": "1"})
    first.exec("true")
    assert way.sandbox(first.id).exec("echo $A").stdout == "1\n"  # without settings it is taken as it is
    assert first.info().limits["memory"] == 256 << 20
    assert way.sandbox(first.id, memory="512m").exec("echo $A").stdout == "1\n"
    assert first.info().limits["memory"] == 512 << 20
    with pytest.raises(cay.ConflictError, match="image 'host', and 'other' was asked for"):
        way.sandbox(first.id, image="other").exec("true")


def test_a_destroyed_one_is_made_again(way):
    box, other = way.sandbox(), None
    box.write_file("a", "1")
    other = way.sandbox(box.id)
    other.destroy()
    assert box.exec("echo again").stdout == "again\n"
    assert box.readdir() == []
    other.destroy()
    assert box.write_file("f", io.BytesIO(b"from a file")).size == 11
    other.destroy()
    assert [e.type for e in box.exec_stream("echo x")] == ["start", "stdout", "complete"]


def test_side_by_side(way):
    box = way.sandbox()
    thing = box.thing if isinstance(box, Driven) else box
    done = way.at_once(*[lambda i=i: thing.exec(["echo", str(i)]) for i in range(8)])
    assert [one.stdout for one in done] == [f"{i}\n" for i in range(8)] and box.info().boxes == 1


def test_context_manager(way):
    box = way.sandbox()
    with box:
        box.exec("true")
        assert box.info().status == "running"
    with pytest.raises(cay.SandboxNotFoundError):
        box.info()
    with pytest.raises(ZeroDivisionError):
        with box:
            box.exec("true")
            1 / 0
    with pytest.raises(cay.SandboxNotFoundError):
        box.info()


def test_list_sandboxes(server, way):
    where = {"url": f"http://127.0.0.1:{server.port}", "token": ADMIN}
    box = way.sandbox(labels={"list": "me"})
    box.exec("true")
    assert [one.id for one in cay.list_sandboxes(label="list=me", **where)] == [box.id]
    if way.loop is not None:
        found = way.loop.run_until_complete(cay.aio.list_sandboxes(label="list=me", status="running", **where))
        assert [one.id for one in found] == [box.id]


# -- where the server is


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_unix_socket(server, kind):
    way = Way(kind, url=f"unix://{server.socket}")
    box = way.sandbox()
    assert box.exec("echo socket").stdout == "socket\n"
    way.close()


def test_environment(server, monkeypatch):
    monkeypatch.setenv("CAY_URL", f"http://localhost:{server.port}/")
    monkeypatch.setenv("CAY_TOKEN", ADMIN)
    with cay.get_sandbox() as box:
        assert box.exec("echo found").stdout == "found\n" and box.id.startswith("sb-")
    with cay.Sandbox() as box:
        assert box.exec("echo found").stdout == "found\n"


def test_many_threads_share_connections(server):
    with cay.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
        results = {}

        def work(name):
            for i in range(5):
                results[name, i] = box.exec(["echo", f"{name}-{i}"]).stdout

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {(n, i): f"{n}-{i}\n" for n in range(6) for i in range(5)}
