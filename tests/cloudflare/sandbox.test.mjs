// SPDX-License-Identifier: Apache-2.0
// getSandbox() and the whole Sandbox class, which else runs in a Durable Object.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Sandbox, collectFile, getSandbox, isExecResult, isProcess, isProcessStatus, parseSSEStream, proxyToSandbox } from "@cloudflare/sandbox";
import { bind } from "../../sdk/cloudflare/index.mjs";
import { GIT, TOKEN, URL_OF_CAY, cay, eventually, fails, gather, namespace, newId, newSandbox, textOf, until } from "./kit.mjs";

const SERVE = `import http.server as h, sys
class H(h.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{self.path} for {self.headers.get('X-Sandbox-Name')}".encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
h.HTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
`;
let sandbox;

before(async () => {
  sandbox = newSandbox();
  await sandbox.writeFile("/workspace/serve.py", SERVE);
});

test("exec, with its options", async () => {
  const result = await sandbox.exec("echo out; echo err >&2");
  assert.ok(isExecResult(result));
  assert.deepEqual([result.success, result.exitCode, result.stdout, result.stderr], [true, 0, "out", "err"]);
  assert.equal((await sandbox.exec("pwd; echo $A", { cwd: "/tmp", env: { A: "1", B: undefined } })).stdout, "/tmp\n1");
  const seen = [];
  await sandbox.exec("exit 0 | true", { onComplete: (done) => seen.push(done.exitCode) });
  assert.deepEqual(seen, [0]);
  const failed = [];
  await assert.rejects(sandbox.exec("sleep 600", { timeout: 200, onError: (error) => failed.push(error.name) }));
  assert.deepEqual(failed, ["CommandError"]);
  await assert.rejects(sandbox.exec("true", { signal: AbortSignal.abort() }), /aborted/);
});

test("exec as a stream with callbacks", async () => {
  const seen = { stdout: "", stderr: "" };
  const onOutput = (stream, data) => (seen[stream] += data);
  const result = await sandbox.exec("echo a; echo b >&2; (exit 3)", { stream: true, onOutput });
  assert.deepEqual([seen.stdout, seen.stderr], ["a\n", "b\n"]);
  assert.deepEqual([result.success, result.exitCode, result.stdout, result.stderr], [false, 3, "a\n", "b\n"]);
});

test("execStream", async () => {
  const events = await gather(await sandbox.execStream("echo a; (exit 2)"));
  assert.deepEqual([textOf(events), events.at(-1).exitCode], ["a\n", 2]);
});

test("the default session keeps what was done in it", async () => {
  await sandbox.exec("cd /tmp && export STAYS=1");
  assert.equal((await sandbox.exec("pwd; echo $STAYS")).stdout, "/tmp\n1");
  await sandbox.exec("cd /workspace");
  await assert.rejects(sandbox.deleteSession(`sandbox-${await nameOf(sandbox)}`), /Cannot delete default session/);
});

async function nameOf(object) {
  return object.sandboxName;
}

test("without a default session each call is by itself", async () => {
  const free = newSandbox({ enableDefaultSession: false });
  await free.exec("cd /tmp; export GONE=1");
  const result = await free.exec("pwd; echo -$GONE-");
  assert.equal(result.stdout, "/workspace\n--\n");
  assert.equal(result.sessionId, undefined);
  assert.equal(textOf(await gather(await free.execStream("pwd"))), "/workspace\n");
  await free.writeFile("a.txt", "1");
  assert.equal((await free.readFile("/workspace/a.txt")).content, "1");
  await free.mkdir("d");
  assert.equal((await free.exists("d")).exists, true);
  assert.equal((await free.listFiles("/workspace")).count, 2);
  await free.renameFile("a.txt", "b.txt");
  await free.moveFile("b.txt", "d/c.txt");
  await free.deleteFile("d/c.txt");
  const process = await free.startProcess("pwd");
  assert.deepEqual(await process.waitForExit(), { exitCode: 0 });
  await free.destroy();
});

