# SPDX-License-Identifier: Apache-2.0
"""What takes long, cut off in the middle: it was done or it was not, and nothing is left of it."""

import fcntl
import os
import sqlite3
import subprocess
import threading
import time

import leaks
import pytest
from crash_helpers import Broken, Server, wait_until
from integrity import LOOK, Patient, below, restored
from test_upgrade import installed, replace, upgrade  # noqa: F401  pylint: disable=unused-import

FILL = "head -c 8M /dev/urandom > /workspace/big; mkdir -p /opt/kept /workspace/d; for i in $(seq 60); do echo $i > /workspace/d/$i; done"
CHANGE = "head -c 99 /dev/urandom | base64 > /workspace/mark; cp /workspace/mark /opt/kept/"
CHILDREN = 30


class Asked(threading.Thread):
    """A request, and its answer if there was one."""

    def __init__(self, server, method, path, body=None):
        super().__init__(daemon=True)
        self.client, self.request, self.answer = Patient(server), (method, path, body), None
        self.start()

    def run(self):
        try:
            self.answer = self.client.call(*self.request)
        except Broken:
            pass

    def over(self):
        """Its status; None: it was cut off."""
        self.join()
        return self.answer.status if self.answer is not None else None


class Scene:
    """A sandbox, and another state of it in a snapshot, backups and an archive of ours."""

    def __init__(self, server, name):
        self.server, self.client, self.name = server, Patient(server), name
        self.good("PUT", f"/sandbox/{name}", {"disk": "256m"})
        self.exec(FILL)
        self.then = self.look()
        self.snapshot = self.good("POST", f"/sandbox/{name}/snapshots", {})["id"]
        self.tree = self.good("POST", f"/sandbox/{name}/backups", {"dir": "/workspace"})["id"]
        self.disk = self.good("POST", f"/sandbox/{name}/backups", {})["id"]
        self.export = self.client.call("GET", f"/sandbox/{name}/export?dir=/workspace").raw

    def good(self, method, path, body=None):
        answer = self.client.again(method, path, body)
        assert answer.status in (200, 201), (method, path, answer)
        return answer.json

    def exec(self, command):
        result = self.good("POST", f"/sandbox/{self.name}/exec", {"command": command})
        assert result["success"], result

    def look(self, name=None):
        result = self.good("POST", f"/sandbox/{name or self.name}/exec", {"argv": ["python3", "-c", LOOK]})
        assert result["success"], result
        return frozenset(result["stdout"].splitlines())

    def change(self):
        self.exec(CHANGE)
        return self.look()

    def ask(self, method, path, body=None):
        return Asked(self.server, method, f"/sandbox/{self.name}/{path}", body)

    def must_be(self, allowed, name=None):
        now = self.look(name)
        differences = [sorted(now ^ state)[:4] for state in allowed]
        assert now in allowed, differences

    def list(self, what):
        return [one["id"] for one in self.good("GET", f"/sandbox/{self.name}/{what}")[what]]

    def end(self):
        self.good("DELETE", f"/sandbox/{self.name}")
        for backup in (self.tree, self.disk):
            self.good("DELETE", f"/backups/{backup}")


# -- what is cut off: each asks, and gives what must be the case after it


def archive(scene):
    if scene.snapshot is not None:
        scene.good("DELETE", f"/sandbox/{scene.name}/snapshots/{scene.snapshot}")
        scene.snapshot = None
    before = scene.change()
    return scene.ask("POST", "archive"), lambda _: scene.must_be([before])


def recall(scene):
    asked, check = archive(scene)
    assert asked.over() == 200
    return scene.ask("POST", "exec", {"command": "true"}), check


def one_or_other(scene, path, body, kind):
    before = scene.change()
    after = restored(before, kind, scene.then)

    def check(status):
        scene.must_be([after] if status == 200 else [before, after])

    return scene.ask("POST", path, body), check


def restore_directory(scene):
    return one_or_other(scene, "restore", {"backup": scene.tree}, "/workspace")


def restore_disk(scene):
    return one_or_other(scene, "restore", {"backup": scene.disk}, None)


def bring(scene):
    return one_or_other(scene, "import?dir=/workspace", scene.export, "/workspace")


