# SPDX-License-Identifier: Apache-2.0
"""`cay port` against a real server."""

import json
import re
import subprocess

from cli_helpers import CAY, PATIENCE, clean_env, refused


def port(server, command, *args):
    return subprocess.run(
        [CAY, "port", command, "--data", server.data, *args],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        env=clean_env(),
    )


def test_ports(server, sandbox):
    made = port(server, "add", sandbox, "3000", "--name", "web", "--token", "abcdefgh")
    assert made.returncode == 0, made
    assert re.fullmatch(r"http://3000-[a-z0-9-]+-abcdefgh\.localhost:\d+/\n", made.stdout.decode())
    again = port(server, "add", sandbox, "3000")
    assert again.stdout == made.stdout
    other = json.loads(port(server, "add", sandbox, "80", "--json").stdout)
    assert other["port"] == 80 and len(other["token"]) == 16
    listed = port(server, "ls", sandbox).stdout.decode().splitlines()
    assert listed[0].split() == ["PORT", "NAME", "URL", "OPEN"]
    assert [line.split()[0] for line in listed[1:]] == ["80", "3000"]
    assert listed[2].split()[1:3] == ["web", made.stdout.decode().strip()]
    assert port(server, "rm", sandbox, "80", "3000").returncode == 0
    assert json.loads(port(server, "ls", sandbox, "--json").stdout)["ports"] == []


def test_bad_ports(server, sandbox):
    for bad in ("0", "65536", "-1", "x", ""):
        refused(port(server, "add", sandbox, "--", bad), 2)
    refused(port(server, "add", sandbox), 2)
    refused(port(server, "add", sandbox, "80", "--token", "NO"), 125, "token")
    refused(port(server, "rm", sandbox, "080"), 125, "port")
    refused(port(server, "rm", sandbox, "80"), 125)
    refused(port(server, "ls", "no-such"), 125, "no-such")
    refused(port(server, "frob", sandbox), 2)
