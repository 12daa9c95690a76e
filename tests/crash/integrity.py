# SPDX-License-Identifier: Apache-2.0
"""What sandboxes, snapshots, backups and stored files must hold, remembered beside the server, and random changes of all of
it while the server is killed. A step whose answer was lost (or was 502, 503, 504) may have been done or not; nothing else may
be the case."""

import hashlib
import itertools
import random
import threading
import time

from crash_helpers import Broken, Client, wait_until

# What a box says of itself: kind, mode, size or target, and content of everything in two trees.
LOOK = r"""
import hashlib, os, stat
for top in ("/workspace", "/opt/kept"):
    for folder, folders, files in os.walk(top):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                print("l", path, os.readlink(path))
            elif stat.S_ISDIR(st.st_mode):
                print("d", path, oct(st.st_mode & 0o7777))
            else:
                digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
                print("f", path, oct(st.st_mode & 0o7777), st.st_size, digest)
"""
CHANGE = r"""
import os, random, sys
seed, top = int(sys.argv[1]), sys.argv[2]
rng = random.Random(seed)
os.makedirs(top, exist_ok=True)
for _ in range(rng.randrange(1, 6)):
    name = os.path.join(top, rng.choice("abcdefgh"))
    what = rng.randrange(8)
    if what == 0 and os.path.lexists(name) and not os.path.isdir(name):
        os.remove(name)
    elif what == 1:
        os.makedirs(name + ".d/inner", exist_ok=True)
        os.chmod(name + ".d", 0o750)
    elif what == 2:
        if os.path.lexists(name + ".l"):
            os.remove(name + ".l")
        os.symlink("target-%d" % rng.randrange(100), name + ".l")
    elif what == 3 and os.path.exists(name) and not os.path.lexists(name + ".h"):
        os.link(name, name + ".h")
    else:
        size = rng.choice((0, 1, 100, 4096, 70000, 1 << 20))
        with open(name, "wb") as file:
            file.write(rng.randbytes(size))
        os.chmod(name, rng.choice((0o644, 0o755, 0o600)))
"""
TREES = ("/workspace", "/opt/kept")
SETTINGS = {"disk": "256m", "sleepAfter": 3600}


class Patient(Client):
    """For a server that may not be there at all for a while."""

    def call(self, method, path, body=None, **headers):
        try:
            return super().call(method, path, body, **headers)
        except ConnectionRefusedError as error:
            time.sleep(0.02)
            raise Broken(f"{method} {path}: {error!r}") from error


class Doubt(Exception):
    """A step was not answered: it was done, or it was not."""


def below(state, top):
    return frozenset(line for line in state if line.split()[1].startswith(top + "/"))


def restored(before, kind, state):
    """What a sandbox holds after a backup was restored into it: one of a directory, or (None) of its disk."""
    if kind is None:
        return state
    return (before - below(before, kind)) | below(state, kind)


class Held:
    """A sandbox, and the states that it may be in: more than one only while a step's answer is missing."""

    def __init__(self, name, states):
        self.name, self.states = name, states
        self.labels = [{}]
        self.stored = None  # what of its workspace is in the store


