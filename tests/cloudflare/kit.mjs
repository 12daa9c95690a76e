// SPDX-License-Identifier: Apache-2.0
// What the tests share: the server that pytest has started, and sandboxes in it for the two ways to drive them.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { after } from "node:test";
import { Sandbox, SandboxClient, getSandbox, parseSSEStream } from "@cloudflare/sandbox";
import { bind } from "../../sdk/cloudflare/index.mjs";

export const URL_OF_CAY = process.env.CAY_URL;
export const TOKEN = process.env.CAY_TOKEN;
export const GIT = process.env.GIT_URL;

let count = 0;
const made = [];

export function newId(prefix = "cf") {
  made.push(`${prefix}-${process.pid}-${++count}`);
  return made.at(-1);
}

after(async () => {
  await Promise.all(made.map((id) => cay("DELETE", `/sandbox/${id}`)));
});

/** A request of the API's own. */
export async function cay(method, path, body) {
  const headers = { Authorization: `Bearer ${TOKEN}` };
  const response = await fetch(URL_OF_CAY + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, text, json: text && JSON.parse(text) };
}

/** An address of one sandbox, and its id. */
export async function newUrl(id) {
  const { status, json, text } = await cay("POST", `/sandbox/${id}/container-url`, {});
  assert.ok(status === 200 || status === 201, text);
  return json;
}

/** The low-level client of a sandbox, by an address that has the permission within. Nothing is tried a second time. */
export async function newClient(id = newId(), options = {}) {
  await cay("PUT", `/sandbox/${id}`, { network: "internet" }); // if it is not there
  const { url: baseUrl, id: urlId } = await newUrl(id);
  return Object.assign(new SandboxClient({ baseUrl, retryTimeoutMs: 0, ...options }), { id, baseUrl, urlId });
}

/** The same with a token in its header, for a sandbox that need not be there. */
export function newTokenClient(id) {
  const baseUrl = `${URL_OF_CAY}/sandbox/${id}/container`;
  const defaultHeaders = { Authorization: `Bearer ${TOKEN}` };
  return Object.assign(new SandboxClient({ baseUrl, defaultHeaders, retryTimeoutMs: 0 }), { id, baseUrl });
}

export const namespace = bind(Sandbox, { url: URL_OF_CAY, token: TOKEN });

/** The high-level object. */
export function newSandbox(options, id = newId("do")) {
  return getSandbox(namespace, id, options);
}

/** POST of anything to a route of the container's; the answer as it is. */
export async function post(client, route, body, method = "POST") {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(client.baseUrl + route, { method, headers, body: method === "GET" ? undefined : text });
  return { status: response.status, headers: response.headers, json: await response.json() };
}

export async function gather(stream) {
  const events = [];
  for await (const event of parseSSEStream(stream)) events.push(event);
  return events;
}

/** Events one by one. */
export class Events {
  #left;
  seen = [];

  constructor(stream) {
    this.#left = parseSSEStream(stream);
  }

  /** Up to one that fits: all that have come. */
  async until(fits) {
    for (;;) {
      const { done, value } = await this.#left.next();
      if (done) throw new Error(`ended before it came: ${JSON.stringify(this.seen)}`);
      this.seen.push(value);
      if (fits(value)) return this.seen;
    }
  }

  /** Up to the end: all. */
  async all() {
    for await (const event of this.#left) this.seen.push(event);
    return this.seen;
  }
}

/** The events up to one that fits; the stream is then given up. */
export async function until(stream, fits) {
  const events = [];
  for await (const event of parseSSEStream(stream)) {
    events.push(event);
    if (fits(event)) return events;
  }
  throw new Error(`ended before it came: ${JSON.stringify(events)}`);
}

export function textOf(events, type = "stdout") {
  return events
    .filter((event) => event.type === type)
    .map((event) => event.data ?? event.text)
    .join("");
}

/** Checks that it fails with an error of the library's that is whole, and returns it. */
export async function fails(promise, name, code, status) {
  let error;
  try {
    const result = await promise;
    assert.fail(`no ${name} but ${JSON.stringify(result)}`);
  } catch (thrown) {
    error = thrown;
  }
  if (error.name !== name) throw error;
  assert.equal(error.code, code, error.stack);
  assert.equal(error.httpStatus, status, error.stack);
  assert.ok(error.message && !Number.isNaN(Date.parse(error.timestamp)), error.stack);
  assert.equal(typeof error.context, "object");
  return error;
}

function fieldOf(pid, name) {
  return readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`^${name}:\\s*(.*)$`, "m"))[1];
}

function pidOf(text) {
  for (const pid of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim() === text) return Number(pid);
    } catch {} // it is gone
  }
  return undefined;
}

/** Kills a sandbox's box, from outside: PID 1 above a command of its own that is running. */
export async function killBox(command) {
  let pid = await eventually(() => pidOf(command));
  while (fieldOf(pid, "NSpid").split("\t").at(-1) !== "1") pid = Number(fieldOf(pid, "PPid"));
  process.kill(pid, "SIGKILL");
}

export async function eventually(check) {
  const end = Date.now() + 60_000;
  for (;;) {
    const value = await check();
    if (value) return value;
    assert.ok(Date.now() < end, "it never came");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
