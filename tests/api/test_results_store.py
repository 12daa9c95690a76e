# SPDX-License-Identifier: Apache-2.0
"""Answers of models as objects in the store: copied, removed with their rows, kept by policy."""

import itertools
import json
import os

from api_helpers import Client, eventually, kill_daemon
from test_sync import traced

numbers = itertools.count(1)


def ask(api):
    question = f"Stored {os.getpid()}-{next(numbers)}. Print 1"
    return api.ok("POST", "/execute", {"question": question})["request_id"]


def where(server, id_):
    return server.data / "store" / "admin" / "results" / id_


def is_stored(server, id_):
    return (where(server, id_) / "answer.json").exists()


def test_copied_and_removed(asked):
    server = asked.server
    ids = [ask(asked) for _ in range(3)]
    for id_ in ids:
        eventually(lambda i=id_: is_stored(server, i))
        stored = json.loads((where(server, id_) / "answer.json").read_bytes())
        assert stored == asked("GET", f"/execute/{id_}").json
    asked.ok("DELETE", f"/execute/{ids[1]}")
    eventually(lambda: not where(server, ids[1]).exists())
    assert is_stored(server, ids[0]) and is_stored(server, ids[2])


def test_on_the_disk_before_it_counts_as_stored(asked, tmp_path):
    with traced(asked.server.daemon_pid(), tmp_path / "trace", "syncfs", "renameat") as calls:
        id_ = ask(asked)
        eventually(lambda: is_stored(asked.server, id_))
        eventually(lambda: "syncfs" in (tmp_path / "trace").read_text())
    seen = [name for line in calls for name in ('"answer.json"', "syncfs") if name in line]
    assert seen == ['"answer.json"', "syncfs"], calls


def test_a_store_that_is_down_gets_them_later(make_server, model):
    server = make_server(env=model.env())
    api = Client(server)
    first = ask(api)
    eventually(lambda: is_stored(server, first))
    dirs = [server.data / "store", *(p for p in (server.data / "store").rglob("*") if p.is_dir())]
    uid = os.stat(dirs[0]).st_uid
    for dir_ in dirs:
        os.chown(dir_, 0, 0)
    second = ask(api)
    assert api("GET", f"/execute/{second}").status == 200
    for dir_ in dirs:
        os.chown(dir_, uid, uid)
    kill_daemon(server, api)  # so that nobody has to wait until it is tried again
    eventually(lambda: is_stored(server, second))


def test_so_many_and_no_more(make_server, model):
    server = make_server("--max-results", "3", "--max-results-bytes", "1m", env=model.env())
    api = Client(server)
    ids = []
    for _ in range(5):
        ids.append(ask(api))
        eventually(lambda: is_stored(server, ids[-1]))
    listed = [r["request_id"] for r in api.ok("GET", "/execute")["results"]]
    assert listed == ids[:1:-1]
    eventually(lambda: not where(server, ids[0]).exists() and not where(server, ids[1]).exists())
    assert all(is_stored(server, i) for i in ids[2:])
