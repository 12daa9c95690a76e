# SPDX-License-Identifier: Apache-2.0
"""The commands against a real server: what they do and what they say."""

import json
import os
import pty
import subprocess

import pytest
from cli_helpers import CAY, CAY_SAN, PATIENCE, Cli, clean_env, refused, rows


def test_create_ls_info_rm(cli):
    name = cli.ok("create", "life", "--memory", "128m", "--label", "team=web", "--label", "x=y").strip()
    assert name == "life"
    assert cli.ok("create", "life", "--memory", "128m", "--label", "team=web", "--label", "x=y") == "life\n"
    refused(cli.run("create", "life", "--memory", "256m"), 125)
    assert ["life", "running", "host", "128", "MiB"] in [row[:5] for row in rows(cli.ok("ls"))]
    assert cli.ok("ls", "--label", "team=web", "-q") == "life\n"
    assert cli.ok("ls", "--label", "team", "--status", "running", "-q") == "life\n"
    assert cli.ok("ls", "--label", "team=other", "-q") == ""
    assert [box["id"] for box in cli.json("ls", "--label", "team=web")] == ["life"]
    assert cli.json("info", "life")["limits"]["memory"] == 128 << 20
    text = cli.ok("info", "life")
    assert "128 MiB" in text and "running" in text and "web" in text
    assert cli.ok("rm", "life") == ""
    refused(cli.run("info", "life"), 125, "life")
    refused(cli.run("rm", "life"), 125, "life")


def test_create_with_a_network(cli):
    made = cli.json("create", "net", "--allow", "pypi.org", "--allow", "*.pythonhosted.org:443")
    assert made["network"] == {"allow": ["pypi.org", "*.pythonhosted.org:443"]}
    assert cli.json("create", "wide", "--internet")["network"] == "internet"
    refused(cli.run("create", "odd", "--allow", "http://pypi.org/"), 125, "URL")
    refused(cli.run("create", "odd", "--secret", "nobody"), 125, "nobody")
    refused(cli.run("create", "odd", "--internet", "--allow", "pypi.org"), 2, "--internet")
    assert cli.ok("rm", "net", "wide") == ""


def test_the_secret_of_the_model_is_known(cli):
    """A key of its API wants a header of its own; whoever names another place or header gets that."""
    known = ["anthropic", "https://api.anthropic.com", "x-api-key", "{}"]
    assert cli.ok("secret set", "anthropic", input=b"sk-ant-0123456789\n") == "anthropic\n"
    assert known in [row[:4] for row in rows(cli.ok("secret ls"))]
    cli.ok("secret set", "anthropic", "--header", "Authorization", "--upstream", "https://other.example", input=b"sk-ant-0123456789")
    assert ["anthropic", "https://other.example", "Authorization", "Bearer"] in [row[:4] for row in rows(cli.ok("secret ls"))]
    assert cli.ok("secret rm", "anthropic") == ""
    refused(cli.run("secret set", "github", input=b"x"), 2, "--upstream")


def test_words_are_those_of_a_keyboard(cli):
    refused(cli.run("cat", "nobody:/x"), 125, "'cay create' makes one")
    name = cli.ok("create").strip()
    refused(cli.run("cat", f"{name}:/workspace"), 125, "'cay cp -r'")
    cli.ok("rm", name)


def test_a_name_is_made_up(cli):
    made = cli.json("create", "--ephemeral")
    assert made["success"] and made["ephemeral"] and made["sandboxId"]
    assert cli.ok("rm", made["sandboxId"]) == ""


@pytest.mark.parametrize("name", ["-x", "a b", "a/../b", "x" * 200, "\x1b[31m"])
def test_names_that_cannot_be(cli, name):
    done = cli.run("create", "--", name)
    refused(done, 125)
    assert b"\x1b" not in done.stderr


def test_rm_goes_on_after_one_that_fails(cli):
    cli.ok("create", "one")
    cli.ok("create", "two")
    done = cli.run("rm", "one", "none", "two")
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1
    assert not {"one", "two"} & set(cli.ok("ls", "-q").split())