def rollback(scene):
    if scene.snapshot is None:
        scene.snapshot = scene.good("POST", f"/sandbox/{scene.name}/snapshots", {})["id"]
        scene.then = scene.look()
    return one_or_other(scene, "rollback", {"snapshot": scene.snapshot}, None)


def backup(scene):
    before, known = scene.change(), scene.list("backups")

    def check(status):
        made = [one for one in scene.list("backups") if one not in known]
        assert len(made) <= 1 and (status != 201 or made), (status, made)
        scene.must_be([before])
        for one in made:
            scene.change()
            scene.good("POST", f"/sandbox/{scene.name}/restore", {"backup": one})
            scene.must_be([before])
            scene.good("DELETE", f"/backups/{one}")

    return scene.ask("POST", "backups", {}), check


def snapshot(scene):
    before, known = scene.change(), scene.list("snapshots")

    def check(status):
        made = [one for one in scene.list("snapshots") if one not in known]
        assert len(made) <= 1 and (status != 201 or made), (status, made)
        scene.must_be([before])
        for one in made:
            scene.good("DELETE", f"/sandbox/{scene.name}/snapshots/{one}")

    return scene.ask("POST", "snapshots", {}), check


def fork(scene):
    before = scene.change()
    names = [f"{scene.name}-child-{i + 1}" for i in range(CHILDREN)]

    def check(status):
        there = [name for name in names if scene.client.again("GET", f"/sandbox/{name}").status == 200]
        assert there in ([], names) and (status != 201 or there), (status, there)
        scene.must_be([before])
        for name in there[:1]:
            scene.must_be([before], name)
        for name in there:
            scene.good("DELETE", f"/sandbox/{name}")

    return scene.ask("POST", "fork", {"id": f"{scene.name}-child", "count": CHILDREN}), check


def sync(scene):
    before = scene.change()

    def check(_):
        state = lambda: scene.good("GET", f"/sandbox/{scene.name}/sync")["state"]  # noqa: E731
        assert wait_until(lambda: state() in ("done", "never")), state()  # it goes on by itself
        scene.must_be([before])

    return scene.ask("POST", "sync", {}), check


def create(scene):
    """Of what is stored."""
    name = f"{scene.name}-again"
    scene.good("PUT", f"/sandbox/{name}", {})
    scene.good("POST", f"/sandbox/{name}/exec", {"command": FILL})
    before = below(scene.look(name), "/workspace")
    scene.good("POST", f"/sandbox/{name}/sync", {})
    scene.good("DELETE", f"/sandbox/{name}")

    def check(status):
        there = lambda: scene.client.again("GET", f"/sandbox/{name}").status == 200  # noqa: E731
        if status is None:  # half of one is on its way out
            wait_until(lambda: not there(), 1)
        assert there() or status not in (200, 201)
        if there():
            scene.must_be([before], name)
            scene.good("DELETE", f"/sandbox/{name}")

    return Asked(scene.server, "PUT", f"/sandbox/{name}", {"restore": True}), check


# -- when: as soon as something is seen


def at_once(_):
    return True


def disk_is_made(server):
    return server.disks("making") or server.disks("forge")


def helper_works(server):
    return leaks.packers(server)


def bytes_are_stored(server):
    return any(path.stat().st_size > 0 for path in (server.data / "store" / ".tmp").iterdir())


def archive_is_there(server):
    return leaks.column(server, "SELECT id FROM backups WHERE kind = 'archive' AND state = 2")


def row_says_archived(server):
    return leaks.column(server, "SELECT id FROM sandboxes WHERE archive IS NOT NULL")


def rows_are_made(server):
    return leaks.column(server, "SELECT id FROM sandboxes WHERE status = 4")


def snapshot_is_made(server):
    return leaks.column(server, "SELECT id FROM snapshots WHERE state = 1")


CUTS = {
    archive: (at_once, disk_is_made, helper_works, bytes_are_stored, archive_is_there, row_says_archived),
    recall: (at_once, disk_is_made, helper_works),
    restore_directory: (at_once, disk_is_made, helper_works),
    restore_disk: (disk_is_made, helper_works),
    bring: (disk_is_made, helper_works),
    backup: (at_once, disk_is_made, helper_works, bytes_are_stored),
    snapshot: (at_once, snapshot_is_made),
    rollback: (at_once, disk_is_made),
    fork: (at_once, rows_are_made, disk_is_made),
    sync: (at_once, disk_is_made, helper_works, bytes_are_stored),
    create: (at_once, disk_is_made, helper_works),
}


