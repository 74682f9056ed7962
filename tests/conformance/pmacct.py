"""pmacct's collectors: nfacctd for IPFIX and NetFlow, sfacctd for sFlow (Debian: pmacct)."""

import collections
import csv
import signal
import subprocess
import time

from wire import inside

MISSING = "is missing (Debian: pmacct)"


class Pmacct:
    """One of both, in the router's namespace."""

    def __init__(self, lab, name, port):
        self.port, self.table = port, f"{lab.directory}/{name}.csv"
        self.configuration = f"{lab.directory}/{name}.conf"
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(f"daemonize: false\n{name}_ip: 127.0.0.1\n{name}_port: {port}\n{name}_renormalize: true\n"
                       "plugins: print[all]\nplugin_pipe_size: 33554432\nplugin_buffer_size: 65536\n"
                       "aggregate[all]: src_host, dst_host\nprint_output: csv\nprint_refresh_time: 3600\n"
                       f"print_output_file: {self.table}\n")
        self.log = open(f"{lab.directory}/{name}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(["ip", "netns", "exec", lab.router, name, "-f", self.configuration],
                                        stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 10
        with inside(lab.router):
            while f":{port:04X} " not in open("/proc/net/udp", encoding="ascii").read():
                assert time.monotonic() < deadline, f"{name} does not listen: {self.said()}"
                time.sleep(0.05)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        """By source and destination: packets and bytes."""
        time.sleep(0.5)
        # The first one flushes the table.
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        flows = collections.defaultdict(lambda: [0, 0])
        with open(self.table, encoding="ascii") as file:
            for line in csv.DictReader(file):
                flow = flows[line["SRC_IP"], line["DST_IP"]]
                flow[0] += int(line["PACKETS"])
                flow[1] += int(line["BYTES"])
        return dict(flows)