test("setEnvVars, for the default session and later ones", async () => {
  await sandbox.setEnvVars({ COLOUR: "blue 'n' green", DROP: "1" });
  assert.equal((await sandbox.exec("echo $COLOUR$DROP")).stdout, "blue 'n' green1");
  await sandbox.setEnvVars({ DROP: undefined });
  assert.equal((await sandbox.exec("echo $COLOUR-$DROP-")).stdout, "blue 'n' green--");
  const session = await sandbox.createSession({ id: "env", env: { OWN: "1" } });
  assert.equal((await session.exec("echo $COLOUR $OWN")).stdout, "blue 'n' green 1");
  await session.setEnvVars({ OWN: "2" });
  assert.equal((await session.exec("echo $OWN")).stdout, "2");
});

test("a session has the sandbox's methods", async () => {
  const session = await sandbox.createSession({ id: "all", cwd: "/tmp" });
  assert.equal(session.id, "all");
  assert.equal((await session.exec("pwd")).stdout, "/tmp");
  assert.equal(textOf(await gather(await session.execStream("pwd"))), "/tmp\n");
  await session.writeFile("rel", "1");
  assert.equal((await sandbox.readFile("/tmp/rel")).content, "1");
  assert.equal((await session.readFile("rel")).content, "1");
  assert.equal((await collectFile(await session.readFileStream("rel"))).content, "1");
  await session.mkdir("rel.d", { recursive: true });
  await session.moveFile("rel", "rel.d/x");
  await session.renameFile("rel.d/x", "rel.d/y");
  assert.equal((await session.exists("rel.d/y")).exists, true);
  assert.deepEqual((await session.listFiles("rel.d")).files.map((file) => file.name), ["y"]);
  await session.deleteFile("rel.d/y");
  const process = await session.startProcess("pwd");
  assert.equal(process.sessionId, "all");
  await process.waitForExit();
  assert.equal((await session.getProcessLogs(process.id)).stdout, "/tmp\n");
  assert.ok((await session.listProcesses()).some((one) => one.id === process.id));
  assert.equal((await session.getProcess(process.id)).status, "completed");
  assert.equal(await session.getProcess("none"), null);
  const long = await session.startProcess("sleep 600");
  await session.killProcess(long.id);
  assert.deepEqual(await long.waitForExit(), { exitCode: 143 });
  assert.equal(await session.killAllProcesses(), 0);
  const run = await session.runCode("1 + 1");
  assert.equal(run.results[0].text, "2");
  const again = await sandbox.getSession("all");
  assert.equal((await again.exec("pwd")).stdout, "/tmp");
  const deleted = await sandbox.deleteSession("all");
  assert.deepEqual([deleted.success, deleted.sessionId], [true, "all"]);
});

test("the placement id tells when it is another box", async () => {
  const before = await sandbox.getContainerPlacementId();
  assert.ok(before === null || typeof before === "string");
});

test("processes: started, waited for, killed", async () => {
  const heard = { started: 0, output: "", exit: null };
  const process = await sandbox.startProcess("echo begun; until [ -e /workspace/end ]; do sleep 0.01; done; echo done; exit 6", {
    processId: "job",
    onStart: () => (heard.started += 1),
    onOutput: (stream, data) => (heard.output += data),
    onExit: (code) => (heard.exit = code),
  });
  assert.ok(isProcess(process) && isProcessStatus(process.status));
  assert.deepEqual([process.id, heard.started], ["job", 1]);
  assert.equal((await process.waitForLog("begun")).line, "begun");
  assert.equal((await process.waitForLog(/beg(u)n/)).match[1], "u");
  assert.equal(await process.getStatus(), "running");
  await sandbox.writeFile("/workspace/end", "");
  assert.equal((await process.waitForLog("done")).line, "done");
  assert.deepEqual(await process.waitForExit(), { exitCode: 6 });
  assert.equal(await process.getStatus(), "failed");
  assert.deepEqual(await process.getLogs(), { stdout: "begun\ndone\n", stderr: "" });
  await eventually(() => heard.exit === 6);
  assert.equal(heard.output, "begun\ndone\n");
  const found = await sandbox.getProcess("job");
  assert.deepEqual([found.status, found.exitCode], ["failed", 6]);
  assert.equal(await sandbox.getProcess("none"), null);
  const long = await sandbox.startProcess("sleep 600");
  await long.kill();
  assert.deepEqual(await long.waitForExit(), { exitCode: 143 });
});

