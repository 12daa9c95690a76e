# SPDX-License-Identifier: Apache-2.0
"""The unmodified npm package @cloudflare/sandbox drives sandboxes of Cay, from Node: by its low-level client, and as a whole
with the class that else runs in a Durable Object. See the files *.test.mjs."""

import pytest
from conftest import HERE, names_in

FILES = sorted(HERE.glob("*.test.mjs"))


@pytest.mark.parametrize("path, name", [(path, name) for path in FILES for name in names_in(path)], ids=lambda x: getattr(x, "stem", x))
def test_in_node(run_file, path, name):
    results = run_file(path)
    assert name in results, f"{path.name} ended without it: {results[None]}"
    if results[name]["skipped"]:
        pytest.skip("node skipped it")
    assert results[name]["passed"], results[name]["said"]


@pytest.mark.parametrize("path", FILES, ids=lambda x: x.stem)
def test_all_are_cases(run_file, path):
    """None hides from the list above, and the file itself did not fail."""
    results = run_file(path)
    failed = [name for name, result in results.items() if name is not None and name not in names_in(path) and not result["passed"]]
    assert failed == [], results[None]
    assert set(results) - {None, str(path)} <= set(names_in(path)), results[None]
