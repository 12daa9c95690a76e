// SPDX-License-Identifier: Apache-2.0
// OpenAI's Agents SDK for JavaScript, unmodified, against the bridge of the server at CAY_URL. Each scenario is told as a line of
// JSON when it is over.

import assert from "node:assert/strict";
import { Runner } from "@openai/agents-core";
import { Manifest, SandboxAgent, dir, file } from "@openai/agents-core/sandbox";
import { CloudflareSandboxClient } from "@openai/agents-extensions/sandbox/cloudflare";

const options = { workerUrl: process.env.CAY_URL, apiKey: process.env.CAY_TOKEN };
const client = new CloudflareSandboxClient(options);
const text = (bytes) => new TextDecoder().decode(bytes);

async function cay(method, path) {
  const headers = { Authorization: `Bearer ${process.env.CAY_TOKEN}` };
  return (await fetch(process.env.CAY_URL + path, { method, headers })).json();
}

/** What a command printed, and how it ended. */
async function sh(session, cmd, more = {}) {
  const said = await session.execCommand({ cmd, ...more });
  return { code: Number(/exited with code (\d+)/.exec(said)?.[1]), output: said.split("Output:\n")[1], said };
}

async function scenario(name, work) {
  const made = [];
  const begin = async (manifest = {}, more = {}) => {
    made.push(await new CloudflareSandboxClient({ ...options, ...more }).create(new Manifest(manifest)));
    return made.at(-1);
  };
  let error = null;
  try {
    await work(begin);
  } catch (thrown) {
    error = thrown?.stack ?? String(thrown);
  }
  for (const session of made) await session.close().catch((thrown) => (error ??= thrown.stack));
  console.log(JSON.stringify({ name, error }));
}

await scenario("a manifest becomes files and variables", async (begin) => {
  const session = await begin({
    entries: { "a.txt": file({ content: "hello ü\n" }), sub: dir({ children: { "b.txt": file({ content: "b" }) } }) },
    environment: { GREETING: "hi 'there'" },
  });
  assert.match(session.state.sandboxId, /^[a-z2-7]{26}$/);
  const { code, output } = await sh(session, "cat a.txt sub/b.txt; echo; echo $GREETING; pwd; echo oops >&2; exit 3");
  assert.equal(code, 3);
  assert.equal(output, "hello ü\nb\nhi 'there'\n/workspace\noops");
});

await scenario("what it says for itself is taken", async (begin) => {
  const session = await begin({}, { exposedPorts: [3000], timeoutMs: 20000, createTimeoutMs: 20000, mounts: [] });
  assert.equal((await sh(session, "echo on")).output, "on");
});

await scenario("files", async (begin) => {
  const session = await begin();
  const content = Uint8Array.from({ length: 300_000 }, (_, i) => i & 255);
  await session.applyManifest(new Manifest({ entries: { "bin/x": file({ content }), "data: {": file({ content: "data: {}\n\n" }) } }));
  assert.deepEqual(await session.readFile({ path: "bin/x" }), content);
  assert.equal((await session.readFile({ path: "bin/x", maxBytes: 7 })).length, 7);
  assert.equal(text(await session.readFile({ path: "data: {" })), "data: {}\n\n");
  assert.equal(await session.pathExists("bin/x"), true);
  assert.equal(await session.pathExists("bin/y"), false);
  assert.equal(await session.directoryExists("bin"), true);
  await assert.rejects(session.readFile({ path: "nothing" }), { name: /NotFound/, code: "workspace_read_not_found" });
});

await scenario("more than 32 MiB", async (begin) => {
  const session = await begin();
  await sh(session, "head -c 40M /dev/zero > large");
  assert.equal((await session.readFile({ path: "large" })).length, 40 * 1024 * 1024);
  await session.materializeEntry({ path: "back", entry: file({ content: new Uint8Array(40 * 1024 * 1024) }) });
  assert.equal((await sh(session, "cmp large back && echo same")).output, "same");
});

await scenario("edits", async (begin) => {
  const session = await begin();
  const editor = session.createEditor();
  await editor.createFile({ type: "create_file", path: "src/new.txt", diff: "+one\n+two\n" });
  await editor.updateFile({ type: "update_file", path: "src/new.txt", diff: " one\n-two\n+three\n" });
  assert.equal((await sh(session, "cat src/new.txt")).output, "one\nthree");
  await editor.deleteFile({ type: "delete_file", path: "src/new.txt" });
  assert.equal(await session.pathExists("src/new.txt"), false);
});

