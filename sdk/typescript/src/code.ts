// SPDX-License-Identifier: Apache-2.0
// The code interpreter: cells of code in contexts that remember.
import { idOf } from './commands.js';
import { newKey } from './http.js';
import { Processes } from './processes.js';
import { openStream } from './stream.js';
import type { EventStream } from './stream.js';
import type { CodeContext, CodeEnd, CodeError, CodeEvent, CodeForms, CodeValue, ContextOptions, Execution, RunCodeOptions } from './types.js';

interface ContextRow extends Omit<CodeContext, 'createdAt' | 'lastUsed'> {
  createdAt: string;
  lastUsed: string;
}

type RawExecution = Omit<Execution, 'results'> & { results: Array<CodeForms & { type: 'result' | 'display' }> };

const END: ReadonlySet<string> = new Set(['end']);

function contextOf(row: ContextRow): CodeContext {
  const { id, language, cwd, status, executionCount, isDefault } = row;
  return { id, language, cwd, createdAt: new Date(row.createdAt), lastUsed: new Date(row.lastUsed), status, executionCount, isDefault };
}

// Not one of its own fields, so that it is not among what a log or JSON shows.
function valueOf(forms: CodeForms & { type: 'result' | 'display' }): CodeValue {
  const formats = (): string[] => Object.keys(forms).filter((name) => name !== 'type' && name !== 'metadata');
  return Object.defineProperty({ ...forms }, 'formats', { value: formats }) as CodeValue;
}

function errorOf(event: CodeEvent & { type: 'error' }): CodeError {
  return { name: event.ename, message: event.evalue, traceback: event.traceback, lineNumber: event.lineNumber };
}

function eventOf(name: string, text: string): CodeEvent {
  const data = JSON.parse(text);
  if (name === 'error') return { type: 'error', ename: data.name, evalue: data.message, traceback: data.traceback ?? [], lineNumber: data.lineNumber ?? null };
  if (name !== 'end') return { type: name, ...data };
  const { executionCount, ...end } = data as CodeEnd & { executionCount: number | null };
  return { type: 'execution_complete', execution_count: executionCount, ...end };
}

// Puts an execution together again from its events.
class Gathered {
  readonly execution: Execution;
  readonly #options: RunCodeOptions;

  constructor(code: string, options: RunCodeOptions) {
    this.#options = options;
    this.execution = {
      id: '', context: null, language: '', code, logs: { stdout: [], stderr: [] }, results: [], executionCount: null, success: false, reason: 'error', duration: 0,
    };
  }

  take(event: CodeEvent): void {
    const { execution } = this;
    if (event.type === 'start') {
      Object.assign(execution, { id: event.id, context: event.context, language: event.language });
    } else if (event.type === 'stdout' || event.type === 'stderr') {
      const log = execution.logs[event.type];
      log[0] = (log[0] ?? '') + event.text;
      (event.type === 'stdout' ? this.#options.onStdout : this.#options.onStderr)?.({ text: event.text, timestamp: Date.now() });
    } else if (event.type === 'error') {
      execution.error = errorOf(event);
      this.#options.onError?.(execution.error);
    } else if (event.type === 'execution_complete') {
      const { type: _, execution_count: executionCount, ...end } = event;
      Object.assign(execution, end, { executionCount });
    } else {
      execution.results.push(valueOf(event as CodeEvent & { type: 'result' | 'display' }));
      this.#options.onResult?.(execution.results.at(-1) as CodeValue);
    }
  }
}

export abstract class Code extends Processes {
  /** An interpreter that stays; Python unless `language` says otherwise. */
  async createCodeContext(options: ContextOptions = {}): Promise<CodeContext> {
    const env = { ...this.link.env, ...options.envVars, ...options.env };
    const cwd = options.cwd === undefined ? undefined : await this.resolve(options.cwd);
    const body = { language: options.language, id: options.id, cwd, env, timeout: options.timeout };
    return contextOf(await this.link.json<ContextRow>('POST', '/contexts', { body, key: newKey() }));
  }

  async listCodeContexts(): Promise<CodeContext[]> {
    const { contexts } = await this.link.json<{ contexts: ContextRow[] }>('GET', '/contexts', { make: 'when missing' });
    return contexts.map(contextOf);
  }

  async deleteCodeContext(context: string | { readonly id: string }): Promise<void> {
    await this.link.json('DELETE', this.#context(context));
  }

  /** Ends the cell that runs in it, and keeps what it knows. */
  async interruptCodeContext(context: string | { readonly id: string }): Promise<void> {
    await this.link.json('POST', `${this.#context(context)}/interrupt`, { repeatable: false });
  }

  /** A new interpreter that knows nothing; the way on for one that has died. */
  async restartCodeContext(context: string | { readonly id: string }): Promise<CodeContext> {
    return contextOf(await this.link.json<ContextRow>('POST', `${this.#context(context)}/restart`));
  }

  /** Runs code and waits for it. Code that fails is a result with `error`; `signal` interrupts it. */
  async runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    if (options.signal !== undefined || options.onStdout || options.onStderr || options.onResult || options.onError) return await this.#gather(code, options);
    const key = options.idempotencyKey ?? newKey();
    const raw = await this.link.json<RawExecution>('POST', '/code', { body: this.#body(code, options), key });
    return { ...raw, results: raw.results.map(valueOf) };
  }

  /** Runs code and tells what it writes and shows as it does. Leaving it early, or `signal`, interrupts the code. */
  async runCodeStream(code: string, options: RunCodeOptions = {}): Promise<EventStream<CodeEvent>> {
    const body = this.#body(code, options);
    const key = options.idempotencyKey ?? newKey();
    return await openStream((stopped) => this.#events(body, key, stopped), options.signal);
  }

  async #gather(code: string, options: RunCodeOptions): Promise<Execution> {
    const gathered = new Gathered(code, options);
    for await (const event of await this.runCodeStream(code, options)) gathered.take(event);
    return gathered.execution;
  }

  async *#events(body: object, key: string, stopped: AbortSignal): AsyncGenerator<CodeEvent> {
    const following = { method: 'POST', path: '/code', call: { body, key }, last: END, what: 'what the code tells', resumable: true };
    let cell: string | undefined;
    let ended = false;
    try {
      for await (const { name, data } of this.link.follow(following, stopped)) {
        const event = eventOf(name, data);
        if (event.type === 'start' && cell !== undefined) continue; // told again by a new connection
        if (event.type === 'start') cell = event.id;
        ended = event.type === 'execution_complete';
        yield event;
      }
    } finally {
      if (stopped.aborted && !ended && cell !== undefined)
        await this.link.json('DELETE', `/code/${encodeURIComponent(cell)}`, { make: 'never' }).catch(() => {}); // it may have ended
    }
  }

  #body(code: string, options: RunCodeOptions): Record<string, unknown> {
    const before = options.context === undefined ? this.link.env : {}; // a context has had them from its beginning
    const env = { ...before, ...options.envVars, ...options.env };
    return {
      code,
      context: idOf(options.context),
      language: options.context === undefined ? options.language : undefined,
      timeout: options.timeout,
      env: Object.keys(env).length === 0 ? undefined : env,
    };
  }

  #context(context: string | { readonly id: string }): string {
    return `/contexts/${encodeURIComponent(idOf(context) as string)}`;
  }
}
