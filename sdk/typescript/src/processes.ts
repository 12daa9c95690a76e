// SPDX-License-Identifier: Apache-2.0
// Processes: commands that go on by themselves and have a log.
import { toText } from './bytes.js';
import { EXIT, idOf, outputEvent } from './commands.js';
import type { Command } from './commands.js';
import { ProcessNotFoundError, ProcessReadyTimeoutError } from './errors.js';
import { Files } from './files.js';
import { newKey } from './http.js';
import type { Call } from './http.js';
import { exitedBefore, Process } from './process.js';
import { openStream } from './stream.js';
import type { EventStream } from './stream.js';
import type { LogEvent, ProcessLogs, ProcessOptions, ProcessRow, WaitForPortOptions } from './types.js';
import { pause } from './wait.js';

/** A process, by its id, its number in the box, or itself. */
export type ProcessRef = string | number | { readonly id: string };

interface Waited {
  matched: 'exit' | 'log' | 'port' | null;
  timedOut: boolean;
  process: ProcessRow;
}

const WAIT_MS = 60_000; // for one request; more are sent after it
const INTERVAL_MS = 500;

function isGood(status: number, wanted: WaitForPortOptions['status']): boolean {
  const range = typeof wanted === 'number' ? { min: wanted, max: wanted } : wanted ?? { min: 200, max: 399 };
  return status >= range.min && status <= range.max;
}

export abstract class Processes extends Files {
  /** Starts a command and leaves it running. */
  async startProcess(command: Command, options: ProcessOptions = {}): Promise<Process> {
    const session = idOf(options.session) ?? options.sessionId ?? await this.ownSession();
    const env = { ...this.link.env, ...options.env }; // it is none of the session's shell, which has them
    const body = {
      ...await this.commandBody(command, { cwd: session === undefined ? undefined : '.', ...options, env }, session),
      id: options.processId,
      keepAwake: options.keepAwake,
      stdin: options.stdin,
    };
    const { process: row } = await this.link.json<{ process: ProcessRow }>('POST', '/processes', { body, key: newKey() });
    const process = new Process(this, row, session);
    options.onStart?.(process);
    if (options.onOutput !== undefined || options.onExit !== undefined || options.autoCleanup === true)
      this.#tell(process, options).catch((error: unknown) => options.onError?.(error as Error));
    return process;
  }

  /** The same as `startProcess`. */
  async spawn(command: Command, options: ProcessOptions = {}): Promise<Process> {
    return await this.startProcess(command, options);
  }

