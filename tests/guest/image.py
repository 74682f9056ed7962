"""What the guest boots: Debian's cloud kernel and an initial RAM disk made of this machine's programs."""

import glob
import gzip
import lzma
import os
import re
import shutil
import subprocess
import tarfile

MODULES = ("virtio_pci", "virtio_net", "8021q", "bonding", "vrf", "sch_ingress", "cls_bpf", "crc32c_generic", "nf_tables", "nft_ct", "nf_nat")
# The first kernel that is asked for by its version.
NEWER = (6, 6)
PROGRAMS = ("busybox", "ethtool", "ip", "nft", "tc")
META_PACKAGES = ("linux-image-cloud-amd64", "linux-image-amd64")


class Unavailable(Exception):
    """Something this machine does not have and cannot get; the test is skipped."""


class Impossible(Unavailable):
    """This machine can have no guest of the kind that is needed."""


def program(name):
    """The path of a program, also one that only an administrator's search path has."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def kernel(least=(0, 0)):
    """The folder of an unpacked kernel (`vmlinuz`, `modules/*.ko`), fetched at the first use: Debian's current one,
    or the newest that it has beside it where that must be of another version at least."""
    cache = os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ebb", "guest-kernel"
    )
    package = os.path.join(cache, "linux-image-*", "vmlinuz")
    have = [path for path in glob.glob(package) if is_whole(os.path.dirname(path))]
    have = [path for path in have if is_wanted(version_of(os.path.basename(os.path.dirname(path))), least)]
    have.sort(key=os.path.getmtime)
    if have:
        return os.path.dirname(have[-1])
    try:
        return fetch(cache, least)
    except Unavailable:
        if os.geteuid() != 0:
            raise
    # The package index may be missing or older than what the mirror still has.
    subprocess.run([program("apt-get"), "update", "-qq"], capture_output=True, timeout=120)
    return fetch(cache, least)


def is_whole(folder):
    """Whether a kernel was unpacked with the modules that are wanted now."""
    try:
        return read(os.path.join(folder, "wanted")).decode().split() == list(MODULES)
    except OSError:
        return False


def version_of(package):
    """The first two numbers of a kernel package's version."""
    found = re.match(r"linux-image-(\d+)\.(\d+)", package)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_wanted(version, least):
    """Whether a kernel will do: where none is asked for, one as Debian's own, so that older ones stay tried."""
    return version >= least if least > (0, 0) else version < NEWER


def fetch(cache, least):
    """Downloads and unpacks a kernel package into a folder of its own in `cache`."""
    os.makedirs(cache, exist_ok=True)
    package = kernel_package() if least == (0, 0) else newer_package(least)
    work = os.path.join(cache, f".{os.getpid()}")
    os.makedirs(work)
    try:
        fetched = subprocess.run(
            [program("apt-get"), "download", "-q", package],
            cwd=work, capture_output=True, text=True, timeout=120,
        )
        packages = glob.glob(os.path.join(work, "*.deb"))
        if fetched.returncode != 0 or not packages:
            raise Unavailable(f"cannot download {package}: {fetched.stderr.strip()[-200:]}")
        unpack(packages[0], work)
        os.remove(packages[0])
        write(os.path.join(work, "wanted"), " ".join(MODULES).encode())
        folder = os.path.join(cache, package)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(work, folder)
        return folder
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"cannot unpack {package}: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def kernel_package():
    """The kernel package that Debian's current meta package stands for."""
    for meta in META_PACKAGES:
        depends = subprocess.run(
            [program("apt-cache"), "depends", "--important", meta], capture_output=True, text=True
        ).stdout
        found = re.search(r"Depends: (linux-image-\d\S+)", depends)
        if found:
            return found.group(1)
    raise Unavailable("the package index knows no Debian kernel (apt-get update?)")


