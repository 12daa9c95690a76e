# SPDX-License-Identifier: Apache-2.0
"""Whether a request is signed as an S3 wants it, from the request as it was sent: s3rver itself does not look at
signatures of version 4."""

import hashlib
import hmac
import time
import urllib.parse

SAFE = "-_.~"


def canonical_query(query):
    pairs = [part.partition("=") for part in query.split("&") if part]
    decoded = [(urllib.parse.unquote(name), urllib.parse.unquote(value)) for name, _, value in pairs]
    encoded = [(urllib.parse.quote(name, safe=SAFE), urllib.parse.quote(value, safe=SAFE)) for name, value in decoded]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))


def sign(secret, scope, text):
    key = ("AWS4" + secret).encode()
    for step in scope.split("/"):
        key = hmac.digest(key, step.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def text_to_sign(method, target, fields, names, scope):
    path, _, query = target.partition("?")
    path = urllib.parse.quote(urllib.parse.unquote(path), safe=SAFE + "/")
    listed = "".join(f"{name}:{' '.join(fields[name].split())}\n" for name in names)
    request = "\n".join([method, path, canonical_query(query), listed, ";".join(names), fields["x-amz-content-sha256"]])
    return "\n".join(["AWS4-HMAC-SHA256", fields["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])


def sign_request(method, target, host, access_key, secret):
    """The header fields of a request without a body."""
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{when[:8]}/us-east-1/s3/aws4_request"
    fields = {"host": host, "x-amz-content-sha256": hashlib.sha256(b"").hexdigest(), "x-amz-date": when}
    signature = sign(secret, scope, text_to_sign(method, target, fields, sorted(fields), scope))
    said = f"Credential={access_key}/{scope},SignedHeaders={';'.join(sorted(fields))},Signature={signature}"
    return {**fields, "authorization": f"AWS4-HMAC-SHA256 {said}"}


def complaint(head, body, secrets):
    """None, or the code of the error that an S3 would answer. `head` are the lines, `secrets` those of each access key."""
    method, target, _ = head[0].decode("latin-1").split(" ")
    fields = {}
    for line in head[1:]:
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.lower()] = value.strip()
    kind, _, rest = fields.get("authorization", "").partition(" ")
    said = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    if kind != "AWS4-HMAC-SHA256" or {"Credential", "SignedHeaders", "Signature"} - said.keys():
        return "AccessDenied"
    access_key, _, scope = said["Credential"].partition("/")
    if access_key not in secrets:
        return "InvalidAccessKeyId"
    names = said["SignedHeaders"].split(";")
    wanted = {"host"} | {name for name in fields if name.startswith("x-amz-") or name == "content-md5"}
    if names != sorted(names) or wanted - set(names):
        return "AccessDenied"
    if fields["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
        return "XAmzContentSHA256Mismatch"
    text = text_to_sign(method, target, fields, names, scope)
    good = hmac.compare_digest(sign(secrets[access_key], scope, text), said["Signature"])
    return None if good else "SignatureDoesNotMatch"
