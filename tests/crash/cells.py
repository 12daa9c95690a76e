# SPDX-License-Identifier: Apache-2.0
"""Clients that run code while the daemon is killed. What a context knows is compared with what its cells wrote into a
file: each writes one line, with a number that its context counts. So the lines tell what ran, how often, and in which
state."""

import threading
import time

from crash_helpers import PATIENCE, Broken, wait_until
from load import Worker

DEFAULT = "default-python"
# Nothing interrupts what counts.
STEP = """
import signal as _signal
_signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
n = globals().get("n", 0) + 1
with open("/workspace/cells", "a") as _file:
    _file.write("{context} {token} %d\\n" % n)
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
print("{token}")
"""
LONG = (
    STEP
    + """
import os as _os, time as _time
_i = 0
while not _os.path.exists("/workspace/stop-{token}"):
    print(_i, flush=True)
    _i += 1
    _time.sleep(0.005)
"""
)


class CellWorker(Worker):
    """One sandbox with a few contexts. A context that nobody has ended must be there, with its variables."""

    def __init__(self, server, name, seed):
        super().__init__(server, name, seed)
        self.contexts = {}  # by id: whether its count may be begun anew
        self.tokens = {}  # answered or not

    def step(self):
        if self.exists is None:
            self.look()
        elif not self.exists:
            self.create()
            self.contexts, self.tokens = {}, {}
        else:
            steps = [self.cell] * 6 + [self.cell_with_key] * 3 + [self.add_context] * 2 + [self.long_cell] * 2
            steps += [self.interrupt, self.time_out, self.restart, self.remove, self.check]
            steps += [self.destroy] if self.chance.random() < 0.3 else []
            self.chance.choice(steps)()

    # -- what is run

    def pick(self):
        return self.chance.choice([DEFAULT, *self.contexts]) if self.contexts else DEFAULT

    def body(self, context, token, code=STEP, **more):
        code = code.replace("{context}", context).replace("{token}", token)
        where = {"language": "python"} if context == DEFAULT else {"context": context}
        return {"code": code, **where, **more}

    def new_token(self, context):
        token = f"t{next(self.numbers)}"
        self.tokens[token] = (context, False)
        if context == DEFAULT and context not in self.contexts:
            self.contexts[context] = True  # it has no row before its first cell has ended
        return token

    def answered(self, context, token):
        if context == DEFAULT and self.contexts[context] is True:
            self.contexts[context] = "once"  # what follows the answer may have been cut off
        else:
            self.contexts[context] = False
        self.tokens[token] = (context, True)

    def cell(self):
        context = self.pick()
        token = self.new_token(context)
        try:
            answer = self.client.call("POST", self.path("/code"), self.body(context, token))
        except Broken:
            return
        assert answer.status == 200 and answer.json["success"], (context, answer)
        assert "".join(answer.json["logs"]["stdout"]).endswith(f"{token}\n"), answer
        self.answered(context, token)

    def cell_with_key(self):
        """Sent until it is answered: run once, or it is said that nobody knows."""
        context = self.pick()
        token = self.new_token(context)
        answer = self.code_with_key(self.body(context, token), f"{self.sandbox}-{token}")
        if answer.status == 409:
            assert answer.json["error_code"] == "OUTCOME_UNKNOWN", answer
            return
        assert answer.status == 200 and answer.json["success"], (context, answer)
        self.answered(context, token)

    def code_with_key(self, body, key):
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.client.again("POST", self.path("/code"), body, Idempotency_Key=key)
            running = answer.status == 409 and answer.json["error_code"] == "REQUEST_IN_PROGRESS"
            if not running or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    # -- cells that last

    def side(self, body):
        """Runs it beside us; the answer, or None."""
        found = []

        def ask():
            client = self.server.client()
            try:
                found.append(client.call("POST", self.path("/code"), body))
            except (Broken, ConnectionRefusedError):
                found.append(None)
            client.close()

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        return thread, found

    def wait_idle(self, context):
        """Its cells have ended, also those that nobody asks for any more."""

        def is_idle():
            answer = self.client.again("GET", self.path(f"/contexts/{context}"))
            if answer.status == 404 and context == DEFAULT:
                return True
            assert answer.status == 200, answer
            assert answer.json["status"] != "dead", answer
            return answer.json["status"] == "idle"

        assert wait_until(is_idle), self.client.again("GET", self.path(f"/contexts/{context}"))

    def long_cell(self):
        context = self.pick()
        token = self.new_token(context)
        thread, found = self.side(self.body(context, token, LONG))
        time.sleep(self.chance.random() * 0.4)
        self.client.again("PUT", self.path(f"/files/workspace/stop-{token}"), b"")
        thread.join(PATIENCE)
        assert found, f"a cell of {self.sandbox} is never answered"
        if found[0] is not None:
            assert found[0].status == 200 and found[0].json["success"], found[0]
            self.answered(context, token)
        self.wait_idle(context)

    def interrupt(self):
        context = self.pick()
        token = self.new_token(context)
        thread, found = self.side(self.body(context, token, LONG))
        path = self.path(f"/contexts/{context}/interrupt")

        def is_over():
            try:
                self.client.call("POST", path)
            except Broken:
                pass
            return bool(found)

        assert wait_until(is_over, every=0.05), context
        thread.join()
        if found[0] is not None:
            assert found[0].status == 200 and found[0].json["reason"] == "interrupted", found[0]
            self.answered(context, token)
            self.wait_idle(context)
        else:  # it may go on where nobody is any more
            self.client.again("PUT", self.path(f"/files/workspace/stop-{token}"), b"")
            self.wait_idle(context)

    def time_out(self):
        """A deadline holds, whoever waits for it."""
        context = self.pick()
        token = self.new_token(context)
        body = self.body(context, token, LONG, timeout=self.chance.choice([150, 400]))
        try:
            answer = self.client.call("POST", self.path("/code"), body)
            assert answer.status == 200 and answer.json["reason"] == "timeout", answer
            assert not answer.json.get("contextDied"), answer
            self.answered(context, token)
        except Broken:
            self.client.again("PUT", self.path(f"/files/workspace/stop-{token}"), b"")
        self.wait_idle(context)

    # -- contexts

    def add_context(self):
        if len(self.contexts) > 4:
            return
        name = f"c{next(self.numbers)}"
        language = self.chance.choice(["python", "python", "python"])
        try:
            answer = self.client.call("POST", self.path("/contexts"), {"id": name, "language": language})
            assert answer.status == 201, answer
        except Broken:
            answer = self.client.again("GET", self.path(f"/contexts/{name}"))
            if answer.status == 404:
                return
            assert answer.status == 200 and answer.json["status"] == "idle", answer
        self.contexts[name] = False

    def restart(self):
        context = self.pick()
        if context not in self.contexts:
            return
        self.contexts[context] = True
        try:
            answer = self.client.call("POST", self.path(f"/contexts/{context}/restart"))
            assert answer.status in (200, 404 if context == DEFAULT else 200), answer
        except Broken:
            state = self.client.again("GET", self.path(f"/contexts/{context}"))
            if state.status == 404:
                assert context == DEFAULT
            elif state.json["status"] == "dead":  # ended, and not begun again
                assert self.client.again("POST", self.path(f"/contexts/{context}/restart")).status in (200, 409)
                self.wait_idle(context)

    def remove(self):
        context = self.pick()
        if context not in self.contexts:
            return
        assert self.client.again("DELETE", self.path(f"/contexts/{context}")).status in (200, 404)
        assert self.client.again("GET", self.path(f"/contexts/{context}")).status == 404
        del self.contexts[context]
        self.tokens = {token: told for token, told in self.tokens.items() if told[0] != context}

    # -- whether it is all true

    def what_ran(self):
        answer = self.client.again("POST", self.path("/exec"), {"command": "cat /workspace/cells 2>/dev/null; true"})
        assert answer.status == 200 and answer.json["success"], answer
        return [line.split() for line in answer.json["stdout"].splitlines()]

    def check(self):
        for context in list(self.contexts):
            self.wait_idle(context)
            self.check_context(context)
        lines = self.what_ran()
        ran = [token for _, token, _ in lines]
        assert len(ran) == len(set(ran)), f"run twice: {lines}"
        missing = {token for token, (_, sure) in self.tokens.items() if sure} - set(ran)
        assert not missing, f"answered, but not run: {missing}"

    def check_context(self, context):
        body = self.body(context, "", "print(globals().get('n', 0))")
        answer = self.client.again("POST", self.path("/code"), body)
        assert answer.status == 200 and answer.json["success"], (context, answer)
        count = int("".join(answer.json["logs"]["stdout"]).split()[-1])
        mine = [int(number) for name, _, number in self.what_ran() if name == context]
        wanted = {mine[-1] if mine else 0}
        if self.contexts[context]:
            wanted.add(0)
        assert count in wanted, (context, self.contexts[context], count, mine, self.client.again("GET", self.path("/contexts")))
        for before, after in zip(mine, mine[1:]):
            assert after in (before + 1, 1), mine
