// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox: bytes in and out, directories, and what changes.
import { fromBase64, join, toBase64, toText } from './bytes.js';
import { Commands } from './commands.js';
import { FileNotFoundError, NotDirectoryError, StreamInterruptedError } from './errors.js';
import type { Bytes, Call } from './http.js';
import { encodePath } from './path.js';
import { chunksOf } from './sse.js';
import { openStream } from './stream.js';
import type { EventStream } from './stream.js';
import type { Done, FileEntry, FileInfo, ListOptions, ReadOptions, WatchEvent, WatchOptions, WriteOptions, Written } from './types.js';
import { check } from './wait.js';

/** What a file can be written from. */
export type Content = Bytes;

const PAGE = 10_000; // entries of a listing, as many as the server gives at once
const NOT_WATCHED = ['.git', 'node_modules', '.DS_Store'];
const READS = 5; // of one file, without a byte in between

function now(): string {
  return new Date().toISOString();
}

// "0644" as `ls` shows it, without the type.
function symbolic(mode: string): string {
  const bits = parseInt(mode, 8);
  return Array.from('rwxrwxrwx', (char, i) => (bits & (1 << (8 - i)) ? char : '-')).join('');
}

function infoOf(entry: FileEntry, top: string): FileInfo {
  const mode = symbolic(entry.mode);
  return {
    name: entry.name,
    absolutePath: entry.path,
    relativePath: entry.path.slice(top === '/' ? 1 : top.length + 1),
    type: entry.type,
    size: entry.size,
    modifiedAt: entry.mtime,
    mode,
    permissions: { readable: mode[0] === 'r', writable: mode[1] === 'w', executable: mode[2] === 'x' },
  };
}

// The range of an answer has at least one byte.
function isNothing({ start = 0, end }: ReadOptions): boolean {
  return end !== undefined && end <= start;
}

function rangeOf({ start = 0, end }: ReadOptions): string | undefined {
  if (start === 0 && end === undefined) return undefined;
  return `bytes=${start}-${end === undefined ? '' : end - 1}`;
}

