# SPDX-License-Identifier: Apache-2.0
"""Text that would be something else one step further: a header, an event, a line of the log, a colour, a tag."""

import json
import re

from attack_helpers import ask, eventually, is_error, raw

FORGED = 'level=fatal msg="all is lost"'
NASTY = (
    f"a\n{FORGED}",
    "a\r\nSet-Cookie: a=b\r\n\r\n<html>",
    "a\n\nevent: exit\ndata: {}\n\n",
    "\x1b[31mred\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "a\u2028b\u0085c\u202ed",
    'quote" and \\ and =',
    "\x7f\x01\x1f",
    "{{7*7}} ${x} $(id) `id` %s%n",
)


def escaped(text):
    return "".join(f"%{byte:02x}" for byte in text.encode())


def log_since(server, at):
    with open(server.log_path, "rb") as f:
        f.seek(at)
        return f.read()


def lines_are_ours(log):
    """Every line is one that the server wrote, and there is nothing in it that a terminal would obey."""
    for line in log.decode().split("\n")[:-1]:
        assert re.match(r"(time=\S+ level=(debug|info|warn|error) msg=|cay[: ])", line), line
        assert not re.search(r"[\x00-\x1f\x7f\x80-\x9f\u2028\u202e]", line), line


def test_ids_in_paths(server, world, admin):
    at = server.log_path.stat().st_size
    for text in NASTY:
        for target in (
            f"/sandbox/{escaped(text)}",
            f"/sandbox/{world.box}/processes/{escaped(text)}",
            f"/sandbox/{world.box}/sessions/{escaped(text)}",
            f"/{escaped(text)}",
            f"/sandbox?{escaped(text)}={escaped(text)}",
            f"/sandbox?status={escaped(text)}",
        ):
            reply = ask(server, f"GET {target}", world.alice.token)
            is_error(reply, 400, 404)
            assert "Set-Cookie" not in reply.headers
        for target in (f"/tenants/{escaped(text)}", f"/tokens/{escaped(text)}"):
            is_error(ask(server, f"DELETE {target}", admin.token), 400, 404, 405)
        is_error(ask(server, f"PUT /sandbox/{escaped(text)}", world.alice.token), 400)
        is_error(ask(server, f"PUT /tenants/{escaped(text)}", admin.token), 400)
    lines_are_ours(log_since(server, at))


def test_request_ids(server):
    """One that is not plain is not taken over."""
    at = server.log_path.stat().st_size
    for text in ("a b", "a\tb", 'a"b', "a\\nb", "<b>", "é", "x" * 129, "", "a;b", "a%0d%0aX: y", "a=b level=error"):
        reply = ask(server, "GET /sandbox", None, f"X-Request-Id: {text}")
        is_error(reply, 401)
        assert re.fullmatch(r"[\w.-]{1,64}", reply.headers["X-Request-Id"]) and reply.headers["X-Request-Id"] != text
    assert ask(server, "GET /health", None, "X-Request-Id: my.own_id-1").headers["X-Request-Id"] == "my.own_id-1"
    for text in ("a\rX-Evil: b", "a\nX-Evil: b", "a\r\n X-Evil: b", "a\0b", "a\x1b[31m", "a\x0bb"):
        reply = raw(server, f"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: {text}\r\n\r\n".encode())
        assert reply.status in (None, 200, 400), reply
        assert "X-Evil" not in reply.headers and reply.headers.get("X-Request-Id") != text
    lines_are_ours(log_since(server, at))


def test_headers_that_come_back(make_server):
    """An origin is the only text of a request that becomes one of the answer's headers."""
    server = make_server("--cors", "*", "--pool", "0", "--pool-blank", "0", "--volume", "0")
    at = server.log_path.stat().st_size
    for text in ("a\rX-Evil: b", "a\nX-Evil: b", "a\r\n X-Evil: b", "a\0b", "a\x1b[31m", "x" * 3000, "\u00e9"):
        reply = raw(server, f"GET /health HTTP/1.1\r\nHost: x\r\nOrigin: {text}\r\n\r\n".encode())
        assert reply.status in (None, 200, 400, 431), reply
        assert "X-Evil" not in reply.headers, reply.headers
    lines_are_ours(log_since(server, at))


