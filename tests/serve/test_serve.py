# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess

import pytest
from serve_helpers import CAY, CAY_NEXT, PATIENCE, Serve, await_that, environment, free_port, refused

USAGE, FAILED = 2, 125


# --- what cannot be is said in one line ---


@pytest.mark.parametrize(
    "flags, code, words",
    [
        (["--boxes", "0"], USAGE, ["--boxes", "1 to 4095"]),
        (["--lisen", "x"], USAGE, ["--lisen", "did you mean --listen?"]),
        (["--token", "abc"], USAGE, ["unknown flag --token"]),
        (["--listen"], USAGE, ["--listen needs a value"]),
        (["--volume", "huge"], USAGE, ["--volume", "huge"]),
        (["word"], USAGE, ["word"]),
        (["--config", "/nonexistent"], USAGE, ["/nonexistent"]),
    ],
)
def test_bad_flags(flags, code, words):
    returned, line = refused(*flags)
    assert returned == code
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    "address, words",
    [
        ("0.0.0.0:0", ["--behind-proxy", "127.0.0.1"]),
        ("[::]:0", ["--behind-proxy"]),
        ("192.0.2.1:80", ["--behind-proxy"]),
        ("example.org:80", ["not an address"]),
        ("127.0.0.1", ["not an address"]),
        ("127.0.0.1:65536", ["not an address"]),
        (":80", ["not an address"]),
        ("::1:80", ["not an address"]),
        ("[::1]80", ["not an address"]),
    ],
)
def test_bad_addresses(data, address, words):
    code, line = refused("--data", data, "--listen", address)
    assert code == FAILED and line.startswith("cay: listen: ")
    for word in words:
        assert word in line


def test_bad_environment_and_file(tmp_path):
    code, line = refused(CAY_SLEEP_AFTER="soon")
    assert code == USAGE and "CAY_SLEEP_AFTER" in line and "soon" in line
    conf = tmp_path / "cay.conf"
    conf.write_text("# mine\npool = 4\nbox = 3\n")
    code, line = refused("--config", conf)
    assert code == USAGE and f"{conf}: line 3: unknown setting 'box', did you mean 'boxes'?" in line


@pytest.mark.parametrize("token, words", [("short", "16 to 256"), ("with a space in it", "header")])
def test_bad_token(data, token, words):
    code, line = refused("--data", data, "--listen", "127.0.0.1:0", CAY_TOKEN=token)
    assert code == FAILED and words in line and token not in line


def test_a_list_of_modules_that_would_be_cut(data):
    code, line = refused("--data", data, "--listen", "127.0.0.1:0", "--preload", ",".join(["numpy"] * 60))
    assert code == FAILED and "preload" in line


def test_port_in_use(data):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        code, line = refused("--data", data, "--listen", f"127.0.0.1:{port}")
    assert code == FAILED
    assert f"127.0.0.1:{port} is in use by process {os.getpid()} (" in line and "--listen" in line


def test_needs_root(data):
    done = subprocess.run(
        [CAY, "serve", "--data", data],
        env=environment(),
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == FAILED and "sudo cay serve" in done.stderr


def test_data_that_the_server_cannot_reach(data):
    os.chmod(data, 0o700)
    inner = pathlib.Path(data) / "inner"
    code, line = refused("--data", inner, "--listen", "127.0.0.1:0")
    assert code == FAILED and f"'{data}'" in line and "chmod o+x" in line


def test_one_server_for_a_directory(data):
    with Serve(data) as server:
        code, line = refused("--data", data, "--listen", "127.0.0.1:0")
        assert code == FAILED and f"process {server.process.pid}" in line and "--data" in line
        assert server.health() == 200


def test_something_in_the_way_of_the_socket(data):
    place = pathlib.Path(data) / "cay.sock"
    place.write_text("mine")
    code, line = refused("--data", data, "--listen", "127.0.0.1:0")
    assert code == FAILED and "is not a socket" in line and place.read_text() == "mine"
    other = pathlib.Path(data) / "other.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(other))
        sock.listen()
        code, line = refused("--data", data, "--listen", "127.0.0.1:0", "--socket", other)
        assert code == FAILED and "answers" in line
    place.unlink()
    with Serve(data, "--socket", other):  # nobody answers there any more
        assert stat.S_ISSOCK(other.stat().st_mode)


# --- what it says and leaves ---


def test_first_start(data):
    with Serve(data) as server:
        token = (server.data / "admin.token").read_text().strip()
        said = "\n".join(server.said)
        assert len(token) == 64 and token in said and f"http://127.0.0.1:{server.port}" in said
        for name, mode in (("admin.token", 0o600), ("cay.sock", 0o660), ("daemon", 0o700)):
            assert stat.S_IMODE((server.data / name).stat().st_mode) == mode
        assert (server.data / "admin.token").stat().st_uid == 0
        daemon = (server.data / "daemon").stat()
        assert daemon.st_uid != 0
        (cayd,) = server.children("cayd")
        status = pathlib.Path(f"/proc/{cayd}/status").read_text()
        assert re.search(rf"^Uid:(\t{daemon.st_uid}){{4}}$", status, re.M)
        for which in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            assert re.search(rf"^Cap{which}:\t0+$", status, re.M)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.M) and re.search(r"^Groups:\s*$", status, re.M)
        # Nowhere that others look is the token.
        for pid in (cayd, server.process.pid):
            for name in ("cmdline", "environ"):
                assert token.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
        assert server.stop() == 0
        assert not (server.data / "cay.sock").exists()
    with Serve(data) as server:  # it is not made again, nor told into a log again
        assert (server.data / "admin.token").read_text().strip() == token
        assert token not in "\n".join(server.said) and "admin.token" in "\n".join(server.said)
        assert (server.data / "daemon").stat().st_uid == daemon.st_uid


