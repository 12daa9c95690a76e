# SPDX-License-Identifier: Apache-2.0
"""Backups, syncs, restores and archives with an S3 behind the server: what goes there comes back, and what happens when
it is down, refuses the credentials, or has lost a part of an object."""

import os
import pathlib
import sys

import pytest
from api_helpers import Client, Server, at_once, eventually
from conftest import need_root

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "store"))
import fault_proxy  # noqa: E402
import s3_servers  # noqa: E402

FILES = """
import os
os.chdir('/workspace')
os.makedirs('a/b')
for i in range(60): open(f'a/b/f{i}', 'w').write(str(i) * (i * 100))
open('caf\\u00e9 %', 'w').write('odd')
open('none', 'w').close()
open('large', 'wb').write(os.urandom(3 << 20))
os.symlink('a/b', 'link')
os.chmod('a/b/f7', 0o751)
"""
SEEN = "cd /workspace && find . -printf '%p %y %m %s %l\\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum"


@pytest.fixture(scope="module", params=s3_servers.KINDS)
def s3(request, tmp_path_factory):
    """An S3, and a proxy in front of it that can be told to fail, and looks at signatures where the S3 does not."""
    with s3_servers.started(request.param, tmp_path_factory.mktemp("s3")) as server:
        proxy = fault_proxy.Proxy(server.port, server.secrets)
        proxy.server, proxy.kind = server, request.param
        yield proxy
        proxy.close()


@pytest.fixture(scope="module")
def api(top, s3):
    need_root()
    os.mkdir(f"{top}/on-{s3.kind}")
    keys = {"CAY_S3_ACCESS_KEY": s3.server.access_key, "CAY_S3_SECRET_KEY": s3.server.secret_key}
    where = ("--store", "s3", "--s3-endpoint", s3.url, "--s3-bucket", s3_servers.BUCKET, "--s3-prefix", "cay/")
    server = Server(f"{top}/on-{s3.kind}", *where, env=keys)
    yield Client(server)
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture
def filled(api, box):
    assert api.exec(box, {"argv": ["/usr/bin/python3", "-c", FILES]})["exitCode"] == 0
    return box


@pytest.fixture
def down(s3):
    """The S3 answers nobody, until it is told otherwise or the test is over."""
    s3.always = "reset-before"
    yield s3
    s3.always = None


def seen(api, box):
    done = api.exec(box, SEEN)
    assert done["exitCode"] == 0, done
    return done["stdout"]


def test_health(api):
    eventually(lambda: api.ok("GET", "/health")["store"] == {"kind": "s3", "ok": True})


def test_backup_and_restore(api, s3, filled):
    before = seen(api, filled)
    for body in ({"dir": "/workspace"}, {}):
        made = api.ok("POST", f"/sandbox/{filled}/backups", body)
        assert len(s3.server.objects(made["id"])) == 2
        api.exec(filled, "rm -r /workspace/a && echo x >/workspace/none")
        api.ok("POST", f"/sandbox/{filled}/restore", {"backup": made["id"]})
        assert seen(api, filled) == before
        api.ok("DELETE", f"/sandbox/{filled}/backups/{made['id']}")
        eventually(lambda id_=made["id"]: not s3.server.objects(id_))


def test_sync_and_restore(api, s3, filled):
    before = seen(api, filled)
    done = api.ok("POST", f"/sandbox/{filled}/sync", {})
    assert done["files"] == done["put"] == 63, done
    assert len(s3.server.objects(f"workspaces/{filled}/")) == 63
    assert api.ok("POST", f"/sandbox/{filled}/sync", {})["put"] == 0
    api.exec(filled, "cd /workspace && rm a/b/f3 && echo new >a/b/f4")
    done = api.ok("POST", f"/sandbox/{filled}/sync", {})
    assert (done["put"], done["deleted"]) == (1, 1), done
    changed = seen(api, filled)
    assert changed != before
    api.ok("DELETE", f"/sandbox/{filled}")
    api.ok("PUT", f"/sandbox/{filled}", {"restore": True})
    assert seen(api, filled) == changed
    assert api("GET", f"/sandbox/{filled}/stored/a/b/f4").body == b"new\n"


