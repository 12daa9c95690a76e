// SPDX-License-Identifier: Apache-2.0
// The API's own client for JavaScript against the stand-in. test_standin.py runs it, with CLIENTS (where node_modules is),
// ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(`${process.env.CLIENTS}/package.json`);
const { default: Anthropic } = require("@anthropic-ai/sdk");

const client = new Anthropic({ maxRetries: 2 });
const tools = [{ name: "add", description: "adds", input_schema: { type: "object", properties: {} } }];

function request(text, more = {}) {
  return { model: "claude-sonnet-5-5", max_tokens: 1000, messages: [{ role: "user", content: text }], ...more };
}

test("a message", async () => {
  const message = await client.messages.create(request("[[code: print(1)]]"));
  assert.equal(message.content[0].text, "print(1)");
  assert.equal(message.stop_reason, "end_turn");
  assert.ok(message.usage.input_tokens > 0);
});

test("a stream comes to the same message", async () => {
  const stream = client.messages.stream(request("[[thinking: hm]] [[text: some words, in pieces]] [[split: 3]]"));
  let text = "";
  stream.on("text", (piece) => (text += piece));
  const message = await stream.finalMessage();
  assert.equal(text, "some words, in pieces");
  assert.deepEqual(message.content.map((block) => block.type), ["thinking", "text"]);
  assert.ok(message.content[0].signature);
});

test("tools, in parallel, and their results", async () => {
  const asked = request('[[tool: add {"a": 1, "b": [2]}]] [[tool: add]] [[thinking]]', { tools });
  const first = await client.messages.stream(asked).finalMessage();
  const uses = first.content.filter((block) => block.type === "tool_use");
  assert.deepEqual(uses.map((use) => use.input), [{ a: 1, b: [2] }, {}]);
  const results = uses.map((use) => ({ type: "tool_result", tool_use_id: use.id, content: "3" }));
  const messages = [...asked.messages, { role: "assistant", content: first.content }, { role: "user", content: results }];
  const second = await client.messages.create({ ...asked, messages });
  assert.equal(second.content[0].text, "The tools said: 3; 3");
});

test("what passes is tried again", async () => {
  const text = `[[status: 529 retry-after=0 times=1]] [[status: 429 retry-after=0 times=1]] [[text: fine]] ${process.pid}`;
  assert.equal((await client.messages.create(request(text))).content[0].text, "fine");
});

test("errors are of their kinds", async () => {
  const patient = client.withOptions({ maxRetries: 0 });
  const kinds = { 400: "BadRequestError", 401: "AuthenticationError", 429: "RateLimitError", 529: "InternalServerError" };
  for (const [status, name] of Object.entries(kinds)) {
    await assert.rejects(patient.messages.create(request(`[[status: ${status}]]`)), Anthropic[name]);
  }
  const broken = patient.messages.stream(request("[[error-event: overloaded_error]]"));
  await assert.rejects(broken.finalMessage(), /overloaded/);
  await assert.rejects(patient.messages.stream(request("[[break: 3]]")).finalMessage());
});

test("counting and models", async () => {
  const { messages, model } = request("x");
  assert.ok((await client.messages.countTokens({ messages, model })).input_tokens > 0);
  const names = [];
  for await (const row of client.models.list()) names.push(row.id);
  assert.ok(names.includes("claude-sonnet-5-5"));
});
