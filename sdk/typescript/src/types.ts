// SPDX-License-Identifier: Apache-2.0
// What goes in and comes out, where it is not a class.
import type { Network, Size } from './settings.js';

/** How something ended: the one true reason. */
export type EndReason = 'exit' | 'signal' | 'timeout' | 'killed' | 'oom' | 'box_lost';

/** A session: its id, or whatever has one. */
export type SessionRef = string | { readonly id: string };

/** Milliseconds, or a text with a unit such as "1.5s", "2m". */
export type Duration = number | string;

// -- sandboxes

export interface SandboxInfo {
  sandboxId: string;
  id: string;
  slug: string;
  status: 'running' | 'sleeping' | 'destroying';
  image: string;
  limits: { memory: number; disk: number; pids: number; cpus: number };
  labels: Record<string, string>;
  userId: string | null;
  network: Network;
  secrets: string[];
  languages: string[];
  sleepAfter: number;
  destroyAfter: number | null;
  archiveAfter: number | null;
  keepAlive: boolean;
  ephemeral: boolean;
  durable: boolean;
  sync: boolean;
  archived: boolean;
  /** The number of the box that runs for it; null while it sleeps. */
  box: number | null;
  boxes: number;
  createdAt: string;
  updatedAt: string;
  lastActiveAt: string;
  [more: string]: unknown;
}

// -- commands

export interface CommandOptions {
  cwd?: string | undefined;
  env?: Record<string, string | undefined> | undefined;
  timeout?: Duration | undefined;
  /** "root" unless given; "user" is 1000. */
  user?: string | number | undefined;
}

export interface ExecOptions extends CommandOptions {
  /** In this session's shell, with its directory and variables. Otherwise in a new one. */
  session?: SessionRef | undefined;
  /** The same as `session`. */
  sessionId?: string | undefined;
  /** What it reads from standard input; nothing unless given. */
  stdin?: string | undefined;
  /** `bytes`: stdout and stderr are Uint8Arrays; `base64`: texts of that. */
  encoding?: 'utf8' | 'utf-8' | 'base64' | 'bytes' | undefined;
  /** Output is told to `onOutput` as it is written, which is also so when that alone is given. */
  stream?: boolean | undefined;
  onOutput?: ((stream: 'stdout' | 'stderr', data: string) => void) | undefined;
  onComplete?: ((result: ExecResult) => void) | undefined;
  onError?: ((error: Error) => void) | undefined;
  /** Ends the command. */
  signal?: AbortSignal | undefined;
  /** So that a command that was asked for twice is run once. One is made up unless given. */
  idempotencyKey?: string | undefined;
}

export interface ExecEnd {
  /** Whether the exit code is 0. */
  success: boolean;
  /** As a shell says it: 124 when its time was up, 128 and the signal, 137 when memory ran out. */
  exitCode: number;
  reason: EndReason;
  signal?: number;
  /** Limits that were felt on the way: memory, pids, disk, output. */
  limitsHit?: string[];
  cpu?: number;
  peakMemory?: number;
}

export interface ExecResult<Output = string> extends ExecEnd {
  stdout: Output;
  stderr: Output;
  /** There was more than is kept. */
  truncated?: boolean;
  /** It was not UTF-8, and U+FFFD stands for what was not: `encoding: 'bytes'` has it as it was. */
  binary?: boolean;
  command: string;
  /** Milliseconds. */
  duration: number;
  timestamp: string;
  sessionId?: string;
  /** Of one whose output was streamed: under this its log is kept. */
  processId?: string;
}

export type ExecEvent =
  | { type: 'start'; command: string; timestamp: string; processId?: string; pid?: number; sessionId?: string }
  | { type: 'stdout' | 'stderr'; data: string; timestamp: string; bytes?: Uint8Array }
  | { type: 'gap'; stream: 'stdout' | 'stderr'; from: number; to: number; timestamp: string }
  | ({ type: 'complete'; timestamp: string; duration: number; truncated?: boolean } & ExecEnd);

export interface SessionOptions {
  id?: string | undefined;
  /** The same as `id`. */
  name?: string | undefined;
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  /** Of each of its commands that has none of its own. */
  commandTimeoutMs?: number | undefined;
}

export interface SessionInfo {
  id: string;
  cwd: string;
  running: boolean;
  createdAt: string;
  lastUsedAt: string;
}

// -- processes

export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error';

