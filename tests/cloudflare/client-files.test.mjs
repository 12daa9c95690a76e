// SPDX-License-Identifier: Apache-2.0
// files.* of the low-level client.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { collectFile, streamFile } from "@cloudflare/sandbox";
import { fails, gather, newClient } from "./kit.mjs";

const S = "files";
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
let client;
let files;

before(async () => {
  client = await newClient();
  files = client.files;
});

function sh(command) {
  return client.commands.execute(command, S);
}

function checkTimed(result, more) {
  assert.ok(!Number.isNaN(Date.parse(result.timestamp)), JSON.stringify(result));
  const { timestamp, ...rest } = result;
  assert.deepEqual(rest, { success: true, ...more });
}

test("write and read a text", async () => {
  checkTimed(await files.writeFile("/workspace/a.txt", "grüße\n世界\n", S), { path: "/workspace/a.txt" });
  checkTimed(await files.readFile("/workspace/a.txt", S), {
    path: "/workspace/a.txt",
    content: "grüße\n世界\n",
    encoding: "utf-8",
    isBinary: false,
    mimeType: "text/plain",
    size: 15,
  });
  checkTimed(await files.writeFile("/workspace/a.txt", "", S), { path: "/workspace/a.txt" });
  assert.equal((await files.readFile("/workspace/a.txt", S)).content, "");
});

test("what is not text comes as base64, and goes in as such", async () => {
  checkTimed(await files.writeFile("/workspace/one.png", PNG, S, { encoding: "base64" }), { path: "/workspace/one.png" });
  const read = await files.readFile("/workspace/one.png", S);
  assert.deepEqual([read.content, read.encoding, read.isBinary, read.mimeType, read.size], [PNG, "base64", true, "image/png", 70]);
  await sh("printf '\\377\\0\\1' > /workspace/noext");
  const odd = await files.readFile("/workspace/noext", S);
  assert.deepEqual([odd.content, odd.encoding, odd.isBinary], ["/wAB", "base64", true]);
});

test("an encoding may be asked for", async () => {
  await files.writeFile("/workspace/b.txt", "abc", S, { encoding: "utf-8" });
  const coded = await files.readFile("/workspace/b.txt", S, { encoding: "base64" });
  assert.deepEqual([coded.content, coded.encoding], ["YWJj", "base64"]);
  for (const encoding of ["utf-8", "utf8"]) {
    const plain = await files.readFile("/workspace/b.txt", S, { encoding });
    assert.deepEqual([plain.content, plain.encoding], ["abc", "utf-8"]);
  }
});

test("paths are relative to where the session is", async () => {
  await client.commands.execute("mkdir -p /workspace/sub && cd /workspace/sub", "there");
  await files.writeFile("rel.txt", "here", "there");
  assert.equal((await files.readFile("/workspace/sub/rel.txt", S)).content, "here");
  assert.equal((await files.readFile("./rel.txt", "there")).content, "here");
  assert.equal((await files.exists("rel.txt", "there")).exists, true);
  assert.equal((await files.exists("rel.txt", S)).exists, false);
});

test("a name with all that a shell would trip over", async () => {
  const name = "/workspace/it's \"$(odd)\" `x` \\ ; & *?\n世.txt";
  await files.writeFile(name, "fine", S);
  assert.equal((await files.readFile(name, S)).content, "fine");
  assert.equal((await files.exists(name, S)).exists, true);
  await files.renameFile(name, `${name}2`, S);
  await files.deleteFile(`${name}2`, S);
});

