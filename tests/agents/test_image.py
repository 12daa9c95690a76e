# SPDX-License-Identifier: Apache-2.0
"""The image of agents: the real programs, pinned, one copy for all boxes, and how they find the model."""

import json
import os
import pathlib
import re

import pytest
from agents_helpers import IMAGE, IMAGE_DATA, TOP, make_box

RECIPE = (TOP / "images" / IMAGE).read_text(encoding="utf-8")
PROGRAMS = ("claude", "opencode")


def version(package):
    return re.search(rf"^npm@x86_64 +{package}@(\S+)", RECIPE, re.M)[1]


def test_the_programs_are_the_pinned_ones(api, box):
    said = api.exec(box, "claude --version; claude-code --version; opencode --version")
    claude = version("@anthropic-ai/claude-code-linux-x64")
    assert said["stdout"] == f"{claude} (Claude Code)\n" * 2 + version("opencode-linux-x64") + "\n", said
    assert api.exec(box, "rg --version && git --version")["success"]


def test_login_shells_find_them(api, box):
    for shell in ("bash -lc", "su user -c", "su - user -c"):
        said = api.exec(box, f"{shell} 'command -v claude opencode'")
        assert said["stdout"] == "/opt/cay/bin/claude\n/opt/cay/bin/opencode\n", (shell, said)


@pytest.mark.parametrize("user", ["root", "user"])
def test_claude_answers(api, box, model, user):
    said = api.exec(box, {"command": 'claude -p "[[text: good day]] %s" --output-format json' % user, "user": user})
    assert said["success"], said
    result = json.loads(said["stdout"])
    assert (result["subtype"], result["is_error"], result["result"]) == ("success", False, "good day"), result
    sent = [r for r in model.requests(f"[[text: good day]] {user}") if r["path"] == "/v1/messages"]
    assert {r["headers"]["x-api-key"] for r in sent} == {model.key}  # not what the box has


def test_opencode_answers(api, box, model):
    """For the user of a box; for root: below."""
    said = api.exec(box, {"command": 'whoami; opencode run --title t "[[text: good night]]"', "user": "user"})
    assert said["success"] and said["stdout"] == "user\ngood night\n", said
    sent = [r for r in model.requests("[[text: good night]]") if r["path"] == "/v1/messages"]
    assert {r["headers"]["x-api-key"] for r in sent} == {model.key}
    assert {r["body"]["model"] for r in sent} == {"claude-sonnet-5-5"}


def test_tools_work(api, box, model):
    """The shell of Claude Code, and the search of OpenCode, which needs rg; and a project's own configuration counts."""
    api.exec(box, "mkdir -p /workspace/repo && cd /workspace/repo && git init -q && echo needle-7 > found.txt")
    prompt = '[[tool: Bash {"command": "cat found.txt"}]]'
    said = api.exec(box, {"argv": ["claude", "-p", prompt, "--allowedTools", "Bash"], "cwd": "/workspace/repo"})
    assert "needle-7" in said["stdout"], said
    prompt = '[[tool: grep {"pattern": "needle"}]]'  # on its standard input: it puts quotes around words
    own = json.dumps({"model": "anthropic/claude-haiku-4-5"})
    api.exec(box, f"echo '{own}' > /workspace/repo/opencode.json")
    said = api.exec(box, {"argv": ["opencode", "run", "--title", "t"], "stdin": prompt, "cwd": "/workspace/repo"})
    assert "found.txt" in said["stdout"] + said["stderr"], said
    assert {body["model"] for body in model.messages(prompt[2:])} == {"claude-haiku-4-5"}


def test_what_is_set_wins(api, box):
    script = r"""
        cp -r /opt/cay/bin /tmp/bin && sed -i 's|^exec .*|env|' /tmp/bin/claude /tmp/bin/opencode
        export ANTHROPIC_API_KEY=mine ANTHROPIC_BASE_URL=http://mine IS_SANDBOX=0 DISABLE_AUTOUPDATER=
        export OPENCODE_CONFIG=/mine OPENCODE_PERMISSION='{"*":"ask"}' OPENCODE_MODELS_PATH=/models
        /tmp/bin/claude; /tmp/bin/opencode"""
    env = set(api.exec(box, script)["stdout"].splitlines())
    assert {"ANTHROPIC_API_KEY=mine", "ANTHROPIC_BASE_URL=http://mine", "IS_SANDBOX=0", "DISABLE_AUTOUPDATER="} <= env
    assert {"OPENCODE_CONFIG=/mine", 'OPENCODE_PERMISSION={"*":"ask"}', "OPENCODE_MODELS_PATH=/models"} <= env
    assert not any(line.startswith("ANTHROPIC_UNIX_SOCKET=") for line in env)


