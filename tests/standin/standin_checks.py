# SPDX-License-Identifier: Apache-2.0
"""What the stand-in refuses: as much of what the API refuses as a client could get wrong."""

import re

EFFORTS = ("low", "medium", "high", "xhigh", "max")
SERVER_TOOLS = {
    "web_search_": "web_search",
    "web_fetch_": "web_fetch",
    "code_execution_": "code_execution",
    "bash_": "bash",
    "text_editor_": None,
    "memory_": "memory",
    "tool_search_tool_": None,
    "computer_": "computer",
}
SERVER_RESULTS = ("web_search_tool_result", "web_fetch_tool_result")
BLOCKS = {
    "user": {"text", "image", "document", "tool_result", "search_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", *SERVER_RESULTS},
    "system": {"text"},
}
NEVER = ("temperature", "top_p", "top_k")
CACHE_MARKS_MAX = 4


class Refused(Exception):
    def __init__(self, message, status=400, kind="invalid_request_error"):
        super().__init__(message)
        self.status, self.kind = status, kind


def need(good, message, *args, **kinds):
    if not good:
        raise Refused(message, *args, **kinds)


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


# -- who asks


def check_version(headers):
    version = headers.get("anthropic-version")
    need(version, "anthropic-version: header is required")
    need(version in ("2023-06-01", "2026-10-21"), f"anthropic-version: {version!r} is not a valid version")


def check_auth(headers, expired):
    """`expired`: says of a token whether it is. Keys that begin with bad, tokens that begin with stale, are refused."""
    key, bearer = headers.get("x-api-key"), headers.get("authorization", "")
    token = bearer[7:] if bearer.lower().startswith("bearer ") else ""
    known = dict(status=401, kind="authentication_error")
    need(key or token, "x-api-key header is required", **known)
    need(not key or not re.match(r"(sk-)?bad", key), "invalid x-api-key", **known)
    need(not token or not (token.startswith(("stale-", "bad")) or expired(token)), "invalid bearer token", **known)


# -- blocks


def check_cache(block, where, marks):
    if block.get("cache_control") is None:
        return
    cache = block["cache_control"]
    need(isinstance(cache, dict) and cache.get("type") == "ephemeral", f"{where}.cache_control.type: must be ephemeral")
    need(cache.get("ttl", "5m") in ("5m", "1h"), f"{where}.cache_control.ttl: must be 5m or 1h")
    marks.append(where)
    need(len(marks) <= CACHE_MARKS_MAX, f"A maximum of {CACHE_MARKS_MAX} blocks with cache_control may be provided.")


def check_text(block, where):
    need(isinstance(block.get("text"), str), f"{where}.text: Field required")
    need(block["text"] != "", f"{where}: text content blocks must be non-empty")
    need(block["text"].strip() != "", f"{where}: text content blocks must contain non-whitespace text")


def check_tool_use(block, where):
    need(isinstance(block.get("id"), str) and re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]), f"{where}.id: invalid")
    need(isinstance(block.get("name"), str) and block["name"], f"{where}.name: Field required")
    need(isinstance(block.get("input"), dict), f"{where}.input: Input should be a valid dictionary")


def check_tool_result(block, where):
    need(isinstance(block.get("tool_use_id"), str), f"{where}.tool_use_id: Field required")
    content = block.get("content", "")
    need(isinstance(content, (str, list)), f"{where}.content: must be a string or a list of blocks")
    for i, part in enumerate(content if isinstance(content, list) else []):
        need(isinstance(part, dict) and "type" in part, f"{where}.content.{i}.type: Field required")
        if part["type"] == "text":
            check_text(part, f"{where}.content.{i}")
    need(isinstance(block.get("is_error", False), bool), f"{where}.is_error: must be a boolean")
    need(not block.get("is_error") or content, f"{where}: content cannot be empty if `is_error` is true")


def signature_of(thinking):
    return f"stand-in-{len(thinking)}-{sum(thinking.encode())}"


def check_thinking(block, where):
    good = block.get("signature") == signature_of(block.get("thinking") or "")
    need(good, f"{where}: Invalid `signature` in `thinking` block")


