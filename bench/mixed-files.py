# SPDX-License-Identifier: Apache-2.0
"""mixed-files.py DIR MIB: the same files each time, on the host and in a box: two fifths look like source text, in many
small files; three tenths like binaries; three tenths cannot be compressed. The last line is a digest of all."""

import hashlib
import pathlib
import random
import struct
import sys

TEXT_POOL, FILES_A_DIRECTORY = 8 << 20, 100


def make_text(rng):
    letters = "etaoinshrdlucmfwypvbgkjqxz_"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 11))) for _ in range(20000)]
    ends = [" "] * 6 + ["(", ");\n", ";\n    ", " = ", "\n\n", ", "]
    return "".join(w + rng.choice(ends) for w in rng.choices(words, k=TEXT_POOL // 7)).encode()[:TEXT_POOL]


def text_file(rng, text):
    n, at = rng.randint(1 << 10, 40 << 10), rng.randrange(TEXT_POOL - (40 << 10))
    return text[at : at + n]


def binary_file(rng, table):
    parts, size = [], rng.randint(64 << 10, 2 << 20)
    while size > 0:
        row = struct.pack("<IIQQ", rng.getrandbits(12), rng.getrandbits(6), rng.getrandbits(40), 0)
        at = rng.randrange(len(table) - 512)
        parts += [row, table[at : at + rng.randint(16, 200)], rng.randbytes(24)]
        size -= len(parts[-2]) + 48
    return b"".join(parts)


def random_file(rng, _):
    return rng.randbytes(rng.randint(256 << 10, 4 << 20))


def write_kind(top, name, make, source, budget, rng, digest):
    number = 0
    while budget > 0:
        path = top / name / str(number // FILES_A_DIRECTORY) / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = make(rng, source)
        path.write_bytes(data)
        digest.update(data)
        budget -= len(data)
        number += 1


def main():
    top, budget = pathlib.Path(sys.argv[1]), int(sys.argv[2]) << 20
    rng, digest = random.Random(8), hashlib.sha256()
    kinds = (("text", text_file, make_text(rng), 4), ("binary", binary_file, rng.randbytes(64 << 10), 3), ("random", random_file, None, 3))
    for name, make, source, tenths in kinds:
        write_kind(top, name, make, source, budget * tenths // 10, rng, digest)
    print(digest.hexdigest())


main()
