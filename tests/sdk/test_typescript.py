# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client: its types by the real compiler, what it does by Node's own test runner, against a real server. Each
file of sdk/typescript/test is a case here; what failed in it is named."""

import json
import re
import shutil
import subprocess

import pytest
from api_helpers import TOP, Client, Server, kill_daemon
from typescript_helpers import PATIENCE, SDK, check_types, link_library, link_types, run_node, strip

FILES = sorted(path.name.removesuffix(".test.ts") for path in (SDK / "test").glob("*.test.ts"))


@pytest.fixture(scope="module")
def project(top, library):
    """A project that uses the client: its tests, with their JavaScript."""
    folder = top / "project"
    shutil.copytree(SDK / "test", folder / "test")
    strip(folder / "test", sorted((SDK / "test").glob("*.ts")))
    link_library(folder, library)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def failures(tap):
    """The names of the cases that failed, of Node's TAP."""
    return re.findall(r"^\s*not ok \d+ - (.*)", tap, re.M)


@pytest.mark.parametrize("name", FILES)
def test_against_a_server(project, env, name):
    done = run_node(env, "--experimental-websocket", "--test-reporter=tap", project / "test" / f"{name}.test.js", cwd=project)
    assert done.returncode == 0 and "\n# fail 0\n" in done.stdout, (failures(done.stdout), done.stdout[-6000:], done.stderr)
    assert re.search(r"^# pass [1-9]", done.stdout, re.M), done.stdout


PROGRAM = """\
import { getSandbox, FileNotFoundError } from '@cay/sandbox';
import type { ExecResult } from '@cay/sandbox';
const sandbox = getSandbox('x', { network: { allow: ['example.com'] }, sleepAfter: '5m' });
const result: ExecResult = await sandbox.exec('true');
const bytes: Uint8Array = await sandbox.readFile('/x', { encoding: 'bytes' });
// @ts-expect-error: it is a text
const text: number = await sandbox.readFile('/x');
// @ts-expect-error: there is no such option
getSandbox('x', { sleepAftr: '5m' });
const session = await sandbox.createSession();
await sandbox.exec('true', { session });
for await (const event of await sandbox.execStream('x')) if (event.type === 'complete') event.exitCode satisfies number;
export { result, bytes, text, FileNotFoundError };
"""


def write_config(folder, files, **options):
    """What a person who uses the client has in his project."""
    config = {"target": "ES2022", "module": "NodeNext", **options}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": config, "include": files}))


def test_types_of_the_client(compiler):
    """Where there is nothing but what browsers have."""
    assert check_types(compiler, SDK) == ""


def test_types_in_a_strict_project(compiler, project):
    """Where there is Node and nothing of browsers: the tests themselves."""
    strict = json.loads((SDK / "tsconfig.json").read_text())["compilerOptions"]
    write_config(project, ["*.ts", "test/*.ts"], **strict | {"lib": ["ES2023"], "types": ["node"]})
    (project / "main.ts").write_text(PROGRAM)
    link_types(project, compiler)
    assert check_types(compiler, project) == ""


def test_types_in_an_easy_project(compiler, library, tmp_path):
    """Where a bundler is used, and hardly anything is checked."""
    write_config(tmp_path, ["*.ts"], lib=["ES2022", "DOM"], types=[], module="ESNext", moduleResolution="Bundler")
    (tmp_path / "main.ts").write_text(PROGRAM)
    link_library(tmp_path, library)
    assert check_types(compiler, tmp_path) == ""


WEB_ONLY = """
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
const names = ['fetch', 'Response', 'Request', 'Headers', 'ReadableStream', 'TextEncoder', 'TextDecoder', 'URL', 'Blob', 'AbortController',
  'AbortSignal', 'DOMException', 'crypto', 'atob', 'btoa', 'setTimeout', 'clearTimeout'];
const context = vm.createContext({ ...Object.fromEntries(names.map((name) => [name, globalThis[name]])), log: console.log });
const modules = new Map();
function load(file, from = '') {
  const name = path.join(from, file);
  if (!modules.has(name)) modules.set(name, new vm.SourceTextModule(fs.readFileSync(name, 'utf8'), { context, identifier: name }));
  return modules.get(name);
}
const program = new vm.SourceTextModule(`
  import { getSandbox } from './node_modules/@cay/sandbox/dist/index.js';
  const sandbox = getSandbox('bare-' + Math.random(), ${JSON.stringify({ url: process.env.CAY_URL, token: process.env.CAY_TOKEN })});
  await sandbox.writeFile('a', new Uint8Array([104, 105]));
  log((await sandbox.exec('cat a', { stream: true })).stdout, await sandbox.readFile('a', { encoding: 'base64' }));
  await sandbox.destroy();
`, { context, identifier: './main.js' });
await program.link((file, { identifier }) => load(file, path.dirname(identifier)));
await program.evaluate();
"""


