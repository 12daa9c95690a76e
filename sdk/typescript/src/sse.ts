// SPDX-License-Identifier: Apache-2.0
// Server-sent events, out of bytes and into them.

export interface ServerEvent {
  id: string | null;
  name: string;
  data: string;
}

/** The chunks of a body. Whoever stops early lets go of the connection. */
export async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // it has broken by itself: whoever reads was told
  }
}

/** Events as they come. One that is cut off is none. */
export async function* eventsOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  let event: ServerEvent = { id: null, name: 'message', data: '' };
  let lines = 0;
  for await (const chunk of chunksOf(body)) {
    rest += decoder.decode(chunk, { stream: true });
    let from = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', from)) {
      const line = rest.slice(from, rest[end - 1] === '\r' ? end - 1 : end);
      from = end + 1;
      if (line === '') {
        if (lines > 0) yield event;
        event = { id: null, name: 'message', data: '' };
        lines = 0;
        continue;
      }
      const colon = line.indexOf(':');
      const key = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
      if (key === 'data') event.data += lines++ > 0 ? `\n${value}` : value;
      else if (key === 'event') event.name = value;
      else if (key === 'id') event.id = value;
    }
    rest = rest.slice(from);
  }
}

/**
 * The events of a stream, parsed. Takes what `execStream` and its kin give, and a body or an answer of server-sent events,
 * so that either end of a relay can read it.
 */
export async function* parseSSEStream<T = unknown>(stream: AsyncIterable<T> | ReadableStream<Uint8Array> | Response): AsyncGenerator<T> {
  const body = stream instanceof Response ? stream.body : stream;
  if (body === null || body instanceof ReadableStream) {
    for await (const event of eventsOf(body as ReadableStream<Uint8Array> | null)) yield JSON.parse(event.data) as T;
  } else {
    yield* body;
  }
}

/** What is iterated over, as a stream that is read as it is wanted. */
export function readableOf<T, Made>(events: AsyncIterable<T>, make: (event: T) => Made): ReadableStream<Made> {
  const iterator = events[Symbol.asyncIterator]();
  return new ReadableStream<Made>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done === true) controller.close();
      else controller.enqueue(make(value));
    },
    async cancel() {
      await iterator.return?.();
    },
  }, { highWaterMark: 0 });
}

/** Events as a body of server-sent events, for a program that passes them on. */
export function asyncIterableToSSEStream<T>(events: AsyncIterable<T>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return readableOf(events, (event) => encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
}
