# SPDX-License-Identifier: Apache-2.0
"""The launcher of npm's claude-code-templates (`--sandbox cloudflare`), the file as it is published, against `cay serve --auth
none`. The model is a stand-in. The whole program, of which it is the last step, is in test_whole.py."""

import json
import re
import subprocess
import urllib.request

LAUNCHER = "node_modules/claude-code-templates/cli-tool/components/sandbox/cloudflare/launcher.ts"
PATIENCE = 120


def launch(packages, project, port, prompt):
    """As the program starts it: prompt, components, key, where the server is, where files go."""
    command = [packages / "node_modules/.bin/tsx", packages / LAUNCHER, prompt, "", "a-key", f"http://localhost:{port}", project]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(project), "TMPDIR": str(project)}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def saved(project):
    return {path.name: path.read_text() for path in project.glob("cloudflare-*/*")}


def get(server, path):
    with urllib.request.urlopen(f"http://localhost:{server.port}{path}", timeout=PATIENCE) as answer:
        return json.load(answer)


def test_a_question(packages, project, server, model):
    done = launch(packages, project, server.port, "the answer, please [[code: print(6 * 7)]] [[fence]]")
    assert done.returncode == 0, done
    assert "Cloudflare Worker is available" in done.stdout and "Error:" not in done.stdout
    sandbox = re.search(r"Sandbox ID: (\S+)", done.stdout)[1]
    (row,) = [row for row in get(server, "/execute")["results"] if row["sandboxId"] == sandbox]
    answer = get(server, f"/execute/{row['request_id']}")
    assert (answer["success"], answer["code"].strip(), answer["output"]) == (True, "print(6 * 7)", "42\n")
    (asked,) = model.messages("the answer, please")
    assert "the answer, please" in json.dumps(asked["messages"]) and asked["max_tokens"] == 2048


def test_files_that_are_in_the_code(packages, project, server):
    code = 'page = """```html:index.html\n<h1>hi</h1>```"""\nprint(len(page))'
    done = launch(packages, project, server.port, f"a page [[code: {code}]]")
    assert done.returncode == 0, done
    assert saved(project) == {"index.html": "<h1>hi</h1>"}


def test_code_that_is_repaired(packages, project, server, model):
    done = launch(packages, project, server.port, "repair this [[code: 1/0]] [[then: code: print(1)]]")
    assert done.returncode == 0 and "Sandbox ID" in done.stdout, done
    assert len(model.messages("repair this")) == 2


def test_code_that_fails(packages, project, server):
    done = launch(packages, project, server.port, "fail [[code: 1/0]]")
    assert done.returncode == 1, done
    assert "Error:" in done.stdout and "ZeroDivisionError" in done.stdout
    assert saved(project) == {}


def test_a_refusal(packages, project, server):
    done = launch(packages, project, server.port, "refuse [[refusal]]")
    assert done.returncode == 1 and "Error:" in done.stdout, done


def test_a_model_that_fails(packages, project, server):
    done = launch(packages, project, server.port, "no key of ours [[status: 401]]")
    assert done.returncode == 1 and "Worker returned 401" in done.stdout and "AUTH_ERROR" in done.stdout, done


def test_without_a_key(packages, project, make_server):
    server = make_server("--auth", "none", ANTHROPIC_API_KEY="", ANTHROPIC_AUTH_TOKEN="")
    done = launch(packages, project, server.port, "anything")
    assert done.returncode == 1 and "Worker returned 503" in done.stdout and "MISSING_API_KEY" in done.stdout, done


def test_where_a_token_is_asked_for(packages, project, make_server, model):
    server = make_server()
    done = launch(packages, project, server.port, "not without a token")
    assert done.returncode == 1 and "Worker returned 401" in done.stdout, done
    assert model.messages("not without a token") == []
