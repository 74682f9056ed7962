"""Programs with their long system calls on another core, and as they are, in turns (docs/coreswitch.md)."""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from . import record
from .lab import Failure, run

# Bytes of the files that are copied and sorted, rows of the databases, requests of the web server: large, small.
SIZES = {False: (256 << 20, 3_000_000, 20_000, 20_000), True: (8 << 20, 50_000, 500, 300)}


def switch(context):
    """System calls on another core: cp, sort, sqlite, PostgreSQL and nginx, with and without."""
    if (os.cpu_count() or 1) < 2:
        raise Failure("moving system calls takes two CPUs")
    turns = 2 if context.quick else 7
    with tempfile.TemporaryDirectory(prefix="ebb-switch-") as place:
        os.chmod(place, 0o755)
        programs = {"cp": copy, "sort": sort, "sqlite": sqlite, "postgresql": postgresql, "nginx": nginx}
        rows, summary = [["program", "as it is ms", "moved ms", "moved / as it is", "least", "most"]], {}
        for name, measure in programs.items():
            ratios, times = [], {False: [], True: []}
            try:
                for turn in range(turns):
                    for moved in (turn % 2 == 0, turn % 2 == 1):
                        times[moved].append(measure(context, os.path.join(place, name), moved))
                    ratios.append(times[True][-1] / times[False][-1])
            except Missing as missing:
                context.say(f"switch: {name} is left out: {missing}")
                continue
            middle = [statistics.median(times[moved]) * 1e3 for moved in (False, True)]
            spread = record.spread(ratios)
            rows.append([name, *middle, spread["median"], spread["min"], spread["max"]])
            summary[name] = {"plain_ms": times[False], "moved_ms": times[True], "ratio": spread}
    if len(rows) == 1:
        raise Failure("none of the programs is installed")
    print("\n== switch\n" + record.render(rows) + "\n" + json.dumps({"benchmark": "switch", **summary}), flush=True)
    context.record.write("switch.txt", record.render(rows) + "\n")
    context.record.write("switch.json", json.dumps(summary, indent=1) + "\n")


class Missing(Exception):
    """A program that is not installed."""


def need(program, package):
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        raise Missing(f"install Debian's {package}")
    return path


def under(context, moved):
    """What goes before a program: the last CPU makes its calls, or is kept free as well."""
    last = os.cpu_count() - 1
    if moved:
        return [context.tools.ebb, "switch", "run", "--quiet", "--os-core", str(last), "--"]
    return ["taskset", "-c", f"0-{last - 1}"]


def timed(*words, **options):
    begun = time.monotonic()
    run(*words, **options)
    return time.monotonic() - begun


def filled(path, size):
    if not os.path.exists(path):
        with open(path, "wb") as file:
            piece = bytes(range(256)) * 4096
            for _ in range(size // len(piece)):
                file.write(piece)
    return path


def copy(context, place, moved):
    source = filled(place + ".in", SIZES[context.quick][0])
    target = place + ".out"
    if os.path.exists(target):
        os.remove(target)
    return timed(*under(context, moved), "cp", "--reflink=never", source, target)


def sort(context, place, moved):
    lines = place + ".lines"
    if not os.path.exists(lines):
        with open(lines, "w") as file:
            file.writelines(f"{n * 2654435761 % 4294967296:010}\n" for n in range(SIZES[context.quick][1]))
    return timed(*under(context, moved), "sort", "-S", "16M", "-T", os.path.dirname(place), "-o", place + ".out", lines)


def sqlite(context, place, moved):
    program = need("sqlite3", "sqlite3")
    if os.path.exists(place):
        os.remove(place)
    rows = SIZES[context.quick][2]
    script = "create table t(a, b);" + "".join(
        f"insert into t select value, hex(randomblob(200)) from generate_series(1, {rows // 20});" for _ in range(20))
    return timed(*under(context, moved), program, place, script + "select sum(length(b)) from t;")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server in the foreground, under the switcher or not; ends with the block."""

    def __init__(self, words, port, **options):
        self.words, self.port, self.options = words, port, options

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.options)
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.__exit__()
                    raise Failure(f"{' '.join(self.words)} does not answer") from None
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def nginx(context, place, moved):
    program, load = need("nginx", "nginx-light"), need("ab", "apache2-utils")
    port = free_port()
    os.makedirs(place, exist_ok=True)
    filled(os.path.join(place, "page"), 1 << 20)
    config = os.path.join(place, "nginx.conf")
    with open(config, "w") as file:
        file.write(f"daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error;\n"
                   f"events {{}}\nhttp {{ access_log off; sendfile on; client_body_temp_path {place}/b; "
                   f"proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; "
                   f"scgi_temp_path {place}/s; server {{ listen 127.0.0.1:{port}; root {place}; }} }}\n")
    os.chmod(os.path.join(place, "page"), 0o644)
    words = [*under(context, moved), program, "-e", f"{place}/error", "-c", config]
    with Server(words, port):
        requests = SIZES[context.quick][3]
        return timed(load, "-q", "-k", "-c", "8", "-n", str(requests), f"http://127.0.0.1:{port}/page")


def postgresql(context, place, moved):
    pgbench = need("pgbench", "postgresql")
    versions = sorted(os.listdir("/usr/lib/postgresql")) if os.path.isdir("/usr/lib/postgresql") else []
    if not versions:
        raise Missing("install Debian's postgresql")
    binaries = f"/usr/lib/postgresql/{versions[-1]}/bin"
    # The server refuses to be root.
    other = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.geteuid() == 0 else []
    port = free_port()
    if not os.path.exists(place):
        os.mkdir(place)
        if other:
            shutil.chown(place, "postgres", "postgres")
        run(*other, f"{binaries}/initdb", "-D", place, "-A", "trust", "-U", "ebb", cwd="/")
    words = [*under(context, moved), *other, f"{binaries}/postgres", "-D", place, "-k", place, "-p", str(port),
             "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"]
    to = ["-h", "127.0.0.1", "-p", str(port), "-U", "ebb", "postgres"]
    with Server(words, port, cwd="/"):
        until = time.monotonic() + 60
        while subprocess.run([f"{binaries}/pg_isready", "-q", *to[:4]]).returncode != 0:
            if time.monotonic() > until:
                raise Failure("PostgreSQL does not become ready")
            time.sleep(0.05)
        run(pgbench, "-i", "-q", *to)
        return timed(pgbench, "-n", "-c", "4", "-t", str(SIZES[context.quick][2] // 20), *to)
