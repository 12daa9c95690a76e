# SPDX-License-Identifier: Apache-2.0
"""`cay image build` from recipes, and docs/IMAGES.md. Builds need a mirror; where there is none, those tests are
skipped. The image `data` takes minutes and is for CAY_TEST_FULL=1."""

import base64
import hashlib
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import time
import zipfile

import pytest
from image_helpers import CAY, TOP, Images, member, write_tar

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="images belong to root")

FULL = os.environ.get("CAY_TEST_FULL") == "1"
PATIENCE = 1200  # seconds; a mirror may be slow
NO_MIRROR = "reached no Debian mirror"
PAGE = TOP / "docs" / "IMAGES.md"

EXTRAS = """\
link /usr/local/bin/py ../../bin/python3
file /etc/deep/er/words
| one
|  two

run cat /etc/deep/er/words > /etc/copied; test -c /dev/null; test "$$" -lt 10; ! grep -q cay /proc/mounts
run echo 10.0.0.1 > /etc/hosts; mkdir -p /dev/left
"""


@pytest.fixture
def images(tmp_path):
    return Images(tmp_path / "data")


def build_on_terminal(images, *args):
    """Its exit code, and what a person sees."""
    ours, theirs = pty.openpty()
    child = images.start("build", *args, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return child.wait(PATIENCE), seen.decode()


def mounts():
    return pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def in_box(images, name, *command, **kwargs):
    done = subprocess.run([CAY, "run", "--image", name, "-m", "2g", "--", *command], env=images.env, capture_output=True,
                          text=True, timeout=300, check=False, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- without a mirror


def test_recipes_are_listed_and_printed(images):
    listed = images.run("recipe").stdout.decode()
    assert [line.split()[0] for line in listed.splitlines()] == ["agents", "data", "minimal"]
    for name in ("agents", "data", "minimal"):
        assert images.run("recipe", name).stdout == (TOP / "images" / name).read_bytes()
    assert images.left() == []


def test_usage(images, tmp_path):
    recipe = tmp_path / "bad.image"
    recipe.write_text("from debian:bookworm\n\npakages git\n")
    nowhere = tmp_path / "nowhere.image"
    nowhere.write_text("packages git\n")
    named = tmp_path / "My Image"
    named.write_text("from debian:bookworm\n")
    circle = tmp_path / "circle.image"
    circle.write_text("from ./circle.image\n")
    binary = tmp_path / "binary.image"
    binary.write_bytes(bytes(100))
    for args, word in [
        (("build",), "NAME"),
        (("build", "nosuch"), "there are agents, data, minimal"),
        (("build", "datta"), "did you mean 'data'"),
        (("build", "x", "--recipe", "nosuch"), "there are agents, data, minimal"),
        (("build", recipe), "bad.image: line 3: 'pakages' is none of about, from, packages"),
        (("build", nowhere), "does not say 'from'"),
        (("build", named), "--recipe FILE"),
        (("build", circle), "from ./circle.image: it is made from itself"),
        (("build", "x", "--from", "data"), "use debian:SUITE, as debian:bookworm, or host"),
        (("build", binary), "plain text"),
        (("build", tmp_path / "x", "--recipe", "data"), "must be a name"),
        (("build", "data", "--packages", "a;b"), "cannot be a package"),
        (("build", tmp_path), "is not a file"),
        (("recipe", "nosuch"), "there are agents, data, minimal"),
        (("recipe", "data", "minimal"), "one at a time"),
    ]:
        done = images.run(*args)
        assert done.returncode == 2, (args, done.stderr)
        assert word in done.stderr.decode(), (args, done.stderr)
    done = images.run("build", tmp_path / "none.image")
    assert done.returncode == 125 and b"No such file" in done.stderr
    assert images.left() == []


def test_a_machine_without_a_mirror_is_told_what_to_do(images):
    done = subprocess.run(["unshare", "--net", CAY, "image", "build", "minimal"], env=images.env, capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 125
    last = done.stderr.splitlines()[-1]
    assert NO_MIRROR in last and "apt-get update" in last and "cay image import" in last
    assert "\x1b" not in done.stderr and "\r" not in done.stderr
    assert images.left() == []


def test_an_image_that_is_not_there_is_a_recipe_away(images):
    done = subprocess.run([CAY, "run", "--image", "data", "--", "true"], env=images.env, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 125 and "cay image build data" in done.stderr


# -- on this machine's own /usr, and from npm: no mirror, no registry


FAKE_NPM = """#!/bin/sh
echo "npm warn some words" >&2
echo "$@" > "$FAKE_DIR/asked"
[ ! -e "$FAKE_DIR/sleep" ] || { touch "$FAKE_DIR/sleeping"; sleep 1000; }
[ ! -e "$FAKE_DIR/fail" ] || { cat "$FAKE_DIR/fail" >&2; exit 1; }
cp "$FAKE_DIR/package.tgz" ./some-1.2.3.tgz && echo some-1.2.3.tgz
"""


class FakeNpm:
    """An npm that gives what lies in a directory, and a recipe that wants it."""

    def __init__(self, images, path):
        self.images, self.path = images, path
        (path / "bin").mkdir()
        program = path / "bin" / "npm"
        program.write_text(FAKE_NPM)
        program.chmod(0o755)
        images.env.update(PATH=f"{path / 'bin'}:{os.environ['PATH']}", FAKE_DIR=str(path))
        self.package = path / "package.tgz"
        self.recipe = path / "some.image"
        self.pack(member("package/bin/tool", b"#!/bin/sh\necho made of npm\n", mode=0o640, uid=77, gid=77))

    def pack(self, *members):
        write_tar(self.package, [member("package"), member("package/bin"), *members], mode="w:gz")

    def sum(self):
        return "sha512-" + base64.b64encode(hashlib.sha512(self.package.read_bytes()).digest()).decode()

    def build(self, *lines, wanted="bin/tool", sum_=None):
        npm = f"npm @some/thing@1.2.3 {sum_ or self.sum()} {wanted} /opt/some/bin/tool"
        self.recipe.write_text("\n".join(["from host", npm, *lines, ""]))
        return self.images.run("build", self.recipe)

    def refuse(self, *words, **how):
        before = mounts()
        done = self.build(**how)
        assert done.returncode == 125, done.stderr
        last = done.stderr.decode().splitlines()[-1]
        for word in words:
            assert word in last, last
        assert self.images.left() == [] and mounts() == before


@pytest.fixture
def npm(images, tmp_path):
    return FakeNpm(images, tmp_path)


def test_on_the_machines_own_usr(npm, images):
    before = mounts()
    lines = ["packages bash no-such-package", "link /usr/bin/python-x python3", "file /opt/some/x 0700", "| one",
             "run /opt/some/bin/tool > /etc/made; id -u >> /etc/made",
             "run ! touch /usr/x /bin/x 2>/dev/null; test -c /dev/null; ! grep -q images /proc/mounts"]
    done = npm.build(*lines)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "not installed here: no-such-package\n" in said and "left out /usr/bin/python-x" in said
    assert "fetching @some/thing@1.2.3 with npm" in said and "/opt/some/bin/tool: 0 MiB" in said
    assert (npm.path / "asked").read_text().split()[-2:] == ["--", "@some/thing@1.2.3"]
    assert images.ls()["some"]["kind"] == "host" and mounts() == before
    root = images.root("some")
    tool = (root / "opt/some/bin/tool").stat()
    assert (tool.st_mode & 0o7777, tool.st_uid, tool.st_gid) == (0o755, 0, 0)
    assert (root / "opt/some/x").stat().st_mode & 0o7777 == 0o700
    assert (root / "etc/made").read_text() == "made of npm\n0\n"
    assert os.listdir(root / "usr") == [] and sorted(os.listdir(root.parent)) == ["meta", "rootfs"]
    assert in_box(images, "some", "sh", "-c", "/opt/some/bin/tool; python3 -c 'print(6 * 7)'") == "made of npm\n42\n"
    assert in_box(images, "some", "sh", "-c", "touch /usr/x 2>/dev/null || echo no; stat -c %u /usr/bin/env") == "no\n0\n"


def test_a_flag_puts_a_recipe_on_the_machine(npm, images):
    npm.recipe.write_text("from debian:bookworm\nfile /etc/words\n| one\n")
    assert images.run("build", npm.recipe, "--from", "host").returncode == 0
    assert in_box(images, "some", "cat", "/etc/words") == "one\n"


def test_what_a_missing_package_breaks_is_said(npm, images):
    done = npm.build("packages no-such-package", "run echo some words; exit 3", "run echo on > /etc/on")
    assert done.returncode == 0, done.stderr
    assert b"ended with 3: some words, going on without" in done.stderr
    assert (images.root("some") / "etc/on").exists()
    images.run("rm", "some")
    done = npm.build("run echo some words; exit 3")
    assert done.returncode == 125 and b"ended with 3: some words" in done.stderr
    assert images.left() == []


def test_npm_gives_what_the_recipe_was_written_for_or_nothing(npm):
    right = npm.sum()
    npm.pack(member("package/bin/tool", b"other\n"))
    npm.refuse("@some/thing@1.2.3 is not what the recipe was written for", right[:19], npm.sum()[:19], sum_=right)
    npm.refuse("has no file 'bin/none'", wanted="bin/none")
    npm.refuse("has no file 'bin'", wanted="bin")
    npm.package.write_bytes(npm.package.read_bytes()[:60])
    npm.refuse("@some/thing@1.2.3", "the archive was refused")
    npm.package.write_bytes(b"")
    npm.refuse("the archive is empty")


@pytest.mark.parametrize("members", [
    [member("package/bin/tool", kind=b"2", link="/etc/passwd")],
    [member("package/bin/tool", kind=b"2", link="../../../../meta")],
    [member("package/lib", kind=b"2", link="/etc"), member("package/lib/tool", b"x")],
    [member("../tool", b"x"), member("package/bin/tool", b"x")],
    [member("package/bin/tool", kind=b"1", link="../../../some.image")],
])
def test_a_hostile_package_gets_nowhere(npm, members):
    npm.pack(*members)
    npm.refuse("@some/thing@1.2.3")
    assert not (npm.images.data / "images" / "tool").exists()


def test_npm_that_fails_is_explained(npm, images):
    fail = npm.path / "fail"
    fail.write_text("npm error code E404\nnpm error 404 No match found for version 1.2.3\nnpm error 404\n")
    npm.refuse("npm could not fetch @some/thing@1.2.3: npm error 404 No match found for version 1.2.3")
    fail.write_text("npm ERR! code ENOTFOUND\nnpm ERR! errno ENOTFOUND\nnpm ERR! network request failed\n")
    npm.refuse("npm reached no registry", "settings of this machine")
    fail.write_text("")
    npm.refuse("it did not say why")
    (npm.path / "bin" / "npm").write_text("#!/bin/sh\nexit 0\n")
    npm.refuse("left no archive")
    bin_ = npm.path / "bin"
    (bin_ / "npm").unlink()
    for tool in ("tar", "gzip", "sh"):
        (bin_ / tool).symlink_to(shutil.which(tool))
    images.env["PATH"] = str(bin_)
    npm.refuse("npm is needed to fetch @some/thing@1.2.3 and is not installed", "apt-get install npm")


def test_an_interrupted_fetch_leaves_nothing(npm, images):
    (npm.path / "sleep").touch()
    npm.recipe.write_text(f"from host\nnpm some@1.2.3 {npm.sum()} bin/tool /opt/x\n")
    before = mounts()
    child = images.start("build", npm.recipe, stderr=subprocess.PIPE)
    end = time.monotonic() + PATIENCE
    while not (npm.path / "sleeping").exists():
        assert child.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=PATIENCE)[1]
    assert child.returncode == -signal.SIGINT and b"nothing was kept" in said
    assert images.left() == [] and mounts() == before
    assert not any(f"FAKE_DIR={npm.path}\0".encode() in env for env in environments())


def environments():
    """Of all processes."""
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            yield path.read_bytes()
        except OSError:
            continue


def test_other_machines(npm):
    npm.recipe.write_text(f"from host\nnpm@aarch64 some@1.2.3 {npm.sum()} bin/tool /opt/x\n")
    done = npm.images.run("build", npm.recipe)
    assert (done.returncode == 0) == (os.uname().machine == "aarch64")
    assert done.returncode == 0 or b"has no '/opt/x' for a machine of this kind (x86_64)" in done.stderr


# -- one build: `minimal`, with something of everything beside it


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    top = tmp_path_factory.mktemp("recipes")
    images = Images(top / "data")
    recipe = top / "small-one.image"
    recipe.write_bytes(images.run("recipe", "minimal").stdout + EXTRAS.encode())
    before = mounts()
    code, seen = build_on_terminal(images, recipe)
    if code != 0 and NO_MIRROR in seen:
        pytest.skip("no mirror can be reached from here")
    assert code == 0, seen
    assert mounts() == before
    return images, seen


def test_built_with_progress_time_and_size(built):
    images, seen = built
    assert re.search(r"\r\x1b\[K +setting up: \d+ of \d+ packages", seen)
    assert re.search(r"image 'small-one': \d+ entries, \d+ MiB, in \d+ s\r\n$", seen)
    assert images.left() == ["small-one"]
    listed = images.ls()["small-one"]
    assert listed["kind"] == "debian:bookworm" and 50 << 20 < listed["bytes"] < 200 << 20


def test_built_as_the_recipe_says(built):
    images, _ = built
    root = images.root("small-one")
    assert os.readlink(root / "usr/local/bin/py") == "../../bin/python3"
    assert os.readlink(root / "usr/bin/python") == "python3"
    assert (root / "etc/deep/er/words").read_text() == "one\n two\n"
    assert (root / "etc/copied").read_text() == "one\n two\n"
    assert not (root / "usr/share/man/man1").exists() or os.listdir(root / "usr/share/man/man1") == []
    assert (root / "usr/share/doc/bash/copyright").exists()
    assert not (root / "usr/bin/perl5.36").exists() and not (root / "usr/share/perl/5.36").exists()
    # a box's own, whatever a command did to it
    assert (root / "etc/hosts").read_text().startswith("127.0.0.1\tlocalhost")
    assert (root / "etc/resolv.conf").read_text().startswith("#")
    assert os.listdir(root / "dev") == []


def test_boxes_stand_on_it(built):
    images, _ = built
    code = "import ctypes, ssl, sqlite3, venv, sys; print(6 * 7, sys.getdefaultencoding())"
    assert in_box(images, "small-one", "py", "-c", code) == "42 utf-8\n"
    assert in_box(images, "small-one", "sh", "-c", "curl --version | head -c 4; locale | grep LANG=") == "curlLANG=C.UTF-8\n"


def test_taken_names_are_kept(built):
    images, _ = built
    done = images.run("build", "small-one", "--recipe", "minimal")
    assert done.returncode == 125 and b"already" in done.stderr


# -- long ones


@pytest.mark.skipif(not FULL, reason="a bootstrap takes a minute: CAY_TEST_FULL=1")
def test_a_failing_command_leaves_nothing(images, tmp_path):
    recipe = tmp_path / "bad.image"
    recipe.write_text("from debian:bookworm\nrun echo some words; exit 3\n")
    before = mounts()
    done = images.run("build", recipe, timeout=PATIENCE)
    assert done.returncode == 125
    assert b"'echo some words; exit 3' ended with 3: some words" in done.stderr
    assert images.left() == [] and mounts() == before


@pytest.fixture(scope="module")
def data_image(tmp_path_factory):
    images = Images(tmp_path_factory.mktemp("data-image") / "data")
    done = images.run("build", "data", timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return images


def make_wheel(directory, name, version):
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"__version__ = '{version}'\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.skipif(not FULL, reason="it takes minutes: CAY_TEST_FULL=1")
def test_data_has_what_it_says(data_image):
    code = "import numpy, pandas, matplotlib, scipy, sklearn, ctypes; print(numpy.arange(4).sum())"
    assert in_box(data_image, "data", "python", "-c", code) == "6\n"
    tools = "for t in node npm git curl rg gcc make pip; do command -v $t >/dev/null || echo $t; done; node -p 6*7"
    assert in_box(data_image, "data", "sh", "-c", tools) == "42\n"
    assert in_box(data_image, "data", "sh", "-c", "ls ~/.cache/matplotlib").startswith("fontlist-")
    plot = "import matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('/tmp/a.png'); print(len(open('/tmp/a.png','rb').read()) > 1000)"
    assert in_box(data_image, "data", "python", "-c", plot) == "True\n"


@pytest.mark.skipif(not FULL, reason="it takes minutes: CAY_TEST_FULL=1")
@pytest.mark.parametrize("user", ["root", "user"])
def test_pip_and_venv_work(data_image, tmp_path, user):
    # The second is newer than the one that Debian installed, which pip must leave in peace.
    for name, version in (("hello_cay", "1.0"), ("tabulate", "99.0")):
        make_wheel(tmp_path, name, version)
    script = f"""set -e
        cd /tmp && tar x && chmod -R a+rX /tmp/w
        su {user} -c 'set -e; cd
            pip install --quiet --no-index /tmp/w/*.whl 2>&1
            python -c "import hello_cay, tabulate; print(hello_cay.__version__, tabulate.__version__)"
            python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --quiet --no-index /tmp/w/hello*.whl
            /tmp/venv/bin/python -c "import hello_cay; print(hello_cay.__file__)"'"""
    archive = subprocess.run(["tar", "-C", tmp_path.parent, "-c", f"--transform=s,^{tmp_path.name},w,", tmp_path.name],
                             capture_output=True, check=True).stdout
    done = subprocess.run([CAY, "run", "--image", "data", "-m", "2g", "--", "bash", "-c", script], input=archive,
                          env=data_image.env, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done
    lines = done.stdout.decode().splitlines()
    assert lines[-2] == "1.0 99.0" and lines[-1].startswith("/tmp/venv/lib/"), lines


# -- the page


def steps():
    """(command, what is shown under it). A line without an end goes on in the next, as a here-document does."""
    found, fresh = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ "):
            found.append([line[6:], []])
            fresh = True
        elif line.startswith("    ") and fresh:
            command, shown = found[-1]
            text = line[4:]
            if not shown and is_open(command):
                found[-1][0] = command + "\n" + text
            else:
                shown.append(text)
        elif line.strip():
            fresh = False
    return found


def is_open(command):
    """Whether a shell would ask for more."""
    if "<<'EOF'" in command:
        return not command.endswith("\nEOF")
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode != 0


def squeeze(text):
    return re.sub(r"\s", "", text)


def pattern(shown):
    return ".*".join(re.escape(squeeze(part)) for part in "".join(shown).split("…"))


def test_page_knows_every_word():
    text = PAGE.read_text(encoding="utf-8")
    for word in ("about", "from", "packages", "without", "link", "file", "npm", "run"):
        assert f"| `{word} " in text
    assert len(steps()) >= 10


@pytest.mark.skipif(not FULL, reason="it takes minutes: CAY_TEST_FULL=1")
def test_page_followed(images, tmp_path):
    env = {**images.env, "PATH": f"{pathlib.Path(CAY).resolve().parent}:{os.environ['PATH']}"}
    for command, shown in steps():
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        assert done.returncode == 0, (command, done.stdout)
        assert re.search(pattern(shown), squeeze(done.stdout)), f"$ {command}\nshows:\n{done.stdout}"
