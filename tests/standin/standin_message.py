# SPDX-License-Identifier: Apache-2.0
"""The stand-in's answers: a message from the markers of a request, whole or as the events of a stream."""

import itertools
import json

from standin_checks import signature_of, turns_of

PIECE = 24  # characters of a delta
HELLO = "hello from the stand-in"
THOUGHTS = ("thinking", "redacted_thinking")
SHOWN_MAX = 2000  # of each tool's result, in the answer that quotes it

numbers = itertools.count(1)


def tokens_of(text):
    return (len(text) + 3) // 4


def system_of(body):
    system = body.get("system") or ""
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system)


def wants_code(body):
    return not body.get("tools") and "code" in system_of(body).lower()


def language_of(body):
    return "javascript" if "javascript" in system_of(body).lower() else "python"


def offered(body, name):
    """A tool of the request by its name, whatever its case; as it was asked for when there is none."""
    names = [tool.get("name", "") for tool in body.get("tools") or []]
    return next((have for have in names if have.lower() == name.lower()), name)


# -- blocks


def text_block(text):
    return {"type": "text", "text": text}


def code_text(script, body, code):
    if script.has("fence") or script.has("prose"):
        fence = script.one("fence")
        language = fence.value if fence is not None and fence.value else language_of(body)
        code = f"```{language}\n{code}\n```"
    if script.has("prose"):
        code = f"Sure! Here is the code you asked for:\n\n{code}\n\nIt does what you want. Let me know how it went."
    return code


def tool_block(marker, body):
    name, _, given = marker.value.strip().partition(" ")
    values = json.loads(given) if given.strip() else {}
    return {"type": "tool_use", "id": f"toolu_standin{next(numbers):08d}", "name": offered(body, name), "input": values}


def thinking_block(marker):
    thinking = marker.value or "The stand-in thinks about this."
    return {"type": "thinking", "thinking": thinking, "signature": signature_of(thinking)}


def search_blocks(query):
    use = {"type": "server_tool_use", "id": f"srvtoolu_standin{next(numbers):08d}", "name": "web_search"}
    found = {"type": "web_search_result", "url": "https://example.com/stand-in", "title": f"About {query}"}
    found |= {"encrypted_content": "c3RhbmQtaW4=", "page_age": None}
    result = {"type": "web_search_tool_result", "tool_use_id": use["id"], "content": [found]}
    return [use | {"input": {"query": query}}, result]


def fetch_blocks(url):
    use = {"type": "server_tool_use", "id": f"srvtoolu_standin{next(numbers):08d}", "name": "web_fetch"}
    source = {"type": "text", "media_type": "text/plain", "data": f"The stand-in's page at {url}"}
    page = {"type": "document", "source": source, "title": "stand-in"}
    content = {"type": "web_fetch_result", "url": url, "content": page, "retrieved_at": "2026-11-16T00:00:00Z"}
    result = {"type": "web_fetch_tool_result", "tool_use_id": use["id"], "content": content}
    return [use | {"input": {"url": url}}, result]


MAKERS = {
    "code": lambda marker, script, body: [text_block(code_text(script, body, marker.value))],
    "text": lambda marker, script, body: [text_block(marker.value)],
    "big": lambda marker, script, body: [text_block("x" * marker.number(1 << 20))],
    "tool": lambda marker, script, body: [tool_block(marker, body)],
    "thinking": lambda marker, script, body: [thinking_block(marker)],
    "redacted": lambda marker, script, body: [{"type": "redacted_thinking", "data": "c3RhbmQtaW4="}],
    "websearch": lambda marker, script, body: search_blocks(marker.value),
    "webfetch": lambda marker, script, body: fetch_blocks(marker.value),
}


def shown(result):
    content = result.get("content", "")
    if isinstance(content, list):
        content = "".join(part.get("text", f"({part['type']})") for part in content)
    return ("error: " if result.get("is_error") else "") + content[:SHOWN_MAX]


def quoting(results):
    return [text_block("The tools said: " + "; ".join(shown(result) for result in results))]


def default_blocks(body, turns):
    if wants_code(body):
        call = "console.log" if language_of(body) == "javascript" else "print"
        return [text_block(f'{call}("{HELLO}")')]
    said = [b["text"] for b in turns[-1][1] if b["type"] == "text"]
    return [text_block(f"The stand-in has heard: {said[-1][:200] if said else 'nothing'}")]


def content_of(script, body):
    turns = turns_of(body["messages"])
    results = [b for b in turns[-1][1] if b["type"] == "tool_result"]
    if results and not script.planned:
        return quoting(results)
    if turns[-1][0] == "assistant" and not script.planned:
        return [text_block("The stand-in has gone on.")]
    blocks = [block for marker in script.markers if marker.name in MAKERS
              for block in MAKERS[marker.name](marker, script, body)]
    if script.has("pause_turn") and not any(b["type"] == "server_tool_use" for b in blocks):
        blocks += search_blocks("what the stand-in paused for")
    thoughts = [b for b in blocks if b["type"] in THOUGHTS]  # these come first, wherever the test has put them
    said = [b for b in blocks if b["type"] not in THOUGHTS]
    return thoughts + (said if said or script.has("refusal") else default_blocks(body, turns))


