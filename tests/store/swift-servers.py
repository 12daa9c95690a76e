# SPDX-License-Identifier: Apache-2.0
"""OpenStack Swift with its S3 side, all four servers in one process: swift-servers.py DIRECTORY ACCESS-KEY SECRET-KEY. Prints
the port and serves until its input ends. What it keeps lies below the directory, and its log, which only has what went wrong."""

import functools
import logging
import os
import pathlib
import socket
import sys

import eventlet
import eventlet.hubs
import eventlet.tpool
import eventlet.wsgi
from swift.common import utils, wsgi
from swift.common.ring import RingBuilder

FOLDER = pathlib.Path(sys.argv[1])
ETC, DISKS = FOLDER / "etc", FOLDER / "disks"
PATIENCE = 300  # seconds: a machine under load is slow, but nothing here is lost on the way
COMMON = f"""
[DEFAULT]
swift_dir = {ETC}
devices = {DISKS}
mount_check = false
log_address = {ETC}/no-syslog
log_level = WARNING
log_custom_handlers = __main__.log_to_file
node_timeout = {PATIENCE}
conn_timeout = {PATIENCE}
client_timeout = {PATIENCE}
container_update_timeout = {PATIENCE}
"""
STORAGE = COMMON + """
[app:main]
use = egg:swift#{name}
"""
# Parts are as small as the tests make them.
PROXY = COMMON + """
[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
error_suppression_limit = 1000000
[filter:s3api]
use = egg:swift#s3api
min_segment_size = 65536
storage_domain = s3.localhost
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret_key} .admin
""" + "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in ("catch_errors", "gatekeeper", "listing_formats", "slo"))


@functools.cache
def log_file():
    return logging.FileHandler(FOLDER / "log")


def log_to_file(*args):
    """Swift asks for it by its name, of each of its loggers, which comes last but one."""
    args[-2].addHandler(log_file())


def configure(name, text):
    (ETC / f"{name}.conf").write_text(text)


def make_ring(name, port):
    builder = RingBuilder(part_power=1, replicas=1, min_part_hours=0)
    place = {"ip": "127.0.0.1", "port": port, "replication_ip": "127.0.0.1", "replication_port": port}
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "device": "disk", "meta": "", **place})
    builder.rebalance()
    builder.get_ring().save(str(ETC / f"{name}.ring.gz"))


def listen():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


class Forgetful:
    """A cache, without which nobody is let in, that keeps nothing: no answer is old."""

    def __init__(self, app):
        self.app = app

    def __call__(self, env, start):
        env["swift.cache"] = self
        return self.app(env, start)

    def get(self, *_, **__):
        return None

    set = delete = get


def serve(name, listener):
    """As Swift's run_server does it, which wants a process for each."""
    app = Forgetful(wsgi.loadapp(str(ETC / f"{name}.conf"), global_conf={"log_name": name}))
    eventlet.spawn(eventlet.wsgi.server, listener, app, utils.NullLogger(), protocol=wsgi.SwiftHttpProtocol,
                   socket_timeout=PATIENCE, capitalize_response_headers=False)


def main():
    access_key, secret_key = sys.argv[2:]
    account, _, user = access_key.partition(":")
    for folder in (ETC, DISKS / "disk"):
        folder.mkdir(parents=True)
    configure("swift", "[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = one\ndefault = yes\n")
    utils.set_swift_dir(str(ETC))
    utils.eventlet_monkey_patch()
    eventlet.hubs.use_hub(utils.get_hub())
    for name in ("account", "container", "object"):
        configure(name, STORAGE.format(name=name))
        listener = listen()
        make_ring(name, listener.getsockname()[1])
        serve(name, listener)
    configure("proxy", PROXY.format(account=account, user=user, secret_key=secret_key))
    listener = listen()
    serve("proxy", listener)
    print(listener.getsockname()[1], flush=True)
    eventlet.tpool.execute(os.read, 0, 1)


if __name__ == "__main__":
    main()
