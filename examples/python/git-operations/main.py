# SPDX-License-Identifier: Apache-2.0
"""Clones a repository, changes something, shows the difference and commits it. Nothing is pushed.

    python3 main.py
    REPO_URL=https://github.com/you/project.git python3 main.py

A private repository takes a secret, which never gets into the sandbox (`cay secret set`, then secrets=["NAME"] and
git_checkout(..., secret="NAME")).
"""

import os
from urllib.parse import urlsplit

import cay

REPO_URL = os.environ.get("REPO_URL", "https://github.com/octocat/Hello-World.git")
REPO = "/workspace/repo"

# A sandbox reaches nothing by itself: git needs its host.
host = urlsplit(REPO_URL).netloc.rpartition("@")[2]  # without a password
with cay.get_sandbox(network={"allow": [host]}) as box:
    clone = box.git_checkout(REPO_URL, REPO, depth=1)
    print(f"cloned {clone.branch} at {clone.commit[:10]}")
    print("files:", ", ".join(entry.name for entry in box.list_files(REPO)))

    box.write_file(f"{REPO}/NOTES.md", "# Notes\n\nWritten in a sandbox.\n")
    for file in box.git_status(REPO).files:
        print(f"{file.status}: {file.path}")
    print(box.git_diff(REPO).diff)

    commit = box.git_commit("Add notes", REPO, author={"name": "Ada", "email": "ada@example.com"})
    print(f"committed {commit.commit[:10]}; {box.git_status(REPO).ahead} ahead of {clone.branch}")
    print(box.exec("git log --oneline -1 --format='%an: %s'", cwd=REPO, check=True).stdout, end="")