await scenario("a workspace there and back", async (begin) => {
  const [one, other] = [await begin(), await begin()];
  await sh(one, "echo a > a; ln a hard; ln -s a link; mkfifo pipe; truncate -s 2M holes; mkdir -p d/e; head -c 8M /dev/urandom > d/f; chmod 700 d/f");
  const archive = await one.persistWorkspace();
  await other.hydrateWorkspace(archive);
  const list = "find . ! -type d ! -name pipe -printf '%P %y %m %s %l\\n' | sort; sha256sum a hard d/f holes; ls -d d/e";
  assert.equal((await sh(other, list)).output, (await sh(one, list)).output);
  assert.equal((await sh(other, "cat hard; stat -c %a d/f; ls pipe")).code, 2);
});

await scenario("characters of several bytes", async (begin) => {
  const session = await begin();
  const { output } = await sh(session, "for i in $(seq 3000); do printf 'aé'; sleep 0; printf '中😀'; done");
  assert.equal(output, "aé中😀".repeat(3000));
});

await scenario("terminals", async (begin) => {
  const session = await begin();
  const first = await session.execCommand({ cmd: "read x; echo got:$x; tty", tty: true, yieldTimeMs: 300 });
  const second = await session.execCommand({ cmd: "echo other:$((6*7))", tty: true, yieldTimeMs: 300 });
  const id = (said) => Number(/session ID (\d+)/.exec(said)[1]);
  let [seen, other] = ["", second];
  seen += await session.writeStdin({ sessionId: id(first), chars: "typed\n", yieldTimeMs: 300 });
  for (let i = 0; i < 100 && !(seen.includes("got:typed") && other.includes("other:42")); i++) {
    seen += await session.writeStdin({ sessionId: id(first), chars: " ", yieldTimeMs: 250 });
    other += await session.writeStdin({ sessionId: id(second), chars: " ", yieldTimeMs: 250 });
  }
  assert.match(seen, /got:typed\r?\n\/dev\/pts/);
  assert.match(other, /other:42/);
  assert.ok(!seen.includes("42") && !other.includes("typed"), "they are two");
});

await scenario("a command that takes too long", async (begin) => {
  const session = await begin({}, { timeoutMs: 500 });
  const { code, output } = await sh(session, "echo begun; sleep 1000");
  assert.equal(code, 124);
  assert.match(output, /^begun\n.*timed out/);
});

await scenario("it is gone on with, asleep or awake", async (begin) => {
  const session = await begin();
  await sh(session, "echo kept > file");
  assert.equal(await session.running(), true);
  await cay("POST", `/sandbox/${session.state.sandboxId}/sleep`);
  const again = await client.resume(session.state);
  assert.equal((await cay("GET", `/sandbox/${session.state.sandboxId}`)).status, "sleeping");
  assert.equal((await sh(again, "cat file")).output, "kept");
  await session.close();
  assert.equal(await session.running(), false);
  await assert.rejects(client.resume(session.state), /no longer running/);
});

await scenario("buckets and wrong keys are told so", async (begin) => {
  const session = await begin();
  await assert.rejects(
    session.mountBucket({ bucket: "b", mountPath: "m", options: { endpoint: "https://example.org" } }),
    (error) => /Mount/.test(error.constructor.name) && error.details.status === 501 && /Cay mounts no buckets/.test(error.details.reason),
  );
  await assert.rejects(begin({}, { apiKey: "wrong" }), /unauthorized: this token is not known/);
});

await scenario("an agent works in it", async () => {
  const asked = [];
  const call = (n, name, args) => ({ type: "function_call", callId: `c${n}`, name, arguments: JSON.stringify(args), status: "completed" });
  const model = {
    async getResponse(request) {
      asked.push(request);
      const output =
        asked.length === 1
          ? [call(1, "exec_command", { cmd: "cat numbers.txt | paste -sd+ | bc || python3 -c 'print(40+2)'" })]
          : [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: JSON.stringify(request.input.at(-1).output) }] }];
      return { usage: { requests: 1, inputTokens: 1, outputTokens: 1, totalTokens: 2 }, responseId: `r${asked.length}`, output };
    },
  };
  const defaultManifest = new Manifest({ entries: { "numbers.txt": file({ content: "40\n2\n" }) } });
  const agent = new SandboxAgent({ name: "counts", instructions: "Add them up.", model, defaultManifest });
  const result = await new Runner({ tracingDisabled: true }).run(agent, "What do they come to?", { sandbox: { client } });
  assert.match(result.finalOutput, /exited with code 0.*42/s);
  assert.ok(asked[0].tools.some((tool) => tool.name === "exec_command"));
});
