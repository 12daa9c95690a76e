// SPDX-License-Identifier: Apache-2.0
// A sandbox of Cay, in the place of `ctx.container`: port 3000 is its container protocol, all others are what listens in it.

import { connect } from "./sockets.mjs";

const CONTROL_PORT = 3000;

// The library leaves alone what a pipe says at its end; a reader that goes away would end the program.
function quiet(response) {
  const { body } = response;
  if (body) {
    const pipe = body.pipeTo.bind(body);
    body.pipeTo = (...args) => pipe(...args).catch(() => {});
  }
  return response;
}

function wantsSocket(request) {
  return request.headers.get("upgrade")?.toLowerCase() === "websocket";
}

export class Container {
  running = false;
  #cay;
  #path;
  #settings = {};
  #sent = "";
  #made = "";
  #ended = null;

  constructor(cay, id) {
    this.#cay = cay;
    this.#path = `/sandbox/${encodeURIComponent(id)}`;
  }

  start({ enableInternet, env } = {}) {
    this.running = true;
    this.#sent = "";
    this.set({ network: enableInternet === false ? "none" : "internet", ...(env && { env }) });
  }

  monitor() {
    return new Promise((resolve) => {
      this.#ended = resolve;
    });
  }

  async destroy() {
    await this.#cay.call("DELETE", this.#path, undefined, [404]);
    this.#end();
  }

  signal() {
    this.#cay.call("POST", `${this.#path}/sleep`, undefined, [404]).catch(() => {});
    this.#end();
  }

  getTcpPort(port) {
    const base = port === CONTROL_PORT ? `${this.#path}/container` : `${this.#path}/proxy/${port}`;
    return { fetch: (input, init) => this.#fetch(base, new Request(input, init)) };
  }

  // What shall be so from the next request on.
  set(settings) {
    Object.assign(this.#settings, settings);
  }

  #end() {
    this.running = false;
    this.#ended?.(0);
  }

  // Makes the sandbox, or changes the one that is there.
  async #apply() {
    const wanted = JSON.stringify(this.#settings);
    if (wanted === this.#sent && !(await this.#isAnother())) return;
    const made = await this.#cay.call("PUT", this.#path, this.#settings, [409]);
    const { env, ...changeable } = this.#settings;
    const { text } = made.status === 409 ? await this.#cay.call("PATCH", this.#path, changeable) : made;
    this.#made = JSON.parse(text).createdAt;
    this.#sent = wanted;
  }

  // The container protocol makes a sandbox that is not there, and gives it a network. So one that is to have none is looked at
  // first: others may have destroyed it. Who cannot look is told why by the request itself.
  async #isAnother() {
    if (this.#settings.network !== "none") return false;
    const response = await this.#cay.fetch(this.#path, { method: "GET" });
    const text = await response.text();
    return response.ok ? JSON.parse(text).createdAt !== this.#made : response.status === 404;
  }

  async #fetch(base, request) {
    await this.#apply();
    const { pathname, search } = new URL(request.url);
    const path = base + pathname + search;
    if (wantsSocket(request)) return this.#socket(path);
    const body = request.body && (base.endsWith("/container") ? await request.arrayBuffer() : request.body);
    const { method, headers, signal } = request;
    return quiet(await this.#cay.fetch(path, { method, headers, signal, body, duplex: "half", redirect: "manual" }));
  }

  async #socket(path) {
    const { url, headers } = this.#cay;
    const webSocket = await connect(url.replace(/^http/, "ws") + path, [], headers);
    return new Response(null, { status: 101, webSocket });
  }
}
