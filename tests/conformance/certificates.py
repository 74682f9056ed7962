"""Certificates for tests, made with openssl: an authority and what it signs, valid or expired."""

import os
import subprocess

CONFIGURATION = """
[ca]
default_ca = this
[this]
database = {0}/index
new_certs_dir = {0}
serial = {0}/serial
certificate = {0}/ca.pem
private_key = {0}/ca.key
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, timeout=30, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Authority:
    """Signs in a directory of its own."""

    def __init__(self, directory, name):
        self.directory = f"{directory}/{name}"
        os.mkdir(self.directory)
        self.configuration, self.certificate = f"{self.directory}/ca.conf", f"{self.directory}/ca.pem"
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(self.directory))
        with open(f"{self.directory}/index", "w", encoding="ascii"):
            pass
        with open(f"{self.directory}/serial", "w", encoding="ascii") as file:
            file.write("01\n")
        openssl("req", "-x509", *KEY, "-subj", f"/CN={name}", "-days", "10", "-keyout", f"{self.directory}/ca.key",
                "-out", self.certificate)

    def sign(self, name, alternative, start="20200101000000Z", end="20900101000000Z"):
        """Certificate and key of `name`, for a name or an address such as `DNS:a.example`."""
        place = f"{self.directory}/{name}"
        openssl("req", "-new", *KEY, "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternative}",
                "-keyout", f"{place}.key", "-out", f"{place}.csr")
        openssl("ca", "-batch", "-notext", "-config", self.configuration, "-startdate", start, "-enddate", end,
                "-in", f"{place}.csr", "-out", f"{place}.pem")
        os.chmod(f"{place}.key", 0o600)
        return f"{place}.pem", f"{place}.key"


KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
