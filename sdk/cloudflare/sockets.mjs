// SPDX-License-Identifier: Apache-2.0
// WebSockets as Workers have them: pairs of ends, each of which keeps what it gets until it is accepted.

class End extends EventTarget {
  peer = null;
  #accepted = false;
  #kept = [];

  // Events come when whoever accepts has said who listens.
  accept() {
    queueMicrotask(() => {
      this.#accepted = true;
      for (const event of this.#kept.splice(0)) this.dispatchEvent(event);
    });
  }

  send(data) {
    this.peer.#take(new MessageEvent("message", { data }));
  }

  close(code = 1005, reason = "") {
    if (this.peer.closed) return;
    this.peer.closed = true;
    this.peer.#take(Object.assign(new Event("close"), { code, reason, wasClean: code !== 1006 }));
  }

  fail() {
    this.peer.#take(new Event("error"));
  }

  #take(event) {
    if (this.#accepted) this.dispatchEvent(event);
    else this.#kept.push(event);
  }
}

export class WebSocketPair {
  constructor() {
    this[0] = new End();
    this[1] = new End();
    this[0].peer = this[1];
    this[1].peer = this[0];
  }
}

async function open(url, protocols, headers) {
  if (globalThis.WebSocket) return new globalThis.WebSocket(url, { protocols, headers });
  const { WebSocket } = await import("ws"); // Node 20 has none of its own
  return new WebSocket(url, protocols, { headers });
}

// Those that one may send; the others only tell.
function sendable(code) {
  return code === 1000 || (code >= 3000 && code <= 4999);
}

function join(socket, end) {
  socket.addEventListener("message", (event) => end.send(event.data));
  socket.addEventListener("close", (event) => end.close(event.code, event.reason));
  socket.addEventListener("error", () => end.fail());
  end.addEventListener("message", (event) => socket.send(event.data));
  end.addEventListener("close", (event) => (sendable(event.code) ? socket.close(event.code, event.reason) : socket.close()));
  end.accept();
}

// A connected WebSocket, as the end of a pair.
export async function connect(url, protocols, headers) {
  const socket = await open(url, protocols, headers);
  const [theirs, ours] = Object.values(new WebSocketPair());
  socket.binaryType = "arraybuffer";
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("error", (event) => reject(event.error ?? new Error(event.message || "no WebSocket")), { once: true });
    join(socket, ours);
  });
  return theirs;
}
