// SPDX-License-Identifier: Apache-2.0
// `node --import @cay/cloudflare/register app.mjs`: from then on `@cloudflare/sandbox` can be imported.

import { register } from "node:module";
import { pathToFileURL } from "node:url";
import "./globals.mjs";

// Where packages are looked for that are not beside whoever imports them: a directory with node_modules in it. A linked
// package, as ours may be, has none beside it.
const from = pathToFileURL(`${process.env.CAY_NODE_MODULES ?? process.cwd()}/x.mjs`).href;

register("./hooks.mjs", import.meta.url, { data: { from } });
