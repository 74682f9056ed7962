#!/usr/bin/env python3
"""Caches written a second time, without a thought for speed, to hold `ebb sim gating` to.

usage: ebb trace show TRACE --first N | caches.py
Reads references as that prints them, sends them through three levels of least-recently-used,
write-back, write-allocate caches of 64-byte lines (Table 2.3: 32 KiB 8 ways of data and of code,
256 KiB 8 ways, 8 MiB 16 ways) and prints how many lines each level answered and how many went back
to memory, as JSON.
"""
import json
import sys


class Cache:
    def __init__(self, kib, ways):
        self.sets = kib * 1024 // 64 // ways
        self.ways = ways
        # Of each set: line -> dirty, in order of last use (dictionaries keep the order of insertion).
        self.lines = [{} for _ in range(self.sets)]

    def access(self, line, dirty):
        """Whether it was there, and the line that left if it was dirty."""
        lines = self.lines[line % self.sets]
        if line in lines:
            lines[line] = lines.pop(line) or dirty
            return True, None
        left = None
        if len(lines) == self.ways:
            oldest = next(iter(lines))
            if lines.pop(oldest):
                left = oldest
        lines[line] = dirty
        return False, left


def main():
    data, code, second, third = Cache(32, 8), Cache(32, 8), Cache(256, 8), Cache(8192, 16)
    count = dict(l1=0, l2=0, l3=0, memory=0, written_back=0)

    def back(line):
        """A dirty line leaves the second level."""
        if line is not None:
            _, left = third.access(line, True)
            count["written_back"] += left is not None

    for text in sys.stdin:
        words = text.split()
        kind, address, size = words[0], int(words[1], 16), int(words[3])
        for line in range(address // 64, (address + size - 1) // 64 + 1):
            hit, left = (code if kind == "fetch" else data).access(line, kind == "write")
            if hit:
                count["l1"] += 1
                continue
            if left is not None:
                back(second.access(left, True)[1])
            hit, left = second.access(line, False)
            back(left)
            if hit:
                count["l2"] += 1
                continue
            hit, left = third.access(line, False)
            count["written_back"] += left is not None
            count["l3" if hit else "memory"] += 1
    print(json.dumps(count))


main()
