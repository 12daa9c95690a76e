// SPDX-License-Identifier: Apache-2.0
// Paths in a sandbox. The server takes one writing of each; people have several.

/** Where a path without a slash at its beginning begins, and commands do. */
export const HOME = '/workspace';

/** The absolute path without '.', '..', '//' and a slash at its end. */
export function absolute(path: string, base: string = HOME): string {
  const parts: string[] = [];
  for (const part of (path.startsWith('/') ? path : `${base}/${path}`).split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}

/** As a part of a URL, behind `/files`. */
export function encodePath(path: string): string {
  return path === '/' ? '' : path.split('/').map(encodeURIComponent).join('/');
}
