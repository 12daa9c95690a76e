// SPDX-License-Identifier: Apache-2.0
// Streams of events that outlive their connections. One that breaks is gone on with behind the last event that came;
// where that cannot be done it ends with an error, never as if it were complete.
import { CayError, StreamInterruptedError } from './errors.js';
import type { Call, Http } from './http.js';
import { asyncIterableToSSEStream, eventsOf, readableOf } from './sse.js';
import type { ServerEvent } from './sse.js';
import { backoff, check, pause, unlessAborted } from './wait.js';

/**
 * Events, for `for await`; or as a ReadableStream of them, `readable`; or as bytes to pass on, `toSSE()`. Read it in one of the
 * ways. `cancel()`, and leaving the loop early, end what it tells of where the method that made it says so.
 */
export class EventStream<T> implements AsyncIterable<T> {
  /** Resolves when there is nothing left to end. */
  readonly cancel: () => Promise<void>;
  readonly #next: () => Promise<IteratorResult<T>>;
  #readable: ReadableStream<T> | null = null;

  constructor(next: () => Promise<IteratorResult<T>>, cancel: () => Promise<void>) {
    this.#next = next;
    this.cancel = cancel;
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    return {
      next: this.#next,
      return: async () => {
        await this.cancel();
        return { done: true, value: undefined };
      },
    };
  }

  get readable(): ReadableStream<T> {
    this.#readable ??= readableOf(this, (event: T) => event);
    return this.#readable;
  }

  getReader(): ReadableStreamDefaultReader<T> {
    return this.readable.getReader();
  }

  /** A body of server-sent events. */
  toSSE(): ReadableStream<Uint8Array> {
    return asyncIterableToSSEStream(this);
  }
}

/**
 * The stream of what `make` yields, when its first event is there: so what cannot be begun fails here. `make` is told by its
 * signal that nobody listens any more; not before the first event, so that it knows by then what there is to end.
 */
export async function openStream<T>(make: (stopped: AbortSignal) => AsyncGenerator<T>, signal?: AbortSignal): Promise<EventStream<T>> {
  const stopper = new AbortController();
  const events = make(stopper.signal);
  const abort = (): void => stopper.abort(signal?.reason);
  const cancel = async (): Promise<void> => {
    signal?.removeEventListener('abort', abort);
    abort();
    await events.return(undefined).catch(() => {}); // how it stopped is nobody's concern
  };
  check(signal);
  const begun = events.next();
  let first: IteratorResult<T> | undefined;
  try {
    first = await unlessAborted(begun, signal);
  } catch (error) {
    begun.then(cancel, () => {});
    throw error;
  }
  signal?.addEventListener('abort', abort, { once: true });
  const next = async (): Promise<IteratorResult<T>> => {
    if (signal?.aborted) await cancel(); // so that what there is to end has been, when the caller is told
    check(signal);
    const result = first ?? await events.next();
    first = undefined;
    if (result.done === true) signal?.removeEventListener('abort', abort); // it may outlive many streams
    return result;
  };
  return new EventStream(next, cancel);
}

export interface Following {
  method: string;
  path: string;
  call: Call;
  /** The events after which nothing comes. */
  last: ReadonlySet<string>;
  /** Of what is told: "the output of the command". */
  what: string;
  /** Whether it can be gone on with behind an event's id. */
  resumable: boolean;
}

const RESUMES = 5; // in a row, without an event in between

function interrupted(following: Following, cause: unknown): StreamInterruptedError {
  const why = cause instanceof CayError ? cause.message : 'the connection broke';
  return new StreamInterruptedError(`${following.what} is not complete, and cannot be gone on with: ${why}`, {
    code: 'STREAM_INTERRUPTED',
    cause,
  });
}

/** The events of an answer until one of the last ones, over as many connections as it takes. */
export async function* follow(http: Http, following: Following, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const { method, path, call, last, resumable } = following;
  let lastId: string | null = null;
  let begun = false;
  for (let broken = 0; broken <= RESUMES; broken++) {
    let cause: unknown;
    try {
      const headers: Record<string, string> = { ...call.headers, accept: 'text/event-stream', ...(lastId !== null && { 'last-event-id': lastId }) };
      const body: ReadableStream<Uint8Array> | null = await http.send(method, path, { ...call, headers, signal }, (response) => response.body);
      for await (const event of eventsOf(body)) {
        lastId = event.id ?? lastId;
        begun = true;
        broken = 0;
        yield event;
        if (last.has(event.name)) return;
      }
    } catch (error) {
      check(signal);
      if (error instanceof CayError) throw begun ? interrupted(following, error) : error; // it was sent again, as often as makes sense
      cause = error;
    }
    if (!resumable || broken === RESUMES) throw interrupted(following, cause);
    await pause(backoff(broken), signal);
  }
}