test("mkdir, with parents too", async () => {
  checkTimed(await files.mkdir("/workspace/d", S), { path: "/workspace/d", recursive: false });
  await fails(files.mkdir("/workspace/d", S), "FileExistsError", "FILE_EXISTS", 409);
  await fails(files.mkdir("/workspace/x/y/z", S), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  checkTimed(await files.mkdir("/workspace/x/y/z", S, { recursive: true }), { path: "/workspace/x/y/z", recursive: true });
  assert.equal((await files.mkdir("/workspace/x/y/z", S, { recursive: true })).success, true);
});

test("exists", async () => {
  checkTimed(await files.exists("/workspace", S), { path: "/workspace", exists: true });
  checkTimed(await files.exists("/workspace/none", S), { path: "/workspace/none", exists: false });
  checkTimed(await files.exists("/workspace/none/below", S), { path: "/workspace/none/below", exists: false });
});

test("rename, move, delete", async () => {
  await files.writeFile("/workspace/m1", "m", S);
  checkTimed(await files.renameFile("/workspace/m1", "/workspace/m2", S), { path: "/workspace/m1", newPath: "/workspace/m2" });
  await files.mkdir("/workspace/into", S);
  checkTimed(await files.moveFile("/workspace/m2", "/workspace/into/m3", S), {
    path: "/workspace/m2",
    newPath: "/workspace/into/m3",
  });
  assert.equal((await files.readFile("/workspace/into/m3", S)).content, "m");
  checkTimed(await files.deleteFile("/workspace/into/m3", S), { path: "/workspace/into/m3" });
  await fails(files.deleteFile("/workspace/into/m3", S), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  await fails(files.renameFile("/workspace/m1", "/workspace/m2", S), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  await fails(files.moveFile("/workspace/m1", "/workspace/m2", S), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  const refused = await fails(files.deleteFile("/workspace/into", S), "FileSystemError", "IS_DIRECTORY", 400);
  assert.equal(refused.path, "/workspace/into");
});

test("list: kinds, sizes, modes, hidden, below", async () => {
  await sh(`rm -rf /workspace/l && mkdir -p /workspace/l/sub/deep && cd /workspace/l && printf 12345 > f && chmod 640 f &&
    printf '#!/bin/sh' > run && chmod 755 run && touch .hidden sub/inner sub/deep/most && ln -s f link && mkfifo pipe`);
  const list = await files.listFiles("/workspace/l", S);
  assert.deepEqual([list.success, list.path, list.count], [true, "/workspace/l", list.files.length]);
  const found = Object.fromEntries(list.files.map((file) => [file.name, file]));
  assert.deepEqual(Object.keys(found).sort(), ["f", "link", "pipe", "run", "sub"]);
  const { modifiedAt, ...f } = found.f;
  assert.ok(!Number.isNaN(Date.parse(modifiedAt)));
  assert.deepEqual(f, {
    name: "f",
    absolutePath: "/workspace/l/f",
    relativePath: "f",
    type: "file",
    size: 5,
    mode: "rw-r-----",
    permissions: { readable: true, writable: true, executable: false },
  });
  assert.deepEqual(found.run.permissions, { readable: true, writable: true, executable: true });
  assert.deepEqual([found.sub.type, found.link.type, found.pipe.type], ["directory", "symlink", "other"]);
  const all = await files.listFiles("/workspace/l", S, { recursive: true, includeHidden: true });
  assert.deepEqual(all.files.map((file) => file.relativePath).sort(), [
    ".hidden",
    "f",
    "link",
    "pipe",
    "run",
    "sub",
    "sub/deep",
    "sub/deep/most",
    "sub/inner",
  ]);
  await fails(files.listFiles("/workspace/none", S), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  await fails(files.listFiles("/workspace/l/f", S), "FileSystemError", "NOT_DIRECTORY", 400);
});

test("a text as a stream", async () => {
  const text = "zeile äöü 世界\n".repeat(20_000);
  await files.writeFile("/workspace/long.txt", text, S);
  const { content, metadata } = await collectFile(await files.readFileStream("/workspace/long.txt", S));
  assert.equal(content, text);
  assert.deepEqual(metadata, { mimeType: "text/plain", size: Buffer.byteLength(text), isBinary: false, encoding: "utf-8" });
  const events = await gather(await files.readFileStream("/workspace/long.txt", S));
  assert.deepEqual([events[0].type, events.at(-1).type], ["metadata", "complete"]);
  assert.equal(events.at(-1).bytesRead, Buffer.byteLength(text));
});

test("bytes as a stream", async () => {
  await sh("head -c 1000001 /dev/urandom > /workspace/blob.bin");
  const { stdout } = await sh("sha256sum < /workspace/blob.bin");
  const { content, metadata } = await collectFile(await files.readFileStream("/workspace/blob.bin", S));
  assert.deepEqual([metadata.isBinary, metadata.encoding, metadata.size], [true, "base64", 1_000_001]);
  const digest = Buffer.from(await crypto.subtle.digest("SHA-256", content)).toString("hex");
  assert.equal(digest, stdout.split(" ")[0]);
  let chunks = 0;
  for await (const chunk of streamFile(await files.readFileStream("/workspace/blob.bin", S))) {
    assert.ok(chunk instanceof Uint8Array);
    chunks += 1;
  }
  assert.ok(chunks > 1);
});

test("an empty file as a stream", async () => {
  await files.writeFile("/workspace/empty.txt", "", S);
  const { content, metadata } = await collectFile(await files.readFileStream("/workspace/empty.txt", S));
  assert.equal(content.length, 0);
  assert.equal(metadata.size, 0);
});

test("a stream of what is not there says so", async () => {
  await assert.rejects(collectFile(await files.readFileStream("/workspace/none", S)), /File streaming error: .+/);
});

test("a write replaces, and keeps the mode", async () => {
  await sh("printf old > /workspace/kept && chmod 751 /workspace/kept");
  await files.writeFile("/workspace/kept", "new", S);
  assert.equal((await sh("stat -c %a /workspace/kept; cat /workspace/kept")).stdout, "751\nnew");
});

test("40 MB go in and come out", async () => {
  // Theirs has 32 MiB as its limit, both ways.
  const text = "0123456789abcde\n".repeat(2_500_000);
  await files.writeFile("/workspace/large.txt", text, S);
  assert.ok((await files.readFile("/workspace/large.txt", S)).content === text);
  assert.ok((await collectFile(await files.readFileStream("/workspace/large.txt", S))).content === text);
});

test("what only the rpc transport has is refused by the client itself", async () => {
  await assert.rejects(async () => files.readFile("/workspace/a.txt", S, { encoding: "none" }), /rpc transport/);
  assert.throws(() => files.writeFileStream("/workspace/a.txt", new ReadableStream(), S), /rpc transport/);
  assert.throws(() => client.utils.listSessions(), /RPC transport/);
  assert.throws(() => client.tunnels.list(), /RPC transport/);
});

test("a read does not wait for a running command", async () => {
  const sleeping = client.commands.execute("until [ -e /workspace/awake ]; do sleep 0.01; done", "busy");
  await files.writeFile("/workspace/meanwhile", "1", "busy");
  assert.equal((await files.readFile("/workspace/meanwhile", "busy")).content, "1");
  await files.writeFile("/workspace/awake", "", "busy");
  await sleeping;
});
