// SPDX-License-Identifier: Apache-2.0
// What a sandbox and a session of it can both do: commands, files, processes, code, and here git, backups and terminals.
import { Code } from './code.js';
import { idOf } from './commands.js';
import { newKey } from './http.js';
import { TerminalAddress } from './terminal.js';
import type { TerminalOptions } from './terminal.js';
import type { Backup, BackupOptions, GitCheckoutOptions, GitCheckoutResult, GitDiff, GitStatus } from './types.js';

export abstract class Surface extends Code {
  // -- git

  /** Clones a repository. `network` has to allow its host. */
  async gitCheckout(repoUrl: string, target: string | GitCheckoutOptions = {}): Promise<GitCheckoutResult> {
    const options = typeof target === 'string' ? { targetDir: target } : target;
    const { branch, depth, secret, targetDir } = options;
    const body = {
      repoUrl, branch, depth, secret,
      targetDir: targetDir === undefined ? undefined : await this.resolve(targetDir, options.sessionId),
      timeout: options.timeout ?? options.cloneTimeoutMs,
    };
    const answer = await this.link.json<GitCheckoutResult>('POST', '/git/checkout', { body, key: newKey() });
    return { ...answer, timestamp: new Date().toISOString() };
  }

  /** Branch and changed files of a repository; `path` may be any directory in it. */
  async gitStatus(path: string): Promise<GitStatus> {
    return await this.link.json('GET', '/git/status', { query: { path: await this.resolve(path) } });
  }

  /** All that is not committed, new files too, as one patch. */
  async gitDiff(path: string): Promise<GitDiff> {
    return await this.link.json('GET', '/git/diff', { query: { path: await this.resolve(path) } });
  }

  /** Commits all that is changed, or with `all: false` what is staged. */
  async gitCommit(path: string, message: string, options: { author?: { name: string; email: string }; all?: boolean } = {}): Promise<{ commit: string; branch: string | null }> {
    const body = { path: await this.resolve(path), message, ...options };
    return await this.link.json('POST', '/git/commit', { body, key: newKey() });
  }

  // -- backups

  /** An archive in the store, of a directory or of the whole disk. */
  async createBackup(options: BackupOptions = {}): Promise<Backup> {
    const body = { ...options, dir: options.dir === undefined ? undefined : await this.resolve(options.dir) };
    return await this.link.json('POST', '/backups', { body });
  }

  /** Puts a backup in the place of what is there. What runs in the sandbox ends. */
  async restoreBackup(backup: string | { readonly id: string; readonly dir?: string | null }): Promise<{ success: boolean; dir: string | null; id: string }> {
    const id = idOf(backup) as string;
    const dir = typeof backup === 'object' ? backup.dir ?? null : null;
    await this.link.json('POST', '/restore', { body: { backup: id, dir: dir ?? undefined } });
    return { success: true, dir, id };
  }

  // -- terminals

  /** A shell on a terminal that several may share, over a WebSocket: `url` and `protocols` for any client, `connect()` for this one. */
  async terminal(options: TerminalOptions = {}): Promise<TerminalAddress> {
    await this.link.ready();
    const session = idOf(options.session) ?? await this.ownSession();
    return new TerminalAddress(this.link.http, this.link.base, { ...options, session });
  }
}