# -- how it ends


def cut_at_stop(blocks, stops):
    """(sequence) when one of the stop sequences is in the text, which then ends before it."""
    for i, block in enumerate(blocks):
        places = [(block["text"].find(stop), stop) for stop in stops if stop in block.get("text", "")]
        if places:
            at, stop = min(places)
            block["text"] = block["text"][:at]
            del blocks[i + 1 :]
            return stop
    return None


def cut_at_limit(blocks, limit):
    for i, block in enumerate(blocks):
        text = block.get("text", "")
        if tokens_of(text) > limit:
            block["text"] = text[: limit * 4]
            del blocks[i + 1 :]
            return True
        limit -= tokens_of(text)
    return False


def ending_of(script, body, blocks):
    """(stop_reason, stop_sequence, stop_details)"""
    stop = cut_at_stop(blocks, body.get("stop_sequences") or [])
    if stop is not None:
        return "stop_sequence", stop, None
    if script.has("max_tokens"):
        for block in blocks:
            block.update({"text": block["text"][: len(block["text"]) // 2 + 1]} if "text" in block else {})
        return "max_tokens", None, None
    if not script.has("big") and cut_at_limit(blocks, body["max_tokens"]):
        return "max_tokens", None, None
    if script.has("refusal"):
        why = script.one("refusal").value or "The stand-in refuses, as it was told to."
        return "refusal", None, {"type": "refusal", "category": None, "explanation": why}
    if script.has("stop"):
        return script.one("stop").value, None, None
    if any(block["type"] == "tool_use" for block in blocks):
        return "tool_use", None, None
    return ("pause_turn" if script.has("pause_turn") and script.planned else "end_turn"), None, None


def output_tokens(blocks):
    return sum(tokens_of(json.dumps(block.get("input") or block.get("text") or "")) for block in blocks) or 1


def usage_of(script, body, blocks, size):
    marker = script.one("usage")
    given = {k: int(v) for k, v in marker.options()[1].items()} if marker is not None else {}
    uses = [block["name"] for block in blocks if block["type"] == "server_tool_use"]
    short, long = given.get("cache_write", 0), given.get("cache_1h", 0)
    return {
        "input_tokens": given.get("in", size // 4 + 1),
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": given.get("cache_read", 0),
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": given.get("out", output_tokens(blocks)),
        "server_tool_use": {
            "web_search_requests": given.get("web_search", uses.count("web_search")),
            "web_fetch_requests": given.get("web_fetch", uses.count("web_fetch")),
        },
        "service_tier": "standard",
    }


def make_message(script, body, size):
    """The whole message; `size`: bytes of the request, which its price follows."""
    blocks = content_of(script, body)
    reason, sequence, details = ending_of(script, body, blocks)
    model = script.one("model")
    return {
        "id": f"msg_standin{next(numbers):08d}",
        "type": "message",
        "role": "assistant",
        "model": model.value if model is not None else body["model"].removesuffix("[1m]"),
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "stop_details": details,
        "container": None,
        "usage": usage_of(script, body, blocks, size),
    }


# -- as a stream


def pieces(text, size):
    return [text[i : i + size] for i in range(0, len(text), size)]


def empty_block(block):
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
    if block["type"] in ("tool_use", "server_tool_use"):
        return block | {"input": {}}
    return block | empty.get(block["type"], {})


def deltas(block, size):
    kind = block["type"]
    if kind == "text":
        return [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], size)]
    if kind == "thinking":
        said = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], size)]
        return said + [{"type": "signature_delta", "signature": block["signature"]}]
    if kind in ("tool_use", "server_tool_use"):
        # The API sends none, or an empty one, where there is no input.
        text = json.dumps(block["input"]) if block["input"] else ""
        return [{"type": "input_json_delta", "partial_json": piece} for piece in [""] + pieces(text, size)]
    return []


def block_events(index, block, size):
    yield {"type": "content_block_start", "index": index, "content_block": empty_block(block)}
    if index == 0:
        yield {"type": "ping"}
    for delta in deltas(block, size):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def events_of(message, script):
    """The events of a message. Usage is told twice: as it is known first, and all of it."""
    size = max(script.number("piece", max(PIECE, sum(len(b.get("text", "")) for b in message["content"]) // 2000)), 1)
    began = {"content": [], "stop_reason": None, "usage": message["usage"] | {"output_tokens": 1}}
    yield {"type": "message_start", "message": message | began}
    if script.has("odd"):
        yield {"type": "vibe_check", "what": "nobody knows this event"}
    for index, block in enumerate(message["content"]):
        yield from block_events(index, block, size)
    if script.has("odd") and message["content"]:
        last = len(message["content"]) - 1
        yield {"type": "content_block_delta", "index": last, "delta": {"type": "vibe_delta", "vibe": "good"}}
    end = {k: message[k] for k in ("stop_reason", "stop_sequence", "stop_details", "container")}
    yield {"type": "message_delta", "delta": end, "usage": message["usage"]}
    yield {"type": "message_stop"}


