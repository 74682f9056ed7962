"""A QEMU guest whose network cards end in taps of this process's network namespace."""

import json
import os
import re
import selectors
import socket
import subprocess
import time

from image import Impossible, Unavailable, program

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mkdir -p /dev/pts /sys/fs/bpf
mount -t bpf bpf /sys/fs/bpf
for module in /modules/*.ko; do insmod $module; done
ip link set lo up
exec 3<> /dev/ttyS1
stty raw -echo <&3
printf '\\n\\001up 0\\n' >&3
while :; do sh /dev/ttyS1 < /dev/null >&3 2>&1; done
"""


# Where QEMU is told what to do, by the program under test and by the test.
MONITOR, WATCH = "/run/guest.qmp", "/run/watch.qmp"


class Failure(Exception):
    """The guest or what runs in it did not do what it should."""


class Guest:
    """A running guest; its shell listens on the second serial line, the kernel logs on the first."""

    def __init__(self, kernel_folder, ram_disk, accelerator, cards, queues, cpus, memory_mib):
        self.log = os.memfd_create("console")
        self.complaints = os.memfd_create("complaints")
        disk = os.memfd_create("initrd")
        with os.fdopen(os.dup(disk), "wb") as file:
            file.write(ram_disk)
        command = [
            emulator(), "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", "q35", "-smp", str(cpus), "-m", str(memory_mib),
            "-accel", accelerator, "-cpu", "host" if accelerator == "kvm" else "max",
            "-kernel", os.path.join(kernel_folder, "vmlinuz"), "-initrd", f"/proc/self/fd/{disk}",
            "-append", "console=ttyS0 panic=-1 random.trust_cpu=on mitigations=off quiet loglevel=5",
            "-serial", f"file:/proc/self/fd/{self.log}", "-serial", "stdio",
            "-qmp", f"unix:{MONITOR},server=on,wait=off", "-qmp", f"unix:{WATCH},server=on,wait=off",
        ]
        for card in range(cards):
            # Software RSS in QEMU: without vhost the device spreads packets itself.
            command += [
                "-netdev",
                f"tap,id=n{card},ifname=tap{card},queues={queues},vhost=off,script=no,downscript=no",
                "-device",
                f"virtio-net-pci,netdev=n{card},mac={mac(card)},mq=on,rss=on,hash=on,romfile=,"
                f"vectors={2 * queues + 2},rx_queue_size=1024",
            ]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints,
            pass_fds=(disk, self.log),
        )
        os.close(disk)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.readable = selectors.DefaultSelector()
        self.readable.register(self.process.stdout, selectors.EVENT_READ)
        self.pending = b""
        self.count = 0

    def wait_up(self, seconds):
        """Waits for the guest's shell and returns how many seconds it took since the start."""
        self.answer("up", seconds)
        return time.monotonic() - self.started

    def run(self, command, seconds=15):
        """Runs a shell command in the guest and returns its exit status and output."""
        self.count += 1
        text = f"{{ {command}\n}} </dev/null 2>&1; printf '\\n\\001{self.count} %d\\n' $?\n"
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()
        return self.answer(str(self.count), seconds)

    def check(self, command, seconds=15):
        """Runs a shell command in the guest and returns its output.

        Raises Failure when its exit status is not 0.
        """
        status, output = self.run(command, seconds)
        if status != 0:
            raise Failure(f"in the guest: {command}: exit status {status}: {output}")
        return output

    def answer(self, tag, seconds):
        """What the shell writes before the mark `tag`, and the status in the mark."""
        end = time.monotonic() + seconds
        mark = re.compile(b"\n\x01" + tag.encode() + rb" (\d+)\n")
        while True:
            found = mark.search(self.pending)
            if found:
                output = self.pending[: found.start()]
                self.pending = self.pending[found.end():]
                return int(found.group(1)), output.decode(errors="replace").strip()
            left = end - time.monotonic()
            ended = self.process.poll()
            if left <= 0 or ended is not None:
                what = "says nothing" if ended is None else f"is gone (status {ended})"
                raise Failure(f"the guest {what}; its last words:\n{self.last_words()}")
            if self.readable.select(left):
                self.pending += self.process.stdout.read() or b""

    def last_words(self):
        """The ends of the kernel's log, of what the shell wrote and of what QEMU says."""
        ends = [end_of(self.log), self.pending[-1500:], end_of(self.complaints)]
        return b"\n--\n".join(ends).decode(errors="replace")

    def state(self):
        """What QEMU says of the machine: running, paused."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(15)
            monitor.connect(WATCH)
            lines = monitor.makefile("rw")
            for command in ("qmp_capabilities", "query-status"):
                lines.write(json.dumps({"execute": command}) + "\n")
            lines.flush()
            for line in lines:
                answer = json.loads(line).get("return")
                if answer:
                    return answer["status"]
        raise Failure("QEMU does not say what state it is in")

    def stop(self):
        """Ends the guest at once."""
        self.process.kill()
        self.process.wait()


def emulator():
    """The path of the emulator."""
    try:
        return program("qemu-system-x86_64")
    except Unavailable as reason:
        raise Impossible(str(reason)) from None


def end_of(file):
    """The last bytes of a file in memory."""
    return os.pread(file, 1500, max(0, os.fstat(file).st_size - 1500))


def mac(card):
    """The MAC address of the guest's card number `card`."""
    return f"52:54:00:eb:b0:{card:02x}"


def accelerators():
    """The accelerators worth trying here, best first.

    A /dev/kvm without hardware virtualization below it (a paravirtual nested one) runs only guests
    made for it and lets others hang in their first instructions.
    """
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        hardware = re.search(r"^flags\s*:.*\b(vmx|svm)\b", file.read(), re.MULTILINE)
    usable = hardware and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return ["kvm", "tcg"] if usable else ["tcg"]


def boot(kernel_folder, ram_disk, **size):
    """A guest that is up, its accelerator and the seconds it took.

    Raises Unavailable when it comes up under no accelerator.
    """
    for accelerator in [*accelerators(), "tcg"]:
        guest = Guest(kernel_folder, ram_disk, accelerator, **size)
        try:
            return guest, accelerator, guest.wait_up(10 if accelerator == "kvm" else 60)
        except Failure as failure:
            guest.stop()
            reason = failure
    raise Unavailable(f"no guest comes up: {reason}")
