// SPDX-License-Identifier: Apache-2.0
// The terminal: its WebSocket by itself, and by the library's terminal().

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { WebSocket } from "ws";
import { TOKEN, URL_OF_CAY, newClient, newId, newSandbox } from "./kit.mjs";

let client;

before(async () => {
  client = await newClient();
});

// A terminal: what it showed, and messages of its own.
class Terminal {
  shown = "";
  first = [];
  messages = [];
  #waiting = [];

  constructor(url, options) {
    this.socket = new WebSocket(url, options);
    this.socket.on("message", (data, isBinary) => {
      this.first.push(isBinary ? "binary" : JSON.parse(data).type);
      if (isBinary) this.shown += data.toString();
      else this.messages.push(JSON.parse(data));
      this.#look();
    });
    this.socket.on("close", (code) => {
      this.closed = code;
      this.#look();
    });
    this.socket.on("error", (error) => {
      this.error = error;
      this.#look();
    });
  }

  #look() {
    this.#waiting = this.#waiting.filter(({ check, resolve }) => !check() || resolve());
  }

  until(check) {
    return new Promise((resolve) => {
      this.#waiting.push({ check, resolve: () => resolve() ?? true });
      this.#look();
    });
  }

  async type(text, expected) {
    this.socket.send(Buffer.from(text));
    await this.until(() => this.shown.includes(expected) || this.closed || this.error);
    assert.ok(this.shown.includes(expected), this.shown);
  }
}

function open(query, base = client.baseUrl) {
  return new Terminal(`${base.replace(/^http/, "ws")}/ws/pty?${query}`);
}

async function ready(terminal) {
  await terminal.until(() => terminal.messages.length > 0 || terminal.error || terminal.closed);
  assert.equal(terminal.messages[0]?.type, "ready", String(terminal.error ?? terminal.closed));
  return terminal;
}

test("type, see, resize", async () => {
  const terminal = await ready(open("sessionId=t1&cols=91&rows=33"));
  await terminal.type("stty size; echo $((40 + 2)) $TERM\n", "42 xterm-256color");
  assert.match(terminal.shown, /33 91/);
  terminal.socket.send(JSON.stringify({ type: "resize", cols: 101, rows: 44 }));
  await terminal.type("sleep 0.1; stty size\n", "44 101");
  terminal.socket.close();
});

test("a session's directory and variables are the terminal's", async () => {
  await client.commands.execute("cd /tmp && export FROM=there", "t2");
  const terminal = await ready(open("sessionId=t2"));
  await terminal.type("echo [$PWD-$FROM]\n", "[/tmp-there]");
  terminal.socket.close();
});

test("several look at one terminal, and who comes later sees what was", async () => {
  const one = await ready(open("sessionId=t3"));
  await one.type("echo mar''ker\n", "marker");
  const two = await ready(open("sessionId=t3"));
  assert.deepEqual(two.first.slice(0, 2), ["binary", "ready"]);
  assert.match(two.shown, /marker/);
  await two.type("echo by-t''wo\n", "by-two");
  await one.until(() => one.shown.includes("by-two"));
  one.socket.close();
  two.socket.close();
});

test("a shell of one's choice", async () => {
  const terminal = await ready(open("sessionId=t4&shell=sh"));
  await terminal.type('echo "[$0]"\n', "[sh]");
  terminal.socket.close();
});

test("without a session: refused", async () => {
  const terminal = open("cols=80");
  await terminal.until(() => terminal.error);
  assert.match(terminal.error.message, /400/);
});

test("with a token in place of the address", async () => {
  const url = `${URL_OF_CAY.replace(/^http/, "ws")}/sandbox/${client.id}/container/ws/pty?sessionId=t5`;
  const terminal = await ready(new Terminal(url, { headers: { Authorization: `Bearer ${TOKEN}` } }));
  await terminal.type("echo he''re\n", "here");
  terminal.socket.close();
  const stranger = new Terminal(url);
  await stranger.until(() => stranger.error);
  assert.match(stranger.error.message, /401/);
});

// The end of a terminal() that a Worker would hand to a browser.
async function openByLibrary(terminal, options) {
  const request = new Request("http://worker/terminal", { headers: { Upgrade: "websocket", Connection: "Upgrade" } });
  const response = await terminal(request, options);
  assert.equal(response.status, 101);
  const { webSocket } = response;
  const seen = { shown: "", messages: [] };
  seen.done = new Promise((resolve) => {
    webSocket.addEventListener("message", (event) => {
      if (typeof event.data === "string") seen.messages.push(JSON.parse(event.data));
      else seen.shown += Buffer.from(event.data).toString();
      if (seen.shown.includes("by-library-42") && seen.messages.length > 0) resolve();
    });
  });
  webSocket.accept();
  webSocket.send(Buffer.from("echo $PWD by-library-$((40 + 2)); stty size\n"));
  await seen.done;
  webSocket.close(1000);
  return seen;
}

test("terminal() of the sandbox and of a session", async () => {
  const sandbox = newSandbox({}, newId("do"));
  const first = await openByLibrary((...args) => sandbox.terminal(...args), { cols: 70, rows: 20 });
  assert.equal(first.messages[0].type, "ready");
  const session = await sandbox.createSession({ id: "own", cwd: "/tmp" });
  const second = await openByLibrary((...args) => session.terminal(...args));
  assert.match(second.shown, /\/tmp by-library-42/);
  await assert.rejects(sandbox.terminal(new Request("http://worker/terminal")), /WebSocket upgrade/);
});