def is_seen(moment, server):
    try:
        return moment(server)
    except OSError:
        return False  # it was gone before it was looked at


def wait_for(moment, server, asked):
    """Until it is time, or there is nothing left to cut off."""
    wait_until(lambda: is_seen(moment, server) or not asked.is_alive(), every=0.001)


def kill(server):
    server.wait_for_another(server.kill_daemon())


def kill_both(server):
    server.kill_both()
    server.start()


def stop(server):
    server.stop()
    server.start()


def rests(server):
    return wait_until(lambda: not leaks.left_behind(server), every=0.02)


def nothing_left(server):
    assert rests(server), leaks.left_behind(server)


def own_faults(server):
    """Not what a daemon says that outlives its keeper by a moment."""
    return [line for line in server.faults() if "the keeper is gone" not in line]


def descriptors(server):
    return {"keeper": leaks.list_fds(server.process.pid), "daemon": leaks.list_fds(server.daemon())}


def test_the_daemon_is_killed(server):
    scene = Scene(server, "box")
    nothing_left(server)
    kill(server)  # so that it is another daemon's in any case
    before = descriptors(server)
    missed = []
    for action, moments in CUTS.items():
        for moment in moments:
            asked, check = action(scene)
            wait_for(moment, server, asked)
            if not asked.is_alive():
                missed.append((action.__name__, moment.__name__))
            kill(server)
            status = asked.over()
            assert rests(server), (action.__name__, moment.__name__, leaks.left_behind(server))
            check(status)
            assert rests(server), (action.__name__, moment.__name__, leaks.left_behind(server))
    print(f"too late for {missed}")
    scene.end()
    nothing_left(server)
    more = lambda: leaks.difference(before, descriptors(server))  # noqa: E731
    assert wait_until(lambda: not more(), every=0.05), more()
    assert not server.faults(), server.faults()


@pytest.mark.parametrize("end", [kill_both, stop])
def test_all_at_once(server, end):
    """Everything under way in sandboxes of their own, and the whole server ends."""
    actions = (archive, recall, restore_disk, bring, backup, fork, sync)
    scenes = {action: Scene(server, f"box{i}") for i, action in enumerate(actions)}
    nothing_left(server)
    for moment in (disk_is_made, bytes_are_stored):
        under_way = [action(scene) for action, scene in scenes.items()]
        wait_for(moment, server, under_way[0][0])
        time.sleep(0.02)
        began = time.monotonic()
        end(server)
        assert time.monotonic() - began < 30
        for asked, check in under_way:
            check(asked.over())
        nothing_left(server)
    for scene in scenes.values():
        scene.end()
    nothing_left(server)
    assert not own_faults(server), own_faults(server)


def test_killed_while_a_box_stands_still(server):
    """It cannot end by itself then, and holds the volume: the next server sees to it."""
    client = server.client()
    client.good("PUT", "/sandbox/box", {})
    client.exec("box", "echo x > f; sync")
    for guest in leaks.guests(server) - {leaks.spawner(server)}:
        for path in leaks.freezers(guest):
            path.write_text("1", encoding="utf-8")
    assert leaks.frozen(server)
    kill_both(server)
    assert server.client().exec("box", "cat f") == "x\n"
    nothing_left(server)


@pytest.mark.parametrize("settings", [{}, {"disk": "256m"}])
def test_killed_before_the_row_knows_of_a_disk(server, settings):
    """The first box has taken it from the pool by then."""
    client = server.client()
    client.good("PUT", "/sandbox/box", settings)
    client.exec("box", "echo x > f; sync")
    server.stop()
    db = sqlite3.connect(server.data / "daemon" / "cay.db")
    with db:
        db.execute("UPDATE sandboxes SET disks = 0, boxes = 0, box = 0")
    db.close()
    server.start()
    assert wait_until(lambda: leaks.kernels(server).get("python3") == server.POOL)  # there are boxes to take
    client = server.client()
    assert client.exec("box", "cat f; echo y > g") == "x\n"
    client.good("POST", "/sandbox/box/sleep")
    assert client.exec("box", "cat f g") == "x\ny\n"
    assert not server.faults(), server.faults()


def test_who_is_about_to_end_holds_the_lock(server):
    server.kill_both()
    with open(server.data / "cay.pid", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        later = threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN))
        later.start()
        server.start()
        later.join()


