// SPDX-License-Identifier: Apache-2.0
// A line of JSON for each test that is over.

function said(error) {
  const cause = error?.cause ?? error;
  return cause?.stack ?? String(cause ?? "");
}

export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    if (data.nesting > 0 || data.details?.type === "suite") continue;
    const skipped = data.skip !== undefined;
    yield `${JSON.stringify({ name: data.name, passed: type === "test:pass", skipped, said: said(data.details?.error) })}\n`;
  }
}