test("processes: what is waited for does not come", async () => {
  const long = await sandbox.startProcess("echo hm; sleep 600");
  const late = await fails(long.waitForLog("never", 300), "ProcessReadyTimeoutError", "PROCESS_READY_TIMEOUT", 408);
  assert.equal(late.processId, long.id);
  await fails(long.waitForExit(100), "ProcessReadyTimeoutError", "PROCESS_READY_TIMEOUT", 408);
  await fails(long.waitForPort(8999, { mode: "tcp", timeout: 300 }), "ProcessReadyTimeoutError", "PROCESS_READY_TIMEOUT", 408);
  await long.kill();
  const short = await sandbox.startProcess("exit 4");
  const early = await fails(short.waitForLog("never"), "ProcessExitedBeforeReadyError", "PROCESS_EXITED_BEFORE_READY", 500);
  assert.equal(early.exitCode, 4);
  await fails(short.waitForPort(8999), "ProcessExitedBeforeReadyError", "PROCESS_EXITED_BEFORE_READY", 500);
});

test("logs of a process as a stream; all killed at once", async () => {
  const process = await sandbox.startProcess("echo a; sleep 600");
  const stream = await sandbox.streamProcessLogs(process.id);
  await until(stream, (event) => event.type === "stdout" && event.data === "a\n");
  await sandbox.startProcess("sleep 600");
  assert.equal(await sandbox.killAllProcesses(), 2);
  assert.equal(await sandbox.cleanupCompletedProcesses(), 0); // says the client, by itself
});

test("ports: waited for, asked, exposed, reached by a preview", async () => {
  const process = await sandbox.startProcess("python3 serve.py 8080");
  await process.waitForPort(8080);
  await process.waitForPort(8080, { path: "/x", status: 200 });
  const direct = await sandbox.containerFetch(new Request("http://any/direct?a=1"), 8080);
  assert.match(await direct.text(), /^\/direct\?a=1/);
  const { url, port } = await sandbox.exposePort(8080, { hostname: "example.com", name: "web", token: "abc_1" });
  assert.equal(port, 8080);
  const env = { Sandbox: namespace };
  const answer = await proxyToSandbox(new Request(`${url}page`), env);
  assert.deepEqual([answer.status, await answer.text()], [200, `/page for ${await nameOf(sandbox)}`]);
  assert.deepEqual(await sandbox.getExposedPorts("example.com"), [{ url, port: 8080, status: "active" }]);
  assert.equal(await sandbox.isPortExposed(8080), true);
  assert.equal(await sandbox.validatePortToken(8080, "abc_1"), true);
  const wrong = await proxyToSandbox(new Request(url.replace("abc_1", "wrong")), env);
  assert.deepEqual([wrong.status, (await wrong.json()).code], [404, "INVALID_TOKEN"]);
  await sandbox.unexposePort(8080);
  assert.equal((await proxyToSandbox(new Request(url), env)).status, 404);
  await fails(sandbox.exposePort(8080, { hostname: "x.workers.dev" }), "CustomDomainRequiredError", "CUSTOM_DOMAIN_REQUIRED", 400);
  await assert.rejects(sandbox.exposePort(80, { hostname: "example.com" }), /Invalid port number/);
  await process.kill();
});

