"""A collector of IPFIX over TLS (RFC 7011, 10.4 and 11), with Python's ssl: it asks for the exporter's certificate, changes
its own, and hangs up when asked."""

import socket
import ssl
import threading

from collector import Collector
from wire import inside


class TlsCollector(threading.Thread):
    """Takes connections one after the other in the router's namespace until it is ended."""

    def __init__(self, lab, port, authority):
        super().__init__(daemon=True)
        self.authority, self.pair, self.flows, self.error = authority, None, [], None
        self.refused, self.connections, self.hang_up, self.ended = [], 0, False, False
        self.maximum, self.protocols = ssl.TLSVersion.TLSv1_3, []
        with inside(lab.router):
            self.socket = socket.create_server(("127.0.0.1", port))
        self.socket.settimeout(0.1)
        self.start()

    def run(self):
        try:
            while not self.ended:
                try:
                    connection, _ = self.socket.accept()
                except TimeoutError:
                    continue
                self._serve(connection)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        self.socket.close()

    def _serve(self, connection):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.pair)
        context.load_verify_locations(self.authority)
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = self.maximum
        connection.settimeout(5)
        try:
            stream = context.wrap_socket(connection, server_side=True)
        except (ssl.SSLError, OSError) as error:
            self.refused.append(str(error))
            return
        self.connections += 1
        self.protocols.append(stream.version())
        stream.settimeout(0.1)
        # Sequence numbers go on, but templates are those of the connection (RFC 7011, 8).
        reader, left = Collector(), b""
        while not self.hang_up and not self.ended:
            try:
                data = stream.recv(65536)
            except TimeoutError:
                continue
            if not data:
                break
            left = reader.stream(left + data)
        self.flows += reader.flows
        self.hang_up = False
        stream.close()

    def end(self):
        """All flows, after the router has ended."""
        self.join(5)
        self.ended = True
        self.join(10)
        if self.error:
            raise self.error
        return self.flows
