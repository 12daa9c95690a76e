// SPDX-License-Identifier: Apache-2.0
// How Node finds the modules of a program that was written for Workers: `cloudflare:*` is ours (workers.mjs), and a relative
// import without its ending gets one, as a bundler would do it.

const WORKERS = new URL("./workers.mjs", import.meta.url).href;
let from; // register.mjs says what it is

export function initialize(data) {
  from = data.from;
}

function isMissing(error) {
  return error.code === "ERR_MODULE_NOT_FOUND" || error.code === "ERR_UNSUPPORTED_DIR_IMPORT";
}

function* otherWays(specifier, context) {
  if (specifier.startsWith("./") || specifier.startsWith("../")) yield [`${specifier}.js`, context];
  else if (!specifier.includes(":")) yield [specifier, { ...context, parentURL: from }];
}

export async function resolve(specifier, context, next) {
  if (specifier.startsWith("cloudflare:")) return { url: WORKERS, shortCircuit: true };
  try {
    return await next(specifier, context);
  } catch (error) {
    if (isMissing(error)) for (const way of otherWays(specifier, context)) return next(...way);
    throw error;
  }
}