test("wsConnect: a WebSocket into the sandbox", async () => {
  // An echo in Python's standard library: the handshake, then one frame back.
  const echo = `import base64, hashlib, socket
s = socket.create_server(("127.0.0.1", 8765)); print("up", flush=True)
while True:
    c, _ = s.accept(); head = b""
    while b"\\r\\n\\r\\n" not in head:
        more = c.recv(4096)
        if not more: break
        head += more
    lines = dict(l.split(": ", 1) for l in head.decode().split("\\r\\n")[1:] if ": " in l)
    key = next((v for k, v in lines.items() if k.lower() == "sec-websocket-key"), None)
    if key is None: c.close(); continue
    a = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    c.send(f"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: {a}\\r\\n\\r\\n".encode())
    f = c.recv(4096); n = f[1] & 127; mask = f[2:6]
    text = bytes(b ^ mask[i % 4] for i, b in enumerate(f[6:6 + n]))
    c.send(bytes([129, n]) + text); c.recv(4096); c.close()
`;
  await sandbox.writeFile("/workspace/echo.py", echo);
  const process = await sandbox.startProcess("python3 echo.py");
  await process.waitForLog("up");
  const request = new Request("http://any/socket", { headers: { Upgrade: "websocket", Connection: "Upgrade" } });
  const { status, webSocket } = await sandbox.wsConnect(request, 8765);
  assert.equal(status, 101);
  const heard = new Promise((resolve) => webSocket.addEventListener("message", (event) => resolve(event.data)));
  webSocket.accept();
  webSocket.send("hello there");
  assert.equal(await heard, "hello there");
  webSocket.close(1000);
  await process.kill();
});

test("files", async () => {
  const written = await sandbox.writeFile("/workspace/f.txt", "text");
  assert.deepEqual([written.success, written.path], [true, "/workspace/f.txt"]);
  assert.equal((await sandbox.readFile("/workspace/f.txt", { encoding: "base64" })).content, "dGV4dA==");
  assert.equal((await collectFile(await sandbox.readFileStream("/workspace/f.txt"))).content, "text");
  await sandbox.mkdir("/workspace/a/b", { recursive: true });
  await sandbox.renameFile("/workspace/f.txt", "/workspace/g.txt");
  await sandbox.moveFile("/workspace/g.txt", "/workspace/a/b/h.txt");
  const list = await sandbox.listFiles("/workspace/a", { recursive: true });
  assert.deepEqual(list.files.map((file) => file.relativePath).sort(), ["b", "b/h.txt"]);
  assert.equal((await sandbox.exists("/workspace/a/b/h.txt")).exists, true);
  await sandbox.deleteFile("/workspace/a/b/h.txt");
  await fails(sandbox.readFile("/workspace/a/b/h.txt"), "FileNotFoundError", "FILE_NOT_FOUND", 404);
});

test("watch and checkChanges", async () => {
  await sandbox.mkdir("/workspace/watched");
  const { version } = await sandbox.checkChanges("/workspace/watched");
  const stream = await sandbox.watch("/workspace/watched", { recursive: true });
  await sandbox.writeFile("/workspace/watched/new", "1");
  for await (const event of parseSSEStream(stream)) if (event.type === "event" && event.path.endsWith("/new")) break;
  await eventually(async () => (await sandbox.checkChanges("/workspace/watched", { since: version })).status === "changed");
});

test("git", async () => {
  const done = await sandbox.gitCheckout(`${GIT}/open/hello.git`, { targetDir: "/workspace/cloned", branch: "main", depth: 1 });
  assert.deepEqual([done.success, done.targetDir], [true, "/workspace/cloned"]);
  assert.equal((await sandbox.readFile("/workspace/cloned/README.md")).content, "hello again\n");
});

test("code: contexts, runs, streams", async () => {
  const context = await sandbox.createCodeContext({ language: "python" });
  await sandbox.runCode("n = 20", { context });
  const run = await sandbox.runCode("print(n); n + 1", { context });
  assert.deepEqual([run.logs.stdout.join(""), run.results[0].text], ["20\n", "21"]);
  assert.equal(textOf(await gather(await sandbox.runCodeStream("print(n)", { context }))), "20\n");
  assert.ok((await sandbox.listCodeContexts()).some((one) => one.id === context.id));
  await sandbox.deleteCodeContext(context.id);
  assert.equal((await sandbox.runCode("[1, 2].length", { language: "javascript" })).results[0].text, "2");
});