def check_image(block, where):
    source = block.get("source")
    need(isinstance(source, dict), f"{where}.source: Field required")
    need(source.get("type") in ("base64", "url", "file", "text", "content"), f"{where}.source.type: unknown")
    if source["type"] == "base64":
        need(isinstance(source.get("media_type"), str), f"{where}.source.media_type: Field required")
        need(re.fullmatch(r"[A-Za-z0-9+/]+=*", source.get("data", "")), f"{where}.source.data: not base64")


CHECKS = {
    "text": check_text,
    "tool_use": check_tool_use,
    "server_tool_use": check_tool_use,
    "tool_result": check_tool_result,
    "thinking": check_thinking,
    "image": check_image,
    "document": check_image,
}


def check_block(block, role, where, marks):
    need(isinstance(block, dict), f"{where}: must be an object")
    kind = block.get("type")
    need(kind in BLOCKS[role], f"{where}: {role} messages have no blocks of type {kind!r}")
    check_cache(block, where, marks)
    if kind in CHECKS:
        CHECKS[kind](block, where)


def check_content(content, role, where, marks):
    need(isinstance(content, (str, list)), f"{where}.content: must be a string or a list of blocks")
    need(content, f"{where}: all messages must have non-empty content")
    if isinstance(content, str):
        need(content.strip(), f"{where}: text content blocks must contain non-whitespace text")
        return
    for i, block in enumerate(content):
        check_block(block, role, f"{where}.content.{i}", marks)


# -- messages


def blocks_of(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def turns_of(messages):
    """(role, blocks, number): messages of one role that follow each other are one turn; system ones are beside."""
    turns = []
    for i, message in enumerate(messages):
        if message["role"] == "system":
            continue
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks_of(message))
        else:
            turns.append((message["role"], list(blocks_of(message)), i))
    return turns


def check_results_of(uses, turn, at):
    results = [b["tool_use_id"] for b in turn[1] if b["type"] == "tool_result"] if turn else []
    missing = [use for use in uses if use not in results]
    need(not missing, f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                      f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
                      "in the next message.")
    stray = [result for result in results if result not in uses]
    need(not stray, f"messages.{at + 1}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(stray)}.")
    need(len(set(results)) == len(results), f"messages.{at + 1}: each tool_use must have a single result.")
    kinds = [b["type"] for b in turn[1]] if turn else []
    late = [k for i, k in enumerate(kinds) if k == "tool_result" and any(x != k for x in kinds[:i])]
    need(not late, f"messages.{at + 1}: `tool_result` blocks come first in a message's content")


def check_pairs(turns):
    seen = set()
    for i, (role, blocks, at) in enumerate(turns):
        uses = [b["id"] for b in blocks if b["type"] == "tool_use"] if role == "assistant" else []
        need(not seen & set(uses) and len(set(uses)) == len(uses), f"messages.{at}: `tool_use` ids must be unique")
        seen |= set(uses)
        following = turns[i + 1] if i + 1 < len(turns) else None
        if role == "assistant":
            check_results_of(uses, following, at)
    if turns and turns[0][0] == "user":
        check_results_of([], turns[0], turns[0][2] - 1)


def check_last(turns):
    """An answer that was begun is gone on with only where the API paused it."""
    if turns and turns[-1][0] == "assistant":
        paused = any(b["type"] == "server_tool_use" for b in turns[-1][1])
        need(paused, "This model does not support assistant message prefill. The conversation must end with a user "
                     "message.")


def check_messages(body, marks):
    messages = body.get("messages")
    need(isinstance(messages, list), "messages: Field required")
    need(messages, "messages: at least one message is required")
    for i, message in enumerate(messages):
        need(isinstance(message, dict), f"messages.{i}: must be an object")
        need(message.get("role") in BLOCKS, f"messages.{i}.role: must be user, assistant or system")
        need("content" in message, f"messages.{i}.content: Field required")
        check_content(message["content"], message["role"], f"messages.{i}", marks)
    turns = turns_of(messages)
    need(turns and turns[0][0] == "user", "messages: first message must use the \"user\" role")
    check_pairs(turns)
    check_last(turns)
    uses = any(b["type"] in ("tool_use", "tool_result") for _, blocks, _ in turns for b in blocks)
    need(not uses or body.get("tools"), "Requests which include `tool_use` or `tool_result` blocks must define tools.")


# -- tools


