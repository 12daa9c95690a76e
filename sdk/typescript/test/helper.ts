// SPDX-License-Identifier: Apache-2.0
// What the tests share: sandboxes that are gone in the end, and a proxy that does to connections what networks do.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { getSandbox } from '@cay/sandbox';
import type { Sandbox, SandboxOptions } from '@cay/sandbox';

let number = 0;

export function newId(): string {
  return `ts-${process.pid}-${++number}`;
}

/** A sandbox of the test's own. */
export function makeSandbox(options: SandboxOptions = {}): Sandbox {
  const id = newId();
  after(() => getSandbox(id).destroy());
  return getSandbox(id, options);
}

export interface Seen {
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
}

/** What becomes of one request. */
export type Fate =
  | 'pass'
  /** The server does not get it. */
  | 'drop'
  /** The server gets it and answers; the answer does not arrive. */
  | 'lose'
  /** The connection breaks behind so many bytes of the answer's body. */
  | { cut: number }
  | { status: number; headers?: Record<string, string>; body?: object };

export class Proxy {
  url = '';
  readonly seen: Seen[] = [];
  /** Decides about each request; `count` is how many like it there were before. */
  decide: (request: Seen, count: number) => Fate = () => 'pass';
  readonly #server: http.Server;
  readonly #target: URL;

  private constructor(target: URL) {
    this.#target = target;
    this.#server = http.createServer((request, response) => this.#handle(request, response));
  }

  static async start(): Promise<Proxy> {
    const proxy = new Proxy(new URL(process.env['CAY_URL'] as string));
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    proxy.url = `http://127.0.0.1:${(proxy.#server.address() as AddressInfo).port}`;
    after(() => proxy.close());
    return proxy;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Breaks all connections that there are. */
  hangUp(): void {
    this.#server.closeAllConnections();
  }

  count(method: string, end: string): number {
    return this.seen.filter((seen) => seen.method === method && seen.path.endsWith(end)).length;
  }

  #handle(request: http.IncomingMessage, response: http.ServerResponse): void {
    const seen = { method: request.method ?? '', path: request.url ?? '', headers: request.headers };
    const fate = this.decide(seen, this.count(seen.method, seen.path));
    this.seen.push(seen);
    if (fate === 'drop') {
      request.socket.destroy();
    } else if (typeof fate === 'object' && 'status' in fate) {
      request.resume().on('end', () => {
        response.writeHead(fate.status, { 'content-type': 'application/json', ...fate.headers });
        response.end(JSON.stringify(fate.body ?? {}));
      });
    } else {
      this.#pass(request, response, fate);
    }
  }

  #pass(request: http.IncomingMessage, response: http.ServerResponse, fate: 'pass' | 'lose' | { cut: number }): void {
    const { hostname, port } = this.#target;
    const onward = http.request({ hostname, port, path: request.url ?? '/', method: request.method ?? 'GET', headers: request.headers, agent: false });
    request.pipe(onward);
    response.on('close', () => onward.destroy());
    onward.on('error', () => response.destroy());
    onward.on('upgrade', (_, socket) => { // no WebSockets
      socket.destroy();
      request.socket.destroy();
    });
    onward.on('response', (answer) => {
      if (fate === 'lose') {
        answer.resume().on('end', () => request.socket.destroy());
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (fate === 'pass') {
        answer.pipe(response);
        return;
      }
      let left = fate.cut;
      answer.on('data', (chunk: Buffer) => {
        response.write(chunk.subarray(0, left), () => {
          if (left <= 0) request.socket.destroy();
        });
        left -= chunk.length;
      });
      answer.on('end', () => response.end());
    });
  }
}