def memory_holds(pid, word):
    """Whether a process has it anywhere that it could read."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            first, last = (int(number, 16) for number in line.split()[0].split("-"))
            if last - first > 256 << 20:  # reserved by a sanitizer, not filled
                continue
            try:
                memory.seek(first)
                if word in memory.read(last - first):
                    return True
            except (OSError, OverflowError, ValueError):  # [vvar] and the like
                continue
    return False


@pytest.mark.parametrize("own", [None, "a-token-of-ones-own-for-the-memory"])
def test_what_boxes_are_forked_from_has_no_token(data, own):
    with Serve(data, **({"CAY_TOKEN": own} if own else {})) as server:
        token = (own or (server.data / "admin.token").read_text().strip()).encode()
        assert memory_holds(os.getpid(), token)  # so this finds it where it is
        await_that(lambda: len(server.children("cay")) >= 2)
        for pid in (server.process.pid, *server.children("cay")):
            assert not memory_holds(pid, token)


KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-of-the-installation",
    "ANTHROPIC_AUTH_TOKEN": "a-bearer-of-the-installation",
    "ANTHROPIC_REFRESH_TOKEN": "what-renews-the-bearer",
}
LOOK_AROUND = "env; cat /proc/*/environ /proc/*/cmdline /proc/*/comm 2>/dev/null; true"


def conf_of(tmp_path):
    conf = tmp_path / "cay.conf"
    conf.write_text("".join(f"{name.lower().replace('_', '-')} = {value}\n" for name, value in KEYS.items()))
    conf.chmod(0o600)
    return conf


@pytest.mark.parametrize("way", ["variables", "file"])
def test_keys_of_the_model_are_the_daemons_alone(data, tmp_path, way):
    flags, env = ((), KEYS) if way == "variables" else (("--config", conf_of(tmp_path)), {})
    with Serve(data, *flags, **env) as server:
        (cayd,) = server.children("cayd")
        server.call("PUT", "/sandbox/a")
        seen = server.call("POST", "/sandbox/a/exec", {"argv": ["sh", "-c", LOOK_AROUND]})["stdout"]
        seen += str(server.call("POST", "/sandbox/a/code", {"code": "import os; print(os.environ)"})["logs"])
        assert "PATH" in seen
        cays = (server.process.pid, *server.children("cay"))  # the keeper, the spawner, guests
        assert len(cays) >= 3
        for value in KEYS.values():
            key = value.encode()
            assert value not in seen + "\n".join(server.said) + (server.data / "log").read_text()
            for pid in (cayd, *cays):
                for name in ("cmdline", "environ"):
                    assert key not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            for pid in cays:
                assert not memory_holds(pid, key)
        assert memory_holds(cayd, KEYS["ANTHROPIC_API_KEY"].encode())  # so it has arrived


def test_the_lines_it_prints_work(data):
    with Serve(data) as server:
        lines = [line.strip() for line in server.said if line.strip().startswith("curl ")]
        answers = [
            subprocess.run(line.replace("curl ", "curl -s ", 1), shell=True, capture_output=True, text=True, check=True)
            for line in lines
        ]
        assert len(answers) == 3
        assert '"healthy"' in answers[0].stdout
        assert '"demo"' in answers[1].stdout
        assert '"stdout":"hello\\n"' in answers[2].stdout


def test_token_of_ones_own(data):
    token = "a-token-of-ones-own"
    with Serve(data, CAY_TOKEN=token) as server:
        assert token not in "\n".join(server.said)
        assert not (server.data / "admin.token").exists()
        for pid in (server.process.pid, *server.children("cayd")):
            for name in ("cmdline", "environ"):
                assert token.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()


def test_settings_from_a_file(data, tmp_path):
    conf = tmp_path / "cay.conf"
    conf.write_text(f"listen = [::1]:{free_port()}\nlog-level = error\n")
    command = Serve(data).command
    at = command.index("--listen")
    serve = Serve(data)
    serve.command = command[:at] + command[at + 2 :] + ["--config", str(conf)]
    with serve as server:
        assert "http://[::1]:" in server.said[0]
        assert (server.data / "log").read_text() == ""


def test_example_is_printed():
    done = subprocess.run([CAY, "serve", "--print-example"], capture_output=True, text=True, check=True)
    assert done.stdout == (pathlib.Path(__file__).parents[2] / "cay.conf.example").read_text()


# --- deaths ---


def test_the_daemon_dies_and_comes_back(data):
    with Serve(data) as server:
        for _ in range(3):
            (before,) = server.children("cayd")
            os.kill(before, signal.SIGKILL)
            assert server.health() == 200  # waited for, never refused
            (now,) = server.children("cayd")
            assert now != before
        assert server.stop() == 0


def test_started_again_after_both_were_killed(data):
    with Serve(data) as server:
        (daemon,) = server.children("cayd")
        server.process.kill()
        os.kill(daemon, signal.SIGKILL)
    with Serve(data, "--listen", f"127.0.0.1:{server.port}") as server:
        assert (server.data / "cay.sock").exists()
        assert server.stop() == 0


def test_daemon_ends_with_its_keeper(data):
    with Serve(data) as server:
        (daemon,) = server.children("cayd")
        server.process.kill()
        await_that(lambda: not pathlib.Path(f"/proc/{daemon}").exists())
    # And its port is free at once.
    with Serve(data) as again:
        again.stop()


def test_nothing_to_upgrade(data):
    done = subprocess.run(
        [CAY, "upgrade", "--data", data], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == FAILED and "no server uses" in done.stderr


def replace(place, program):
    """As an installation does: another file under the same name."""
    for name in ("cay", "cayd"):
        shutil.copy2(pathlib.Path(program).parent / name, place / f"{name}.new")
        (place / f"{name}.new").rename(place / name)


def test_upgrade_to_another_version_of_the_messages(data, tmp_path):
    assert os.access(CAY_NEXT, os.X_OK), f"{CAY_NEXT} is not built"
    place = tmp_path / "bin"
    place.mkdir()
    replace(place, CAY)
    serve = Serve(data)
    serve.command[0] = str(place / "cay")
    with serve as server:
        server.call("POST", "/sandbox", {"id": "old"})
        process = server.call("POST", "/sandbox/old/processes", {"command": "for i in 1 2 3; do echo $i; sleep 1; done"})
        replace(place, CAY_NEXT)
        done = subprocess.run(
            [place / "cay", "upgrade", "--data", data], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0 and re.fullmatch(r"cay (\S+) -> \1-next\n", done.stdout), done
        (daemon,) = server.children("cayd")
        assert os.readlink(f"/proc/{daemon}/exe") == str(place / "cayd")
        # A guest of the version before: what ran goes on, and more can be started.
        assert server.call("POST", "/sandbox/old/exec", {"command": "echo $((6 * 7))"})["stdout"] == "42\n"
        path = f"/sandbox/old/processes/{process['id']}"
        server.call("POST", f"{path}/wait", {"exit": True, "timeout": PATIENCE * 1000})
        assert server.call("GET", path)["process"]["exitCode"] == 0
        # And one of its own.
        server.call("POST", "/sandbox", {"id": "new"})
        assert server.call("POST", "/sandbox/new/exec", {"command": "echo new"})["stdout"] == "new\n"
        assert server.stop() == 0