test("a bucket as it is in development: both ways", async () => {
  const objects = new Map();
  const object = (key) => {
    const body = objects.get(key);
    const meta = { key, size: body.length, etag: `${key}-${body.length}`, uploaded: new Date() };
    return { ...meta, body, arrayBuffer: async () => body, text: async () => body.toString() };
  };
  const bucket = {
    async put(key, value) {
      objects.set(key, Buffer.from(value instanceof ReadableStream ? await new Response(value).arrayBuffer() : value));
    },
    get: async (key) => (objects.has(key) ? object(key) : null),
    head: async (key) => (objects.has(key) ? object(key) : null),
    delete: async (key) => void objects.delete(key),
    list: async () => ({ objects: [...objects.keys()].map(object), truncated: false }),
    createMultipartUpload: async () => {},
  };
  objects.set("in.txt", Buffer.from("from the bucket"));
  const own = getSandbox(bind(Sandbox, { url: URL_OF_CAY, token: TOKEN, env: { FILES: bucket } }), newId("do"));
  await own.mountBucket("FILES", "/workspace/bucket", { localBucket: true });
  assert.equal((await own.readFile("/workspace/bucket/in.txt")).content, "from the bucket");
  await own.writeFile("/workspace/bucket/out.txt", "from the sandbox");
  await eventually(() => objects.get("out.txt")?.toString() === "from the sandbox");
  await own.unmountBucket("/workspace/bucket");
  await own.destroy();
});

test("what needs Cloudflare says so", async () => {
  await assert.rejects(sandbox.tunnels.get(8080), /RPC transport|rpc/);
  await assert.rejects(sandbox.mountBucket("NONE", "/mnt", {}), { name: "InvalidMountConfigError" });
  await assert.rejects(sandbox.createBackup({ dir: "/workspace" }), { name: "InvalidBackupConfigError" });
});

test("sleepAfter and keepAlive are the sandbox's own settings", async () => {
  const id = newId("do");
  const own = newSandbox({ sleepAfter: "3m", keepAlive: true }, id);
  await own.exec("true");
  const { json } = await cay("GET", `/sandbox/${id}`);
  assert.deepEqual([json.sleepAfter, json.keepAlive], [180, true]);
  await own.setKeepAlive(false);
  await own.setSleepAfter("5m");
  await own.exec("true");
  const later = (await cay("GET", `/sandbox/${id}`)).json;
  assert.deepEqual([later.sleepAfter, later.keepAlive], [300, false]);
  await own.destroy();
});

test("a class with enableInternet = false has no network", async () => {
  class Closed extends Sandbox {
    enableInternet = false;
  }
  const id = newId("do");
  const own = getSandbox(bind(Closed, { url: URL_OF_CAY, token: TOKEN }), id);
  await own.exec("true");
  assert.equal((await cay("GET", `/sandbox/${id}`)).json.network, "none");
  for (const made of [false, true]) {
    await cay("DELETE", `/sandbox/${id}`); // by others, who may have made another one
    if (made) await cay("PUT", `/sandbox/${id}`, { network: "internet" });
    await own.exec("true");
    assert.equal((await cay("GET", `/sandbox/${id}`)).json.network, "none");
  }
  await own.destroy();
});

test("destroyed, and there again when it is used", async () => {
  const id = newId("do");
  const own = newSandbox({}, id);
  await own.exec("echo kept > /workspace/f; export A=1");
  await Promise.all([own.destroy(), own.destroy()]);
  assert.equal((await cay("GET", `/sandbox/${id}`)).status, 404);
  const result = await own.exec("ls /workspace; echo -$A-");
  assert.equal(result.stdout, "--");
  assert.equal((await own.getState()).status, "healthy");
  await own.destroy();
});

test("stopped, it sleeps; its files are there when it wakes", async () => {
  const id = newId("do");
  const own = newSandbox({}, id);
  await own.writeFile("/workspace/kept", "1");
  await own.stop();
  await eventually(async () => (await cay("GET", `/sandbox/${id}`)).json.status === "sleeping");
  assert.equal((await own.readFile("/workspace/kept")).content, "1");
  await own.destroy();
});
