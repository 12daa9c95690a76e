// SPDX-License-Identifier: Apache-2.0
// git.* of the low-level client, against a git server on this machine's loopback.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { GIT, fails, newClient } from "./kit.mjs";

const S = "main";
let client;

before(async () => {
  client = await newClient();
});

function sh(command) {
  return client.commands.execute(command, S);
}

test("a repository, where it says", async () => {
  const url = `${GIT}/open/hello.git`;
  const done = await client.git.checkout(url, S);
  assert.deepEqual([done.success, done.repoUrl, done.branch, done.targetDir], [true, url, "main", "/workspace/hello"]);
  assert.ok(!Number.isNaN(Date.parse(done.timestamp)));
  assert.equal((await sh("cat /workspace/hello/README.md; git -C /workspace/hello rev-list --count HEAD")).stdout, "hello again\n2");
});

test("a branch, a directory, a depth", async () => {
  const done = await client.git.checkout(`${GIT}/open/hello.git`, S, { branch: "later", targetDir: "/workspace/x/y", depth: 1 });
  assert.deepEqual([done.branch, done.targetDir], ["later", "/workspace/x/y"]);
  assert.equal((await sh("cd /workspace/x/y && cat later.txt && git rev-list --count HEAD")).stdout, "later\n1");
});

test("a repository that is not there", async () => {
  await fails(client.git.checkout(`${GIT}/open/none.git`, S), "GitRepositoryNotFoundError", "GIT_REPOSITORY_NOT_FOUND", 404);
});

test("a branch that is not there", async () => {
  const wrong = client.git.checkout(`${GIT}/open/hello.git`, S, { branch: "nowhere", targetDir: "/workspace/b" });
  const error = await fails(wrong, "GitBranchNotFoundError", "GIT_BRANCH_NOT_FOUND", 404);
  assert.equal(error.branch, "nowhere");
});

test("a private repository", async () => {
  const closed = client.git.checkout(`${GIT}/private/closed.git`, S);
  await fails(closed, "GitAuthenticationError", "GIT_AUTH_FAILED", 401);
});

test("a private repository with a token in its URL", async () => {
  const url = `${GIT}/private/closed.git`.replace("//", "//robot:planted-9f8e7d6c5b4a@");
  const done = await client.git.checkout(url, S, { targetDir: "/workspace/closed" });
  assert.equal(done.success, true);
  assert.equal((await client.files.readFile("/workspace/closed/inside.txt", S)).content, "closed\n");
});

test("nobody answers there", async () => {
  const nobody = client.git.checkout("http://127.0.0.2:9/open/hello.git", S, { targetDir: "/workspace/nobody" });
  await fails(nobody, "GitNetworkError", "GIT_NETWORK_ERROR", 502);
});

test("no URL", async () => {
  await fails(client.git.checkout("ext::sh -c date", S, { targetDir: "/workspace/e" }), "InvalidGitUrlError", "INVALID_GIT_URL", 400);
});

test("a directory that is not empty", async () => {
  await sh("mkdir -p /workspace/full && touch /workspace/full/x");
  const full = client.git.checkout(`${GIT}/open/hello.git`, S, { targetDir: "/workspace/full" });
  await fails(full, "GitCloneError", "GIT_CLONE_FAILED", 500);
});

test("depth and timeout are looked at by the client", async () => {
  await assert.rejects(client.git.checkout(`${GIT}/open/hello.git`, S, { depth: 0 }), /Invalid depth/);
  await assert.rejects(client.git.checkout(`${GIT}/open/hello.git`, S, { timeoutMs: -1 }), /Invalid timeout/);
});
