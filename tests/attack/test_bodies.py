# SPDX-License-Identifier: Apache-2.0
"""Bodies that are not what a route takes. Whatever comes: a clear error, and nothing was done."""

import json
import time

import pytest
from attack_helpers import ask, daemon_pid, is_error, memory, raw_connect, read_reply

DEEP = 10**6

# A name for a test's output, and bytes that no route takes.
NOT_TAKEN = {
    "not JSON": b"hello",
    "half": b'{"id": "x"',
    "two": b"{}{}",
    "trailing comma": b'{"id":"x",}',
    "comment": b"{} // x",
    "single quotes": b"{'id': 'x'}",
    "array": b"[]",
    "text": b'"x"',
    "number": b"1",
    "null": b"null",
    "true": b"true",
    "bare NaN": b'{"x": NaN}',
    "bare Infinity": b'{"timeout": -Infinity}',
    "1e400": b'{"timeout": 1e400}',
    "-1e400": b'{"memory": -1e400}',
    "huge integer": b'{"memory": ' + b"9" * 400 + b"}",
    "leading zero": b'{"memory": 0123}',
    "hex": b'{"memory": 0x10}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"id": "x"}'.encode("utf-16"),
    "UTF-32": '{"id": "x"}'.encode("utf-32-le"),
    "bad UTF-8": b'{"id": "\xff\xfe"}',
    "overlong UTF-8": b'{"id": "\xc0\xaf"}',
    "surrogate in UTF-8": b'{"id": "\xed\xa0\x80"}',
    "beyond Unicode": b'{"id": "\xf4\x90\x80\x80"}',
    "cut UTF-8": b'{"id": "\xe2\x82"}',
    "lone high surrogate": b'{"id": "\\ud800"}',
    "lone low surrogate": b'{"id": "\\udc00x"}',
    "surrogates reversed": b'{"id": "\\udc00\\ud800"}',
    "bad escape": b'{"id": "\\x41"}',
    "short escape": b'{"id": "\\u12"}',
    "control character": b'{"id": "a\nb"}',
    "NUL byte": b'{"id": "x"}\0',
    "NUL byte inside": b'{"id": "a\0b"}',
    "NUL in a name": b'{"id\\u0000x": "x"}',
    "empty name": b'{"": "x"}',
    "unknown name": b'{"nonsense": 1}',
    "prototype": b'{"__proto__": {"admin": true}, "constructor": {}}',
    "case of a name": b'{"ID": "x", "Command": "true"}',
    "deep arrays": b'{"x": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep and open": b"[" * DEEP,
    "deep by one": b'{"x": ' + b"[" * 32 + b"]" * 32 + b"}",
}


def send(server, route, world, body):
    return ask(server, f"{route.method} {route.at(**world.ids)}", world.sender(route), body=body)


@pytest.fixture
def target(world, admin):
    """Who sends: the one who may, so that only the body is wrong."""
    world.sender = lambda route: admin.token if route.is_admin else world.alice.token
    return world


def test_not_taken_by_any_route(server, routes, target):
    for route in routes:
        if route.takes_bytes:
            continue
        for name, body in NOT_TAKEN.items():
            if len(body) > DEEP and route.name not in ("exec", "createSandbox"):
                continue  # the same reader for all
            reply = send(server, route, target, body)
            assert is_error(reply, 400), (route, name)


def test_no_body_where_none_is_taken(server, routes, target):
    for route in routes:
        if route.schema is None and not route.takes_bytes:
            assert "no body" in is_error(send(server, route, target, b"{}"), 400)


def test_names_that_come_twice(server, routes, target):
    for route in routes:
        if route.schema is None:
            continue
        for name, value in route.body.items():
            text = json.dumps({name: value})[1:-1]
            escaped = text.replace(name, "".join(f"\\u{ord(c):04x}" for c in name), 1)
            for second in (text, escaped):
                error = is_error(send(server, route, target, f"{{{text}, {second}}}".encode()), 400)
                assert name in error or "uplicate" in error, error


