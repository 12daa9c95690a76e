# SPDX-License-Identifier: Apache-2.0
"""Clients at work while the daemon is killed. Each has a sandbox of its own and knows what must be true of
it: what was answered was done, once; what was not answered was done once or not at all."""

import itertools
import random
import threading
import time
import traceback

from crash_helpers import PATIENCE, Broken

SURE, MAYBE = "sure", "maybe"
SEQ = 20000  # lines of a process: more than a pipe holds


class Worker(threading.Thread):
    def __init__(self, server, name, seed):
        super().__init__(daemon=True)
        self.server, self.sandbox = server, name
        self.client = server.client()
        self.chance = random.Random(seed)
        self.numbers = itertools.count()
        self.exists = False  # None: not known
        self.lines = {}  # of /workspace/f: SURE or MAYBE
        self.over = threading.Event()
        self.failure = None
        self.done = 0

    def run(self):
        try:
            while not self.over.is_set():
                self.step()
                self.done += 1
            self.finish()
        except Exception:  # pylint: disable=broad-except
            self.failure = traceback.format_exc()

    def end(self):
        self.over.set()
        self.join(PATIENCE * 3)
        assert not self.is_alive(), f"{self.sandbox} hangs"
        assert self.failure is None, self.failure

    # -- one step

    def step(self):
        if self.exists is None:
            self.look()
        elif not self.exists:
            self.create()
        else:
            steps = [self.append] * 4 + [self.append_with_key] * 3 + [self.run_process] * 3
            steps += [self.check, self.sleep, self.wake, self.destroy]
            self.chance.choice(steps)()

    def path(self, rest=""):
        return f"/sandbox/{self.sandbox}{rest}"

    def look(self):
        """After something that was not answered."""
        answer = self.client.again("GET", self.path())
        assert answer.status in (200, 404), answer
        if answer.status == 200 and answer.json["status"] == "destroying":
            time.sleep(0.01)
            return
        self.exists = answer.status == 200
        if not self.exists:
            self.lines = {}

    def create(self):
        self.lines = {}
        try:
            answer = self.client.call("PUT", self.path(), {"sleepAfter": "1h"})
        except Broken:
            self.exists = None
            return
        assert answer.status in (201, 503), answer
        self.exists = answer.status == 201

    def destroy(self):
        try:
            answer = self.client.call("DELETE", self.path())
        except Broken:
            self.exists = None
            return
        assert answer.status == 200, answer
        self.exists = False
        assert self.client.again("GET", self.path()).status == 404

    def sleep(self):
        try:
            answer = self.client.call("POST", self.path("/sleep"))
            assert answer.status == 200 and answer.json["status"] == "sleeping", answer
        except Broken:
            pass

    def wake(self):
        answer = self.client.again("POST", self.path("/wake"))
        assert answer.status == 200 and answer.json["status"] == "running", answer

    # -- what is done once

    def new_line(self):
        return f"{self.sandbox}-{next(self.numbers)}"

    def append(self):
        line = self.new_line()
        self.lines[line] = MAYBE
        try:
            answer = self.client.call("POST", self.path("/exec"), {"command": f"echo {line} >> /workspace/f"})
        except Broken:
            return
        assert answer.status == 200 and answer.json["success"], answer
        self.lines[line] = SURE

    def append_with_key(self):
        """Sent again until it is answered: done once, or it is said that nobody knows."""
        line = self.new_line()
        body = {"command": f"echo {line} >> /workspace/f; echo did {line}"}
        self.lines[line] = MAYBE
        answer = self.call_with_key(body, line)
        if answer.status == 409:
            assert answer.json["error_code"] == "OUTCOME_UNKNOWN", answer
            return
        assert answer.status == 200 and answer.json["stdout"] == f"did {line}\n", answer
        self.lines[line] = SURE
        second = self.call_with_key(body, line)
        assert second.status == 200 and second.raw == answer.raw, (answer, second)

    def call_with_key(self, body, key):
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.client.again("POST", self.path("/exec"), body, Idempotency_Key=key)
            running = answer.status == 409 and answer.json["error_code"] == "REQUEST_IN_PROGRESS"
            if not running or time.monotonic() > deadline:
                return answer
            assert "Retry-After" in answer.headers, answer
            time.sleep(0.02)

    # -- a process whose output and end nobody may lose

    def run_process(self):
        number = next(self.numbers)
        name = f"p-{number}"
        command = f"seq {number} {number + SEQ}; echo e{number} >&2; exit 3"
        try:
            answer = self.client.call("POST", self.path("/processes"), {"id": name, "command": command})
            assert answer.status == 201, answer
            sure = True
        except Broken:
            sure = False
        self.check_process(name, number, sure)

    def check_process(self, name, number, sure):
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.client.again("GET", self.path(f"/processes/{name}"))
            if answer.status == 404 and not sure:
                return
            assert answer.status == 200, answer
            process = answer.json["process"]
            if process["status"] == "ended":
                break
            assert time.monotonic() < deadline, process
            time.sleep(0.02)
        if process["reason"] == "box_lost" and not sure:
            return  # it was not known whether it had been started
        assert (process["reason"], process["exitCode"]) == ("exit", 3), process
        wanted = "".join(f"{n}\n" for n in range(number, number + SEQ + 1)).encode()
        assert self.log_of(name, "stdout") == wanted, process
        assert self.log_of(name, "stderr") == f"e{number}\n".encode(), process

    def log_of(self, name, stream):
        answer = self.client.again(
            "GET", self.path(f"/processes/{name}/logs?stream={stream}"), Accept="application/octet-stream"
        )
        assert answer.status == 200, answer
        return answer.raw

    # -- whether it is all true

    def check(self):
        answer = self.client.again("POST", self.path("/exec"), {"command": "cat /workspace/f 2>/dev/null; true"})
        assert answer.status == 200 and answer.json["success"], answer
        found = answer.json["stdout"].split()
        assert len(found) == len(set(found)), f"done twice: {found}"
        assert set(found) <= set(self.lines), f"from nowhere: {set(found) - set(self.lines)}"
        missing = {line for line, kind in self.lines.items() if kind == SURE} - set(found)
        assert not missing, f"answered, but not done: {missing}"

    def finish(self):
        while self.exists is None:
            self.look()
        if not self.exists:
            return
        self.check()
        while self.exists is not False:
            if self.exists:
                self.destroy()
            else:
                self.look()