CLASSES = """
import { CayError, getSandbox } from '@cay/sandbox';
const [codes] = process.argv.slice(2).map(JSON.parse);
for (const [status, code] of codes) {
  const answer = () => Promise.resolve(Response.json({ error: 'words', error_code: code, request_id: 'r-1' }, { status }));
  const error = await getSandbox('x', { url: 'http://127.0.0.1:9', fetch: answer, retries: 0 }).info().catch((thrown) => thrown);
  console.log(JSON.stringify([status, code, error instanceof CayError, error.name, error.message, error.status, error.code, error.requestId]));
}
"""


def test_every_code_has_a_class(project, env):
    """Those of ERRORS.md."""
    table = (TOP / "docs" / "ERRORS.md").read_text().split("## Over HTTP")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d, ]+) \| `(\w+)` \|", table, re.M)
    codes = [(int(status), code) for statuses, code in rows for status in statuses.split(",")]
    assert len(codes) > 50
    (project / "classes.mjs").write_text(CLASSES)
    said = run_node(env, "classes.mjs", json.dumps(codes), cwd=project).stdout.splitlines()
    for (status, code), line in zip(codes, map(json.loads, said), strict=True):
        name = line.pop(3)
        assert line == [status, code, True, "words", status, code, "r-1"]
        if status not in (405, 410, 415, 416, 417, 421, 426) or code == "SESSION_TERMINATED":
            assert name != "CayError", line


def test_with_what_browsers_have(project, env):
    """And nothing else: no `process`, no `Buffer`."""
    (project / "web.mjs").write_text(WEB_ONLY)
    done = run_node(env, "--experimental-vm-modules", "--no-warnings", "web.mjs", cwd=project)
    assert (done.returncode, done.stdout) == (0, "hi aGk=\n"), done


SURVIVOR = """
import { getSandbox } from '@cay/sandbox';
const sandbox = getSandbox('survivor');
const process_ = await sandbox.startProcess('echo one; until [ -e go ]; do sleep 0.05; done; echo two');
let text = '';
const told = (async () => { for await (const event of await process_.streamLogs()) text += event.type === 'stdout' ? event.data : event.type; })();
let gathered = '';
for await (const event of await sandbox.execStream('echo one; until [ -e go ]; do sleep 0.05; done; echo two')) {
  gathered += event.type === 'stdout' ? event.data : '';
  if (event.data !== 'one\\n') continue;
  console.log('begun');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  await sandbox.writeFile('go', '');
}
await told;
console.log(JSON.stringify([gathered, text]));
process.exit();
"""


def test_a_daemon_that_is_killed(project, env, top):
    """Its boxes go on, and so do the streams that tell of them."""
    data = top / "survivor"
    data.mkdir()
    server = Server(data)
    (project / "survivor.mjs").write_text(SURVIVOR)
    environment = {**env, "CAY_URL": f"http://127.0.0.1:{server.port}"}
    program = subprocess.Popen(["node", "survivor.mjs"], cwd=project, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "begun\n"
        kill_daemon(server, Client(server))
        said, _ = program.communicate("go on\n", timeout=PATIENCE)
        assert json.loads(said) == ["one\ntwo\n", "one\ntwo\nexit"]
    finally:
        program.kill()
        program.wait()
        assert server.stop() == 0


def test_nothing_of_node_in_it():
    """Browsers load it, too."""
    for path in (SDK / "src").glob("*.ts"):
        assert not re.search(r"""from ['"](?!\./)|require\(|\bBuffer\b""", path.read_text()), path
    assert "dependencies" not in json.loads((SDK / "package.json").read_text())
