# SPDX-License-Identifier: Apache-2.0
"""The pages about the API name all there is: every route, every error code."""

import re

import pytest
from api_helpers import TOP


def page(name):
    return (TOP / "docs" / name).read_text(encoding="utf-8")


def listed_routes():
    """(path, method) of the table at the end of API.md. Cells name several paths that share what is before a ':' or '/'."""
    section = page("API.md").split("## All routes")[1]
    found = {("/", "get"), ("/health", "get"), ("/openapi.json", "get"), ("/stats", "get")}
    assert all(f"`GET {path}`" in section for path, _ in found)
    for paths, methods in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.MULTILINE):
        names = re.findall(r"`([^`]+)`", paths)
        groups = [group.split(", ") for group in methods.strip().split("; ")]
        groups *= len(names) if len(groups) == 1 else 1
        assert len(groups) == len(names), paths
        for name, group in zip(names, groups, strict=True):
            if name.startswith(":"):
                name = names[0].split(":")[0] + name
            elif names[0].startswith("/processes/{pid}/"):
                name = "/processes/{pid}/" + name.split("/")[-1]
            top = name.split("/")[1] in {"sandbox", "execute", "agents", "usage", "secrets", "tokens", "tenants", "metrics", "backups", "du"}
            all_methods = ["GET", "POST", "PUT", "PATCH", "DELETE"] if group == ["any"] else group
            found |= {(name if top else f"/sandbox/{{id}}{name}", method.lower()) for method in all_methods}
    return found


def test_every_route(api):
    spec = api.ok("GET", "/openapi.json")
    assert listed_routes() == {(path, method) for path, methods in spec["paths"].items() for method in methods}


CODES = re.findall(r'\{(\d{3}),\s*"([A-Z_]+)"', (TOP / "src" / "edge" / "error.c").read_text())


@pytest.mark.parametrize("status,code", CODES)
def test_every_error(status, code):
    assert len(CODES) > 30
    assert re.search(rf"^\| {status} \| `{code}` \| ", page("ERRORS.md"), re.MULTILINE)
    assert re.search(rf"^\|[^|]*\b{status}\b[^|]*\|[^|]*\b{code}\b", page("API.md"), re.MULTILINE)


def codes_of_agents():
    """Those that tasks, questions and OpenCode answer with, and that have no place in the table of errors."""
    found = set()
    for path in (TOP / "src" / "agents").glob("*.c"):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'(?:failure_set|set_failure)\(\s*&?\w+,\s*(\d{3}),\s*"([A-Z_]+)"', text))
        found |= set(re.findall(r'\{(?:\d{3}, +)?(\d{3}), +"([A-Z_]+)" *[,}]', text))
    return sorted(found - set(CODES))


@pytest.mark.parametrize("status,code", codes_of_agents())
def test_every_error_of_agents(status, code):
    assert re.search(rf"^\| [^|]*\b{status}\b[^|]* \| `{code}` \| ", page("ERRORS.md"), re.MULTILINE)
    assert re.search(rf"^\|[^|]*\b{status}\b[^|]*\|[^|]*\b{code}\b", page("API.md"), re.MULTILINE)


def test_no_other_error():
    """What the table has is answered with."""
    section = page("ERRORS.md").split("## Over HTTP")[1].split("\n## ")[0]
    listed = {
        (status, code)
        for statuses, code in re.findall(r"^\| ([\d, ]+) \| `([A-Z_]+)` \|", section, re.MULTILINE)
        for status in statuses.split(", ")
    }
    assert listed == set(CODES) | set(codes_of_agents())
