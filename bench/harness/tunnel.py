"""IPsec packets of 1,420 bytes on one core, beside the ciphers of OpenSSL alone."""

import json
import os
import subprocess

from .lab import Failure
from .record import spread

SIZE = 1420
# What stands for a cipher at the peer: of CBC with HMAC the sum, as each packet goes through both.
PEERS = {"gcm": [["-evp", "aes-128-gcm"]], "cbc": [["-evp", "aes-128-cbc"], ["-hmac", "sha256"]]}


def ran(words, repository):
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr[-2000:]}")
    return done.stdout


def openssl_ns(cipher, seconds, repository):
    """Nanoseconds of the processor that OpenSSL takes for a packet's bytes."""
    total = 0.0
    for words in PEERS[cipher]:
        text = ran(["openssl", "speed", "-mr", "-seconds", str(seconds), "-bytes", str(SIZE), *words], repository)
        # +F:22:AES-128-GCM:2263607800.00 and +R:..., bytes a second of user time.
        total += SIZE * 1e9 / float(next(line for line in text.splitlines() if line.startswith("+F:")).rsplit(":", 1)[1])
    return total


def tunnel(context):
    """Turns of both one after the other, in times of the processor: other programs disturb both alike."""
    seconds, rounds = (1, 1) if context.quick else (2, 3)
    rows, summary, raw = [["cipher", "who", "ns a packet", "least", "greatest", "of openssl's speed"]], {}, []
    program = context.tools.example("tunnel")
    for cipher in PEERS:
        turns = {"openssl": [], "seal": [], "open": []}
        for _ in range(rounds):
            words = [program, "--sizes", str(SIZE), "--algorithm", cipher, "--packets", "20000", *(["--small"] if context.quick else [])]
            found = json.loads(ran(words, context.repository).rstrip().splitlines()[-1])["rows"][0]
            turns["seal"].append(found["seal_ns"])
            turns["open"].append(found["open_ns"])
            turns["openssl"].append(openssl_ns(cipher, seconds, context.repository))
        raw.append({"cipher": cipher, "load": os.getloadavg()[0], **turns})
        peer = spread(turns["openssl"])["median"]
        for who, nanos in turns.items():
            of = spread(nanos)
            ratios = [theirs / ours for theirs, ours in zip(turns["openssl"], nanos)]
            rows.append([cipher, who, of["median"], of["min"], of["max"], spread(ratios)["median"]])
            summary[f"{cipher}_{who}_ns"] = of["median"]
        summary[f"{cipher}_seal_speed"] = peer / spread(turns["seal"])["median"]
    context.record.result("tunnel", rows, {"bytes": SIZE, **summary}, raw)