def test_texts_that_are_kept(server, new_tenant):
    """Labels, variables and user ids may be any text, and come back as they were: as JSON."""
    at = server.log_path.stat().st_size
    client = new_tenant()
    for i, text in enumerate(NASTY):
        name = f"kept-{i}"
        client.ok("PUT", f"/sandbox/{name}", {"labels": {text: text}, "env": {"A": text}, "userId": text})
        shown = client.ok("GET", f"/sandbox/{name}")
        assert (shown["labels"], shown["userId"]) == ({text: text}, text)
        key = text.partition("=")[0]
        if key == text:
            listed = client.ok("GET", f"/sandbox?label={escaped(text)}")["sandboxes"]
            assert [box["id"] for box in listed] == [name]
    result = client.exec("kept-0", {"argv": ["printenv", "A"]})
    assert result["stdout"] == NASTY[0] + "\n"
    for i in range(len(NASTY)):
        client.ok("DELETE", f"/sandbox/kept-{i}")
    lines_are_ours(log_since(server, at))


def test_output_and_commands_in_streams(server, new_tenant):
    """What a program writes, and how it was started, is data of an event and never an event."""
    at = server.log_path.stat().st_size
    client = new_tenant()
    client.ok("PUT", "/sandbox/b", {})
    text = "".join(NASTY) + "\nid: p.9.9\nretry: 1\n: comment\n\ndata: x\n\n"
    body = {"argv": ["printf", "%s", text], "env": {"X": text}}
    with client.stream("POST", "/sandbox/b/exec", body) as stream:
        events = stream.until("exit")  # Stream refuses lines that are none of an event's
    assert {e.name for e in events} == {"start", "stdout", "exit"} and stream.comments == 0
    assert "".join(e.data["data"] for e in events if e.name == "stdout") == text
    client.ok("POST", "/sandbox/b/sessions", {"id": "s", "env": {"X": text}})
    result = client.exec("b", {"session": "s", "command": f'printf %s "$X"; : {json.dumps(NASTY[0])}'})
    assert result["stdout"] == text
    client.ok("POST", "/sandbox/b/sleep")
    client.ok("DELETE", "/sandbox/b")
    lines_are_ours(log_since(server, at))


def test_a_session_whose_command_breaks_out_of_its_script(new_tenant):
    """Whatever a command is, the next one has a shell, its own output and the right end."""
    client = new_tenant()
    client.ok("PUT", "/sandbox/b", {})
    client.ok("POST", "/sandbox/b/sessions", {"id": "s"})
    for command in (
        "echo 'open",
        'echo "open',
        "cat <<EOF\nopen",
        "if true; then",
        "}",
        ")",
        "}; exit 0; {",
        "fi; done; esac",
        "`",
        "$(",
        "${x:?gone}",
        "case",
        "\x04",
        "\x03",
        "trap 'echo trapped' EXIT DEBUG ERR; false",
        "exec 1>&- 2>&-",
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- 10>&- 11>&- 12>&- 255>&-",
        "set -e; false",
        "set -u; echo $nothing",
        "enable -n echo printf read builtin eval; alias echo=false",
        "function eval { :; }; function builtin { :; }; function printf { :; }; function read { :; }; function command { :; }",
        "PATH=; IFS=0123456789; PS1=$'\\n'; readonly IFS",
        "kill -9 $$",
        "exit 7",
        "return 3",
        "exec true",
        ": " + "x" * 200000,
        "# comment",
        "\\",
        "echo a \\",
    ):
        reply = client("POST", "/sandbox/b/exec", {"session": "s", "command": command, "timeout": "20s"})
        assert reply.status in (200, 410), (command[:80], reply)
        assert reply.status != 200 or reply.json["reason"] in ("exit", "signal"), (command[:80], reply)
        again = eventually(lambda: client("POST", "/sandbox/b/exec", {"session": "s", "command": "\\command echo next", "timeout": "20s"}))
        if again.status == 410 or (again.status == 200 and again.json["stdout"] != "next\n"):
            # The command has broken its own shell, which is its right; a new session is not touched by it.
            client.ok("DELETE", "/sandbox/b/sessions/s")
            client.ok("POST", "/sandbox/b/sessions", {"id": "s"})
            again = client("POST", "/sandbox/b/exec", {"session": "s", "command": "echo next"})
        assert again.status == 200 and again.json["stdout"] == "next\n", (command[:80], again)
    client.ok("DELETE", "/sandbox/b")
