# SPDX-License-Identifier: Apache-2.0
"""Sessions and what is theirs."""

from ws_helpers import Terminal


def test_a_terminal_ends_with_its_session(api, box):
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "work", "env": {"WHICH": "first"}})
    with Terminal(api, box, session="work") as t, Terminal(api, box, session="other") as other:
        api.ok("DELETE", f"/sandbox/{box}/sessions/work")
        assert t.end()[1]["reason"] == "killed"
        api.ok("POST", f"/sandbox/{box}/sessions", {"id": "work", "env": {"WHICH": "second"}})
        with Terminal(api, box, session="work") as t:
            assert "second" in t.run("echo $WHICH", "DONE")
        assert "42" in other.run("echo 4$((1+1))", "DONE")  # nobody else's
