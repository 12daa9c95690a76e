#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `1+1` through ipykernel for each line on standard input, and prints how many nanoseconds that took: from the
request until the result, the reply and the kernel's idleness are there, as a notebook waits for them."""

import sys
import time

from jupyter_client.manager import start_new_kernel

PATIENCE = 30


def run_cell(client):
    """Whether the result came."""
    request = client.execute("1+1")
    found = False
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "execute_result":
            found = content["data"]["text/plain"] == "2"
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            break
    reply = client.get_shell_msg(timeout=PATIENCE)
    return found and reply["content"]["status"] == "ok"


def main():
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        print(0, flush=True)
        for _ in sys.stdin:
            began = time.perf_counter_ns()
            if not run_cell(client):
                sys.exit("ipykernel did not answer 2")
            print(time.perf_counter_ns() - began, flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