  async #tell(process: Process, options: ProcessOptions): Promise<void> {
    for await (const event of await this.streamProcessLogs(process.id)) {
      if (event.type === 'stdout' || event.type === 'stderr') options.onOutput?.(event.type, event.data);
      else if (event.type === 'exit') options.onExit?.(event.exitCode);
    }
    if (options.autoCleanup === true) await this.endProcess(process.id);
  }

  /** Those that run, and the newest that have ended. */
  async listProcesses(): Promise<Process[]> {
    const { processes } = await this.link.json<{ processes: ProcessRow[] }>('GET', '/processes', { make: 'when missing' });
    return processes.map((row) => new Process(this, row));
  }

  /** Null when there is none. */
  async getProcess(process: ProcessRef): Promise<Process | null> {
    if (typeof process === 'number') {
      const fitting = (await this.listProcesses()).filter(({ pid }) => pid === process); // one that has ended may have had it, too
      return fitting.find(({ status }) => status === 'running') ?? fitting.at(-1) ?? null;
    }
    try {
      return new Process(this, await this.processRow(idOf(process) as string));
    } catch (error) {
      if (error instanceof ProcessNotFoundError) return null;
      throw error;
    }
  }

  /** @internal */
  async processRow(id: string): Promise<ProcessRow> {
    const answer = await this.link.json<{ process: ProcessRow }>('GET', `/processes/${encodeURIComponent(id)}`, { make: 'when missing' });
    return answer.process;
  }

  async isProcessRunning(process: ProcessRef): Promise<boolean> {
    return (await this.getProcess(process))?.status === 'running';
  }

  /** Sends a signal to it and all that it has started; `SIGTERM` unless given. One that has ended is left alone. */
  async killProcess(process: ProcessRef, signal: string | number = 'SIGTERM'): Promise<void> {
    const found = await this.getProcess(process);
    if (found === null) throw new ProcessNotFoundError(`there is no process '${String(idOf(process as string) ?? process)}'`, { status: 404, code: 'NOT_FOUND' });
    if (found.status !== 'running') return;
    try {
      await this.link.json('POST', `/processes/${encodeURIComponent(found.id)}/signal`, { body: { signal } });
    } catch (error) {
      if (await this.isProcessRunning(found.id)) throw error; // else it has just ended
    }
  }

  /** How many it were. */
  async killAllProcesses(signal: string | number = 'SIGTERM'): Promise<number> {
    const running = (await this.listProcesses()).filter(({ status }) => status === 'running');
    await Promise.all(running.map(({ id }) => this.killProcess(id, signal)));
    return running.length;
  }

  /** Forgets those that have ended, with their logs. How many it were. */
  async cleanupCompletedProcesses(): Promise<number> {
    const ended = (await this.listProcesses()).filter(({ status }) => status !== 'running');
    await Promise.all(ended.map(({ id }) => this.endProcess(id)));
    return ended.length;
  }

  /** All that it has written until now. */
  async getProcessLogs(process: ProcessRef): Promise<ProcessLogs> {
    const id = await this.#idOf(process);
    const [out, err] = await Promise.all([this.#log(id, 'stdout'), this.#log(id, 'stderr')]);
    return { stdout: out.text, stderr: err.text, processId: id, ...((out.gap || err.gap) && { truncated: true }) };
  }

  async #log(id: string, stream: 'stdout' | 'stderr'): Promise<{ text: string; gap: boolean }> {
    const call: Call = { query: { stream } };
    const url = `${this.link.base}/processes/${encodeURIComponent(id)}/logs`;
    return await this.link.use({ make: 'when missing' }, () => this.link.http.send('GET', url, call, async (response) => ({
      text: toText(new Uint8Array(await response.arrayBuffer())),
      gap: response.headers.has('x-cay-gap'),
    })));
  }

  /** What it has written and writes, then `exit`. A connection that breaks is gone on with. Leaving it early ends nothing. */
  async streamProcessLogs(process: ProcessRef, options: { signal?: AbortSignal | undefined } = {}): Promise<EventStream<LogEvent>> {
    const id = await this.#idOf(process);
    return await openStream((stopped) => this.#logEvents(id, stopped), options.signal);
  }

  async *#logEvents(id: string, stopped: AbortSignal): AsyncGenerator<LogEvent> {
    const path = `/processes/${encodeURIComponent(id)}/logs`;
    const following = { method: 'GET', path, call: {}, last: EXIT, what: `the log of ${id}`, resumable: true };
    for await (const event of this.link.follow(following, stopped, 'when missing')) {
      const output = outputEvent(event);
      const data = output === null ? JSON.parse(event.data) : null;
      const timestamp = new Date().toISOString();
      if (output !== null) yield { ...output, processId: id };
      else if (event.name === 'gap') yield { type: 'gap', ...data, processId: id, timestamp };
      else if (event.name === 'exit') yield { type: 'exit', data: '', timestamp, ...data, processId: id };
    }
  }

  /** Writes to its standard input; `end` closes it. */
  async writeStdin(process: ProcessRef, data: string | Uint8Array, options: { end?: boolean } = {}): Promise<void> {
    const id = await this.#idOf(process);
    await this.link.json('POST', `/processes/${encodeURIComponent(id)}/stdin`, {
      query: { end: options.end }, bytes: data, headers: { 'content-type': 'application/octet-stream' },
    });
  }

  async #idOf(process: ProcessRef): Promise<string> {
    if (typeof process !== 'number') return idOf(process) as string;
    const found = await this.getProcess(process);
    if (found === null) throw new ProcessNotFoundError(`there is no process with the number ${process}`, { status: 404, code: 'NOT_FOUND' });
    return found.id;
  }

  // -- waiting

  /** @internal Null when the time was up first. */
  async waitFor(id: string, what: { exit: true } | { port: number }, timeout: number | undefined): Promise<Waited | null> {
    const end = timeout === undefined ? Infinity : Date.now() + timeout;
    for (;;) {
      const left = Math.max(1, Math.min(WAIT_MS, end - Date.now()));
      const waited = await this.link.json<Waited>('POST', `/processes/${encodeURIComponent(id)}/wait`, {
        body: { ...what, timeout: Math.ceil(left) }, repeatable: true,
      });
      if (!waited.timedOut) return waited;
      if (Date.now() >= end) return null;
    }
  }

  /** @internal */
  async waitForPort(id: string, port: number, options: WaitForPortOptions): Promise<void> {
    const end = options.timeout === undefined ? Infinity : Date.now() + options.timeout;
    const waited = await this.waitFor(id, { port }, options.timeout);
    if (waited === null) throw new ProcessReadyTimeoutError(`port ${port} was not open within ${options.timeout} ms`, { code: 'PROCESS_READY_TIMEOUT' });
    if (waited.matched !== 'port') throw exitedBefore(waited.process, `port ${port} was open`);
    if (options.mode === 'tcp') return;
    const path = `/proxy/${port}/${(options.path ?? '/').replace(/^\/+/, '')}`;
    while (!isGood(await this.#statusOf(path), options.status)) {
      if (Date.now() >= end) throw new ProcessReadyTimeoutError(`${path} was not answered well within ${options.timeout} ms`, { code: 'PROCESS_READY_TIMEOUT' });
      const row = await this.processRow(id);
      if (row.status === 'ended') throw exitedBefore(row, `${path} was answered well`);
      await pause(Math.min(options.interval ?? INTERVAL_MS, Math.max(0, end - Date.now())));
    }
  }

  async #statusOf(path: string): Promise<number> {
    try {
      const response = await this.link.http.fetch(this.link.base + path, { headers: new Headers() });
      await response.body?.cancel();
      return response.type === 'opaqueredirect' ? 302 : response.status; // a browser does not say which one
    } catch {
      return 0;
    }
  }
}
