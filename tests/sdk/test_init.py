# SPDX-License-Identifier: Apache-2.0
"""`cay init`: what it copies, and what it never does. That the copies run is in test_examples.py and test_python_examples.py."""

import os
import pathlib
import subprocess

import pytest
from api_helpers import CAY, TOP

EXAMPLES = TOP / "examples"
FAILED, USAGE = 125, 2


def init(*args, cwd, code=0):
    done = subprocess.run([CAY, "init", *args], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


def templates(language):
    return sorted(path.name for path in (EXAMPLES / language).iterdir() if path.is_dir())


def files(folder):
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def test_the_list(tmp_path, node):
    names = init("-q", cwd=tmp_path).split()
    assert sorted(names) == templates("typescript") == templates("python")
    told = {line.split()[0]: line for line in init(cwd=tmp_path).splitlines() if line.startswith("  ")}
    assert list(told) == names
    for name, line in told.items():
        assert len(line) > len(name) + 10 and line.endswith("(typescript, python)"), line
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", templates("typescript"))
def test_typescript(tmp_path, node, name):
    assert f"cd {name} && " in init(name, cwd=tmp_path)
    made = tmp_path / name
    for path in (EXAMPLES / "typescript" / name).iterdir():
        assert (made / path.name).read_bytes() == path.read_bytes()
        if path.suffix == ".ts":
            assert (made / path.with_suffix(".js").name).stat().st_size > 0
    library = made / "node_modules" / "@cay" / "sandbox"
    assert library.resolve() == (made / "cay-sandbox").resolve() and not os.readlink(library).startswith("/")
    sources = {path.stem for path in (TOP / "sdk" / "typescript" / "src").glob("*.ts")}
    assert {path.stem for path in (library / "dist").glob("*.js")} == {path.stem for path in (library / "src").glob("*.ts")} == sources
    assert (made / ".gitignore").read_text() == "node_modules\n"


@pytest.mark.parametrize("name", templates("python"))
def test_python(tmp_path, name):
    assert f"cd {name} && " in init(name, "--language", "python", cwd=tmp_path)
    made = files(tmp_path / name)
    wanted = {f"cay/{path}": file for path, file in files(TOP / "sdk" / "python" / "cay").items() if "__pycache__" not in path}
    wanted |= {"README.md": EXAMPLES / "python" / "README.md"}
    wanted |= {path: file for path, file in files(EXAMPLES / "python" / name).items() if "__pycache__" not in path}
    assert set(made) == set(wanted)
    for path, file in wanted.items():
        assert made[path].read_bytes() == file.read_bytes(), path


def test_npm_keeps_the_library(tmp_path, node):
    """What somebody who adds packages does next; offline, and without the compiler."""
    init("basic-executor", ".", cwd=tmp_path)
    command = ["npm", "install", "--offline", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "npm_config_cache": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (tmp_path / "node_modules" / "@cay" / "sandbox" / "dist" / "index.js").exists(), done


def test_nothing_is_overwritten(tmp_path, node):
    here = tmp_path / "here"
    here.mkdir()
    (here / "tsconfig.json").write_text("mine")
    said = init("basic-executor", "here", cwd=tmp_path, code=FAILED)
    assert "'tsconfig.json' is there already" in said and "another DIR" in said
    assert os.listdir(here) == ["tsconfig.json"] and (here / "tsconfig.json").read_text() == "mine"
    (here / "tsconfig.json").unlink()
    (here / "notes").write_text("mine")  # this one is in nobody's way
    assert init("basic-executor", ".", cwd=here).endswith("  node main.js\n")
    before = {path: file.read_bytes() for path, file in files(here).items()}
    init("chat-agent", "here", cwd=tmp_path, code=FAILED)
    assert {path: file.read_bytes() for path, file in files(here).items()} == before


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "main.py").symlink_to(tmp_path / "elsewhere" / "main.py")
    assert "'main.py' is there already" in init("ci-cd", "here", "-l", "python", cwd=tmp_path, code=FAILED)
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    "args, code, words",
    [
        (["basic-exec"], USAGE, "did you mean 'basic-executor'"),
        (["nonsense"], USAGE, "'cay init' lists them"),
        (["sdk", "-l", "python"], USAGE, "no template 'sdk'"),
        (["common", "-l", "python"], USAGE, "no template 'common'"),
        ([""], USAGE, "no template ''"),
        (["../x"], USAGE, "no template '../x'"),
        (["ci-cd", "a", "b"], USAGE, "all that it takes"),
        (["ci-cd", "-l", "cobol"], USAGE, "none of typescript and python"),
        (["ci-cd", "a/b/c", "-l", "python"], FAILED, "make 'a/b/c'"),
        (["ci-cd", "/dev/null", "-l", "python"], FAILED, "open '/dev/null'"),
    ],
)
def test_what_makes_no_sense(tmp_path, args, code, words):
    assert words in init(*args, cwd=tmp_path, code=code)
    assert os.listdir(tmp_path) == []


def test_templates_are_completed():
    script = 'source <("$1" completion bash); compopt() { :; }; COMP_WORDS=("$1" init cha); COMP_CWORD=2; _cay; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", CAY], capture_output=True, text=True, check=True)
    assert done.stdout == "chat-agent\n"


def test_without_node_there_is_no_typescript(tmp_path):
    """And the build says so, and goes on."""
    (tmp_path / "tool.js").write_text("")
    sources = [TOP / "examples/templates", TOP / "examples/typescript/ci-cd/main.ts", TOP / "examples/python/ci-cd/main.py"]
    command = ["/usr/bin/python3", TOP / "scripts/bundle-templates", tmp_path / "out", tmp_path, TOP, tmp_path / "tool.js", *sources]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stderr == "'cay init' will have no TypeScript: there is no node\n"
    bundle = (tmp_path / "out").read_text()
    assert "python/ci-cd/main.py " in bundle and "typescript/" not in bundle
    assert "getSandbox" not in bundle


def test_nothing_is_left_out():
    """What is in the tree and not in the lists of Meson is not in the program."""
    listed = (TOP / "sdk" / "meson.build").read_text() + (EXAMPLES / "meson.build").read_text()
    ours = [path.relative_to(TOP / "sdk") for part in ("typescript/src", "python/cay") for path in (TOP / "sdk" / part).iterdir()]
    ours += [path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file() and path.name != "meson.build"]
    for path in map(pathlib.Path, ours):
        assert "__pycache__" in str(path) or f"'{path}'" in listed, path
