# SPDX-License-Identifier: Apache-2.0
"""A model writes Python, a sandbox runs it, and the value comes back; an error goes back to the model, once.

    python3 main.py                                           # without a model: code that is here already
    ANTHROPIC_API_KEY=... python3 main.py 'the first ten primes'

(`cay ask` and `POST /execute` do all this on the server, whose key nobody else has to know.)
"""

import json
import os
import re
import sys
import urllib.request
from typing import Dict, List

import cay

QUESTION = "the mean of 3, 5 and 10"
CODE = "import statistics\nprint('computing')\nstatistics.mean([3, 5, 10])"
SYSTEM = "Write Python code that answers the question. Its last line is an expression with the answer. Only code, no words."

Messages = List[Dict[str, str]]


def ask_model(messages: Messages) -> str:
    """Its code, without the fence that it may have put around it."""
    key = os.environ.get("ANTHROPIC_API_KEY")
    if not key:
        return CODE
    url = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
    model = os.environ.get("MODEL", "claude-sonnet-5-5")
    body = {"model": model, "max_tokens": 2048, "system": SYSTEM, "messages": messages}
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        text = "".join(part.get("text", "") for part in json.load(answer)["content"])
    fenced = re.search(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
    return fenced[1] if fenced else text


def show(done: cay.Execution) -> None:
    print("printed:", "".join(done.logs.stdout), end="" if done.logs.stdout else "\n")
    for result in done.results:  # a value in every form that it has: text, html of a table, png of a figure
        print(f"{result.type}: {result.text}  ({', '.join(result.formats())})")
    if done.error is not None:
        print(f"error in line {done.error.line_number}: {done.error.name}: {done.error.message}")


question = " ".join(sys.argv[1:]) or QUESTION
messages: Messages = [{"role": "user", "content": question}]

# The code is a stranger's: it reaches no network, has limits, and is gone with its sandbox.
with cay.get_sandbox(languages=["python"], memory="512m") as box:
    context = box.create_code_context("python", timeout="30s")
    for attempt in range(2):
        code = ask_model(messages)
        print(code)
        print("--")
        done = box.run_code(code, context=context)
        show(done)
        if done.error is None:
            break
        traceback = "\n".join(done.error.traceback)
        messages += [{"role": "assistant", "content": code}, {"role": "user", "content": f"That failed:\n{traceback}"}]
sys.exit(0 if done.success else 1)