def test_nothing_where_something_is_needed(server, routes, target):
    may_be_empty = {"createSandbox", "putSandbox", "patchSandbox", "createSession", "createContext", "putTenant", "makeSnapshot", "fork", "makeBackup", "sync", "makeContainerUrl"}
    for route in routes:
        if route.schema is not None and route.name not in may_be_empty:
            for body in (b"", b"{}", b" \r\n\t"):
                if route.name != "writeStdin":
                    is_error(send(server, route, target, body), 400)


# -- every field


SOME = {"string": "x", "integer": 7, "number": 0.5, "boolean": True, "array": ["x"], "object": {"a": "b"}}
NO_NUMBER = ["", " ", "x", "-1", "1e3", "NaN", "0x10", "1 g", "1gg", "1\u0000", "99999999999999999999999", "\u0661"]


def wrong_values(spec):
    """Values that a field of this schema does not take."""
    if "type" not in spec:  # any JSON, for a parser of its own
        yield from (7, True, ["x"], "x")
        return
    types = spec["type"] if isinstance(spec["type"], list) else [spec["type"]]
    if "number" in types:
        types = [*types, "integer"]
    yield from (value for kind, value in SOME.items() if kind not in types)
    if "object" not in types:
        yield {}
    if "array" not in types:
        yield []
    if "string" in types and len(types) == 1:
        if "maxLength" in spec:
            yield "x" * (spec["maxLength"] + 1)
    elif "string" in types:
        yield from NO_NUMBER
    if "minimum" in spec:
        yield from (spec["minimum"] - 1, -1, -(2**63), -1.5e300)
    if "maximum" in spec:
        yield from (int(spec["maximum"] * 1.01) + 2, 2**63 - 1, 1.5e300)
    if "array" in types:
        yield from ([1], [None], ["x", {}], ["a\u0000b"], [["x"]])
        yield ["x"] * (spec["maxItems"] + 1)
        yield from ([[]] if spec.get("minItems") else [])
    if "object" in types and "properties" not in spec:
        yield from ({"a": 1}, {"a": None}, {"a": {}}, {"": "x"}, {"a": "b\u0000c"})
        yield {f"n{i}": "x" for i in range(spec["maxProperties"] + 1)}


def fields(schema, *above):
    for name, spec in schema["properties"].items():
        yield (*above, name), spec
        if "properties" in spec:
            yield from fields(spec, *above, name)


def with_field(body, path, value):
    for name in path[:-1]:
        body = body.setdefault(name, {})
    body[path[-1]] = value


def test_every_field_of_the_wrong_kind(routes, target, admin):
    for route in routes:
        for path, spec in fields(route.schema) if route.schema else ():
            for value in wrong_values(spec):
                body = route.body_for(path[0])
                with_field(body, path, value)
                client = admin if route.is_admin else target.alice
                reply = client(route.method, route.at(**target.ids), body)
                what = (route, path, str(value)[:60])
                assert reply.status == 400, (*what, reply)
                assert path[-1] in is_error(reply, 400), (*what, reply)


def test_every_object_names_what_it_does_not_know(routes, target, admin):
    for route in routes:
        objects = [()] + [path for path, spec in fields(route.schema or {"properties": {}}) if "properties" in spec]
        for path in objects if route.schema else ():
            body = route.body
            with_field(body, (*path, "nonsense"), None)
            client = admin if route.is_admin else target.alice
            assert "'nonsense'" in is_error(client(route.method, route.at(**target.ids), body), 400)


def test_fields_of_parts_that_are_not_there(routes, target):
    for route in routes:
        if route.name in ("createSandbox", "putSandbox", "patchSandbox"):
            for name in ("ports", "volumes", "backup"):
                for value in (None, {}, "x", 1):
                    body = {**route.body, name: value}
                    assert name in is_error(target.alice(route.method, route.at(**target.ids), body), 400)


