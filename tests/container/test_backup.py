# SPDX-License-Identifier: Apache-2.0
"""Backups of the container protocol, which are those of the store under the name that their file would have."""

from container_helpers import Container

CREATE, RESTORE = "/api/backup/create", "/api/backup/restore"
ARCHIVE = "/var/backups/4a7d.sqsh"


def test_bad_requests(shared):
    good = {"dir": "/workspace", "archivePath": ARCHIVE}
    for route in (CREATE, RESTORE):
        for name in good:
            shared.invalid(route, {k: v for k, v in good.items() if k != name}, name)
            shared.invalid(route, {**good, name: 5}, name)
        shared.invalid(route, {**good, "dir": ""}, "dir")
        for path in ("/tmp/x.sqsh", "/var/backups/", "/var/backups/../x", "x", "/var/backups/" + "a" * 300):
            shared.fail(route, {**good, "archivePath": path}, 400, "INVALID_BACKUP_CONFIG")
    shared.invalid(CREATE, {**good, "excludes": "a"}, "excludes")
    shared.invalid(CREATE, {**good, "gitignore": 1}, "gitignore")
    shared.fail(RESTORE, {**good, "archivePath": "/var/backups/never"}, 404, "BACKUP_NOT_FOUND", archivePath="/var/backups/never")
    shared.fail(CREATE, {**good, "dir": "/workspace/none"}, 500, "BACKUP_CREATE_FAILED", dir="/workspace/none")
    error = shared.fail("/api/backup/upload-parts", {"archivePath": ARCHIVE, "parts": []}, 501, "NOT_IMPLEMENTED")
    assert "store" in error["message"]


def test_there_and_back(api, box):
    box.run("mkdir -p /workspace/app/node_modules; cd /workspace/app; echo 1 > a; echo 2 > b.log; touch node_modules/x; echo b.log > .gitignore")
    body = {"dir": "/workspace/app", "archivePath": ARCHIVE, "excludes": ["node_modules"], "gitignore": True, "compression": {"format": "lz4"}}
    made = box.ok(CREATE, {**body, "sessionId": "s"})
    assert made["archivePath"] == ARCHIVE and made["sizeBytes"] > 0
    assert [b["name"] for b in api.ok("GET", f"/sandbox/{box.box}/backups")["backups"]] == [ARCHIVE]
    box.run("rm -r /workspace/app; mkdir /workspace/app; echo 9 > /workspace/app/later")
    assert box.ok(RESTORE, {"dir": "/workspace/app", "archivePath": ARCHIVE})["dir"] == "/workspace/app"
    assert box.run("cd /workspace/app; ls -A; cat a") == ".gitignore\na\n1\n"
    # the newest of a name, and into another sandbox of the same owner
    box.run("echo 3 > /workspace/app/a")
    box.ok(CREATE, body)
    other = Container(api, "restored-here")
    other.ok("/api/exists", {"path": "/"})
    other.ok(RESTORE, {"dir": "/workspace/copy", "archivePath": ARCHIVE})
    assert other.read("/workspace/copy/a")["content"] == "3\n"
    api("DELETE", "/sandbox/restored-here")
