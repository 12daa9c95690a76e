// SPDX-License-Identifier: Apache-2.0
// Commands: one and its result, or its output as it is written.
import { fromBase64, join, toBase64, toBytes, toText } from './bytes.js';
import { SessionNotFoundError } from './errors.js';
import { newKey } from './http.js';
import type { Call } from './http.js';
import type { Link } from './link.js';
import { absolute, HOME } from './path.js';
import type { ServerEvent } from './sse.js';
import { openStream } from './stream.js';
import type { EventStream } from './stream.js';
import type { CommandOptions, Duration, ExecEnd, ExecEvent, ExecOptions, ExecResult, SessionRef } from './types.js';

/** A command line for the shell, or a program and its arguments. */
export type Command = string | readonly string[];

export function shown(command: Command): string {
  return typeof command === 'string' ? command : command.join(' ');
}

export function idOf(ref: SessionRef | undefined): string | undefined {
  return typeof ref === 'object' ? ref.id : ref;
}

/** What stands in for the sandbox, and in it for one of its sessions. */
export abstract class Part {
  /** @internal */
  protected readonly link: Link;
  /** @internal Of commands that have none of their own. */
  protected commandTimeout: Duration | undefined;

  constructor(link: Link) {
    this.link = link;
  }

  /** @internal The session of calls that name none, if they have one. */
  protected abstract ownSession(): Promise<string | undefined>;

  /** @internal Whether one that is not there is this one's own to make, and was made. */
  protected async makeSessionAgain(_session: string): Promise<boolean> {
    return false;
  }

  /** @internal Where relative paths begin. */
  protected async home(session?: string): Promise<string> {
    const id = session ?? await this.ownSession();
    if (id === undefined) return HOME;
    const answer = await this.link.json<{ session: { cwd: string } }>('GET', `/sessions/${encodeURIComponent(id)}`);
    return answer.session.cwd;
  }

  /** @internal */
  protected async resolve(path: string, session?: string): Promise<string> {
    return path.startsWith('/') ? absolute(path) : absolute(path, await this.home(session));
  }

  /** @internal */
  protected async commandBody(command: Command, options: CommandOptions, session: string | undefined): Promise<Record<string, unknown>> {
    const env = Object.entries({ ...(session === undefined ? this.link.env : {}), ...options.env }).filter(([, value]) => value !== undefined);
    return {
      ...(typeof command === 'string' ? { command } : { argv: command }),
      cwd: options.cwd === undefined ? undefined : await this.resolve(options.cwd, session),
      env: env.length === 0 ? undefined : Object.fromEntries(env),
      timeout: options.timeout ?? this.commandTimeout,
      user: options.user,
    };
  }
}

type Stream = 'stdout' | 'stderr';
type Output = string | Uint8Array; // bytes where it is not UTF-8

interface RawResult extends ExecEnd {
  stdout: string;
  stderr: string;
  encoding?: 'base64';
  truncated?: boolean;
  duration: number;
  timestamp: string;
}

interface Ran extends ExecEnd {
  output: Record<Stream, Output>;
  truncated?: boolean;
  duration: number;
  timestamp: string;
}

function ranOf(raw: RawResult): Ran {
  const { stdout, stderr, encoding, ...end } = raw;
  const output = encoding === 'base64' ? { stdout: fromBase64(stdout), stderr: fromBase64(stderr) } : { stdout, stderr };
  return { ...end, output };
}

function joined(pieces: readonly Output[]): Output {
  if (pieces.every((piece) => typeof piece === 'string')) return pieces.join('');
  return join(pieces.map((piece) => (typeof piece === 'string' ? toBytes(piece) : piece)));
}

function as(output: Output, encoding: ExecOptions['encoding']): Output {
  if (encoding === 'bytes') return typeof output === 'string' ? toBytes(output) : output;
  if (encoding === 'base64') return toBase64(typeof output === 'string' ? toBytes(output) : output);
  return typeof output === 'string' ? output : toText(output);
}

function resultOf(ran: Ran, command: Command, session: string | undefined, encoding: ExecOptions['encoding']): ExecResult<Output> {
  const { output, ...end } = ran;
  const isText = encoding === undefined || encoding.startsWith('utf');
  return {
    ...end,
    stdout: as(output.stdout, encoding),
    stderr: as(output.stderr, encoding),
    ...(isText && !(typeof output.stdout === 'string' && typeof output.stderr === 'string') && { binary: true }),
    command: shown(command),
    ...(session !== undefined && { sessionId: session }),
  };
}

interface OutputData {
  offset: number;
  data: string;
  encoding?: 'base64';
}

/** An event of output, or null when it is none. */
export function outputEvent(event: ServerEvent): { type: Stream; data: string; timestamp: string; bytes?: Uint8Array } | null {
  if (event.name !== 'stdout' && event.name !== 'stderr') return null;
  const { data, encoding } = JSON.parse(event.data) as OutputData;
  const made = { type: event.name as Stream, data, timestamp: new Date().toISOString() };
  if (encoding !== 'base64') return made;
  const bytes = fromBase64(data);
  return { ...made, data: toText(bytes), bytes };
}

/** After this one nothing comes. */
export const EXIT: ReadonlySet<string> = new Set(['exit']);

