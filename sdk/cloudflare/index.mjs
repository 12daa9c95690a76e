// SPDX-License-Identifier: Apache-2.0
// `env.Sandbox` of a Worker, in Node: `getSandbox(env.Sandbox, id)` is then the sandbox `id` of Cay.

import { Container } from "./container.mjs";
import { Gate, Storage } from "./state.mjs";

class Cay {
  constructor({ url, token }) {
    this.url = String(url).replace(/\/$/, "");
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  fetch(path, init) {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.headers)) headers.set(name, value);
    return fetch(this.url + path, { ...init, headers });
  }

  // A request of ours; statuses that are no failure may be named.
  async call(method, path, body, fine = []) {
    const response = await this.fetch(path, { method, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (response.ok || fine.includes(response.status)) return { status: response.status, text };
    throw new Error(`cay: ${method} ${path} was answered with ${response.status}: ${text}`);
  }
}

// What the library remembers of a sandbox and Cay does.
const SETTINGS = {
  sleepAfter: (value) => ({ sleepAfter: value }),
  keepAliveEnabled: (value) => ({ keepAlive: value }),
};

function makeObject(Sandbox, cay, id, env) {
  const container = new Container(cay, id);
  const gate = new Gate();
  const storage = new Storage((key, value) => SETTINGS[key] && container.set(SETTINGS[key](value)));
  const ctx = {
    id: { toString: () => id, name: id },
    storage,
    container,
    blockConcurrencyWhile: (run) => gate.holdFrom(run),
    waitUntil: () => {},
    abort: () => {},
  };
  return { object: new Sandbox(ctx, env), gate };
}

// What others hold of it: calls, in their order.
function makeStub({ object, gate }) {
  return new Proxy(object, {
    get(target, name) {
      const found = target[name];
      if (typeof found !== "function") return found;
      const run = (args) => () => found.apply(target, args);
      return (...args) => (name === "configure" ? gate.hold(run(args)) : gate.pass(run(args)));
    },
  });
}

/** A namespace for `getSandbox()`: objects of the class `Sandbox`, each a sandbox of the Cay at `url`. */
export function bind(Sandbox, { url, token, env = {} }) {
  const cay = new Cay({ url, token });
  const stubs = new Map();
  return {
    idFromName: (name) => name,
    get(id) {
      if (!stubs.has(id)) stubs.set(id, makeStub(makeObject(Sandbox, cay, id, env)));
      return stubs.get(id);
    },
  };
}
