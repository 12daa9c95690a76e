# SPDX-License-Identifier: Apache-2.0
"""What the tests of code and contexts share."""


def waits_in(name):
    """Code that waits until there is a file of this name in /workspace."""
    return f"import os as _os, time as _time\nwhile not _os.path.exists('/workspace/{name}'):\n    _time.sleep(0.005)"


WAIT = waits_in("go")


def go(api, box, name="go"):
    api.exec(box, f"touch /workspace/{name}")


def make(api, box, **body):
    return api.ok("POST", f"/sandbox/{box}/contexts", body)


def run(api, box, code, headers=None, **more):
    return api.ok("POST", f"/sandbox/{box}/code", {"code": code, **more}, headers)


def text_of(result):
    """The text of a cell's value."""
    assert result["success"], result
    values = [r["text"] for r in result["results"] if r["type"] == "result"]
    assert len(values) == 1, result
    return values[0]


def gone(api, path):
    api("GET", path).error(404, "NOT_FOUND")


def merged(events):
    """Events with neighbours of one stream put together: how they were cut does not matter."""
    found = []
    for event in events:
        is_output = event.name in ("stdout", "stderr")
        if is_output and found and found[-1][0] == event.name:
            found[-1] = (event.name, found[-1][1] + event.data["text"])
        else:
            found.append((event.name, event.data["text"] if is_output else event.data))
    return found