export abstract class Commands extends Part {
  /**
   * Runs a command and waits for it. One that fails is a result with `success: false`, not an error. Without a session it
   * runs in a shell of its own: what it `cd`s to or exports is gone with it.
   */
  exec(command: Command, options: ExecOptions & { encoding: 'bytes' }): Promise<ExecResult<Uint8Array>>;
  exec(command: Command, options?: ExecOptions): Promise<ExecResult>;
  async exec(command: Command, options: ExecOptions = {}): Promise<ExecResult<Output>> {
    let result;
    try {
      result = await this.#run(command, options);
    } catch (error) {
      options.onError?.(error as Error);
      throw error;
    }
    options.onComplete?.(result as ExecResult);
    return result;
  }

  /**
   * Runs a command and gives its output as it is written, then `complete`. A connection that breaks is gone on with; a
   * stream that cannot be completed throws. Leaving it early, or `signal`, ends the command. In a session the output comes when
   * the command has ended.
   */
  async execStream(command: Command, options: ExecOptions = {}): Promise<EventStream<ExecEvent>> {
    const session = await this.#sessionOf(options);
    const body = { ...await this.commandBody(command, options, session), stdin: options.stdin };
    return await openStream((stopped) => {
      if (session !== undefined) return this.#eventsOfSession(command, { ...body, session }, session, stopped);
      return this.#eventsOfProcess(command, body, options.idempotencyKey ?? newKey(), stopped);
    }, options.signal);
  }

  /** @internal Of one that nobody waits for any more: how that goes is nobody's concern. */
  protected async endProcess(id: string): Promise<void> {
    await this.link.json('DELETE', `/processes/${encodeURIComponent(id)}`, { make: 'never' }).catch(() => {});
  }

  async #sessionOf(options: ExecOptions): Promise<string | undefined> {
    return idOf(options.session) ?? options.sessionId ?? await this.ownSession();
  }

  async #run(command: Command, options: ExecOptions): Promise<ExecResult<Output>> {
    const session = await this.#sessionOf(options);
    const tells = options.stream === true || options.onOutput !== undefined;
    if (tells || (options.signal !== undefined && session === undefined)) return await this.#gather(command, options, session);
    const body = { ...await this.commandBody(command, options, session), session, stdin: options.stdin };
    // A client that goes ends its command, unless it has a key and means to come back: who may abort has none.
    const key = options.signal === undefined ? options.idempotencyKey ?? newKey() : undefined;
    return resultOf(await this.#post(body, { key, signal: options.signal }), command, session, options.encoding);
  }

  async #post(body: Record<string, unknown>, call: Call): Promise<Ran> {
    try {
      return ranOf(await this.link.json<RawResult>('POST', '/exec', { ...call, body }));
    } catch (error) {
      if (!(error instanceof SessionNotFoundError) || !await this.makeSessionAgain(String(body['session']))) throw error;
      return ranOf(await this.link.json<RawResult>('POST', '/exec', { ...call, body, key: newKey() }));
    }
  }

  async #gather(command: Command, options: ExecOptions, session: string | undefined): Promise<ExecResult<Output>> {
    const pieces: Record<Stream, Output[]> = { stdout: [], stderr: [] };
    let truncated = false;
    let end: (ExecEnd & { truncated?: boolean; duration: number; timestamp: string }) | undefined;
    for await (const event of await this.execStream(command, options)) {
      if (event.type === 'stdout' || event.type === 'stderr') {
        pieces[event.type].push(event.bytes ?? event.data);
        options.onOutput?.(event.type, event.data);
      } else if (event.type === 'gap') {
        truncated = true;
      } else if (event.type === 'complete') {
        const { type: _, ...rest } = event;
        end = rest;
      }
    }
    if (end === undefined) throw new Error('a stream has ended without its end');
    const output = { stdout: joined(pieces.stdout), stderr: joined(pieces.stderr) };
    return resultOf({ ...end, output, ...(truncated && { truncated }) }, command, session, options.encoding);
  }

  async *#eventsOfSession(command: Command, body: Record<string, unknown>, session: string, stopped: AbortSignal): AsyncGenerator<ExecEvent> {
    const timestamp = new Date().toISOString();
    yield { type: 'start', command: shown(command), timestamp, sessionId: session };
    const { output, ...end } = await this.#post(body, { signal: stopped });
    for (const type of ['stdout', 'stderr'] as const) {
      const data = output[type];
      if (data.length > 0) yield { type, data: as(data, undefined) as string, timestamp: end.timestamp, ...(typeof data !== 'string' && { bytes: data }) };
    }
    yield { type: 'complete', ...end };
  }

  async *#eventsOfProcess(command: Command, body: object, key: string, stopped: AbortSignal): AsyncGenerator<ExecEvent> {
    const following = { method: 'POST', path: '/exec', call: { body, key }, last: EXIT, what: 'the output of the command', resumable: true };
    let process: string | undefined;
    let ended = false;
    try {
      for await (const event of this.link.follow(following, stopped)) {
        const output = outputEvent(event);
        if (output !== null) {
          yield output;
          continue;
        }
        const data = JSON.parse(event.data);
        if (event.name === 'start' && process === undefined) {
          process = data.processId as string;
          yield { type: 'start', command: shown(command), ...data };
        } else if (event.name === 'gap') {
          yield { type: 'gap', ...data, timestamp: new Date().toISOString() };
        } else if (event.name === 'exit') {
          ended = true;
          yield { type: 'complete', ...data };
        }
      }
    } finally {
      if (stopped.aborted && !ended && process !== undefined) await this.endProcess(process);
    }
  }
}
