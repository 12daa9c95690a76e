# SPDX-License-Identifier: Apache-2.0
"""The launcher's client, claude-code-templates, and what it runs."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import npm_packages  # noqa: E402
from npm_packages import Missing  # noqa: E402, F401


def folder():
    """Where node_modules is. Raises Missing."""
    return npm_packages.folder(HERE, "clients")
