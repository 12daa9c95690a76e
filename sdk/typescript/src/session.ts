// SPDX-License-Identifier: Apache-2.0
// A session: a shell that stays, with its directory and variables.
import type { Link } from './link.js';
import { Surface } from './surface.js';
import type { Duration, SessionInfo } from './types.js';

/**
 * What a sandbox can do, done in one session: commands run in its shell, relative paths begin in its directory. Goes
 * wherever a session's id goes: as text and as JSON it is the id.
 */
export class ExecutionSession extends Surface {
  readonly id: string;

  constructor(link: Link, id: string, commandTimeout?: Duration) {
    super(link);
    this.id = id;
    this.commandTimeout = commandTimeout;
  }

  protected override ownSession(): Promise<string | undefined> {
    return Promise.resolve(this.id);
  }

  /** Its directory, and whether its shell runs. */
  async info(): Promise<SessionInfo> {
    const answer = await this.link.json<{ session: SessionInfo }>('GET', `/sessions/${encodeURIComponent(this.id)}`, { make: 'never' });
    return answer.session;
  }

  /** Variables of its shell, from now on; undefined unsets one. */
  async setEnvVars(variables: Record<string, string | undefined>): Promise<void> {
    await setInShell(this, variables);
  }

  override toString(): string {
    return this.id;
  }

  toJSON(): string {
    return this.id;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Exports and unsets variables in the shell of `where`. */
export async function setInShell(where: Surface, variables: Record<string, string | undefined>, session?: string): Promise<void> {
  const words = Object.entries(variables).map(([name, value]) => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new TypeError(`'${name}' is no name of a variable: letters, digits and '_', not with a digit first`);
    return value === undefined ? `unset ${name}` : `export ${name}=${quoted(value)}`;
  });
  if (words.length > 0) await where.exec(words.join('\n'), { session });
}