@pytest.mark.parametrize("action", [backup, fork, sync, archive])
def test_upgraded(installed, action):  # noqa: F811
    server: Server = installed
    scene = Scene(server, "box")
    for moment in (at_once, disk_is_made):
        asked, check = action(scene)
        wait_for(moment, server, asked)
        replace(server)
        done = upgrade(server)
        assert done.returncode == 0, (done.stderr, server.log())
        check(asked.over())
        nothing_left(server)
    scene.end()
    nothing_left(server)


# -- no room


@pytest.fixture
def small(data_dir):
    """A file system of 1,200 MiB for all that there is. The volume takes half of it for itself."""
    place = f"{data_dir}/host"
    os.mkdir(place)
    script = f"truncate -s 1200M {data_dir}/ext4 && mkfs.ext4 -q -m 0 {data_dir}/ext4 && mount -o loop {data_dir}/ext4 {place}"
    subprocess.run(["sh", "-c", script], check=True)
    os.chmod(place, 0o711)
    yield place
    subprocess.run(["umount", place], check=True)


def test_no_room_on_the_machine(small):
    server = Server(small, flags=["--volume", "4g", "--disk-spare", "64m"])
    try:
        server.start()
        client = server.client()
        for name in ("large", "other"):
            client.good("PUT", f"/sandbox/{name}", {"disk": "2g"})
        client.exec("other", "echo small > f")
        run = lambda name, command: client.good("POST", f"/sandbox/{name}/exec", {"command": command})  # noqa: E731
        filled = run("large", "for i in 1 2 3; do head -c 900M /dev/zero >> /workspace/large || break; sync; done")
        assert "No space" in filled["stderr"] or "quota" in filled["stderr"], filled
        refused = client.call("POST", "/sandbox/large/backups", {})
        assert refused.status in (503, 507), refused
        assert "full" in refused.json["error"] or "space" in refused.json["error"], refused
        assert client.exec("other", "cat f") == "small\n"
        assert "ro," not in client.exec("other", "grep ' / ' /proc/mounts").split()[3] + ","
        assert run("large", "rm /workspace/large && sync")["success"]
        assert wait_until(lambda: run("other", "head -c 30M /dev/urandom > g && sync")["success"], every=0.2)
        assert wait_until(lambda: client.call("POST", "/sandbox/other/backups", {}).status == 201, every=0.2)
        assert client.exec("other", "cat f") == "small\n"
        nothing_left(server)
        assert not server.faults(), server.faults()
    finally:
        server.stop()


def test_no_room_in_the_store(data_dir):
    store = f"{data_dir}/store"
    script = f"truncate -s 40M {data_dir}/ext4 && mkfs.ext4 -q -m 0 {data_dir}/ext4 && mount -o loop {data_dir}/ext4 {store}"
    server = Server(data_dir, flags=["--disk-spare", "2m"])
    server.start()
    server.stop()  # which has made the directory
    owner = os.stat(store)
    subprocess.run(["sh", "-c", script], check=True)
    os.chown(store, owner.st_uid, owner.st_gid)
    os.rmdir(f"{store}/lost+found")
    try:
        server.start()
        client = server.client()
        client.good("PUT", "/sandbox/box", {})
        client.exec("box", "head -c 40M /dev/urandom > large; echo small > f")
        for path in ("backups", "archive", "sync"):
            refused = client.call("POST", f"/sandbox/box/{path}", {} if path != "archive" else None)
            assert refused.status == 503 and refused.json["error_code"] == "STORE_UNAVAILABLE", (path, refused)
            assert "full" in refused.json["error"] or "space" in refused.json["error"], (path, refused)
        assert client.good("GET", "/sandbox/box/sync")["state"] == "failed"
        assert client.good("GET", "/sandbox/box/backups")["backups"] == []
        assert client.exec("box", "rm large; cat f") == "small\n"
        nothing_left(server)
        client.good("POST", "/sandbox/box/backups", {})
        assert client.good("POST", "/sandbox/box/sync", {})["files"] == 1
        client.good("POST", "/sandbox/box/archive")
        assert client.exec("box", "cat f") == "small\n"
        nothing_left(server)
        assert not server.faults(), server.faults()
    finally:
        server.stop()
        subprocess.run(["umount", store], check=True)