def test_ids_that_are_none(target):
    alice, box = target.alice, f"/sandbox/{target.box}"
    bad = ("", ".", "..", "-", "a-", "-a", "a b", "a/b", "a\nb", "a\x1b[31m", "é", "a\u202eb", "<b>", "a" * 129, "a%41", "a\\b")
    for name in bad:
        is_error(alice("POST", "/sandbox", {"id": name}), 400)
        is_error(alice("POST", f"{box}/sessions", {"id": name}), 400)
        is_error(alice("POST", f"{box}/processes", {"id": name, "argv": ["true"]}), 400)


def test_commands_that_are_none(target):
    alice, box = target.alice, f"/sandbox/{target.box}"
    for more in (
        {"command": "true", "argv": ["true"]},
        {"command": ""},
        {"argv": [""]},
        {"command": "true", "cwd": "relative"},
        {"command": "true", "cwd": ""},
        {"command": "true", "env": {"A=B": "x"}},
        {"command": "true", "user": "nobody-at-all"},
        {"command": "true", "user": "1:2:3"},
        {"command": "true", "user": -1},
        {"command": "true", "user": 2**32},
        {"command": "true", "user": "4294967295"},
        {"command": "true", "user": 65536},
        {"command": "true", "timeout": "5"},
        {"command": "true", "session": "nobodys"},
        {"argv": ["true"], "session": "work"},
        {"command": "true", "session": "work", "user": 33},
    ):
        for route in ("exec", "processes"):
            is_error(alice("POST", f"{box}/{route}", more), 400, 404)
    for more in (
        {},
        {"exit": False},
        {"exit": True, "port": 1},
        {"log": "("},
        {"log": "[a"},
        {"log": "a{99999}"},
        {"log": "((((((a{200}){200}){200}){200}){200}){200})"},
        {"log": "\\1(a)"},
    ):
        is_error(alice("POST", f"{box}/processes/svc/wait", more), 400)
    for more in ({"data": "%%%", "encoding": "base64"}, {"data": "x", "encoding": "rot13"}, {"data": "YQ", "encoding": "BASE64"}):
        is_error(alice("POST", f"{box}/processes/svc/stdin", more), 400)


# -- large ones


def test_a_hundred_megabytes_are_refused_at_once(server, target):
    """By what the head says, before any of it is read or kept."""
    pid = daemon_pid(server)
    before = memory(pid)
    for length in (32 * 2**20 + 1, 100 * 2**20, 2**30, 2**63 - 1, 2**64, 10**30):
        with raw_connect(server) as s:
            start = time.monotonic()
            head = f"POST /sandbox/{target.box}/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.alice.token}\r\n"
            s.sendall(f'{head}Content-Length: {length}\r\n\r\n{{"command": "'.encode())
            is_error(read_reply(s), 413, 400)
            assert time.monotonic() - start < 5
    assert memory(pid) - before < 8 * 2**20


def test_a_large_body_that_is_taken(target):
    """Just below the limit."""
    alice, path = target.alice, f"/sandbox/{target.box}/exec"
    result = alice.ok("POST", path, {"argv": ["wc", "-c"], "stdin": "x" * (32 * 2**20 - 100)})
    assert result["stdout"] == f"{32 * 2**20 - 100}\n"


def test_variables_that_no_program_could_take(routes, target):
    """Kept with a sandbox they would be in the way of everything that is to run in it."""
    for route in routes:
        if route.schema and "env" in route.schema["properties"]:
            for env in ({"A": "x" * 2**20}, {f"A{i}": "x" * 2500 for i in range(500)}):
                body = {**route.body, "env": env}
                assert "env" in is_error(target.alice(route.method, route.at(**target.ids), body), 400)


def test_millions_of_values(target):
    """Each costs the parser something, and everybody waits for it: they are counted before."""
    alice, path = target.alice, f"/sandbox/{target.box}/exec"
    for body in (
        b'{"argv": ["true"], "env": {' + b",".join(b'"%d":"x"' % i for i in range(500000)) + b"}}",
        b'{"argv": [' + b",".join([b'"x"'] * 2000000) + b"]}",
        b"{" + b",".join(b'"%d":1' % i for i in range(500000)) + b"}",
        b'{"x": [' + b"[],{}," * 1000000 + b"1]}",
    ):
        assert "values" in is_error(alice("POST", path, body), 400)