export abstract class Files extends Commands {
  /** Gives a file new content, all at once; directories above it are made. */
  async writeFile(path: string, content: Content, options: WriteOptions = {}): Promise<Written> {
    const headers: Record<string, string> = { 'content-type': 'application/octet-stream' };
    if (options.ifMatch !== undefined) headers['if-match'] = options.ifMatch;
    if (options.ifNoneMatch !== undefined) headers['if-none-match'] = options.ifNoneMatch;
    const bytes = typeof content === 'string' && options.encoding === 'base64' ? fromBase64(content) : content;
    const conditional = options.ifMatch !== undefined || options.ifNoneMatch !== undefined; // done twice it would fail
    const answer = await this.link.json<Written>('PUT', await this.#url(path), {
      bytes, headers, query: { mode: options.mode }, signal: options.signal, repeatable: !conditional,
    });
    return { ...answer, timestamp: now() };
  }

  /** What is in a file: a text, or with `encoding: 'bytes'` a Uint8Array. What is not UTF-8 is U+FFFD in a text. */
  readFile(path: string, options: ReadOptions & { encoding: 'bytes' }): Promise<Uint8Array>;
  readFile(path: string, options?: ReadOptions): Promise<string>;
  async readFile(path: string, options: ReadOptions = {}): Promise<string | Uint8Array> {
    if (isNothing(options)) return options.encoding === 'bytes' ? new Uint8Array() : '';
    const range = rangeOf(options);
    const call: Call = { signal: options.signal, ...(range !== undefined && { headers: { range } }) };
    const url = this.link.base + await this.#url(path);
    const bytes = new Uint8Array(await this.link.use(call, () => this.link.http.send('GET', url, call, (response) => response.arrayBuffer())));
    if (options.encoding === 'bytes') return bytes;
    return options.encoding === 'base64' ? toBase64(bytes) : toText(bytes);
  }

  /** The bytes of a file as they come, for one that is too large for memory. It fails when the file is changed meanwhile. */
  async readFileStream(path: string, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
    if (isNothing(options)) return new Blob([]).stream();
    const url = this.link.base + await this.#url(path);
    const chunks = await openStream((signal) => this.#chunks(url, { ...options, signal }), options.signal); // one that is not there fails here
    return chunks.readable;
  }

  // Over as many connections as it takes: behind what has come, as long as it is the same file.
  async *#chunks(url: string, options: ReadOptions): AsyncGenerator<Uint8Array> {
    let at = options.start ?? 0;
    let etag: string | null = null;
    for (let broken = 0; ; broken++) {
      let cause: unknown;
      const range = rangeOf({ start: at, end: options.end });
      const headers = { ...(range !== undefined && { range }), ...(etag !== null && { 'if-match': etag }) };
      const call: Call = { headers, signal: options.signal };
      const response: Response = await this.link.use(call, () => this.link.http.send('GET', url, call, (answer) => answer));
      etag = response.headers.get('etag');
      const left = Number(response.headers.get('content-length') ?? NaN);
      const end: number = at + left;
      try {
        for await (const chunk of chunksOf(response.body)) {
          at += chunk.length;
          broken = -1;
          yield chunk;
        }
        if (Number.isNaN(left) || at === end) return;
      } catch (error) {
        check(options.signal);
        cause = error;
      }
      if (broken >= READS) throw new StreamInterruptedError(`the connection broke ${READS} times while a file was read`, { code: 'STREAM_INTERRUPTED', cause });
    }
  }

  async mkdir(path: string, options: { recursive?: boolean; mode?: string } = {}): Promise<Done & { recursive: boolean }> {
    const recursive = options.recursive ?? false;
    const body = { path: await this.resolve(path), parents: recursive, mode: options.mode };
    const answer = await this.link.json<Done>('POST', '/files:mkdir', { body, repeatable: recursive });
    return { ...answer, recursive, timestamp: now() };
  }

  /** The names in a directory. */
  async readdir(path: string): Promise<string[]> {
    const names: string[] = [];
    for await (const entry of this.#entries(await this.resolve(path), { includeHidden: true })) names.push(entry.name);
    return names;
  }

  async listFiles(path: string, options: ListOptions = {}): Promise<Done & { files: FileInfo[]; count: number }> {
    const top = await this.resolve(path);
    const files: FileInfo[] = [];
    for await (const entry of this.#entries(top, options)) files.push(infoOf(entry, top));
    return { success: true, path: top, files, count: files.length, timestamp: now() };
  }

  async *#entries(top: string, options: ListOptions): AsyncGenerator<FileEntry> {
    let after: string | undefined;
    do {
      const query = { list: 1, recursive: options.recursive, hidden: options.includeHidden, limit: PAGE, after };
      const page = await this.link.json<{ entries: FileEntry[]; next?: string }>('GET', `/files${encodePath(top)}`, { query });
      yield* page.entries;
      after = page.next;
    } while (after !== undefined);
  }

  /** What a path is; of a link the link itself. */
  async stat(path: string): Promise<FileEntry & { etag: string }> {
    return await this.link.json('GET', await this.#url(path), { query: { stat: 1 } });
  }

  async exists(path: string): Promise<Done & { exists: boolean }> {
    const absolutePath = await this.resolve(path);
    let exists = true;
    try {
      await this.stat(absolutePath);
    } catch (error) {
      if (!(error instanceof FileNotFoundError || error instanceof NotDirectoryError)) throw error;
      exists = false;
    }
    return { success: true, path: absolutePath, exists, timestamp: now() };
  }

  /** A file, a link or an empty directory; with `recursive` whatever there is. */
  async deleteFile(path: string, options: { recursive?: boolean } = {}): Promise<Done> {
    const absolutePath = await this.resolve(path);
    await this.link.json('DELETE', `/files${encodePath(absolutePath)}`, { query: { recursive: options.recursive } });
    return { success: true, path: absolutePath, timestamp: now() };
  }

  /** What is at the new path is replaced, unless `replace` is false. */
  async renameFile(from: string, to: string, options: { replace?: boolean } = {}): Promise<Done & { newPath: string }> {
    return await this.#move('move', from, to, options);
  }

  async moveFile(from: string, to: string, options: { replace?: boolean } = {}): Promise<Done & { newPath: string }> {
    return await this.#move('move', from, to, options);
  }

  /** A file, or a directory with all in it. */
  async copyFile(from: string, to: string, options: { replace?: boolean } = {}): Promise<Done & { newPath: string }> {
    return await this.#move('copy', from, to, options);
  }

  async #move(what: 'move' | 'copy', from: string, to: string, { replace = true }: { replace?: boolean }): Promise<Done & { newPath: string }> {
    const body = { from: await this.resolve(from), to: await this.resolve(to), replace };
    await this.link.json('POST', `/files:${what}`, { body, repeatable: what === 'copy' && replace });
    return { success: true, path: body.from, newPath: body.to, timestamp: now() };
  }

  async chmod(path: string, mode: string): Promise<Done> {
    const body = { path: await this.resolve(path), mode };
    return { ...await this.link.json<Done>('POST', '/files:chmod', { body, repeatable: true }), timestamp: now() };
  }

  /** A directory as a tar archive. */
  async readArchive(path: string): Promise<Uint8Array> {
    const call: Call = { query: { path: await this.resolve(path) } };
    const url = `${this.link.base}/archive`;
    const pieces = await this.link.use(call, () => this.link.http.send('GET', url, call, async ({ body }) => {
      const all: Uint8Array[] = [];
      for await (const chunk of chunksOf(body)) all.push(chunk);
      return all;
    }));
    return join(pieces);
  }

  /** Unpacks a tar archive that is not compressed into a directory. */
  async writeArchive(path: string, archive: Exclude<Content, string>): Promise<{ entries: number; bytes: number }> {
    const query = { path: await this.resolve(path) };
    return await this.link.json('PUT', '/archive', { query, bytes: archive, headers: { 'content-type': 'application/x-tar' } });
  }

  /** What changes below a path, from when this resolves on. A watch that breaks throws: look at all of it again then. */
  async watch(path: string, options: WatchOptions = {}): Promise<EventStream<WatchEvent>> {
    const exclude = options.exclude ?? (options.include === undefined ? NOT_WATCHED : undefined);
    const query = { path: await this.resolve(path), recursive: options.recursive, include: options.include?.join(','), exclude: exclude?.join(',') };
    const following = { method: 'GET', path: '/watch', call: { query }, last: new Set<string>(), what: 'what was watched', resumable: false };
    return await openStream((stopped) => this.#watched(following, stopped), options.signal);
  }

  async *#watched(following: Parameters<Files['link']['follow']>[0], stopped: AbortSignal): AsyncGenerator<WatchEvent> {
    for await (const { data } of this.link.follow(following, stopped)) {
      const event = JSON.parse(data) as WatchEvent;
      yield event;
      if (event.type === 'stopped') return;
    }
  }

  async #url(path: string): Promise<string> {
    return `/files${encodePath(await this.resolve(path))}`;
  }
}
