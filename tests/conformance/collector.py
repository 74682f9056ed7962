#!/usr/bin/python3
"""A collector for IPFIX (RFC 7011, RFC 5103) and NetFlow version 9 (RFC 3954), written from the RFCs alone.

usage: tests/conformance/collector.py FILE...   prints the flows of files of IPFIX messages, one JSON line each

It takes nothing on trust: lengths, sequence numbers, templates and reserved values are checked, and what is
wrong is an error.
"""

import ipaddress
import json
import struct
import sys

NAMES = {
    1: "octets", 2: "packets", 4: "protocol", 5: "class", 6: "flags", 7: "source_port",
    8: "source", 10: "ingress", 11: "destination_port", 12: "destination", 14: "egress",
    21: "last_ms", 22: "first_ms", 27: "source", 28: "destination", 34: "sampling_interval",
    35: "sampling_algorithm", 41: "messages_total", 42: "flows_total", 58: "vlan", 59: "post_vlan",
    136: "end_reason", 149: "domain", 152: "start_ms", 153: "end_ms", 164: "ignored_packets",
    166: "not_sent_flows", 167: "not_sent_packets", 168: "not_sent_octets", 239: "direction",
    302: "selector", 304: "selector_algorithm", 305: "sampling_packets", 306: "sampling_space",
}
ADDRESSES = {8, 12, 27, 28}
REVERSE = 29305


class Wrong(Exception):
    """A message that breaks the protocol."""


def check(holds, complaint):
    if not holds:
        raise Wrong(complaint)


class Collector:
    """Templates and flows of one exporter's transport session."""

    def __init__(self):
        self.templates = {}
        self.sequence = None
        self.flows = []
        self.options = []
        self.messages = 0

    def message(self, data):
        """Takes one message."""
        check(len(data) >= 4, "shorter than a version and a length")
        version = struct.unpack("!H", data[:2])[0]
        check(version in (9, 10), f"version {version}")
        (self._netflow if version == 9 else self._ipfix)(data)
        self.messages += 1

    def stream(self, data):
        """Takes messages that stand one behind the other; returns what is not whole yet."""
        while len(data) >= 16:
            version, length = struct.unpack("!HH", data[:4])
            check(version == 10, f"version {version} in a stream")
            check(length >= 16, f"a message of {length} bytes")
            if len(data) < length:
                break
            self.message(data[:length])
            data = data[length:]
        return data

    def _ipfix(self, data):
        check(len(data) >= 16, "shorter than the header")
        _, length, _, sequence, self.domain = struct.unpack("!HHIII", data[:16])
        check(length == len(data), f"length {length} of {len(data)} bytes")
        expected = self.sequence
        check(expected in (None, sequence), f"sequence {sequence}, expected {expected}")
        count = self._sets(data[16:], 2, 3, 0)
        self.sequence = (sequence + count) & 0xFFFFFFFF

    def _netflow(self, data):
        check(len(data) >= 20, "shorter than the header")
        _, entries, uptime, seconds, sequence, _ = struct.unpack("!HHIIII", data[:20])
        expected = self.sequence
        check(expected in (None, sequence), f"sequence {sequence}, expected {expected}")
        check(len(data) % 4 == 0, "not padded to four bytes")
        self.sequence = (sequence + 1) & 0xFFFFFFFF
        self.entries = 0
        first = len(self.flows)
        self._sets(data[20:], 0, 1, 4)
        check(self.entries == entries, f"count {entries}, {self.entries} records and templates")
        for flow in self.flows[first:]:
            for own, name in (("first_ms", "start_ms"), ("last_ms", "end_ms")):
                ago = (uptime - flow.pop(own)) & 0xFFFFFFFF
                check(ago < 1 << 31, "a flow of the future")
                flow[name] = seconds * 1000 - ago

    def _sets(self, data, template_id, options_id, padded):
        """Reads sets; returns the number of data records."""
        count = 0
        while data:
            check(len(data) >= 4, "a cut set")
            number, length = struct.unpack("!HH", data[:4])
            check(4 <= length <= len(data), f"a set of {length} bytes in {len(data)}")
            check(not padded or length % padded == 0, f"a set of {length} bytes is not padded")
            content, data = data[4:length], data[length:]
            if number == template_id:
                self._templates(content)
            elif number == options_id:
                (self._options_v9 if padded else self._options)(content)
            else:
                check(number >= 256, f"reserved set {number}")
                check(number in self.templates, f"no template {number} yet")
                count += self._records(self.templates[number], content)
        return count

    def _fields(self, data, at, count):
        fields = []
        for _ in range(count):
            check(len(data) >= at + 4, "a cut template")
            element, length = struct.unpack("!HH", data[at:at + 4])
            at += 4
            enterprise = 0
            if element & 0x8000:
                check(len(data) >= at + 4, "a cut template")
                enterprise = struct.unpack("!I", data[at:at + 4])[0]
                check(enterprise == REVERSE, f"enterprise {enterprise}")
                element, at = element & 0x7FFF, at + 4
            check(element in NAMES, f"element {element}")
            check(length != 65535 and length > 0, f"length {length} of element {element}")
            name = ("reverse_" if enterprise else "") + NAMES[element]
            fields.append((name, length, element in ADDRESSES))
        return fields, at

    def _templates(self, data):
        at = 0
        while len(data) - at >= 4:
            number, count = struct.unpack("!HH", data[at:at + 4])
            check(number >= 256 and count > 0, f"template {number} with {count} fields")
            fields, at = self._fields(data, at + 4, count)
            self._know(number, fields, 0)

    def _options(self, data):
        at = 0
        while len(data) - at >= 6:
            number, count, scopes = struct.unpack("!HHH", data[at:at + 6])
            check(number >= 256 and 0 < scopes <= count, f"options {number}: {scopes} of {count}")
            fields, at = self._fields(data, at + 6, count)
            self._know(number, fields, scopes)

    def _options_v9(self, data):
        at = 0
        while len(data) - at >= 6:
            number, scopes, options = struct.unpack("!HHH", data[at:at + 6])
            check(number >= 256 and scopes % 4 == 0 and options % 4 == 0, f"options {number}")
            kind, length = struct.unpack("!HH", data[at + 6:at + 10])
            check(scopes == 4 and kind == 1, "another scope than the system")
            fields, at = self._fields(data, at + 10, options // 4)
            self._know(number, [("system", length, False)] + fields, 1)
            at = (at + 3) // 4 * 4

    def _know(self, number, fields, scopes):
        known = self.templates.get(number, (fields, scopes))
        check(known == (fields, scopes), f"template {number} changed without withdrawal")
        self.templates[number] = (fields, scopes)
        self.entries = getattr(self, "entries", 0) + 1

    def _records(self, template, data):
        fields, scopes = template
        length = sum(field[1] for field in fields)
        count, rest = divmod(len(data), length)
        check(count > 0, "a data set without a record")
        check(rest < 4 and not any(data[len(data) - rest:]), f"{rest} bytes behind the records")
        for index in range(count):
            at, record = index * length, {}
            for name, size, is_address in fields:
                value = data[at:at + size]
                at += size
                record[name] = (
                    str(ipaddress.ip_address(value)) if is_address else int.from_bytes(value, "big")
                )
            (self.options if scopes else self.flows).append(record)
        self.entries = getattr(self, "entries", 0) + count
        return count


def main():
    for path in sys.argv[1:]:
        collector = Collector()
        with open(path, "rb") as file:
            left = collector.stream(file.read())
        check(not left, f"{path} ends in the middle of a message")
        for flow in collector.flows:
            print(json.dumps(flow))


if __name__ == "__main__":
    main()
