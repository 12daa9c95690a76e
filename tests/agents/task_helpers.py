# SPDX-License-Identifier: Apache-2.0
"""Tasks whose agent is a shell: what it does is what its task says, and so it can do everything that agents may do wrong."""

import json
import os
import pathlib

from api_helpers import Client

AGENTS = {
    "shell": """
program /bin/sh
arg     -s
input   {task}
output  lines
components claude
on      /type=result : end text=/result failed=/is_error error=/error turns=/turns
on      /type=result /subtype=error_max_turns : code=MAX_TURNS
log     /type=say : {/text}
""",
    "plain": """
program /bin/sh
arg     -s
input   {task}
output  text
""",
    "asker": """
program /bin/sh
needs   model
memory  256m
arg     -s
input   {task}
output  text
""",
    "absent": """
program no-such-agent
image   agents
input   {task}
output  text
""",
}

OK = """echo '{"type": "result", "result": "done", "turns": 1}'\n"""
# Asks the model by the socket that a box has for it.
ASK = """curl -sS --fail-with-body --unix-socket /run/cay/anthropic.sock http://localhost/v1/messages \\
  -H 'anthropic-version: 2023-06-01' --json '{"model": "claude-sonnet-5-5", "max_tokens": 100,
  "messages": [{"role": "user", "content": "[[text: hello]]"}]}'\n"""


def write_agents(folder):
    """The files of these agents, where a server reads them (its flag --agents)."""
    os.makedirs(folder, exist_ok=True)
    for name, text in AGENTS.items():
        (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
    return str(folder)


class Tasks:
    """What is asked of one server."""

    def __init__(self, server):
        self.server, self.api = server, Client(server)

    @staticmethod
    def body(script, agent="shell", repo=None, **options):
        body = {"task": script, "options": {"agent": agent, **options}}
        if repo is not None:
            body["repo"] = repo
        return body

    def post(self, script, **more):
        return self.api("POST", "/execute", self.body(script, **more))

    def run(self, script, **more):
        reply = self.post(script, **more)
        assert reply.status == 200, reply
        return reply.json

    def good(self, script, **more):
        done = self.run(script, **more)
        assert done["success"], done
        return done

    def bad(self, code, script, **more):
        done = self.run(script, **more)
        assert not done["success"] and done["error_code"] == code, done
        return done

    def stream(self, script, **more):
        return self.api.stream("POST", "/execute", self.body(script, **more))

    def begin(self, script, before="", **more):
        """Begins one and leaves it when its agent has done what is to be done before, and has said something. Its id and
        its sandbox."""
        with self.stream(before + "echo '{\"type\": \"say\", \"text\": \"it begins\"}'\n" + script, **more) as stream:
            events = stream.until("message")
        box = next(e.data["sandboxId"] for e in events if e.name == "sandbox")
        return events[0].data["request_id"], box

    def wait(self, request):
        """Its answer, once it has one."""
        with self.api.stream("GET", f"/execute/{request}") as stream:
            return stream.until("done")[-1].data

    def is_gone(self, box):
        return self.api("GET", f"/sandbox/{box}").status == 404

    def names(self, done):
        return {f["path"]: f["status"] for f in done["files"]}


def dumps(value):
    return json.dumps(value)
