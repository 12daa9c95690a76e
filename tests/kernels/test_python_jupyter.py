# SPDX-License-Identifier: Apache-2.0
"""Ten notebooks, through our kernel and through Jupyter's: what they show is the same."""

import pathlib
import re

import pytest
from python_kernel import Kernel

NOTEBOOKS = sorted((pathlib.Path(__file__).parent / "notebooks").glob("*.py"))
jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")

# Where we mean to differ: (notebook, part of the cell): what is not compared, and why.
DIFFERENCES = {
    ("errors", "import sys\nsys.exit"): {"stderr"},  # theirs says how to leave IPython
    ("magics", "%%bash\nexit 4"): {"message"},  # theirs holds the bytes of the script
    ("magics", "%nosuch"): {"stderr"},  # theirs prints the error as well
    ("magics", "%%nosuch"): {"stderr"},
    ("magics", "%%time"): {"stdout"},  # figures
}


def cells(path):
    return [cell.strip("\n") for cell in re.split(r"^# %%\n", path.read_text(), flags=re.M)]


def same(text):
    """Without what differs from run to run: addresses, files of cells, process ids."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text).replace("\r\n", "\n")  # theirs gives commands a terminal
    text = re.sub(r"(/tmp/ipykernel_\d+/\d+\.py|<cell \d+>|<ipython-input[^>]*>|Cell In\[\d+\]|\d{6,}\.py)", "CELL", text)
    return re.sub(r"sk-container-id-\d+|sk-estimator-id-\d+", "sk", text).strip()


class Shown:
    """What a cell showed, in one form for both."""

    def __init__(self):
        self.stdout = self.stderr = ""
        self.name = self.message = None
        self.bundles = []

    def add_ours(self, one):
        kept = {key: same(one[key]) for key in ("text", "html", "markdown", "latex", "svg", "javascript") if key in one}
        if "png" in one:
            kept = {"image": True}
        self.bundles.append(kept)

    def add_theirs(self, data):
        kinds = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "text/latex": "latex",
                 "image/svg+xml": "svg", "application/javascript": "javascript"}
        kept = {key: same(data[mime]) for mime, key in kinds.items() if mime in data}
        if "image/png" in data:
            kept = {"image": True}
        self.bundles.append(kept)


def ours(path):
    with Kernel(env={"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}) as kernel:
        for code in cells(path):
            answer, shown = kernel.run(code), Shown()
            shown.stdout, shown.stderr = answer.stdout, answer.stderr
            if answer.error:
                shown.name, shown.message = answer.error["name"], same(answer.error["message"])
            for one in answer.displays + answer.results:
                shown.add_ours(one)
            yield code, shown


class Jupyter:
    def __init__(self):
        self.manager = jupyter_client.KernelManager(kernel_name="python3")
        from jupyter_client.kernelspec import KernelSpec

        command = ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.manager._kernel_spec = KernelSpec(argv=command, display_name="Python", language="python")
        self.manager.start_kernel(cwd="/tmp")
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def run(self, code):
        shown = Shown()
        identity = self.client.execute(code, store_history=True, allow_stdin=False, stop_on_error=False)
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != identity:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                setattr(shown, content["name"], getattr(shown, content["name"]) + content["text"])
            elif kind in ("execute_result", "display_data"):
                shown.add_theirs(content["data"])
            elif kind == "error":
                shown.name, shown.message = content["ename"], same(content["evalue"])
            elif kind == "status" and content["execution_state"] == "idle":
                reply = self.reply(identity)
                if shown.name is None and reply["status"] == "error":
                    shown.name, shown.message = reply["ename"], same(reply["evalue"])
                return shown

    def reply(self, identity):
        while True:
            message = self.client.get_shell_msg(timeout=120)
            if message["parent_header"].get("msg_id") == identity:
                return message["content"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def skipped(path, code):
    for (notebook, part), what in DIFFERENCES.items():
        if notebook == path.stem and code.startswith(part):
            return what
    return set()


def compare(path, code, mine, theirs):
    leave = skipped(path, code)
    for name in ("name", "message", "bundles"):
        if name not in leave:
            assert getattr(mine, name) == getattr(theirs, name), (code, name)
    for name in ("stdout", "stderr"):
        if name not in leave:
            assert same(getattr(mine, name)) == same(getattr(theirs, name)), (code, name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path):
    for left in pathlib.Path("/tmp").glob("cay-notebook*"):
        left.unlink()  # of a run that failed
    answers = list(ours(path))
    jupyter = Jupyter()
    try:
        for code, mine in answers:
            compare(path, code, mine, jupyter.run(code))
    finally:
        jupyter.close()


def test_there_are_ten():
    assert len(NOTEBOOKS) >= 10 and sum(len(cells(path)) for path in NOTEBOOKS) > 150
