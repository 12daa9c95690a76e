# SPDX-License-Identifier: Apache-2.0
"""Pasting strangers' words into a command line: they become commands."""

import cay

NAME = "Ada; touch /workspace/broken-in"


def wrong(box: cay.Sandbox) -> None:
    box.exec(f"echo Hello {NAME}")
    print("wrong: broken in:", box.exists("broken-in"))
    box.delete_file("broken-in")


def right(box: cay.Sandbox) -> None:
    print("right:", box.exec(["echo", "Hello", NAME]).stdout.strip())  # without a shell nothing has to be quoted
    print("right:", box.exec('echo "Hello $NAME"', env={"NAME": NAME}).stdout.strip())
    print("right:", box.exec("cat", stdin=f"Hello {NAME}").stdout)
    print("right: broken in:", box.exists("broken-in"))


def even_so(box: cay.Sandbox) -> None:
    """Whole programs of strangers are what a sandbox is for: without a network, within limits, and no secret in reach."""
    stolen = box.run_code("import urllib.request\nurllib.request.urlopen('http://example.com', timeout=5).status")
    print("right: what it could reach outside:", None if stolen.error else stolen.text)


with cay.get_sandbox(memory="256m", pids=64) as box:
    wrong(box)
    right(box)
    even_so(box)
