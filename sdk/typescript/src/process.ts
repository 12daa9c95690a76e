// SPDX-License-Identifier: Apache-2.0
// A process, as it was when it was asked about, and what can be done with it.
import { ProcessExitedBeforeReadyError, ProcessReadyTimeoutError } from './errors.js';
import type { Processes } from './processes.js';
import { shown } from './commands.js';
import type { EventStream } from './stream.js';
import type { EndReason, LogEvent, ProcessRow, ProcessStatus, WaitForPortOptions } from './types.js';

const KILLED = new Set([137, 143]);

function statusOf(row: ProcessRow): ProcessStatus {
  if (row.status === 'running') return 'running';
  if (row.exitCode === 0) return 'completed';
  return row.reason === 'killed' || KILLED.has(row.exitCode ?? 0) ? 'killed' : 'failed';
}

function findLine(line: string, pattern: string | RegExp): RegExpMatchArray | true | null {
  if (typeof pattern === 'string') return line.includes(pattern) ? true : null;
  return new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, '')).exec(line);
}

/** The error of one that ended while it was waited for. */
export function exitedBefore(row: ProcessRow, what: string): ProcessExitedBeforeReadyError {
  return new ProcessExitedBeforeReadyError(`the process '${shown(row.command)}' ended with exit code ${row.exitCode} (${row.reason}) before ${what}`, {
    code: 'PROCESS_EXITED_BEFORE_READY', details: { ...row },
  });
}

export class Process {
  readonly id: string;
  /** Its number in the box. */
  readonly pid: number;
  readonly command: string;
  readonly status: ProcessStatus;
  readonly startTime: Date;
  readonly endTime: Date | undefined;
  readonly exitCode: number | undefined;
  /** How it ended. */
  readonly reason: EndReason | undefined;
  readonly sessionId: string | undefined;
  readonly #owner: Processes;

  constructor(owner: Processes, row: ProcessRow, session?: string) {
    this.#owner = owner;
    this.id = row.id;
    this.pid = row.pid;
    this.command = shown(row.command);
    this.status = statusOf(row);
    this.startTime = new Date(row.startedAt);
    this.endTime = row.endedAt === null ? undefined : new Date(row.endedAt);
    this.exitCode = row.exitCode;
    this.reason = row.reason;
    this.sessionId = session;
  }

  async kill(signal?: string | number): Promise<void> {
    await this.#owner.killProcess(this.id, signal);
  }

  /** As it is now. */
  async getStatus(): Promise<ProcessStatus> {
    return statusOf(await this.#owner.processRow(this.id));
  }

  async getLogs(): Promise<{ stdout: string; stderr: string }> {
    const { stdout, stderr } = await this.#owner.getProcessLogs(this.id);
    return { stdout, stderr };
  }

  async streamLogs(options: { signal?: AbortSignal | undefined } = {}): Promise<EventStream<LogEvent>> {
    return await this.#owner.streamProcessLogs(this.id, options);
  }

  /** Writes to its standard input; `end` closes it. */
  async write(data: string | Uint8Array, options: { end?: boolean } = {}): Promise<void> {
    await this.#owner.writeStdin(this.id, data, options);
  }

  /** Until a line of its output, from the beginning on, has the text or fits the expression. */
  async waitForLog(pattern: string | RegExp, timeout?: number): Promise<{ line: string; match?: RegExpMatchArray }> {
    const stopper = new AbortController();
    const timer = timeout === undefined ? undefined : setTimeout(() => stopper.abort(), timeout);
    try {
      return await this.#findInLog(pattern, stopper.signal);
    } catch (error) {
      if (!stopper.signal.aborted) throw error;
      throw new ProcessReadyTimeoutError(`'${this.command}' has not written ${String(pattern)} within ${timeout} ms`, { code: 'PROCESS_READY_TIMEOUT' });
    } finally {
      clearTimeout(timer);
    }
  }

  async #findInLog(pattern: string | RegExp, signal: AbortSignal): Promise<{ line: string; match?: RegExpMatchArray }> {
    const rest = { stdout: '', stderr: '' };
    const look = (lines: string[]): { line: string; match?: RegExpMatchArray } | null => {
      for (const line of lines) {
        const match = findLine(line, pattern);
        if (match !== null) return match === true ? { line } : { line, match };
      }
      return null;
    };
    for await (const event of await this.streamLogs({ signal })) {
      if (event.type !== 'stdout' && event.type !== 'stderr') continue;
      const lines = (rest[event.type] + event.data).split('\n');
      const found = look(lines); // the last one has not ended yet, and may fit all the same: a prompt
      if (found !== null) return found;
      rest[event.type] = lines.at(-1) ?? '';
    }
    throw exitedBefore(await this.#owner.processRow(this.id), `it wrote ${String(pattern)}`);
  }

  /** Until its port answers: an HTTP request, or with `mode: 'tcp'` a connection. */
  async waitForPort(port: number, options: WaitForPortOptions = {}): Promise<void> {
    await this.#owner.waitForPort(this.id, port, options);
  }

  async waitForExit(timeout?: number): Promise<{ exitCode: number; reason: EndReason }> {
    const waited = await this.#owner.waitFor(this.id, { exit: true }, timeout);
    if (waited === null) throw new ProcessReadyTimeoutError(`'${this.command}' has not ended within ${timeout} ms`, { code: 'PROCESS_READY_TIMEOUT' });
    return { exitCode: waited.process.exitCode ?? -1, reason: waited.process.reason ?? 'exit' };
  }
}