def newer_package(least):
    """The newest of the kernel packages that Debian has beside its current one."""
    names = subprocess.run(
        [program("apt-cache"), "pkgnames", "linux-image-"], capture_output=True, text=True
    ).stdout.split()
    fit = [name for name in names if re.fullmatch(r"linux-image-[\d.]+\S*-cloud-amd64", name) and version_of(name) >= least]
    if not fit:
        raise Unavailable(f"the package index knows no kernel from {least[0]}.{least[1]} on (apt-get update?)")
    return max(fit, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def unpack(package, folder):
    """Takes the kernel and the modules the guest needs out of a package."""
    os.makedirs(os.path.join(folder, "modules"))
    stream = subprocess.Popen(
        [program("dpkg-deb"), "--fsys-tarfile", package], stdout=subprocess.PIPE
    )
    modules = {}
    with tarfile.open(fileobj=stream.stdout, mode="r|") as archive:
        for member in archive:
            name = os.path.basename(member.name)
            if member.isfile() and name.startswith("vmlinuz-"):
                write(os.path.join(folder, "vmlinuz"), archive.extractfile(member).read())
            elif member.isfile() and re.search(r"/(drivers/(virtio|net)|net|lib|crypto)/.*\.ko", member.name):
                modules[module_name(name)] = (name, archive.extractfile(member).read())
    if stream.wait() != 0:
        raise OSError("dpkg-deb failed")
    for position, (name, text) in enumerate(in_load_order(modules)):
        write(os.path.join(folder, "modules", f"{position:02}-{name}.ko"), text)


def module_name(file_name):
    """A module's name as the kernel spells it."""
    return file_name.split(".ko")[0].replace("-", "_")


def in_load_order(modules):
    """The wanted modules and what they depend on, dependencies first; built-in ones are absent."""
    done = {}

    def visit(name):
        if name in done or name not in modules:
            return
        text = plain(*modules[name])
        found = re.search(rb"\0depends=([^\0]*)\0", text)
        for other in found.group(1).decode().split(",") if found else ():
            visit(other.replace("-", "_"))
        done[name] = text

    for name in MODULES:
        visit(name)
    return list(done.items())


def plain(name, text):
    """A module without its compression."""
    if name.endswith(".xz"):
        return lzma.decompress(text)
    if name.endswith(".gz"):
        return gzip.decompress(text)
    if name.endswith(".zst"):
        return subprocess.run([program("zstd"), "-dc"], input=text, stdout=subprocess.PIPE, check=True).stdout
    return text


def write(path, text):
    """A new file."""
    with open(path, "wb") as file:
        file.write(text)


def initial_ram_disk(kernel_folder, init, binaries):
    """A cpio archive (newc) of `init`, the kernel's modules, this machine's programs and `binaries`.

    `binaries` maps names in the guest's /bin to paths here; their shared libraries come along.
    """
    programs = {name: program(name) for name in PROGRAMS}
    files = {"init": init.encode()}
    for path in sorted(glob.glob(os.path.join(kernel_folder, "modules", "*.ko"))):
        files["modules/" + os.path.basename(path)] = read(path)
    for name, path in programs.items() | binaries.items():
        files["bin/" + name] = stripped(path) if name in binaries else read(path)
        for library in libraries(path):
            files[library.lstrip("/")] = read(library)
    folders = {"dev", "proc", "sys", "tmp", "run", "etc", "var"}
    for name in files:
        while "/" in name:
            name = os.path.dirname(name)
            folders.add(name)
    entries = [(name, 0o040755, b"") for name in sorted(folders)]
    entries += [(name, 0o100755, text) for name, text in sorted(files.items())]
    return cpio(entries + [("TRAILER!!!", 0, b"")])


def read(path):
    """A file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def stripped(path):
    """A binary without its debugging information, which the guest's memory has no room for."""
    target = os.memfd_create("stripped")
    try:
        with os.fdopen(target, "rb") as file:
            subprocess.run(
                [program("objcopy"), "--strip-debug", path, f"/proc/self/fd/{target}"],
                stderr=subprocess.DEVNULL, check=True, pass_fds=(target,),
            )
            return file.read() or read(path)
    except (Unavailable, subprocess.CalledProcessError):
        return read(path)


def libraries(path):
    """The shared libraries, loader included, that a program is started with; none if it is static."""
    listed = subprocess.run([program("ldd"), path], capture_output=True, text=True)
    return re.findall(r"(?:=> )?(/\S+) \(0x", listed.stdout)


def cpio(entries):
    """An archive in the `newc` format (Linux Documentation/driver-api/early-userspace/buffer-format)."""
    out = bytearray()
    for inode, (name, mode, text) in enumerate(entries, 1):
        encoded = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(encoded), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        out += bytes(-len(out) % 4) + text
        out += bytes(-len(out) % 4)
    return bytes(out)
