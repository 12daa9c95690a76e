// SPDX-License-Identifier: Apache-2.0
// The way to one sandbox. It is made sure of before it is first used, once for all who use it at the same time, and
// once more when somebody else has destroyed it meanwhile.
import { ConflictError, NotFoundError, SandboxNotFoundError } from './errors.js';
import { Http } from './http.js';
import type { Call } from './http.js';
import { CHANGEABLE, FIXED } from './settings.js';
import type { Settings } from './settings.js';
import type { ServerEvent } from './sse.js';
import { follow } from './stream.js';
import type { Following } from './stream.js';
import type { SandboxInfo } from './types.js';
import { backoff, pause, unlessAborted } from './wait.js';

export interface Use extends Call {
  /** When the sandbox is made for this: first, unless given; what only looks must not wake it. */
  make?: 'first' | 'when missing' | 'never' | undefined;
}

const TRIES = 20; // for one that is being destroyed, or made, by others

export class Link {
  readonly id: string;
  readonly http: Http;
  /** `/sandbox/ID` */
  readonly base: string;
  /** Of all that is started through this object: `setEnvVars`. */
  env: Record<string, string> = {};
  readonly #settings: Settings;
  #made: Promise<void> | null = null;

  constructor(http: Http, id: string, settings: Settings) {
    this.http = http;
    this.id = id;
    this.base = `/sandbox/${encodeURIComponent(id)}`;
    this.#settings = settings;
  }

  /** Settings that were changed: one that has to be made again has them, too. */
  remember(changed: Settings): void {
    Object.assign(this.#settings, Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== undefined)));
  }

  /** Makes it, or finds it. */
  ready(): Promise<void> {
    if (this.#made === null) {
      const made = this.#make();
      this.#made = made;
      made.catch(() => this.forget(made)); // whoever waits is told
    }
    return this.#made;
  }

  /** It is not there any more: the next use makes it. */
  forget(made: Promise<void> | null = this.#made): void {
    if (this.#made === made) this.#made = null;
  }

  json<T>(method: string, path: string, use: Use = {}): Promise<T> {
    return this.use(use, () => this.http.json<T>(method, this.base + path, use));
  }

  /** Does it, after making sure that the sandbox is there. */
  async use<T>(use: Use, act: () => Promise<T>): Promise<T> {
    if (use.make === undefined || use.make === 'first') await unlessAborted(this.ready(), use.signal);
    const made = this.#made;
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof SandboxNotFoundError) || use.make === 'never' || use.bytes instanceof ReadableStream) throw error;
      this.forget(made); // others who were told the same share the new one
      await unlessAborted(this.ready(), use.signal);
      return await act();
    }
  }

  /** The events of an answer of the sandbox; `following.path` begins behind `/sandbox/ID`. */
  async *follow(following: Following, stopped: AbortSignal, make: Use['make'] = 'first'): AsyncGenerator<ServerEvent> {
    const whole = { ...following, path: this.base + following.path };
    if (make === 'first') await this.ready();
    const made = this.#made;
    try {
      yield* follow(this.http, whole, stopped);
    } catch (error) {
      if (!(error instanceof SandboxNotFoundError)) throw error; // it is one only where nothing has come yet
      this.forget(made);
      await this.ready();
      yield* follow(this.http, whole, stopped);
    }
  }

  async #make(): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        await this.http.json('PUT', this.base, { body: this.#settings });
        return;
      } catch (error) {
        if (!(error instanceof ConflictError) || error.code !== 'CONFLICT') throw error;
        const there = await this.#look();
        if (there !== null) {
          await this.#adopt(there, error);
          return;
        }
        if (tries === TRIES) throw error;
      }
      await pause(backoff(Math.min(tries, 2)));
    }
  }

  // Null while it is being destroyed or made.
  async #look(): Promise<SandboxInfo | null> {
    try {
      const there = await this.http.json<SandboxInfo>('GET', this.base);
      return there.status === 'destroying' ? null : there;
    } catch (error) {
      if (error instanceof NotFoundError || error instanceof ConflictError) return null;
      throw error;
    }
  }

  // One that others made differently gets the settings that were asked for, and keeps all the others.
  async #adopt(there: SandboxInfo, conflict: ConflictError): Promise<void> {
    for (const name of FIXED) {
      const asked = this.#settings[name];
      if (asked !== undefined && asked !== there[name])
        throw new ConflictError(`sandbox '${this.id}' exists with ${name} ${JSON.stringify(there[name])}, and ${JSON.stringify(asked)} was asked for: ` +
          'destroy it, or use another id', { status: conflict.status, code: conflict.code, requestId: conflict.requestId });
    }
    const change = Object.fromEntries(CHANGEABLE.flatMap((name) => (this.#settings[name] === undefined ? [] : [[name, this.#settings[name]]])));
    if (Object.keys(change).length > 0) await this.http.json('PATCH', this.base, { body: change });
  }
}
