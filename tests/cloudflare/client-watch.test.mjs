// SPDX-License-Identifier: Apache-2.0
// watch.* of the low-level client.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { parseSSEStream } from "@cloudflare/sandbox";
import { cay, eventually, fails, newClient } from "./kit.mjs";

const S = "main";
let client;

before(async () => {
  client = await newClient();
});

function sh(command) {
  return client.commands.execute(command, S);
}

// What a watcher tells, until it has told of `last`.
async function told(stream, last) {
  const events = [];
  for await (const event of parseSSEStream(stream)) {
    events.push(event);
    if (event.type === "event" && event.path.endsWith(last)) return events;
  }
  throw new Error(`ended: ${JSON.stringify(events)}`);
}

function kinds(events, name) {
  return events.filter((event) => event.type === "event" && event.path.endsWith(name)).map((event) => event.eventType);
}

test("what happens below a directory", async () => {
  await sh("mkdir -p /workspace/w/sub");
  const stream = await client.watch.watch({ path: "/workspace/w", sessionId: S });
  await sh("cd /workspace/w && echo a > f && mv f g && rm g && echo b > sub/deep && chmod 600 sub/deep && mkdir new && touch last");
  const events = await told(stream, "/last");
  assert.deepEqual([events[0].type, events[0].path, typeof events[0].watchId], ["watching", "/workspace/w", "string"]);
  assert.ok(kinds(events, "/w/f").includes("create"), JSON.stringify(events));
  assert.ok(kinds(events, "/w/f").includes("move_from"));
  assert.ok(kinds(events, "/w/g").includes("move_to"));
  assert.ok(kinds(events, "/w/g").includes("delete"));
  assert.ok(kinds(events, "/sub/deep").includes("create"));
  const made = events.find((event) => event.type === "event" && event.path === "/workspace/w/new");
  assert.deepEqual([made.eventType, made.isDirectory], ["create", true]);
  assert.ok(!Number.isNaN(Date.parse(made.timestamp)));
});

test("changes of content and of mode", async () => {
  await sh("mkdir -p /workspace/c && echo a > /workspace/c/f");
  const stream = await client.watch.watch({ path: "/workspace/c" });
  const seen = told(stream, "/last");
  await sh("echo b >> /workspace/c/f");
  await sh("chmod 600 /workspace/c/f; touch /workspace/c/last");
  const events = await seen;
  assert.ok(kinds(events, "/f").includes("modify"), JSON.stringify(events));
});

test("not below, when not asked for", async () => {
  await sh("mkdir -p /workspace/flat/sub");
  const stream = await client.watch.watch({ path: "/workspace/flat", recursive: false });
  await sh("touch /workspace/flat/sub/unseen; touch /workspace/flat/last");
  const events = await told(stream, "/flat/last");
  assert.deepEqual(kinds(events, "unseen"), []);
});

test("directories that come later are watched too", async () => {
  await sh("mkdir -p /workspace/grow");
  const stream = await client.watch.watch({ path: "/workspace/grow" });
  await sh("mkdir /workspace/grow/fresh");
  await sh("touch /workspace/grow/fresh/last");
  assert.ok(await told(stream, "/fresh/last"));
});

test("include and exclude", async () => {
  await sh("mkdir -p /workspace/p/node_modules");
  const included = await client.watch.watch({ path: "/workspace/p", include: ["*.ts"] });
  await sh("touch /workspace/p/a.js /workspace/p/last.ts");
  assert.deepEqual(kinds(await told(included, "/last.ts"), "a.js"), []);
  const excluded = await client.watch.watch({ path: "/workspace/p", exclude: ["*.log"] });
  await sh("touch /workspace/p/b.log /workspace/p/last");
  assert.deepEqual(kinds(await told(excluded, "/last"), "b.log"), []);
  const usual = await client.watch.watch({ path: "/workspace/p" });
  await sh("touch /workspace/p/node_modules/x /workspace/p/last2");
  assert.deepEqual(kinds(await told(usual, "/last2"), "/x"), []);
  const both = client.watch.watch({ path: "/workspace/p", include: ["a"], exclude: ["b"] });
  await fails(both, "ValidationFailedError", "VALIDATION_FAILED", 400);
});

test("what cannot be watched", async () => {
  await fails(client.watch.watch({ path: "/workspace/none" }), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  await fails(client.watch.watch({ path: "/etc" }), "PermissionDeniedError", "PERMISSION_DENIED", 403);
});

test("since when something has changed", async () => {
  await sh("mkdir -p /workspace/v/sub");
  const { success, ...first } = await client.watch.checkChanges({ path: "/workspace/v" });
  assert.equal(typeof first.version, "string");
  const check = (since, more) => client.watch.checkChanges({ path: "/workspace/v", since, ...more });
  assert.equal((await check(first.version)).status, "unchanged");
  await sh("touch /workspace/v/sub/new");
  const changed = await eventually(async () => {
    const now = await check(first.version);
    return now.status === "changed" && now;
  });
  assert.notEqual(changed.version, first.version);
  assert.equal((await check(changed.version)).status, "unchanged");
  await fails(check("made up"), "ValidationFailedError", "VALIDATION_FAILED", 400);
  await cay("POST", `/sandbox/${client.id}/sleep`); // theirs would say "resync": it has forgotten
  assert.equal((await check(changed.version)).status, "unchanged");
});
