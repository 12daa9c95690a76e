# SPDX-License-Identifier: Apache-2.0
"""The notebooks of tests/kernels over HTTP: each cell shows what its kernel shows when it is asked directly, which is
compared with Jupyter's there, and shows the same in one answer and as a stream."""

import pathlib
import re
import sys
import tempfile

import pytest
from api_helpers import TOP, Client, Server, eventually
from code_helpers import make, merged, run
from conftest import need_root

sys.path.append(str(TOP / "tests" / "kernels"))
from python_kernel import Kernel  # noqa: E402  pylint: disable=wrong-import-position

NOTEBOOKS = sorted(pathlib.Path(TOP / "tests" / "kernels" / "notebooks").glob("*.py"))

MADE = pathlib.Path("/tmp/cay-notebook-made.txt")  # by the kernel that runs without a box


def cells(path):
    return [cell.strip("\n") for cell in re.split(r"^# %%\n", path.read_text(), flags=re.M)]


def same(value):
    """Without what differs from run to run: addresses, times, ids that were made up, pictures."""
    if isinstance(value, dict):
        return {k: same(v) for k, v in value.items() if k not in ("png", "svg", "type")}
    if isinstance(value, list):
        return [same(v) for v in value]
    if not isinstance(value, str):
        return value
    value = re.sub(r"0x[0-9a-f]+", "0x", value)
    value = re.sub(r"[\d.]+ ?(ns|µs|us|ms|s)\b", "TIME", value)
    value = re.sub(r"repeated \d+ more times", "repeated", value)
    return re.sub(r"(sk-[a-z]+-id-|T_)[0-9a-f]+", "ID", value)


def told(result):
    """A result in one form: of HTTP, as an answer or a stream."""
    kinds = [sorted(r) for r in result["results"]]
    return same([result["logs"]["stdout"], result["logs"]["stderr"], result["results"], kinds, result.get("error")])


def from_stream(events):
    found = merged(events)
    text = {name: "".join(data for kind, data in found if kind == name) for name in ("stdout", "stderr")}
    result = {"logs": {name: [value] if value else [] for name, value in text.items()}}
    result["results"] = [{"type": kind, **data} for kind, data in found if kind in ("result", "display")]
    result.update({"error": data for kind, data in found if kind == "error"})
    return result


def from_kernel(answer):
    result = {"logs": {"stdout": [answer.stdout] if answer.out else [], "stderr": [answer.stderr] if answer.err else []}}
    result["results"] = [{"type": "", **one} for one in answer.displays + answer.results]
    if answer.error:
        result["error"] = answer.error
    return result


@pytest.fixture(scope="module")
def api(top):
    """As people have it: contexts are forks of a Python that has loaded the libraries."""
    need_root()
    server = Server(tempfile.mkdtemp(prefix="notebooks-", dir=top), "--preload", "numpy,pandas,matplotlib")
    client = Client(server)
    eventually(lambda: b'cay_pool_parked{kernel="python"} 4' in client("GET", "/metrics").body)
    yield client
    assert server.stop() == 0
    assert server.faults() == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(api, path):
    boxes = [f"notebook-{path.stem}-{i}" for i in range(2)]
    for box in boxes:
        api.ok("PUT", f"/sandbox/{box}", {"memory": "2g"})
        make(api, box, id="c", cwd="/tmp", timeout="2m")
    MADE.unlink(missing_ok=True)
    with Kernel() as kernel:
        for code in cells(path):
            answer = run(api, boxes[0], code, context="c")
            with api.stream("POST", f"/sandbox/{boxes[1]}/code", {"code": code, "context": "c"}) as stream:
                events = stream.until("end")
            direct = kernel.run(code)
            assert told(answer) == told(from_stream(events)), code
            assert told(answer) == told(from_kernel(direct)), code
            assert answer["success"] == (direct.error is None) and "contextDied" not in answer
    for box in boxes:
        api.ok("DELETE", f"/sandbox/{box}")
    MADE.unlink(missing_ok=True)
