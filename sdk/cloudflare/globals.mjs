// SPDX-License-Identifier: Apache-2.0
// What Workers have and Node has not.

import { timingSafeEqual } from "node:crypto";
import { WebSocketPair } from "./sockets.mjs";

globalThis.WebSocketPair ??= WebSocketPair;
globalThis.IdentityTransformStream ??= class extends TransformStream {};
globalThis.FixedLengthStream ??= class extends TransformStream {};
crypto.subtle.timingSafeEqual ??= (a, b) => timingSafeEqual(a, b);

// An answer may carry a WebSocket, and has 101 as its status then.
if (!("webSocket" in Response.prototype)) {
  Object.defineProperty(Response.prototype, "webSocket", { get: () => null, configurable: true });
  globalThis.Response = new Proxy(Response, {
    construct(target, [body, init], newTarget) {
      const { webSocket } = init ?? {};
      if (!webSocket) return Reflect.construct(target, [body, init], newTarget);
      const response = Reflect.construct(target, [null, { headers: init.headers }], newTarget);
      return Object.defineProperties(response, { status: { value: 101 }, webSocket: { value: webSocket } });
    },
  });
}
