// SPDX-License-Identifier: Apache-2.0
// A sandbox, by its id.
import { idOf } from './commands.js';
import { ConflictError, SandboxNotFoundError } from './errors.js';
import { Http } from './http.js';
import type { ClientOptions } from './http.js';
import { Link } from './link.js';
import { absolute } from './path.js';
import { ExecutionSession, setInShell } from './session.js';
import { checkId, settingsOf } from './settings.js';
import type { SandboxOptions, Seconds, Settings } from './settings.js';
import { Surface } from './surface.js';
import type {
  Backup, ExposedPort, SandboxInfo, SessionInfo, SessionOptions, SessionRef, Snapshot, SyncOptions, SyncResult,
} from './types.js';

const DEFAULT_SESSION = 'default';

type PortRow = Omit<ExposedPort, 'status'>;

export class Sandbox extends Surface {
  readonly id: string;
  readonly #hasDefaultSession: boolean;
  #defaultSession: Promise<string> | null = null;

  /** `getSandbox` is the way to one. */
  constructor(http: Http, id: string, options: SandboxOptions = {}) {
    super(new Link(http, id, settingsOf(options)));
    this.id = id;
    this.#hasDefaultSession = options.enableDefaultSession === true;
  }

  // -- sessions

  protected override async ownSession(): Promise<string | undefined> {
    if (!this.#hasDefaultSession) return undefined;
    this.#defaultSession ??= this.#makeDefaultSession();
    return await this.#defaultSession;
  }

  async #makeDefaultSession(): Promise<string> {
    try {
      await this.createSession({ id: DEFAULT_SESSION });
    } catch (error) {
      if (error instanceof ConflictError) return DEFAULT_SESSION; // it is there
      this.#defaultSession = null;
      throw error;
    }
    return DEFAULT_SESSION;
  }

