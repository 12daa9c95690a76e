// SPDX-License-Identifier: Apache-2.0
// Terminals: a shell on a real one, over a WebSocket.
import { toBytes } from './bytes.js';
import { ConnectionError } from './errors.js';
import type { Http } from './http.js';
import type { SessionRef } from './types.js';

/** As much of a WebSocket as is needed: the global one, or any package's. */
export interface WebSocketLike {
  binaryType: string;
  send(data: string | Uint8Array): void;
  close(): void;
  addEventListener(type: string, listener: (event: never) => void): void;
}
export type WebSocketClass = new (url: string, protocols: string[]) => WebSocketLike;

export interface TerminalOptions {
  /** Its name; whoever names the same sees and types into the same terminal. */
  session?: SessionRef | undefined;
  cols?: number | undefined;
  rows?: number | undefined;
  /** Only looks on. */
  readonly?: boolean | undefined;
  /** How much of the last output comes first. */
  replay?: number | undefined;
  /** From this byte of all that was ever written on, instead: `offset` of a terminal whose connection broke. */
  offset?: number | undefined;
  /** `process` of a terminal whose connection broke: that very one. */
  resume?: string | undefined;
  shell?: string | undefined;
  command?: string | undefined;
  cwd?: string | undefined;
  user?: string | undefined;
}

/** How it ended. */
export interface TerminalExit {
  code: number;
  /** Such as `SIGKILL`. */
  signal?: string;
  reason: string;
}

type Message =
  | { type: 'ready'; session: string; process: string; offset: number; cols: number; rows: number; readonly: boolean }
  | { type: 'gap'; bytes: number; offset: number }
  | { type: 'error'; message: string }
  | ({ type: 'exit' } & TerminalExit);

/** Where a terminal is, before anybody has connected. */
export class TerminalAddress {
  readonly url: string;
  /** What a WebSocket is opened with: it carries the token, which has no place in a URL. */
  readonly protocols: string[];

  constructor(http: Http, base: string, options: TerminalOptions & { session?: string | undefined }) {
    const query = Object.entries(options).filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${encodeURIComponent(String(value === true ? 1 : value === false ? 0 : value))}`);
    this.url = `${http.url.replace(/^http/, 'ws')}${base}/terminal${query.length > 0 ? `?${query.join('&')}` : ''}`;
    this.protocols = http.token === undefined ? ['cay'] : ['cay', `cay.bearer.${http.token}`];
  }

  /** Resolves when the terminal is there. Node has a WebSocket from version 22 on; older ones take a package's, such as ws. */
  async connect(WebSocket?: WebSocketClass): Promise<Terminal> {
    const used = WebSocket ?? (globalThis as { WebSocket?: WebSocketClass }).WebSocket;
    if (used === undefined)
      throw new TypeError('this JavaScript has no WebSocket: give connect() one, such as that of the package ws (Node has its own from version 22 on)');
    const terminal = new Terminal(new used(this.url, this.protocols));
    await terminal.ready;
    return terminal;
  }
}

/** A terminal that is open: its bytes by `for await` or `onData`, `write`, `resize`, `close`. */
export class Terminal {
  /** Which terminal this is: for `resume`. */
  process: string = '';
  /** The number of the next byte: for `offset`. */
  offset: number = 0;
  /** Resolves when it is there. */
  readonly ready: Promise<void>;
  /** Resolves when its program has ended; rejects when the connection broke before that. */
  readonly exited: Promise<TerminalExit>;
  readonly #socket: WebSocketLike;
  readonly #data: Uint8Array[] = [];
  readonly #listeners: Array<(data: Uint8Array) => void> = [];
  #wake: () => void = () => {};
  #closed = false;
  #left = false;
  #failure: Error | null = null;

  constructor(socket: WebSocketLike) {
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    let isReady = (): void => {};
    let fail = (_: Error): void => {};
    let hasExited = (_: TerminalExit): void => {};
    this.ready = new Promise((resolve, reject) => {
      isReady = resolve;
      fail = reject;
    });
    this.exited = new Promise((resolve, reject) => {
      hasExited = resolve;
      const first = fail;
      fail = (error) => {
        first(error);
        reject(error);
      };
    });
    this.exited.catch(() => {}); // whoever waits for it is told
    socket.addEventListener('message', ({ data }: { data: string | ArrayBuffer }) => {
      if (typeof data !== 'string') return this.#take(new Uint8Array(data));
      const message = JSON.parse(data) as Message;
      if (message.type === 'ready') {
        this.process = message.process;
        this.offset = message.offset;
        isReady();
      } else if (message.type === 'gap') {
        this.offset = message.offset;
      } else if (message.type === 'exit') {
        const { type: _, ...exit } = message;
        hasExited(exit);
      }
    });
    const over = ({ code, reason, message }: { code?: number; reason?: string; message?: string }): void => {
      this.#failure ??= new ConnectionError(`the terminal's connection broke: ${message ?? `${code} ${reason}`}`, { code: 'CONNECTION_BROKEN' });
      fail(this.#failure); // nothing where it is ready, and has exited
      this.exited.then(() => { this.#failure = null; }, () => {}).finally(() => {
        this.#closed = true;
        this.#wake();
      });
    };
    socket.addEventListener('error', over); // not every WebSocket says `close` of a connection that never was one
    socket.addEventListener('close', over);
  }

  #take(bytes: Uint8Array): void {
    if (this.process !== '') this.offset += bytes.length; // before that it is the replay
    for (const listener of this.#listeners) listener(bytes);
    if (this.#listeners.length > 0) return;
    this.#data.push(bytes);
    this.#wake();
  }

  /** From now on, what it shows goes to `listener`; first what has come already. */
  onData(listener: (data: Uint8Array) => void): void {
    for (const bytes of this.#data.splice(0)) listener(bytes);
    this.#listeners.push(listener);
  }

  /** What it shows, until it is closed; throws when the connection broke before its program's end. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      yield* this.#data.splice(0);
      if (this.#data.length > 0) continue;
      if (this.#closed && this.#failure !== null && !this.#left) throw this.#failure;
      if (this.#closed) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** What was typed. */
  write(data: string | Uint8Array): void {
    this.#socket.send(typeof data === 'string' ? toBytes(data) : data);
  }

  resize(cols: number, rows: number): void {
    this.#socket.send(JSON.stringify({ type: 'resize', cols, rows }));
  }

  /** Leaves it. Its program goes on. */
  close(): void {
    this.#left = true;
    this.#socket.close();
  }
}