def test_the_key_in_a_box_is_none(api, box):
    said = api.exec(box, "cat /opt/cay/bin/claude /opt/cay/bin/opencode /opt/cay/etc/* ~/.claude.json /home/user/.claude.json; env")
    assert "cay-placeholder" in said["stdout"] and "sk-ant" not in said["stdout"]


# -- one copy


def look(api, box):
    said = api.exec(box, "stat -c '%i %s %a %u %n' /opt/cay/lib/* && sha256sum /opt/cay/bin/*")
    assert said["success"], said
    return said["stdout"]


def test_boxes_share_one_copy(api, server):
    names = [make_box(api, f"twin-{i}") for i in range(2)]
    seen = {look(api, name) for name in names}
    for name in names:
        api("DELETE", f"/sandbox/{name}")
    assert len(seen) == 1
    for line, program in zip(seen.pop().splitlines(), PROGRAMS):
        inode, size, mode, owner, path = line.split()
        file = server.data / "images" / IMAGE / "rootfs" / path[1:]
        assert path == f"/opt/cay/lib/{program}"
        assert (int(inode), int(size)) == (file.stat().st_ino, file.stat().st_size)  # the very file
        assert (mode, owner) == ("755", "0")
    large = [path for path in server.data.rglob("*") if path.is_file() and path.lstat().st_size > 100 << 20]
    assert sorted(path.name for path in large if "images" in path.parts) == list(PROGRAMS)


def test_what_one_box_does_to_it_is_its_own(api):
    one, other = (make_box(api, f"writer-{i}") for i in range(2))
    before = (IMAGE_DATA / "images" / IMAGE / "rootfs/opt/cay/bin/claude").read_bytes()
    assert api.exec(one, "echo 'echo mine' > /opt/cay/bin/claude && claude")["stdout"] == "mine\n"
    assert api.exec(one, "chmod 600 /opt/cay/lib/opencode && : > /opt/cay/lib/claude")["success"]
    assert api.exec(other, "claude --version && test -x /opt/cay/lib/opencode")["success"]
    for name in (one, other):
        api("DELETE", f"/sandbox/{name}")
    assert (IMAGE_DATA / "images" / IMAGE / "rootfs/opt/cay/bin/claude").read_bytes() == before


# -- the recipe


def test_models_are_those_that_cay_knows():
    text = re.search(r"^file +/opt/cay/etc/models\.json\n((?:\|.*\n)+)", RECIPE, re.M)[1]
    models = json.loads(re.sub(r"^\| ?", "", text, flags=re.M))["anthropic"]["models"]
    source = (TOP / "src/model/price.c").read_text(encoding="utf-8")
    row = r'\{"(claude-[a-z0-9-]+)",\s*OUT_(\d+)K,\s*\{(\d+), (\d+), (\d+), (\d+), (\d+)\}'
    known = {r[0]: [int(x) for x in r[1:]] for r in re.findall(row, source)}
    assert set(models) == set(known) and known
    for name, (output, *rates) in known.items():
        cost = models[name]["cost"]
        shown = [cost["input"], cost["output"], cost["cache_write"], cost["cache_read"]]
        assert shown == [rate / 1000 for rate in (rates[0], rates[1], rates[2], rates[4])], name
        assert models[name]["id"] == name and models[name]["limit"]["output"] == output * 1000


def test_it_lies_in_the_images_of_the_machine():
    """As it was made: on this machine's own /usr, nothing of which it holds, and nothing is left of the fetching."""
    image = IMAGE_DATA / "images" / IMAGE
    assert "kind host\n" in (image / "meta").read_text()
    assert sorted(os.listdir(image)) == ["meta", "rootfs"]
    assert os.listdir(image / "rootfs/usr") == []
    home = image / "rootfs/home/user"
    assert [os.lstat(path).st_uid for path in (home, home / ".claude.json")] == [1000, 1000]
    assert pathlib.Path(image / "rootfs/root").stat().st_mode & 0o777 == 0o700