  protected override async makeSessionAgain(session: string): Promise<boolean> {
    if (!this.#hasDefaultSession || session !== DEFAULT_SESSION) return false;
    this.#defaultSession = null;
    await this.ownSession();
    return true;
  }

  /** A shell that stays. Its id, or the object itself, goes into `session` of `exec`; or use the object's own methods. */
  async createSession(options: SessionOptions = {}): Promise<ExecutionSession> {
    const env = { ...this.link.env, ...options.env };
    const cwd = options.cwd === undefined ? undefined : absolute(options.cwd);
    const body = { id: options.id ?? options.name, cwd, env: Object.keys(env).length > 0 ? env : undefined };
    const { id } = await this.link.json<{ id: string }>('POST', '/sessions', { body });
    return new ExecutionSession(this.link, id, options.commandTimeoutMs);
  }

  /** One that was made before. Whether it is there shows when it is used. */
  async getSession(session: SessionRef): Promise<ExecutionSession> {
    return new ExecutionSession(this.link, idOf(session) as string);
  }

  async listSessions(): Promise<SessionInfo[]> {
    return (await this.link.json<{ sessions: SessionInfo[] }>('GET', '/sessions', { make: 'when missing' })).sessions;
  }

  async deleteSession(session: SessionRef): Promise<{ success: boolean; sessionId: string; timestamp: string }> {
    const id = idOf(session) as string;
    await this.link.json('DELETE', `/sessions/${encodeURIComponent(id)}`);
    if (id === DEFAULT_SESSION) this.#defaultSession = null;
    return { success: true, sessionId: id, timestamp: new Date().toISOString() };
  }

  /**
   * Variables of all that is started through this object from now on; undefined takes one back. Sessions keep those that they
   * began with, but for the default one. `env` of the options is for everybody.
   */
  async setEnvVars(variables: Record<string, string | undefined>): Promise<void> {
    const all = Object.entries({ ...this.link.env, ...variables }).filter(([, value]) => value !== undefined);
    this.link.env = Object.fromEntries(all) as Record<string, string>;
    const session = await this.ownSession();
    if (session !== undefined) await setInShell(this, variables, session);
  }

  // -- ports

  /** Gives a port of the sandbox an address of its own. One that is open is found. */
  async exposePort(port: number, options: { name?: string; token?: string; hostname?: string } = {}): Promise<ExposedPort> {
    const body = { port, name: options.name, token: options.token }; // where previews are is the server's to say
    return { ...await this.link.json<PortRow>('POST', '/ports', { body, repeatable: true }), status: 'active' };
  }

  async unexposePort(port: number): Promise<void> {
    if (await this.isPortExposed(port)) await this.link.json('DELETE', `/ports/${port}`);
  }

  async getExposedPorts(_hostname?: string): Promise<ExposedPort[]> {
    const { ports } = await this.link.json<{ ports: PortRow[] }>('GET', '/ports', { make: 'when missing' });
    return ports.map((row) => ({ ...row, status: 'active' }));
  }

  async isPortExposed(port: number): Promise<boolean> {
    return (await this.getExposedPorts()).some((exposed) => exposed.port === port);
  }

  async validatePortToken(port: number, token: string): Promise<boolean> {
    return (await this.getExposedPorts()).some((exposed) => exposed.port === port && exposed.token === token);
  }

  /**
   * A request to a server in the sandbox; only path and query of its URL count. A redirect is not followed but given back; a
   * browser shows no more of one than its `type`, which is `opaqueredirect`.
   */
  async containerFetch(request: Request | string, port: number): Promise<Response> {
    await this.link.ready();
    const { url, ...init } = request instanceof Request
      ? { url: request.url, method: request.method, headers: new Headers(request.headers), body: request.body, duplex: 'half' }
      : { url: request, headers: new Headers() };
    const { pathname, search } = new URL(url, 'http://sandbox');
    return await this.link.http.fetch(`${this.link.base}/proxy/${port}${pathname}${search}`, init as RequestInit & { headers: Headers });
  }

  // -- state

  /** Keeps its files as they are now. */
  async snapshot(name?: string): Promise<Snapshot> {
    return await this.link.json('POST', '/snapshots', { body: { name } });
  }

  async listSnapshots(): Promise<Snapshot[]> {
    return (await this.link.json<{ snapshots: Snapshot[] }>('GET', '/snapshots', { make: 'when missing' })).snapshots;
  }

  async deleteSnapshot(snapshot: string | { readonly id: string }): Promise<void> {
    await this.link.json('DELETE', `/snapshots/${encodeURIComponent(idOf(snapshot) as string)}`);
  }

  /** Takes its files back to a snapshot. What runs in it ends. */
  async rollback(snapshot: string | { readonly id: string }): Promise<void> {
    await this.link.json('POST', '/rollback', { body: { snapshot: idOf(snapshot) }, repeatable: true });
  }

  /** Another sandbox that begins with its files. */
  async fork(id?: string, options: { snapshot?: string | { readonly id: string } } = {}): Promise<Sandbox> {
    const [made] = await this.#fork({ id, snapshot: idOf(options.snapshot) });
    return made as Sandbox;
  }

  /** Several at once, all of the same instant. Their ids are `prefix` and a number. */
  async forkMany(count: number, prefix?: string, options: { snapshot?: string | { readonly id: string } } = {}): Promise<Sandbox[]> {
    return await this.#fork({ id: prefix, count, snapshot: idOf(options.snapshot) });
  }

  async #fork(body: { id?: string | undefined; count?: number; snapshot?: string | undefined }): Promise<Sandbox[]> {
    const { sandboxes } = await this.link.json<{ sandboxes: Array<{ id: string }> }>('POST', '/fork', { body });
    return sandboxes.map(({ id }) => new Sandbox(this.link.http, id));
  }

  /** All of them, newest first; asked for in pages. */
  async listBackups(options: { readonly pageSize?: number } = {}): Promise<Backup[]> {
    const all: Backup[] = [];
    let before: string | undefined;
    do {
      const query = { before, limit: options.pageSize };
      const page = await this.link.json<{ backups: Backup[]; next?: string | null }>('GET', '/backups', { query, make: 'when missing' });
      all.push(...page.backups);
      before = page.next ?? undefined;
    } while (before !== undefined);
    return all;
  }

