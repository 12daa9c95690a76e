# SPDX-License-Identifier: Apache-2.0
"""The completion script, sourced by a real bash that completes with it."""

import re
import subprocess

import pytest
from cli_helpers import CAY, clean_env

COMPLETE = """
set -u
source <("$CAY" completion bash)
compopt() { :; }
COMP_WORDS=("$CAY" "$@")
COMP_CWORD=$(($# ))
COMPREPLY=()
_cay
[[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(*words):
    """What bash offers for the last of these words."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *words],
        capture_output=True, check=False, env=clean_env(CAY=CAY), timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return set(done.stdout.decode().split())


def test_commands():
    assert {"run", "create", "exec", "token", "serve"} <= complete("")
    assert complete("exe") == {"exec"}
    assert complete("--v") == {"--version"}
    assert complete("help", "cr") == {"create"}


def test_subcommands():
    assert complete("token", "") == {"create", "ls", "revoke"}
    assert complete("secret", "") == {"set", "ls", "rm"}
    assert complete("secret", "set", "--up") == {"--upstream"}
    assert complete("image", "b") == {"build"}
    assert complete("token", "create", "--te") == {"--tenant"}


def test_every_flag_that_help_shows():
    listed = subprocess.run([CAY, "help"], capture_output=True, check=True).stdout.decode()
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert len(names) > 15
    for name in names:
        text = subprocess.run([CAY, name, "--help"], capture_output=True, check=True).stdout.decode()
        flags = set(re.findall(r"^  (?:-., |    )(--[a-z0-9-]+)", text, re.M))
        if flags:
            assert complete(name, "--") == flags, name


@pytest.mark.parametrize("words", [["create", "--image", ""], ["exec", "x", "--", "ma"], ["image", "import", "a", ""]])
def test_files_are_left_to_bash(words):
    assert complete(*words) == set()


def test_names_of_sandboxes_and_processes(cli, server, sandbox):
    cli.ok("create", "complete-me")
    cli.ok("exec", "complete-me", "--detach", "--id", "web", "--", "sleep", "1000")
    flags = ["--data", server.data]
    assert complete("info", *flags, "comp") == {"complete-me"}
    assert {"complete-me", sandbox} <= complete("rm", *flags, "")
    assert complete("rm", *flags, sandbox, "comp") == {"complete-me"}
    assert complete("logs", *flags, "complete-me", "w") == {"web"}
    assert complete("kill", *flags, "complete-me", "") == {"web"}
    cli.ok("rm", "complete-me")


def test_names_that_a_bad_server_offers(standin):
    """Nothing of them is run, and what is no name is not offered."""
    evil = '{"sandboxes":[{"id":"$(touch /tmp/cay-pwned)"},{"id":"`id`"},{"id":"fine"}],"next":null}'
    body = evil.encode()
    standin.play(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert complete("info", "--data", standin.cli.data, "") == {"fine"}
