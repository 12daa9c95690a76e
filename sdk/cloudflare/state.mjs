// SPDX-License-Identifier: Apache-2.0
// What a Durable Object finds as its `ctx`: a storage, here in memory, and order among the calls.

function table(entries, onPut) {
  return {
    get: (key) => structuredClone(entries.get(key)),
    put(key, value) {
      entries.set(key, structuredClone(value));
      onPut(key, value);
    },
    delete: (key) => entries.delete(key),
  };
}

export class Storage {
  #now;

  constructor(onPut) {
    this.#now = table(new Map(), onPut);
    this.kv = this.#now;
    this.sql = { exec: () => [] };
  }

  async get(key) {
    return this.#now.get(key);
  }

  async put(key, value) {
    this.#now.put(key, value);
  }

  async delete(key) {
    return this.#now.delete(key);
  }

  async transaction(run) {
    return run(this);
  }

  async setAlarm() {}
  async deleteAlarm() {}
  async sync() {}
}

// Calls from outside wait here while an object is being made, configured or started, as they do for a Durable Object.
export class Gate {
  #open = Promise.resolve();

  hold(run) {
    const done = this.#open.then(run);
    this.#open = done.catch(() => {});
    return done;
  }

  // At once, since whoever holds it may be asking.
  holdFrom(run) {
    const done = Promise.resolve(run());
    this.#open = Promise.allSettled([this.#open, done]);
    return done;
  }

  async pass(run) {
    await this.#open;
    return run();
  }
}
