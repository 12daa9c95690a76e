# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client and programs that use it, outside of the build."""

import pathlib
import shutil
import subprocess

from api_helpers import CAY, TOP

SDK = TOP / "sdk" / "typescript"
TOOL = pathlib.Path(CAY).parent / "src" / "kernels" / "typescript-tool.js"
PATIENCE = 600  # seconds; only a hang gets that far


def strip(out, sources):
    command = ["node", TOP / "scripts" / "strip-types", TOOL, out, *sources]
    subprocess.run(command, check=True, timeout=PATIENCE)


def make_library(folder):
    shutil.copytree(SDK / "src", folder / "src")
    for name in ("package.json", "README.md"):
        shutil.copy(SDK / name, folder)
    strip(folder / "dist", sorted((SDK / "src").glob("*.ts")))
    return folder


def link_library(project, library):
    """So that programs in `project` find it."""
    (project / "node_modules" / "@cay").mkdir(parents=True, exist_ok=True)
    (project / "node_modules" / "@cay" / "sandbox").symlink_to(library)


def link_types(project, compiler):
    for name in ("@types", "undici-types"):
        (project / "node_modules" / name).symlink_to(compiler / "node_modules" / name)


def check_types(compiler, project, *flags):
    """Runs tsc over a project and returns its complaints."""
    command = ["node", compiler / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit", "--skipLibCheck", "-p", project, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.stdout + done.stderr


def run_node(env, *arguments, **options):
    return subprocess.run(["node", *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)


