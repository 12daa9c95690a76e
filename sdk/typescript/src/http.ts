// SPDX-License-Identifier: Apache-2.0
// One request to the server, sent again where that is safe: when nothing was done (503, 429, no connection), and when
// the connection broke and either the request does no harm twice or an Idempotency-Key keeps it from being done twice.
import { CayError, ConnectionError, errorOf } from './errors.js';
import { backoff, check, pause, unlessAborted } from './wait.js';

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** What a body can be. */
export type Bytes = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>;

export interface ClientOptions {
  /** Where the server is; the environment's `CAY_URL`, else `http://127.0.0.1:8787`. */
  url?: string | undefined;
  /** The environment's `CAY_TOKEN` unless given. */
  token?: string | undefined;
  /** How often a call is sent again before it fails; 5 unless given. */
  retries?: number | undefined;
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

export interface Call {
  query?: Query | undefined;
  /** Becomes JSON. */
  body?: unknown;
  /** Goes as it is. */
  bytes?: Bytes | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  signal?: AbortSignal | undefined;
  /** The server does the call once, however often it comes with this key. */
  key?: string | undefined;
  /** Whether doing it twice does no harm; unless given that is so for all methods but POST. If not, a 503 is no reason either. */
  repeatable?: boolean | undefined;
}

/** Something that nobody else has: a key, a name. */
export function newKey(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // on pages without TLS
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const RETRIES = 5;
const PATIENCE = 60; // seconds: who is told to come back later than that is told so
const DEFAULT_URL = 'http://127.0.0.1:8787';

function fromEnvironment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}

function checkUrl(text: string): string {
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError(`url: '${text}' is no URL, such as ${DEFAULT_URL}`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new TypeError(`url: must begin with http:// or https://, not ${url.protocol}//`);
  return url.href.replace(/\/+$/, '');
}

function queryOf(query: Query | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  if (given.length === 0) return '';
  return `?${given.map(([name, value]) => `${name}=${encodeURIComponent(String(value === true ? 1 : value === false ? 0 : value))}`).join('&')}`;
}

// A browser sends no body that is a stream over HTTP/1.1, and some would send its name instead. A Blob it keeps where it
// has room.
function isBrowser(): boolean {
  const { document, importScripts } = globalThis as { document?: unknown; importScripts?: unknown };
  return typeof document === 'object' || typeof importScripts === 'function'; // the latter: a worker
}

async function sendable<T>(body: T, signal?: AbortSignal): Promise<T | Blob> {
  if (!(body instanceof ReadableStream) || !isBrowser()) return body;
  return await unlessAborted(new Response(body).blob(), signal);
}

// What Node says of a connection that was never there: then nothing was sent, either.
const NEVER_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']);

interface Cause {
  code?: unknown;
  message?: unknown;
  errors?: Cause[];
}

function causeOf(error: unknown): Cause {
  const cause = ((error as { cause?: Cause }).cause ?? error) as Cause;
  return cause.errors?.[0] ?? cause;
}

function connectionError(url: string, error: unknown): ConnectionError {
  const { code, message } = causeOf(error);
  const refused = NEVER_SENT.has(String(code));
  const hint = isBrowser() ? ': is the server there, and this page among the origins that it was told, by `cay serve --cors`?'
    : refused ? ': is the server there? `cay serve` starts one, and CAY_URL or the option url says where it is' : '';
  return new ConnectionError(`no answer from ${url}: ${String(code ?? message)}${hint}`, {
    code: refused ? 'CONNECTION_FAILED' : 'CONNECTION_BROKEN',
    cause: error,
  });
}

export class Http {
  readonly url: string;
  readonly token: string | undefined;
  readonly #retries: number;
  readonly #fetch: typeof fetch;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(options: ClientOptions) {
    this.url = checkUrl(options.url ?? fromEnvironment('CAY_URL') ?? DEFAULT_URL);
    this.token = options.token ?? fromEnvironment('CAY_TOKEN');
    this.#retries = options.retries ?? RETRIES;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init)); // some want to be called on their window
    this.#headers = this.token === undefined ? {} : { authorization: `Bearer ${this.token}` };
  }

  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    return await this.send(method, path, call, (response) => response.json() as Promise<T>);
  }

  /** A request as it is, with the token. Where its answer leads, nobody goes: that may be what a stranger in a sandbox says. */
  async fetch(path: string, init: RequestInit & { headers: Headers }): Promise<Response> {
    if (this.token !== undefined) init.headers.set('authorization', `Bearer ${this.token}`);
    return await this.#fetch(this.url + path, { ...init, body: await sendable(init.body ?? null), redirect: 'manual' });
  }

  /** Sends it, and has `read` make something of the answer. What breaks while that is read is sent again, too. */
  async send<T>(method: string, path: string, given: Call, read: (response: Response) => T | Promise<T>): Promise<T> {
    const call = { ...given, bytes: await sendable(given.bytes, given.signal) };
    let unsure = false;
    for (let tries = 0; ; tries++) {
      let error: CayError;
      try {
        const response = await this.#once(method, path, call);
        if (response.ok) return await read(response);
        error = await errorOf(response, path);
      } catch (broken) {
        check(call.signal);
        if (broken instanceof CayError) throw broken;
        error = connectionError(this.url, broken);
      }
      if (unsure && method === 'DELETE' && error.status === 404) return await read(new Response('{}')); // it was the try before that did it
      unsure ||= error.code === 'CONNECTION_BROKEN';
      if (!this.#mayTryAgain(method, call, error, tries)) throw error;
      if (error.code === 'REQUEST_IN_PROGRESS') tries = -1; // the server is there, and at it
      await pause(backoff(Math.max(tries, 0), error.retryAfter), call.signal);
    }
  }

  #once(method: string, path: string, call: Call): Promise<Response> {
    const headers: Record<string, string> = { ...this.#headers, ...call.headers };
    const init: RequestInit & { duplex?: 'half' } = { method, headers, signal: call.signal ?? null };
    if (call.key !== undefined) headers['idempotency-key'] = call.key;
    if (call.bytes !== undefined) {
      init.body = call.bytes as NonNullable<RequestInit['body']>;
      init.duplex = 'half'; // what a body that is a stream needs
    } else if (call.body !== undefined) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(call.body);
    }
    return this.#fetch(this.url + path + queryOf(call.query), init);
  }

  #mayTryAgain(method: string, call: Call, error: CayError, tries: number): boolean {
    if (call.bytes instanceof ReadableStream) return false; // which was read
    if (error.code === 'REQUEST_IN_PROGRESS') return call.key !== undefined;
    if (tries >= this.#retries || (error.retryAfter ?? 0) > PATIENCE) return false;
    if (error.code === 'RATE_LIMITED' || error.code === 'CONNECTION_FAILED') return true; // nothing was done
    if (error.code === 'UNAVAILABLE' || error.code === 'STORE_UNAVAILABLE') return call.repeatable !== false;
    return error.code === 'CONNECTION_BROKEN' && (call.repeatable ?? (call.key !== undefined || method !== 'POST'));
  }
}