def check_server_tool(tool, where):
    prefix = next((p for p in SERVER_TOOLS if tool["type"].startswith(p)), None)
    need(prefix and re.fullmatch(r"\d{8}|(bm25|regex)_\d{8}", tool["type"][len(prefix):]),
         f"{where}.type: there is no tool {tool['type']!r}")
    need(SERVER_TOOLS[prefix] in (None, tool.get("name")), f"{where}.name: must be {SERVER_TOOLS[prefix]}")


def check_tool(tool, where, marks):
    need(isinstance(tool, dict), f"{where}: must be an object")
    check_cache(tool, where, marks)
    if tool.get("type", "custom") != "custom":
        check_server_tool(tool, where)
        return
    name = tool.get("name")
    need(isinstance(name, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name), f"{where}.name: invalid")
    schema = tool.get("input_schema")
    need(isinstance(schema, dict), f"{where}.input_schema: Field required")
    need(schema.get("type") == "object", f"{where}.input_schema.type: must be object")


def check_choice(body, names):
    choice = body.get("tool_choice")
    if choice is None:
        return
    need(isinstance(choice, dict) and choice.get("type") in ("auto", "any", "tool", "none"), "tool_choice.type: unknown")
    need(names, "tool_choice may only be specified while providing tools")
    need(choice["type"] != "tool" or choice.get("name") in names, "tool_choice.name: there is no such tool")


def check_tools(body, marks):
    tools = body.get("tools") or []
    need(isinstance(tools, list), "tools: must be a list")
    for i, tool in enumerate(tools):
        check_tool(tool, f"tools.{i}", marks)
    names = [tool.get("name") for tool in tools]
    need(len(set(names)) == len(names), "tools: Tool names must be unique.")
    check_choice(body, names)


# -- the rest


def check_system(body, marks):
    system = body.get("system")
    if isinstance(system, list):
        for i, block in enumerate(system):
            check_block(block, "system", f"system.{i}", marks)
    else:
        need(system is None or isinstance(system, str), "system: must be a string or a list of text blocks")


def check_thinking_setting(body):
    thinking = body.get("thinking")
    if thinking is None:
        return
    kinds = ("adaptive", "enabled", "disabled", "between_tools")
    need(isinstance(thinking, dict) and thinking.get("type") in kinds, "thinking.type: unknown")
    if thinking["type"] == "enabled":
        budget = thinking.get("budget_tokens")
        need(is_int(budget) and budget >= 1024, "thinking.enabled.budget_tokens: must be at least 1024")
        need(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`.")


def most_tokens(model):
    return 64000 if "-4-5" in model else 128000


def check_numbers(body):
    tokens = body.get("max_tokens")
    need(tokens is not None, "max_tokens: Field required")
    need(is_int(tokens) and tokens >= 1, "max_tokens: must be greater than or equal to 1")
    most = most_tokens(body["model"])
    need(tokens <= most, f"max_tokens: {tokens} > {most}, which is the maximum allowed number of output tokens for "
                         f"{body['model']}")


def check_settings(body):
    for name in NEVER:
        need(name not in body, f"{name}: Extra inputs are not permitted")
    need(isinstance(body.get("stream", False), bool), "stream: must be a boolean")
    stops = body.get("stop_sequences") or []
    need(isinstance(stops, list) and all(isinstance(s, str) and s.strip() for s in stops),
         "stop_sequences: each stop sequence must contain non-whitespace")
    effort = (body.get("output_config") or {}).get("effort", "low")
    need(effort in EFFORTS, f"output_config.effort: must be one of {', '.join(EFFORTS)}")
    user = (body.get("metadata") or {}).get("user_id")
    need(user is None or isinstance(user, str), "metadata.user_id: must be a string")


def check_model(body):
    model = body.get("model")
    need(isinstance(model, str) and model, "model: Field required")
    known = re.fullmatch(r"claude-[a-z0-9.-]+(\[1m\])?", model)
    need(known, f"model: {model}", status=404, kind="not_found_error")


def check_request(body, counting=False):
    """Raises Refused for what the API would refuse. `counting`: of count_tokens, which makes nothing."""
    need(isinstance(body, dict), "the body must be a JSON object")
    check_model(body)
    marks = []
    if not counting:
        check_numbers(body)
        check_settings(body)
        check_thinking_setting(body)
    check_cache(body, "body", marks)
    check_system(body, marks)
    check_tools(body, marks)
    check_messages(body, marks)