  async deleteBackup(backup: string | { readonly id: string }): Promise<void> {
    await this.link.json('DELETE', `/backups/${encodeURIComponent(idOf(backup) as string)}`);
  }

  /** Brings what has changed in `/workspace` to the store. */
  async sync(options: SyncOptions = {}): Promise<SyncResult> {
    return await this.link.json('POST', '/sync', { body: options, repeatable: true });
  }

  // -- its life

  /** Makes sure that it is there and runs. Every call does so; this is for who wants it before the first. */
  async wake(): Promise<SandboxInfo> {
    return await this.link.json('POST', '/wake', { repeatable: true });
  }

  /** Ends its programs and keeps its files. */
  async sleep(): Promise<SandboxInfo> {
    return await this.link.json('POST', '/sleep', { repeatable: true, make: 'never' });
  }

  /** Settings and state, as they are; never makes or wakes it. */
  async info(): Promise<SandboxInfo> {
    return await this.link.json('GET', '', { make: 'never' });
  }

  async getState(): Promise<{ status: 'running' | 'stopped'; lastChange: number }> {
    const { status, updatedAt } = await this.info();
    return { status: status === 'running' ? 'running' : 'stopped', lastChange: Date.parse(updatedAt) };
  }

  /** What it uses now. */
  async stats(): Promise<Record<string, unknown>> {
    return await this.link.json('GET', '/stats', { make: 'never' });
  }

  /** Changes settings; limits change at once. */
  async configure(settings: Settings): Promise<SandboxInfo> {
    const body = settingsOf(settings);
    const changed = await this.link.json<SandboxInfo>('PATCH', '', { body });
    this.link.remember(body);
    return changed;
  }

  async setSleepAfter(sleepAfter: Seconds): Promise<void> {
    await this.configure({ sleepAfter });
  }

  async setKeepAlive(keepAlive: boolean): Promise<void> {
    await this.configure({ keepAlive });
  }

  async setLabels(labels: Record<string, string>): Promise<void> {
    await this.configure({ labels });
  }

  /** Ends all that runs in it and removes its files. One that is gone already is fine. The next use makes a new one. */
  async destroy(): Promise<void> {
    try {
      await this.link.json('DELETE', '', { make: 'never' });
    } catch (error) {
      if (!(error instanceof SandboxNotFoundError)) throw error;
    }
    this.link.forget();
    this.#defaultSession = null;
  }
}

/**
 * The sandbox of this id. Nothing is sent: it is made, or found, when it is first used. A namespace before the id is taken
 * and ignored, so that programs need not be changed.
 */
export function getSandbox(id: string, options?: SandboxOptions): Sandbox;
export function getSandbox(namespace: object | null | undefined, id: string, options?: SandboxOptions): Sandbox;
export function getSandbox(first: unknown, second?: unknown, third?: unknown): Sandbox {
  const [id, given] = typeof first === 'string' ? [first, second] : [second, third];
  if (typeof id !== 'string') throw new TypeError('getSandbox: the id of a sandbox is missing');
  const options = (given ?? {}) as SandboxOptions;
  return new Sandbox(new Http(options), checkId(id, options.normalizeId === true), options);
}

/** All sandboxes that the token may see, by id. */
export async function* listSandboxes(options: ClientOptions & { label?: string; status?: SandboxInfo['status'] } = {}): AsyncGenerator<SandboxInfo> {
  const http = new Http(options);
  let after: string | undefined;
  do {
    const query = { label: options.label, status: options.status, after };
    const page = await http.json<{ sandboxes: SandboxInfo[]; next?: string | null }>('GET', '/sandbox', { query });
    yield* page.sandboxes;
    after = page.next ?? undefined;
  } while (after !== undefined);
}