class World:
    def __init__(self, server, seed, kinds, trouble=None):
        self.server, self.client = server, Patient(server)
        self.rng = random.Random(seed)
        self.numbers = itertools.count(1)
        self.kinds = kinds
        self.trouble = trouble  # what else may go wrong, called before a step with our dice
        self.boxes, self.snapshots, self.backups = {}, {}, {}  # name: Held; (name, id): state; id: (kind, state)
        self.is_armed, self.killer = False, None  # the server is killed while the next step is asked for
        self.done, self.doubts, self.kills, self.seconds = {}, 0, 0, {}
        self.told = []  # what was asked, and what came of it

    # -- looking

    def look(self, name):
        answer = self.client.again("POST", f"/sandbox/{name}/exec", {"argv": ["python3", "-c", LOOK]})
        assert answer.status == 200, (name, answer)
        assert answer.json["success"], answer.json
        return frozenset(answer.json["stdout"].splitlines())

    def settle(self, name):
        """What it is now: one of what it may be."""
        held = self.boxes[name]
        now = self.look(name)
        assert now in held.states, self.difference(name, now)
        held.states = [now]
        return now

    def difference(self, name, now):
        nearest = min(self.boxes[name].states, key=lambda state: len(state ^ now))
        told = "; ".join(self.told[-12:])
        return f"{name}: lost {sorted(nearest - now)[:5]}, strange {sorted(now - nearest)[:5]} of {len(self.boxes[name].states)} after {told}"

    # -- asking

    def ask(self, method, path, body=None, good=(200, 201)):
        if self.is_armed:
            self.is_armed, self.killer = False, self.start_killer()
        self.told.append(f"{method} {path} {'killed ' if self.killer else ''}")
        try:
            answer = self.client.call(method, path, body)
        except Broken as why:
            self.told[-1] += "broken"
            raise Doubt(str(why)) from why
        self.told[-1] += str(answer.status)
        if answer.status in (502, 503, 504):
            raise Doubt(repr(answer))
        assert answer.status in good, (method, path, body, answer)
        return answer

    def sure(self, method, path, body=None, good=(200, 201)):
        """What may be done twice."""
        answer = self.client.again(method, path, body)
        assert answer.status in good, (method, path, body, answer)
        return answer

    def any_box(self):
        return self.rng.choice(sorted(self.boxes))

    def new_name(self):
        return f"i{next(self.numbers)}"

    def create(self):
        name = self.new_name()
        self.sure("PUT", f"/sandbox/{name}", SETTINGS)
        self.boxes[name] = Held(name, [self.look(name)])
        return name

    # -- steps: each leaves what may be the case

    def write(self):
        name = self.any_box()
        before = self.settle(name)
        top, seed = self.rng.choice(TREES), self.rng.randrange(1 << 30)
        argv = ["python3", "-c", CHANGE, str(seed), top]
        try:
            assert self.ask("POST", f"/sandbox/{name}/exec", {"argv": argv}).json["success"]
            self.boxes[name].states = [self.look(name)]
        except Doubt:
            # Half of it may have been written, and it may still run: what is there then is the truth.
            wait_until(lambda: not self.is_busy(name))
            self.boxes[name].states = [before, self.look(name)]
            raise

    def is_busy(self, name):
        answer = self.client.again("POST", f"/sandbox/{name}/exec", {"command": "pgrep -fc '[o]s.makedirs' || true"})
        return answer.status != 200 or answer.json["stdout"].strip() not in ("0", "")

    def sleep(self):
        self.ask("POST", f"/sandbox/{self.any_box()}/sleep")

    def snapshot(self):
        name, label = self.any_box(), f"s{next(self.numbers)}"
        state = self.settle(name)
        try:
            self.ask("POST", f"/sandbox/{name}/snapshots", {"name": label})
        finally:
            self.find_snapshot(name, label, state)

    def find_snapshot(self, name, label, state):
        listed = self.sure("GET", f"/sandbox/{name}/snapshots").json["snapshots"]
        for one in listed:
            if one["name"] == label:
                self.snapshots[name, one["id"]] = state
        assert {(name, one["id"]) for one in listed} == {key for key in self.snapshots if key[0] == name}

    def delete_snapshot(self):
        if not self.snapshots:
            return self.snapshot()
        name, snapshot = self.rng.choice(sorted(self.snapshots))
        state = self.snapshots.pop((name, snapshot))
        try:
            self.ask("DELETE", f"/sandbox/{name}/snapshots/{snapshot}")
        except Doubt:
            listed = self.sure("GET", f"/sandbox/{name}/snapshots").json["snapshots"]
            if snapshot in [one["id"] for one in listed]:
                self.snapshots[name, snapshot] = state
            raise

    def rollback(self):
        if not self.snapshots:
            return self.snapshot()
        name, snapshot = self.rng.choice(sorted(self.snapshots))
        held = self.boxes[name]
        after = self.snapshots[name, snapshot]
        try:
            self.ask("POST", f"/sandbox/{name}/rollback", {"snapshot": snapshot})
            held.states = [after]
        except Doubt:
            held.states = held.states + [after]
            raise

    def fork(self):
        name, child = self.any_box(), self.new_name()
        mine = [key for key in self.snapshots if key[0] == name]
        chosen = self.rng.choice(sorted(mine)) if mine and self.rng.randrange(2) else None
        state = self.snapshots[chosen] if chosen else self.settle(name)
        body = {"id": child, **({"snapshot": chosen[1]} if chosen else {})}
        try:
            self.ask("POST", f"/sandbox/{name}/fork", body)
        finally:
            if self.sure("GET", f"/sandbox/{child}", good=(200, 404)).status == 200:
                self.boxes[child] = Held(child, [state])
                self.boxes[child].labels = self.boxes[name].labels

    def backup(self):
        name, label = self.any_box(), f"b{next(self.numbers)}"
        state = self.settle(name)
        kind = self.rng.choice(("/workspace", None))
        body = {"name": label, **({"dir": kind} if kind else {})}
        try:
            self.ask("POST", f"/sandbox/{name}/backups", body)
        finally:
            for one in self.sure("GET", f"/backups?sandbox={name}").json["backups"]:
                if one["name"] == label and one["state"] == "ready":
                    self.backups[one["id"]] = (kind, state)

    def delete_backup(self):
        if not self.backups:
            return self.backup()
        backup = self.rng.choice(sorted(self.backups))
        held = self.backups.pop(backup)
        try:
            self.ask("DELETE", f"/backups/{backup}")
        except Doubt:
            if self.sure("GET", f"/backups/{backup}", good=(200, 404)).status == 200:
                self.backups[backup] = held
            raise

    def restore(self):
        if not self.backups:
            return self.backup()
        name, backup = self.any_box(), self.rng.choice(sorted(self.backups))
        kind, state = self.backups[backup]
        before = self.settle(name)
        after = restored(before, kind, state)
        try:
            self.ask("POST", f"/sandbox/{name}/restore", {"backup": backup})
            self.boxes[name].states = [after]
        except Doubt:
            self.boxes[name].states = [before, after]
            raise

    def carry(self):
        """From one to another (or back), through us."""
        source, target = self.any_box(), self.any_box()
        kind = self.rng.choice(("/workspace", None))
        query = f"?dir={kind}" if kind else ""
        state, before = self.settle(source), self.settle(target)
        after = restored(before, kind, state)
        data = self.ask("GET", f"/sandbox/{source}/export{query}").raw
        digest = hashlib.sha256(data).hexdigest()
        try:
            self.ask("POST", f"/sandbox/{target}/import{query}{'&' if kind else '?'}sha256={digest}", data)
            self.boxes[target].states = [after]
        except Doubt:
            self.boxes[target].states = [before, after]
            raise

    def archive(self):
        name = self.any_box()
        self.ask("POST", f"/sandbox/{name}/archive", good=(200, 201, 409))  # 409: it has snapshots

    def patch(self):
        held = self.boxes[self.any_box()]
        labels = {"n": str(next(self.numbers))}
        self.check_labels(held)
        try:
            self.ask("PATCH", f"/sandbox/{held.name}", {"labels": labels})
            held.labels = [labels]
        except Doubt:
            held.labels = held.labels + [labels]
            raise

    def check_labels(self, held):
        now = self.sure("GET", f"/sandbox/{held.name}").json["labels"]
        assert now in held.labels, (held.name, now, held.labels)
        held.labels = [now]

    def sync(self):
        held = self.boxes[self.any_box()]
        now = below(self.settle(held.name), "/workspace")
        held.stored = None
        try:
            self.ask("POST", f"/sandbox/{held.name}/sync", {})
            held.stored = now
        except Doubt:
            if self.rng.randrange(2):
                self.sure("POST", f"/sandbox/{held.name}/sync", {})
                held.stored = now
            raise

    def rebirth(self):
        """Destroyed, and made again of what the store has."""
        able = [name for name in sorted(self.boxes) if self.boxes[name].stored is not None]
        if not able:
            return self.sync()
        name = self.rng.choice(able)
        held = Held(name, [self.boxes[name].stored])
        held.stored = self.boxes[name].stored
        body = {**SETTINGS, "restore": True}
        self.destroy(name)
        try:
            self.ask("PUT", f"/sandbox/{name}", body)
        except Doubt:  # half of one is on its way out
            assert wait_until(lambda: self.sure("PUT", f"/sandbox/{name}", body, good=(200, 201, 409)).status != 409)
            raise
        finally:
            self.boxes[name] = held

    # -- going on

    def step(self):
        kind = self.rng.choice(self.kinds)
        self.done[kind] = self.done.get(kind, 0) + 1
        began = time.monotonic()
        if self.trouble is not None:
            self.trouble(self.rng)
        self.is_armed = self.rng.randrange(5) < 2
        try:
            getattr(self, kind)()
        except Doubt:
            self.doubts += 1
        finally:
            if self.killer is not None:
                self.killer.join()
                self.killer = None
        for name in sorted(self.boxes):
            if self.rng.randrange(3) == 0:
                self.settle(name)
        self.thin_out()
        self.seconds[kind] = self.seconds.get(kind, 0) + time.monotonic() - began

    def start_killer(self):
        after = self.rng.random() * self.rng.choice((0.004, 0.02, 0.1))
        both = self.rng.randrange(6) == 0
        self.kills += 1

        def kill():
            time.sleep(after)
            if both:
                self.server.kill_both()
                self.server.start()
            else:
                self.server.wait_for_another(self.server.kill_daemon())

        thread = threading.Thread(target=kill)
        thread.start()
        return thread

    def thin_out(self):
        """Few things at a time: more would only be slower."""
        while len(self.boxes) > 5:
            self.destroy(self.any_box())
        while len(self.backups) > 4:
            backup = self.rng.choice(sorted(self.backups))
            self.sure("DELETE", f"/backups/{backup}", good=(200, 404))
            del self.backups[backup]

    def destroy(self, name):
        self.sure("DELETE", f"/sandbox/{name}", good=(200, 204, 404))
        del self.boxes[name]
        for key in [key for key in self.snapshots if key[0] == name]:
            del self.snapshots[key]

    def check_all(self):
        """Every byte that was ever promised: sandboxes, snapshots, backups."""
        for name in sorted(self.boxes):
            self.settle(name)
            self.check_labels(self.boxes[name])
        for name, snapshot in sorted(self.snapshots):
            child = self.new_name()
            self.sure("POST", f"/sandbox/{name}/fork", {"id": child, "snapshot": snapshot})
            self.boxes[child] = Held(child, [self.snapshots[name, snapshot]])
            self.settle(child)
            self.destroy(child)
        for backup, (kind, state) in sorted(self.backups.items()):
            name = self.create()
            after = restored(self.settle(name), kind, state)
            self.sure("POST", f"/sandbox/{name}/restore", {"backup": backup})
            self.boxes[name].states = [after]
            self.settle(name)
            self.destroy(name)

    def remove_all(self):
        for name in sorted(self.boxes):
            self.destroy(name)
        for backup in sorted(self.backups):
            self.sure("DELETE", f"/backups/{backup}")
        self.backups.clear()
