# SPDX-License-Identifier: Apache-2.0
"""For tests: a stand-in for the Messages API as a process of its own, which ends with the test's.

    sys.path.insert(0, str(TESTS / "standin"))
    from standin_helper import StandIn

    with StandIn() as model:
        serve(ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY=model.key)
        ask("[[code: print(1)]]")
        assert model.requests("print(1)")[0]["body"]["max_tokens"] == 2048
"""

import json
import pathlib
import subprocess
import urllib.parse
import urllib.request

PROGRAM = pathlib.Path(__file__).resolve().parent / "standin.py"


class StandIn:
    key = "sk-ant-stand-in"

    def __init__(self, *flags):
        command = ["/usr/bin/python3", str(PROGRAM), "--die-with-parent", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the stand-in has not started: {self.process.wait()}")

    def env(self):
        """What makes a client of the API ask the stand-in."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": self.key}

    def call(self, method, path):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=60) as answer:
            return json.load(answer)

    def requests(self, contains=""):
        """What was sent, oldest first: {method, path, query, headers, body, status, state}. `state` is open, done, dropped
        (by us) or client-gone."""
        return self.call("GET", f"/_requests?{urllib.parse.urlencode({'contains': contains})}")

    def messages(self, contains=""):
        """The bodies of the requests for messages."""
        return [r["body"] for r in self.requests(contains) if r["path"] == "/v1/messages"]

    def clear(self):
        self.call("DELETE", "/_requests")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