def test_archive_and_back(api, s3, filled):
    before = seen(api, filled)
    done = api.ok("POST", f"/sandbox/{filled}/archive")
    assert api.ok("GET", f"/sandbox/{filled}")["archived"] is True
    assert s3.server.objects(done["backup"])
    assert seen(api, filled) == before
    eventually(lambda: not s3.server.objects(done["backup"]))


def test_down(api, s3, filled, down):
    down.always = None
    api.ok("POST", f"/sandbox/{filled}/sync", {})
    made = api.ok("POST", f"/sandbox/{filled}/backups", {})
    stored = s3.server.objects(filled)
    api.exec(filled, "cd /workspace && rm a/b/f3 && echo new >new")
    before = seen(api, filled)
    down.always = "reset-before"

    def refused(path, body):
        api("POST", f"/sandbox/{filled}/{path}", body).error(503, "STORE_UNAVAILABLE")

    def sync_fails():
        with api.stream("POST", f"/sandbox/{filled}/sync", {}) as stream:
            assert stream.until("error")[-1].data["error_code"] == "STORE_UNAVAILABLE"

    at_once(sync_fails, lambda: refused("backups", {}), lambda: refused("restore", {"backup": made["id"]}))
    assert seen(api, filled) == before
    state = api.ok("GET", f"/sandbox/{filled}/sync")
    assert state["state"] == "failed" and state["error"] and state["retryAt"], state
    refused("archive", None)
    assert seen(api, filled) == before
    eventually(lambda: api.ok("GET", "/health")["store"]["ok"] is False)
    assert s3.server.objects(filled) == stored  # nothing was deleted
    down.always = None
    done = api.ok("POST", f"/sandbox/{filled}/sync", {})
    assert (done["put"], done["deleted"]) == (1, 1), done
    api.ok("POST", f"/sandbox/{filled}/restore", {"backup": made["id"]})
    eventually(lambda: api.ok("GET", "/health")["store"]["ok"])


def test_faults_on_the_way(api, s3, filled):
    """Those that pass are not noticed."""
    before = seen(api, filled)
    s3.plan[:] = ["503", "PUT:reset-after", "GET:truncate", "500", "PUT:cut-upload", "GET:reset-middle", "429"]
    api.ok("POST", f"/sandbox/{filled}/sync", {})
    api.ok("DELETE", f"/sandbox/{filled}")
    api.ok("PUT", f"/sandbox/{filled}", {"restore": True})
    s3.plan.clear()
    assert seen(api, filled) == before


def test_wrong_credentials(api, s3, filled, monkeypatch):
    monkeypatch.setattr(s3, "secrets", {s3.server.access_key: "another"})
    before = seen(api, filled)
    api("POST", f"/sandbox/{filled}/backups", {}).error(503, "STORE_UNAVAILABLE", "s3-secret-key")
    health = eventually(lambda: (h := api.ok("GET", "/health"))["store"]["ok"] is False and h)
    assert "s3-secret-key" in health["store"]["error"], health
    assert seen(api, filled) == before
    monkeypatch.undo()
    eventually(lambda: api.ok("GET", "/health")["store"]["ok"])


def test_cut_objects(api, s3, filled):
    made = api.ok("POST", f"/sandbox/{filled}/backups", {})
    api.ok("POST", f"/sandbox/{filled}/sync", {})
    before = seen(api, filled)
    (data,) = s3.server.objects(f"{made['id']}/data.tar.zst")
    (large,) = s3.server.objects(f"workspaces/{filled}/large")
    for path in (data, large):
        os.truncate(path, path.stat().st_size // 2)
    api("POST", f"/sandbox/{filled}/restore", {"backup": made["id"]}).error(500, "STORE_DAMAGED")
    assert seen(api, filled) == before
    api.ok("DELETE", f"/sandbox/{filled}")
    reply = api("PUT", f"/sandbox/{filled}", {"restore": True})
    assert reply.status == 500 and reply.json["error_code"] == "STORE_DAMAGED", reply
    api("GET", f"/sandbox/{filled}").error(404, "NOT_FOUND")
