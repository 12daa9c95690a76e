# SPDX-License-Identifier: Apache-2.0
"""A stand-in that plays cells: what `cay code` and `cay repl` do with events, and where those break. What
cells really give is tested against the real daemon."""

import json
import threading

from standin import StandIn, answer, chunked

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def event(name, data, number=None):
    """One server-sent event."""
    mark = f"id: c-1:{number}\n" if number is not None else ""
    return f"{mark}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


START = event("start", {"id": "c-1", "context": "x-1", "language": "python"}, 0)


def end(reason="done", **more):
    return event("end", {"success": reason == "done", "reason": reason, "executionCount": 1, "duration": 1, **more})


class Cells(StandIn):
    """Answers each connection in a thread of its own. `cell(request, number)` gives the pieces for the
    code that is sent; all else succeeds and is noted."""

    def __init__(self, directory):
        self.cell = lambda request, number: [chunked(START, end())]
        self.cells = []
        self.lock = threading.Lock()
        super().__init__(directory)
        self.answer = self.reply

    def serve(self, conn):
        copy = conn.dup()
        thread = threading.Thread(target=self.serve_one, args=(copy,), daemon=True)
        thread.start()

    def serve_one(self, conn):
        with conn:
            try:
                super().serve(conn)
            except (BrokenPipeError, ConnectionResetError):
                pass

    def reply(self, request, number):
        del number
        if request.target.endswith("/code") and request.method == "POST":
            with self.lock:
                self.cells.append(json.loads(request.body))
                at = len(self.cells) - 1
            return self.cell(request, at)
        if request.target == "/sandbox" and request.method == "POST":
            return [answer(b'{"sandboxId": "made-1"}', "201 Created")]
        return [answer(b'{"success": true, "id": "made-1"}')]

    def asked(self):
        return [f"{r.method} {r.target}" for r in self.requests]

    def play_cell(self, *events):
        self.cell = lambda request, number: [chunked(START, *events)]
