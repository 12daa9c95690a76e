// SPDX-License-Identifier: Apache-2.0
// Waiting: for a while, and until somebody no longer wants to.

function reasonOf(signal: AbortSignal): unknown {
  return signal.reason ?? new DOMException('This operation was aborted', 'AbortError');
}

/** Throws what `signal` was aborted with. */
export function check(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw reasonOf(signal);
}

/** The promise, unless `signal` is aborted first. The work itself goes on: others may wait for it, too. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const stop = (): void => reject(reasonOf(signal));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const waited = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  return unlessAborted(waited, signal).finally(() => clearTimeout(timer));
}

const FIRST = 100;
const LONGEST = 10_000;

/** How long to wait before the try after `tries` that failed: longer each time, and not all at once. */
export function backoff(tries: number, leastSeconds: number | null = null): number {
  const grown = Math.min(LONGEST, FIRST * 2 ** tries);
  return Math.max(grown, (leastSeconds ?? 0) * 1000) + Math.random() * grown;
}