def test_sleep_and_wake(cli, sandbox):
    cli.ok("exec", sandbox, "-c", "echo kept > file")
    assert cli.ok("sleep", sandbox) == ""
    assert cli.json("info", sandbox)["status"] == "sleeping"
    assert sandbox in cli.ok("ls", "--status", "sleeping", "-q").split()
    cli.ok("events", sandbox), cli.ok("ps", sandbox), cli.ok("stats", sandbox)
    assert cli.json("info", sandbox)["status"] == "sleeping"  # looking has not woken it
    assert cli.json("wake", sandbox)["status"] == "running"
    assert cli.ok("exec", sandbox, "--", "cat", "file") == "kept\n"


def test_stats(cli, sandbox):
    [row] = rows(cli.ok("stats", sandbox))
    assert row[0] == sandbox and row[2] == "s"
    assert sandbox in [row[0] for row in rows(cli.ok("stats"))]
    assert cli.json("stats", sandbox)["stats"]["memory"] > 0
    refused(cli.run("stats", "nobody"), 125, "nobody")


def test_events(cli, sandbox):
    cli.ok("sleep", sandbox)
    lines = cli.ok("events", sandbox).splitlines()
    assert len(lines) >= 2 and all(line[:2] == "20" and line.split()[0].endswith("Z") for line in lines)
    kinds = [json.loads(line)["type"] for line in cli.ok("events", sandbox, "--json").splitlines()]
    assert [line.split()[1] for line in lines] == kinds


def test_events_are_followed_to_the_end(cli):
    name = cli.ok("create").strip()
    follower = cli.start("events", name, "--follow")
    first = follower.stdout.readline()
    assert first
    cli.ok("sleep", name)
    cli.ok("rm", name)
    rest, errors = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, errors
    assert b"destroyed" in rest.splitlines()[-1]


def test_processes(cli, sandbox):
    name = cli.ok("exec", sandbox, "--detach", "--", "sh", "-c", "echo out; echo err >&2; exec sleep 1000").strip()
    assert cli.ok("exec", sandbox, "--detach", "--id", "second", "-c", "printf '\\000\\377'; exit 7") == "second\n"
    refused(cli.run("exec", sandbox, "--detach", "--id", "second", "--", "true"), 125)
    done = cli.run("logs", sandbox, "second", "--follow")
    assert (done.returncode, done.stdout) == (0, b"\x00\xff")
    listed = {row[0]: row for row in rows(cli.ok("ps", sandbox))}
    assert listed[name][2] == "running" and listed["second"][2:4] == ["exit", "7"]
    assert cli.ok("ps", sandbox, "--running", "-q") == name + "\n"
    assert {p["id"] for p in cli.json("ps", sandbox)["processes"]} == {name, "second"}
    cli.ok("kill", sandbox, name)
    follower = cli.run("logs", sandbox, name, "--follow")
    assert (follower.stdout, follower.stderr) == (b"out\n", b"err\n")
    [row] = [row for row in rows(cli.ok("ps", sandbox)) if row[0] == name]
    assert row[2] == "signal" and row[3] == "15"
    refused(cli.run("kill", sandbox, name), 125)
    refused(cli.run("kill", sandbox, "nobody"), 125, "nobody")
    refused(cli.run("kill", sandbox, "second", "--signal", "FROB"), 125)


def test_logs_of_one_stream_and_from_an_offset(cli, sandbox):
    cli.ok("exec", sandbox, "--detach", "--id", "p", "-c", "printf 0123456789; printf abcdef >&2")
    cli.ok("logs", sandbox, "p", "--follow", "--stdout")
    for flags, out in (
        (["--stdout"], b"0123456789"), (["--stderr"], b"abcdef"), (["--offset", "7"], b"789"),
        (["--stderr", "--offset", "3"], b"def"), (["--offset", "100"], b""),
    ):  # fmt: skip
        done = cli.run("logs", sandbox, "p", *flags)
        assert (done.returncode, done.stdout, done.stderr) == (0, out, b""), flags
    events = [json.loads(line) for line in cli.ok("logs", sandbox, "p", "--json").splitlines()]
    assert events[-1]["event"] == "exit" and {e["event"] for e in events} >= {"stdout", "stderr"}


