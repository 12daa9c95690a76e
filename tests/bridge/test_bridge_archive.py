# SPDX-License-Identifier: Apache-2.0
"""POST /v1/sandbox/{id}/persist and /hydrate: /workspace as a tar archive, out and in."""

import http.client
import io
import socket
import tarfile

import pytest
from api_helpers import ADMIN, PATIENCE, eventually
from bridge_helpers import refused

TREE = """
mkdir -p dir/empty .hidden node_modules/x src/node_modules; echo one > a; echo two > dir/b; chmod 0751 dir; chmod 0755 dir/b
ln -s ../a dir/link; ln -s /etc/passwd absolute; ln a hard; mkfifo fifo; truncate -s 1M holes; echo end >> holes
touch node_modules/x/y src/node_modules/z x.log dir/y.log 'a b' 'é中' "$(printf 'n%.0s' $(seq 200))"
"""


def persist(api, box, query="", method="POST"):
    reply = api(method, f"/v1/sandbox/{box}/persist{query}")
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/octet-stream", reply
    return reply.body


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive.getmembers()}


def hydrate(api, box, data):
    reply = api("POST", f"/v1/sandbox/{box}/hydrate", data)
    assert reply.status == 200 and reply.json == {"ok": True}, reply


def archive_of(*entries):
    """(name, content) or (name, type, link)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, *rest in entries:
            info = tarfile.TarInfo(name)
            if len(rest) == 1:
                info.size = len(rest[0])
                archive.addfile(info, io.BytesIO(rest[0]))
            else:
                info.type, info.linkname = rest
                archive.addfile(info)
    return out.getvalue()


@pytest.fixture(scope="module")
def tree(api):
    name = "a-tree"
    assert api.sh(name, TREE).code == 0
    yield name
    assert api("DELETE", f"/v1/sandbox/{name}").status == 204


def test_a_tree(api, tree):
    data = persist(api, tree)
    found = members(data)
    # What their clients take: directories, files, symbolic links, and no more.
    assert {member.type for member in found.values()} == {tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE}
    assert not any(key.startswith("GNU") for member in found.values() for key in member.pax_headers)
    assert found["dir"].mode == 0o751 and found["dir/b"].mode == 0o755
    assert found["dir/link"].linkname == "../a" and found["absolute"].linkname == "/etc/passwd"
    assert "fifo" not in found and "n" * 200 in found and "é中" in found and "a b" in found
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.extractfile("hard").read() == b"one\n"
        assert archive.extractfile("holes").read() == bytes(1 << 20) + b"end\n"


def test_by_get_too(api, tree):
    assert set(members(persist(api, tree, method="GET"))) == set(members(persist(api, tree)))
    assert api("HEAD", f"/v1/sandbox/{tree}/persist").status == 400


@pytest.mark.parametrize(
    "excludes, gone",
    [
        ("node_modules", {"node_modules", "node_modules/x", "node_modules/x/y"}),
        ("./dir/,.hidden", {"dir", "dir/b", "dir/empty", "dir/link", "dir/y.log", ".hidden"}),
        ("*.log", {"x.log", "dir/y.log"}),
        ("dir/b,,dir/empty", {"dir/b", "dir/empty"}),
        ("a%20b", {"a b"}),
        ("nothing", set()),
        ("", set()),
    ],
)
def test_some_of_it(api, tree, excludes, gone):
    assert set(members(persist(api, tree))) - set(members(persist(api, tree, f"?excludes={excludes}"))) == gone


@pytest.mark.parametrize("excludes", ["..", "a/../b", "a,..", "/etc"])
def test_excludes_that_make_no_sense(api, excludes):
    refused(api("POST", f"/v1/sandbox/never-made/persist?excludes={excludes}"), 400, "invalid_request", "excludes")
    assert api.state("never-made") is None


def test_there_and_back(api, tree, box):
    hydrate(api, box, persist(api, tree))
    listing = "find . -printf '%P %y %m %l\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum"
    seen = api.sh(tree, listing).out.splitlines()
    assert api.sh(box, listing).out.splitlines() == [line for line in seen if not line.startswith(b"fifo ")]


def test_a_new_one_is_empty(api, box):
    assert set(members(persist(api, box))) <= {".", ""}
    assert api.state(box) == "running"


def test_large_both_ways(api, box):
    assert api.sh(box, "mkdir in; head -c 64M /dev/urandom > in/large; seq 200000 > in/lines").code == 0
    sums = api.sh(box, "sha256sum in/*").out
    data = persist(api, box)
    assert len(data) > 64 * 1024 * 1024
    assert api.sh(box, "rm -rf in").code == 0
    hydrate(api, box, data)
    assert api.sh(box, "sha256sum in/*").out == sums


def test_in_chunks(api, box):
    data = archive_of(("chunked", b"x" * 500_000))
    reply = api("POST", f"/v1/sandbox/{box}/hydrate", (data[at : at + 70_000] for at in range(0, len(data), 70_000)))
    assert reply.status == 200, reply
    assert api.get(box, "workspace/chunked") == b"x" * 500_000


# -- what goes wrong


def test_hostile_names_stay_inside(api, box):
    assert api.sh(box, "mkdir /outside; echo before > /outside/file").code == 0
    for entries in [
        [("../outside/file", b"after")],
        [("/outside/file", b"after")],
        [("a/../../outside/file", b"after")],
        [("way", tarfile.SYMTYPE, "/outside"), ("way/file", b"after")],
        [("way2", tarfile.LNKTYPE, "../outside/file"), ("way2", b"after")],
    ]:
        reply = api("POST", f"/v1/sandbox/{box}/hydrate", archive_of(*entries))
        assert reply.status in (200, 400), reply
        if reply.status == 400:
            refused(reply, 400, "workspace_archive_write_error")
        assert api.sh(box, "cat /outside/file; ls /outside").out == b"before\nfile\n", entries


@pytest.mark.parametrize("size", [600, 400_000])
def test_no_archive(api, box, size):
    refused(api("POST", f"/v1/sandbox/{box}/hydrate", b"junk" * (size // 4)), 400, "workspace_archive_write_error", "tar")


def test_half_an_archive(api, box):
    data = archive_of(("half", b"x" * 100_000))
    refused(api("POST", f"/v1/sandbox/{box}/hydrate", data[:50_000]), 400, "workspace_archive_write_error")


def test_no_body(api):
    refused(api("POST", "/v1/sandbox/never-made/hydrate"), 400, "invalid_request", "empty")
    assert api.state("never-made") is None


def test_compressed(api, box):
    refused(api("POST", f"/v1/sandbox/{box}/hydrate", b"x", {"Content-Encoding": "gzip"}), 415, "invalid_request")


def test_a_full_disk(api, box):
    api.ok("PUT", f"/sandbox/{box}", {"disk": "64m"})
    data = archive_of(("large", bytes(100 * 1024 * 1024)))
    refused(api("POST", f"/v1/sandbox/{box}/hydrate", data), 507, "workspace_archive_write_error")


def test_no_workspace(api, box):
    assert api.sh(box, "cd /; rm -r /workspace").code == 0
    refused(api("POST", f"/v1/sandbox/{box}/persist"), 404, "workspace_archive_read_error", "/workspace")
    hydrate(api, box, archive_of(("a", b"1")))
    assert api.get(box, "workspace/a") == b"1"


def test_a_download_that_is_cut_is_not_whole(api, box):
    assert api.sh(box, "head -c 100M /dev/urandom > large").code == 0
    headers, _ = api.head(None, None)
    connection = api.connect()
    connection.request("POST", f"/v1/sandbox/{box}/persist", headers=headers)
    response = connection.getresponse()
    assert response.status == 200 and len(response.read(1000)) == 1000
    assert api("DELETE", f"/v1/sandbox/{box}").status == 204
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    connection.close()


def test_an_upload_that_is_cut_can_be_sent_again(server, api, box):
    data = archive_of(("first", b"1"), ("cut", b"x" * 3_000_000))
    api.put(box, "workspace/cut", b"before")
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    head = f"POST /v1/sandbox/{box}/hydrate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: {len(data)}\r\n\r\n"
    sock.sendall(head.encode() + data[:1_000_000])
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b""  # nothing is said to who did not say all
    sock.close()
    assert api.get(box, "workspace/cut") == b"before"  # a file is replaced by a whole one alone
    eventually(lambda: b".cay-" not in api.sh(box, "ls -A").out)
    hydrate(api, box, data)  # whatever was unpacked of it
    assert api.get(box, "workspace/cut") == b"x" * 3_000_000
