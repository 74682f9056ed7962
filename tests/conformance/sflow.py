"""A reader of datagrams of sFlow version 5, written from the specification alone (sflow.org, July 2004).

It takes nothing on trust: lengths, sequence numbers of datagrams and of sources, formats and reserved values are
checked, and what is wrong is an error.
"""

import ipaddress
import struct

from collector import check

FLOW_SAMPLE_EXPANDED, COUNTERS_SAMPLE_EXPANDED = 3, 4
RAW_HEADER, EXTENDED_SWITCH, GENERIC_COUNTERS = 1, 1001, 1
INTERNAL = 0x3FFFFFFF


class Words:
    """XDR (RFC 4506): numbers of four and eight bytes, and bytes with their length."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        check(self.at + count <= len(self.data), "cut short")
        self.at += count
        return self.data[self.at - count:self.at]

    def word(self):
        return struct.unpack("!I", self.take(4))[0]

    def words(self, count):
        return [self.word() for _ in range(count)]

    def hyper(self):
        return struct.unpack("!Q", self.take(8))[0]

    def opaque(self):
        length = self.word()
        data = self.take(length)
        check(not any(self.take(-length % 4)), "padding that is not 0")
        return data

    def end(self):
        check(self.at == len(self.data), f"{len(self.data) - self.at} bytes too many")


class Reader:
    """Samples and counters of one agent."""

    def __init__(self):
        self.sequence = None
        self.samples, self.counters = [], []
        self.sequences = {}
        self.agents = set()
        self.datagrams = 0

    def message(self, data):
        """Takes one datagram."""
        words = Words(data)
        version, family = words.words(2)
        check(version == 5, f"version {version}")
        check(family in (1, 2), f"an address of family {family}")
        agent = str(ipaddress.ip_address(words.take(4 if family == 1 else 16)))
        sub_agent, sequence, _uptime, count = words.words(4)
        self.agents.add((agent, sub_agent))
        check(self.sequence in (None, sequence), f"sequence {sequence}, expected {self.sequence}")
        self.sequence = (sequence + 1) & 0xFFFFFFFF
        check(count > 0, "a datagram without a sample")
        for _ in range(count):
            kind, body = words.word(), Words(words.opaque())
            check(kind in (FLOW_SAMPLE_EXPANDED, COUNTERS_SAMPLE_EXPANDED), f"a sample of kind {kind}")
            (self._sample if kind == FLOW_SAMPLE_EXPANDED else self._counters)(body)
            body.end()
        words.end()
        self.datagrams += 1

    def _source(self, kind, words):
        sequence, source_type, source = words.words(3)
        check(source_type == 0, f"a source of type {source_type}")
        expected = self.sequences.get((kind, source), sequence)
        check(sequence == expected, f"sample {sequence} of interface {source}, expected {expected}")
        self.sequences[kind, source] = (sequence + 1) & 0xFFFFFFFF
        return source

    def _sample(self, words):
        source = self._source("flow", words)
        rate, pool, drops, input_format, came, output_format, left, records = words.words(8)
        check(input_format == 0 and output_format == 0, "an interface without a number")
        check(left == source, f"a sample of interface {source} that left by {left}")
        sample = {"rate": rate, "pool": pool, "drops": drops, "ingress": came, "egress": left, "vlan": 0, "post_vlan": 0}
        for _ in range(records):
            kind, body = words.word(), Words(words.opaque())
            if kind == RAW_HEADER:
                protocol, length, stripped = body.words(3)
                check(protocol == 1, f"a header of protocol {protocol}")
                header = body.opaque()
                check(stripped == 4 and len(header) == min(length - stripped, 128), f"{len(header)} of {length} bytes")
                sample.update(header=header, frame_len=length - stripped)
            else:
                check(kind == EXTENDED_SWITCH, f"a record of kind {kind}")
                sample["vlan"], _, sample["post_vlan"], _ = body.words(4)
            body.end()
        check("header" in sample, "a sample without a header")
        self.samples.append(sample)

    def _counters(self, words):
        source = self._source("counters", words)
        records = words.word()
        for _ in range(records):
            check(words.word() == GENERIC_COUNTERS, "other counters than an interface's")
            body = Words(words.opaque())
            index, kind = body.words(2)
            check((index, kind) == (source, 6), f"counters of {index}, type {kind}, from {source}")
            _speed, _direction, status, octets_in = body.hyper(), *body.words(2), body.hyper()
            check(status & 3 == 3, "an interface that is down")
            packets_in, _, _, discards_in, _, _ = body.words(6)
            octets_out = body.hyper()
            packets_out, _, _, discards_out, _, _ = body.words(6)
            body.end()
            self.counters.append({"interface": index, "packets": (packets_in, packets_out), "octets": (octets_in, octets_out),
                                  "discards": (discards_in, discards_out)})