def test_a_round_of_them_with_sanitizers(server):
    if not os.access(CAY_SAN, os.X_OK):
        pytest.skip(f"{CAY_SAN} is not built")
    cli = Cli(server.data, CAY_SAN)
    name = cli.ok("create", "--label", "a=b").strip()
    data = bytes(range(256)) * 2000
    assert cli.run("exec", name, "-i", "--", "cat", input=data).stdout == data
    assert cli.run("exec", name, "-i", "-e", "A=1", "-t", "1m", "-c", "cat; exit 3", input=b"x").returncode == 3
    cli.ok("exec", name, "--detach", "--id", "p", "--", "sh", "-c", "echo out; echo err >&2")
    cli.run("logs", name, "p", "--follow")
    for command in (["ls"], ["info", name], ["ps", name], ["stats", name], ["events", name], ["sleep", name],
                    ["wake", name], ["logs", name, "p", "--stdout"]):  # fmt: skip
        cli.ok(*command)
        cli.ok(*command, "--json")
    assert b"cay: " in cli.run("info", "nobody", "-v").stderr
    cli.ok("rm", name)


# -- tokens and URLs


def over_tcp(server, *args, **env):
    return subprocess.run(
        [CAY, args[0], "--url", server.url(), *args[1:]],
        capture_output=True, env=clean_env(**env), check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_tokens(server, cli, tmp_path):
    made = subprocess.run(
        [CAY, "token", "create", "ci", "--tenant", "web", "--rate", "0", "--data", server.data],
        capture_output=True, check=True, env=clean_env(),
    )  # fmt: skip
    token = made.stdout.decode().strip()
    refused(over_tcp(server, "ls"), 125, "CAY_TOKEN")
    refused(over_tcp(server, "ls", CAY_TOKEN="wrong"), 125)
    assert over_tcp(server, "create", "theirs", CAY_TOKEN=token).stdout == b"theirs\n"
    assert over_tcp(server, "ls", "-q", CAY_TOKEN=token).stdout == b"theirs\n"
    assert "theirs" not in cli.ok("ls", "-q").split()  # another tenant's
    file = tmp_path / "token"
    file.write_text(token + "\n", encoding="ascii")
    done = over_tcp(server, "exec", "theirs", "--token-file", str(file), "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr
    assert over_tcp(server, "rm", "theirs", CAY_TOKEN=token).returncode == 0

    def admin(*args):
        return subprocess.run(
            [CAY, "token", *args, "--data", server.data], capture_output=True, check=False, env=clean_env()
        )

    [row] = [row for row in rows(admin("ls").stdout.decode()) if row[1] == "ci"]
    assert row[2:4] == ["web", "no"]
    assert token.encode() not in admin("ls", "--json").stdout
    assert admin("revoke", row[0]).returncode == 0
    refused(over_tcp(server, "ls", CAY_TOKEN=token), 125)
    refused(admin("revoke", row[0]), 125)
    admin_token = open(os.path.join(server.data, "admin.token"), encoding="ascii").read().strip()
    assert over_tcp(server, "ls", CAY_TOKEN=admin_token).returncode == 0
    env = {"CAY_TOKEN": admin_token, "CAY_URL": server.url()}
    assert subprocess.run([CAY, "ls"], env=clean_env(**env), check=False, capture_output=True).returncode == 0


# -- a terminal


def on_terminal(command, **env):
    """What a command shows on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=clean_env(**env))
    os.close(theirs)
    text = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        text += more
    os.close(ours)
    process.wait(PATIENCE)
    return text


def test_colours_are_for_terminals(cli, sandbox):
    assert "\x1b" not in cli.ok("ls")
    assert b"\x1b[1m" in on_terminal(cli.command("ls"))
    assert b"\x1b" not in on_terminal(cli.command("ls"), NO_COLOR="1")


def test_standard_input_from_a_terminal_is_refused(cli, sandbox):
    text = on_terminal(cli.command("exec", sandbox, "-i", "--", "cat"))
    assert b"terminal" in text


def test_help_of_every_command():
    listed = subprocess.run([CAY, "help"], capture_output=True, check=True).stdout.decode()
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert {"run", "serve", "create", "exec", "token", "completion"} <= set(names)
    assert listed.index("boxes:") < listed.index("the server:") < listed.index("sandboxes:")
    for name in names:
        done = subprocess.run([CAY, "help", name], capture_output=True, check=False)
        assert done.returncode == 0 and done.stdout.startswith(f"usage: cay {name}".encode()), name


def test_all_are_removed_only_when_meant(server):
    """Last, and on the data of this suite alone."""
    cli = Cli(server.data)
    cli.ok("create", "doomed")
    refused(cli.run("rm", "--all"), 2, "--yes")
    assert "doomed" in cli.ok("ls", "-q").split()
    assert cli.ok("rm", "--all", "--yes") == ""
    assert cli.ok("ls", "-q") == ""
