# SPDX-License-Identifier: Apache-2.0
"""GET /du: who holds what."""

import itertools

MIB = 1 << 20
KEYS = {"sandboxId", "status", "disk", "shared", "snapshots", "stored", "backups", "archived"}
numbers = itertools.count(1)


def du(client, query=""):
    got = client.ok("GET", f"/du{query}")
    assert got["success"] is True
    return got, {row["sandboxId"]: row for row in got["sandboxes"]}


def fill(client, box, mib, path="/workspace/blob"):
    client.exec(box, {"command": f"head -c {mib}M /dev/urandom > {path} && sync {path}"})


def test_a_disk_and_its_snapshots(api, box):
    fill(api, box, 8)
    _, rows = du(api)
    assert set(rows[box]) == KEYS
    assert 8 * MIB <= rows[box]["disk"] < 16 * MIB and rows[box]["status"] == "running"
    assert rows[box]["snapshots"] == rows[box]["stored"] == rows[box]["backups"] == rows[box]["archived"] == 0
    api.ok("POST", f"/sandbox/{box}/snapshots", {})
    child = api.ok("POST", f"/sandbox/{box}/fork", {})["sandboxes"][0]["sandboxId"]
    _, rows = du(api)
    assert 8 * MIB <= rows[box]["snapshots"] < 16 * MIB
    assert rows[child]["disk"] < MIB and rows[child]["shared"] >= 8 * MIB  # the source holds it
    api.ok("DELETE", f"/sandbox/{child}")
    api.ok("POST", f"/sandbox/{box}/sleep")
    _, rows = du(api)
    assert rows[box]["disk"] >= 8 * MIB and rows[box]["status"] == "sleeping"


def test_what_the_store_has(api):
    box = f"du-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{box}", {})
    fill(api, box, 2)
    backup = api.ok("POST", f"/sandbox/{box}/backups", {"dir": "/workspace"})
    api.ok("POST", f"/sandbox/{box}/sync", {})
    got, rows = du(api)
    assert rows[box]["backups"] == backup["size"] and rows[box]["stored"] == 2 * MIB
    assert got["store"]["kind"] == "local" and got["store"]["backups"] >= backup["size"]
    api.ok("DELETE", f"/sandbox/{box}")
    _, rows = du(api)
    assert rows[box]["status"] == "gone" and rows[box]["disk"] == 0 and rows[box]["backups"] == backup["size"]
    api.ok("DELETE", f"/backups/{backup['id']}")
    _, rows = du(api)
    assert rows[box]["backups"] == 0 and rows[box]["stored"] == 2 * MIB


def test_ones_own(api, tenant, box):
    mine = f"du-{next(numbers)}"
    tenant.ok("PUT", f"/sandbox/{mine}", {})
    got, rows = du(tenant)
    assert set(rows) == {mine} and got["volume"] is None
    tenant("GET", "/du?all=1").error(403, "FORBIDDEN", "administrators")
    got, rows = du(api)
    assert box in rows and mine not in rows and got["volume"]["size"] > got["volume"]["used"] > 0
    _, rows = du(api, "?all=1")
    assert rows[mine]["tenant"] == tenant.name and rows[box]["tenant"] == "admin"
    tenant.ok("DELETE", f"/sandbox/{mine}")
    api("GET", "/du?all=perhaps").error(400, "INVALID_REQUEST")


def test_more_than_a_page(api, tenant):
    """The keeper is asked about some at a time."""
    names = {f"du-page-{i:03}" for i in range(150)}
    for name in names:
        tenant.ok("PUT", f"/sandbox/{name}", {"ephemeral": True})
        tenant.ok("POST", f"/sandbox/{name}/sleep")
    assert set(du(tenant)[1]) == names
    assert names <= set(du(api, "?all=1")[1])
    for name in names:
        tenant.ok("DELETE", f"/sandbox/{name}")
