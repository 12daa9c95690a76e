// SPDX-License-Identifier: Apache-2.0
// What a sandbox can be made with: the fields of `PUT /sandbox/{id}`.
import type { ClientOptions } from './http.js';

/** Seconds, or a text such as "30s", "10m", "1h". */
export type Seconds = number | string;
/** Bytes, or a text such as "64m", "1.5g". */
export type Size = number | string;

/** `"none"`, `"internet"`, or the hosts that it may reach: `{allow: ["api.example.com", "*.pypi.org:443"]}`. */
export type Network = 'none' | 'internet' | { allow: string[]; maxBytes?: Size };

export interface Limits {
  memory?: Size | undefined;
  disk?: Size | undefined;
  pids?: number | undefined;
  /** Cores, such as 0.5. */
  cpus?: number | string | undefined;
}

export interface Settings extends Limits {
  image?: string | undefined;
  env?: Record<string, string> | undefined;
  labels?: Record<string, string> | undefined;
  /** Without use for so long it falls asleep: its programs end, its files stay. 10 minutes unless given. */
  sleepAfter?: Seconds | undefined;
  /** It never falls asleep. */
  keepAlive?: boolean | undefined;
  /** Its files go when it sleeps. */
  ephemeral?: boolean | undefined;
  /** Nothing outside can be reached unless given. */
  network?: Network | undefined;
  /** Names of secrets that its programs may use without seeing them. */
  secrets?: string[] | undefined;
  /** A hint: it begins in a box where these wait. */
  languages?: string[] | undefined;
  sharedZygote?: boolean | undefined;
  durable?: boolean | undefined;
  sync?: boolean | undefined;
  restore?: boolean | undefined;
  archiveAfter?: Seconds | null | undefined;
  destroyAfter?: Seconds | null | undefined;
  budget?: { usd?: number | null; tokens?: number | null } | null | undefined;
  snapshot?: string | undefined;
  userId?: string | undefined;
  gitUrl?: string | undefined;
  gitBranch?: string | undefined;
  config?: Record<string, unknown> | undefined;
}

/** Can be changed at any time. */
export const CHANGEABLE = [
  'memory', 'disk', 'pids', 'cpus', 'env', 'labels', 'sleepAfter', 'keepAlive', 'network', 'secrets', 'languages', 'sharedZygote',
  'durable', 'sync', 'archiveAfter', 'destroyAfter', 'budget',
] as const satisfies ReadonlyArray<keyof Settings>;

/** Stay what they were when it was made. */
export const FIXED = ['image', 'ephemeral', 'userId'] as const satisfies ReadonlyArray<keyof Settings>;

// Say how a new one begins, and nothing of one that is there.
const BEGINNING = ['restore', 'snapshot', 'gitUrl', 'gitBranch', 'config'] as const satisfies ReadonlyArray<keyof Settings>;

export interface SandboxOptions extends Settings, ClientOptions {
  limits?: Limits | undefined;
  /** The id in lower case. */
  normalizeId?: boolean | undefined;
  /** Calls without a session share one named `default`, instead of each being a shell of its own. */
  enableDefaultSession?: boolean | undefined;
  /** Has no meaning here; taken so that programs need not be changed. */
  transport?: string | undefined;
  /** Has no meaning here; taken so that programs need not be changed. */
  containerTimeouts?: Record<string, number> | undefined;
}

const OURS: readonly string[] = [
  'url', 'token', 'retries', 'fetch', 'limits', 'normalizeId', 'enableDefaultSession', 'transport', 'containerTimeouts',
] satisfies ReadonlyArray<keyof SandboxOptions>;
const THEIRS: readonly string[] = [...CHANGEABLE, ...FIXED, ...BEGINNING];

/** The part of the options that is for the server. */
export function settingsOf(options: SandboxOptions): Settings {
  const settings: Record<string, unknown> = { ...options.limits };
  for (const [name, value] of Object.entries(options)) {
    if (THEIRS.includes(name)) settings[name] = value;
    else if (!OURS.includes(name)) throw new TypeError(`getSandbox: there is no option '${name}'`);
  }
  return settings;
}

const ID = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/;

export function checkId(id: string, normalize: boolean): string {
  const made = normalize ? id.toLowerCase() : id;
  if (!ID.test(made))
    throw new TypeError(`'${id}' is no id of a sandbox: 1 to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends`);
  return made;
}
