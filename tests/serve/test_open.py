# SPDX-License-Identifier: Apache-2.0
"""`cay serve --auth none`: where it may be, and what it says. What it lets in is in tests/api/test_auth_none.py."""

import http.client
import os

import pytest
from serve_helpers import PATIENCE, Serve, refused

USAGE, FAILED = 2, 125


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--listen", "0.0.0.0:0"], ["can be reached from outside"]),
        (["--listen", "[::]:0"], ["can be reached from outside"]),
        (["--listen", "0.0.0.0:0", "--behind-proxy"], ["auth: none", "--behind-proxy"]),
        (["--listen", "127.0.0.1:0", "--behind-proxy"], ["auth: none", "--behind-proxy"]),
        (["--listen", "127.0.0.1:0", "--cors", "*"], ["auth: none", "cors", "every page"]),
        (["--listen", "127.0.0.1:0", "--cors", "https://a.example, *"], ["every page"]),
    ],
)
def test_not_where_others_come_in(data, flags, words):
    code, line = refused("--data", data, "--auth", "none", *flags)
    assert code == FAILED
    for word in words:
        assert word in line
    assert not os.path.exists(f"{data}/admin.token")


def test_a_word_that_is_none():
    code, line = refused("--auth", "off")
    assert code == USAGE and "neither token nor none" in line


def get(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_it_says_so(data):
    with Serve(data, "--auth", "none") as server:
        said = "\n".join(server.said)
        assert "NONE" in said and "every user and every program" in said
        assert "curl -d '{\"id\":\"demo\"}'" in said and "Authorization" not in said
        assert get(server.port, "/sandbox") == 200
    with Serve(data) as server:
        assert "NONE" not in "\n".join(server.said)
        assert get(server.port, "/sandbox") == 401


def test_by_the_environment(data):
    with Serve(data, CAY_AUTH="none") as server:
        assert get(server.port, "/sandbox") == 200