export interface ProcessOptions extends CommandOptions {
  /** Made up unless given. */
  processId?: string | undefined;
  /** It keeps its sandbox awake. */
  keepAwake?: boolean | undefined;
  /** Whether it can be written to. */
  stdin?: boolean | undefined;
  session?: SessionRef | undefined;
  sessionId?: string | undefined;
  /** Its record goes when it has ended. */
  autoCleanup?: boolean | undefined;
  onStart?: ((process: unknown) => void) | undefined;
  onOutput?: ((stream: 'stdout' | 'stderr', data: string) => void) | undefined;
  onExit?: ((exitCode: number) => void) | undefined;
  onError?: ((error: Error) => void) | undefined;
}

export interface ProcessRow {
  id: string;
  pid: number;
  status: 'running' | 'ended';
  command: string | string[];
  cwd: string;
  keepAwake: boolean;
  success?: boolean;
  exitCode?: number;
  signal?: number;
  reason?: EndReason;
  limitsHit?: string[];
  startedAt: string;
  endedAt: string | null;
}

export interface ProcessLogs {
  stdout: string;
  stderr: string;
  processId: string;
  /** The middle of it was given up for room. */
  truncated?: boolean;
}

export type LogEvent =
  | { type: 'stdout' | 'stderr'; data: string; processId: string; timestamp: string; bytes?: Uint8Array }
  | { type: 'gap'; stream: 'stdout' | 'stderr'; from: number; to: number; processId: string; timestamp: string }
  | ({ type: 'exit'; data: string; processId: string; timestamp: string } & ExecEnd);

export interface WaitForPortOptions {
  /** `http` waits until a request is answered with a good status, `tcp` until somebody listens. */
  mode?: 'http' | 'tcp' | undefined;
  path?: string | undefined;
  status?: number | { min: number; max: number } | undefined;
  /** Milliseconds; without an end unless given. */
  timeout?: number | undefined;
  interval?: number | undefined;
}

// -- files

export interface Done {
  success: boolean;
  path: string;
  timestamp: string;
}

