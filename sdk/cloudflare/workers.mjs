// SPDX-License-Identifier: Apache-2.0
// In place of `cloudflare:workers`: what the package's classes are made of.

export class RpcTarget {}

export class DurableObject {
  constructor(ctx, env) {
    this.ctx = ctx;
    this.env = env;
  }
}

export class WorkerEntrypoint extends DurableObject {}

export const env = {};

export const exports = {};

// Spans go nowhere.
const span = { setAttribute() {}, isTraced: false };

export const tracing = {
  enterSpan: (name, run, ...args) => run(span, ...args),
  startActiveSpan: (name, run, ...args) => run(span, ...args),
};
