# SPDX-License-Identifier: Apache-2.0
"""Agents at a terminal: `cay shell ID -- claude` begins with its prompt, and others look on."""

import re
import sys

import pytest
from agents_helpers import RELEASE, TOP

sys.path.insert(0, str(TOP / "tests" / "cli"))
from cli_helpers import Cli  # noqa: E402
from pty_helpers import Pty  # noqa: E402

PROMPT = "❯"
MOVES = re.compile(rb"\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-Za-z]|[=>78cM])|[\r\n]")
QUESTIONS = ("trust", "API key", "theme", "Log in", "log in", "Welcome to", "Unable to connect")


class Screen(Pty):
    """What was written on it, without the moves between: words may have lost their blanks, so it is looked at without any."""

    def text(self):
        return re.sub(r"\s", "", MOVES.sub(b" ", self.shown).decode(errors="replace"))

    def until_shown(self, words, since=0):
        words = re.sub(r"\s", "", words)
        for _ in range(600):
            if words in self.text()[since:]:
                return
            self.read(0.2)
        raise AssertionError(self.text()[-3000:])

    def say(self, words):
        """Types a prompt, and sends it when it is all there: what comes in one piece is taken for pasted."""
        since = len(self.text())
        self.type(words)
        self.until_shown(words[-12:], since)
        self.type("\r")


@pytest.fixture
def shell(server):
    """Opens `cay shell` with these words."""
    opened = []
    cli = Cli(server.data, RELEASE)

    def open_shell(*args):
        opened.append(Screen(cli.command("shell", *args), cols=100, rows=30))
        return opened[-1]

    yield open_shell
    for screen in opened:
        screen.__exit__()


def make_repo(api, box):
    script = "mkdir /workspace/repo && cd /workspace/repo && git init -q && chown -R user . && mkdir sub"
    assert api.exec(box, script)["success"]


@pytest.mark.parametrize("user, cwd", [("root", "/workspace"), ("user", "/workspace/repo"), ("root", "/workspace/repo/sub")])
def test_claude_begins_with_its_prompt(api, box, shell, user, cwd):
    make_repo(api, box)
    screen = shell(box, "-u", user, "-w", cwd, "--", "claude")
    screen.until_shown("Claude Code v")
    screen.until_shown(PROMPT)
    screen.say(f"[[text: spoken to {user}]]")
    screen.until_shown(f"●spoken to {user}")
    assert not [words for words in QUESTIONS if words.replace(" ", "") in screen.text()]
    screen.type("/exit\r")
    screen.type("\r")
    assert screen.end() == 0


def test_others_look_on(api, box, shell):
    first = shell(box, "-s", "pair", "--", "claude")
    first.until_shown(PROMPT)
    second = shell(box, "-s", "pair", "--readonly")
    second.until_shown("Claude Code v")
    first.say("[[text: seen by both]]")
    for screen in (first, second):
        screen.until_shown("●seen by both")
    second.type("[[text: not to be typed]]\r")
    shown = api.ok("GET", f"/sandbox/{box}/terminals")["terminals"]
    assert [(t["id"], t["viewers"]) for t in shown] == [("pair", 2)]
    # a third one comes later, and sees what was there
    third = shell(box, "-s", "pair")
    third.until_shown("●seen by both")
    third.say("[[text: from the third]]")
    for screen in (first, second, third):
        screen.until_shown("●from the third")
        assert "●nottobetyped" not in screen.text()


@pytest.mark.long
def test_opencode_has_a_screen(api, box, shell):
    screen = shell(box, "--", "opencode")
    screen.until_shown("Ask anything")
    screen.until_shown("Claude Sonnet 5.5")