export interface WriteOptions {
  encoding?: 'utf8' | 'utf-8' | 'base64' | undefined;
  /** Octal, such as "0755". */
  mode?: string | undefined;
  /** Only what has this etag is replaced; "*": only what is there. */
  ifMatch?: string | undefined;
  /** "*": only what is new is written. */
  ifNoneMatch?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface Written extends Done {
  size: number;
  etag: string;
  created: boolean;
}

export interface ReadOptions {
  encoding?: 'utf8' | 'utf-8' | 'base64' | 'bytes' | undefined;
  /** The first byte, from 0. */
  start?: number | undefined;
  /** The byte behind the last one. */
  end?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface FileEntry {
  name: string;
  path: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  mode: string;
  uid: number;
  gid: number;
  mtime: string;
  target?: string;
}

export interface FileInfo {
  name: string;
  absolutePath: string;
  relativePath: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  modifiedAt: string;
  mode: string;
  permissions: { readable: boolean; writable: boolean; executable: boolean };
}

export interface ListOptions {
  recursive?: boolean | undefined;
  includeHidden?: boolean | undefined;
}

export interface WatchOptions {
  recursive?: boolean | undefined;
  /** Globs on names: only these. */
  include?: string[] | undefined;
  /** Globs on names: not these. `.git`, `node_modules` and `.DS_Store` unless one of the two is given. */
  exclude?: string[] | undefined;
  signal?: AbortSignal | undefined;
}

export type WatchEvent =
  | { type: 'watching'; path: string; watchId: string }
  | { type: 'event'; eventType: 'create' | 'modify' | 'delete' | 'move_from' | 'move_to' | 'attrib'; path: string; isDirectory: boolean; cookie?: number; timestamp: string }
  /** More happened than could be told: look at all of it again. */
  | { type: 'overflow'; message: string; timestamp: string }
  | { type: 'stopped'; reason: string }
  | { type: 'error'; error: string };

// -- git

export interface GitCheckoutOptions {
  branch?: string | undefined;
  targetDir?: string | undefined;
  depth?: number | undefined;
  /** One of the sandbox's secrets, for a private repository. */
  secret?: string | undefined;
  timeout?: Duration | undefined;
  /** The same as `timeout`. */
  cloneTimeoutMs?: number | undefined;
  sessionId?: string | undefined;
}

export interface GitCheckoutResult {
  success: boolean;
  repoUrl: string;
  branch: string | null;
  targetDir: string;
  commit: string;
  duration: number;
  timestamp: string;
}

export interface GitStatus {
  path: string;
  branch: string | null;
  commit: string | null;
  upstream: string | null;
  ahead: number;
  behind: number;
  clean: boolean;
  files: Array<{ path: string; oldPath?: string; status: string; index: string; worktree: string }>;
  truncated: boolean;
}

export interface GitDiff {
  path: string;
  files: Array<{ path: string; status: string }>;
  diff: string;
  encoding?: 'base64';
  truncated: boolean;
}

// -- code

export interface ContextOptions {
  language?: string | undefined;
  id?: string | undefined;
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  /** The same as `env`. */
  envVars?: Record<string, string> | undefined;
  /** Of each cell that has none of its own; a minute unless given. */
  timeout?: Duration | undefined;
}

export interface CodeContext {
  id: string;
  language: string;
  cwd: string;
  createdAt: Date;
  lastUsed: Date;
  status: 'starting' | 'idle' | 'busy' | 'dead';
  executionCount: number;
  isDefault: boolean;
}

export interface CodeError {
  name: string;
  message: string;
  traceback: string[];
  lineNumber?: number | null;
}

export interface OutputMessage {
  text: string;
  timestamp: number;
}

export interface RunCodeOptions {
  /** Where it runs: a context, or its id. */
  context?: string | { readonly id: string } | undefined;
  /** Without a context: the default one of this language; python unless given. */
  language?: string | undefined;
  env?: Record<string, string> | undefined;
  /** The same as `env`. */
  envVars?: Record<string, string> | undefined;
  timeout?: Duration | undefined;
  /** Interrupts the cell. */
  signal?: AbortSignal | undefined;
  onStdout?: ((output: OutputMessage) => void) | undefined;
  onStderr?: ((output: OutputMessage) => void) | undefined;
  onResult?: ((result: CodeValue) => void) | undefined;
  onError?: ((error: CodeError) => void) | undefined;
  idempotencyKey?: string | undefined;
}

/** A value in every form that it has. */
export interface CodeForms {
  text?: string;
  html?: string;
  markdown?: string;
  svg?: string;
  latex?: string;
  javascript?: string;
  /** base64 */
  png?: string;
  /** base64 */
  jpeg?: string;
  json?: unknown;
  chart?: Record<string, unknown>;
  data?: Record<string, unknown>;
  metadata?: Record<string, unknown>;
}

export interface CodeValue extends CodeForms {
  /** The value of the last expression, or something that was displayed on the way. */
  type: 'result' | 'display';
  /** The names of the forms that it has. */
  formats(): string[];
}

export interface CodeEnd {
  success: boolean;
  reason: 'done' | 'error' | 'timeout' | 'interrupted' | 'exit' | 'signal' | 'killed' | 'oom' | 'box_lost' | 'protocol';
  duration: number;
  truncated?: boolean;
  /** The interpreter has ended, with all it knew. */
  contextDied?: boolean;
  message?: string;
}

export interface Execution extends CodeEnd {
  id: string;
  context: string | null;
  language: string;
  code: string;
  logs: { stdout: string[]; stderr: string[] };
  error?: CodeError;
  results: CodeValue[];
  executionCount: number | null;
}

export type CodeEvent =
  | { type: 'start'; id: string; context: string | null; language: string }
  | { type: 'stdout' | 'stderr'; text: string }
  | ({ type: 'result' | 'display' } & CodeForms)
  | { type: 'error'; ename: string; evalue: string; traceback: string[]; lineNumber: number | null }
  | ({ type: 'execution_complete'; execution_count: number | null } & CodeEnd);

// -- ports, state

export interface ExposedPort {
  url: string;
  port: number;
  name: string | null;
  token: string;
  /** The same under the API's own address. */
  path: string;
  status: 'active';
}

export interface Snapshot {
  id: string;
  name: string | null;
  bytes: number;
  createdAt: string;
}

export interface BackupOptions {
  /** The whole disk unless given. */
  dir?: string | undefined;
  name?: string | undefined;
  /** Seconds, or a text such as "7d"; it stays unless given. */
  ttl?: number | string | undefined;
  excludes?: string[] | undefined;
  gitignore?: boolean | undefined;
}

export interface Backup {
  id: string;
  sandboxId: string;
  kind: string;
  name: string | null;
  dir: string | null;
  size: number;
  sha256: string;
  createdAt: string;
  expiresAt: string | null;
}

export interface SyncOptions {
  include?: string[] | undefined;
  exclude?: string[] | undefined;
  gitignore?: boolean | undefined;
}

export interface SyncResult {
  files: number;
  bytes: number;
  put: number;
  putBytes: number;
  deleted: number;
  durationMs: number;
  warning?: string;
}

export type { Size };
