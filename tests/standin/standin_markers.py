# SPDX-License-Identifier: Apache-2.0
"""Markers: how a test says, inside of the text that is sent to the model, what the stand-in answers.

`[[name]]`, `[[name: value]]`; `name-b64` has its value in base64, for what holds brackets of its own that do not pair.
"""

import base64
import binascii
import hashlib
import re

NAMES = {
    # what is said
    "code", "fence", "prose", "text", "tool", "thinking", "redacted", "websearch", "webfetch", "big", "then",
    # how it ends, and what it cost
    "refusal", "max_tokens", "pause_turn", "stop", "usage", "model",
    # how it comes
    "slow", "delay", "piece", "split", "crlf", "odd",
    # trouble
    "status", "break", "error-event", "hang", "garbage", "redirect",
}
FAULTS = {"status", "break", "error-event", "hang", "garbage", "redirect"}
START = re.compile(r"\[\[([a-z_-]+?)(-b64)?(?=[:\]])")
COUNTS_MAX = 100_000


class Marker:
    def __init__(self, name, value, at):
        self.name, self.value, self.at = name, value, at

    def options(self):
        """`429 retry-after=0 times=1` -> ("429", {"retry-after": "0", "times": "1"})."""
        words = self.value.split()
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        return next((word for word in words if "=" not in word), ""), pairs

    def number(self, fallback):
        word = self.options()[0]
        return int(word) if word.isdigit() else fallback


def find_end(text, at):
    """Where the `]]` is that ends a marker: brackets inside of it pair."""
    depth = 0
    while at < len(text):
        if depth == 0 and text.startswith("]]", at):
            return at
        depth += (text[at] == "[") - (text[at] == "]")
        at += 1
    return -1


def read_value(text, encoded):
    if text.startswith(":"):
        text = text[1:]
    if encoded:
        try:
            return base64.b64decode(text).decode()
        except (binascii.Error, UnicodeDecodeError):
            return text
    return text.removeprefix(" ").strip("\n")


def parse(text):
    """All markers of a text, in order. What merely looks like one is none."""
    found, at = [], 0
    while (match := START.search(text, at)) is not None:
        end = find_end(text, match.end())
        if match[1] not in NAMES or end < 0:
            at = match.start() + 2
            continue
        found.append(Marker(match[1], read_value(text[match.end() : end], match[2]), match.start()))
        at = end + 2
    return found


def parse_step(body):
    """What `then` holds: markers, or a single one without its brackets."""
    return parse(body) or parse(f"[[{body}]]")


# -- the conversation


def texts_of(message):
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [b["text"] for b in content or [] if isinstance(b, dict) and b.get("type") == "text" and "text" in b]


ANSWERS = {}  # words -> markers: as if these stood beside the words (--answers)


def known(text):
    """The markers for the longest words that the text has."""
    words = max((words for words in ANSWERS if words in text), key=len, default=None)
    return parse(ANSWERS[words]) if words else []


def find_script(messages):
    """The newest text of a user that has markers, and how often it was answered since: (text, markers, round)."""
    rounds = 0
    for i in range(len(messages) - 1, -1, -1):
        if messages[i]["role"] == "assistant":
            rounds += i == 0 or messages[i - 1]["role"] != "assistant"
        if messages[i]["role"] != "user":
            continue
        text = "\n".join(texts_of(messages[i]))
        markers = parse(text) or known(text)
        if markers:
            return text, markers, rounds
    return "", [], rounds


class Script:
    """What is to be done for one request."""

    counts = {}  # of faults, by the text that asks for them: tests that run at once do not meet

    def __init__(self, messages):
        self.text, markers, self.round = find_script(messages)
        steps = [[m for m in markers if m.name != "then"]]
        steps += [parse_step(m.value) for m in markers if m.name == "then"]
        self.follows = self.round > 0  # it is asked again
        self.planned = self.round < len(steps)  # and the test has said what to answer then
        # Without a word about it: the same once more.
        self.step = self.round if self.planned else len(steps) - 1
        self.markers = steps[self.step]

    def all(self, *names):
        return [m for m in self.markers if m.name in names]

    def one(self, name):
        return next((m for m in self.markers if m.name == name), None)

    def has(self, name):
        return self.one(name) is not None

    def number(self, name, fallback):
        marker = self.one(name)
        return fallback if marker is None else marker.number(fallback)

    def fault(self):
        """The trouble that this request gets; `times=N`: so many requests do."""
        for marker in self.all(*FAULTS):
            times = marker.options()[1].get("times")
            if times is None:
                return marker
            key = hashlib.sha256(f"{self.step} {marker.at} {self.text}".encode()).digest()
            if len(self.counts) > COUNTS_MAX:
                self.counts.clear()
            self.counts[key] = self.counts.get(key, 0) + 1
            if self.counts[key] <= int(times):
                return marker
        return None
