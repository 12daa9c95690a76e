# SPDX-License-Identifier: Apache-2.0
"""Conversations with tools: what the tests of POST /execute/sdk share. The model is a stand-in (tests/standin)."""

import base64
import itertools
import json
import os

numbers = itertools.count(1)


def unique(text):
    """A prompt that nobody has sent before: faults that are counted are this test's own."""
    return f"Talk {os.getpid()}-{next(numbers)}. {text}"


def use(name, **values):
    """The marker that makes the model use a tool. In base64: what is in it need not pair its brackets."""
    return f"[[tool-b64: {base64.b64encode(f'{name} {json.dumps(values)}'.encode()).decode()}]]"


def then(*markers):
    """What the model does after the results."""
    return f"[[then: {''.join(markers)}]]"


def post(client, prompt, headers=None, **options):
    return client("POST", "/execute/sdk", {"prompt": unique(prompt), "options": options}, headers)


def talk(client, prompt, **options):
    reply = post(client, prompt, **options)
    assert reply.status == 200, reply
    return reply.json


def good(client, prompt, **options):
    answer = talk(client, prompt, **options)
    assert answer["success"] is True and answer["error"] is None and answer["error_code"] is None, answer
    return answer


def messages(answer, kind):
    return [m for m in answer["messages"] if m["type"] == kind]


def results(answer):
    """What tools answered, in order."""
    return [block for m in messages(answer, "user") for block in m["message"]["content"]]


def one_result(client, marker, tools, **options):
    """The answer of one tool: (text, is_error)."""
    [block] = results(good(client, marker, allowed_tools=tools, **options))
    assert block["type"] == "tool_result"
    return block["content"], block.get("is_error", False)
