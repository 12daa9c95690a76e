// SPDX-License-Identifier: Apache-2.0
// Cay's client: `getSandbox(id)` first.
export { getSandbox, listSandboxes, Sandbox } from './sandbox.js';
export { ExecutionSession } from './session.js';
export { Process } from './process.js';
export { Terminal, TerminalAddress } from './terminal.js';
export { EventStream } from './stream.js';
export { asyncIterableToSSEStream, parseSSEStream } from './sse.js';
export * from './errors.js';
export type { Command } from './commands.js';
export type { Content } from './files.js';
export type { ClientOptions } from './http.js';
export type { ProcessRef } from './processes.js';
export type { Limits, Network, SandboxOptions, Seconds, Settings } from './settings.js';
export type { TerminalExit, TerminalOptions, WebSocketClass, WebSocketLike } from './terminal.js';
export type * from './types.js';
