"""For `bench/run firewall`: answers each UDP packet over IPv4 with another the way that it came.

usage: answer.py INTERFACE SECONDS
"""

import socket
import sys
import time

# Sockets of all protocols see frames before traffic control takes them away.
ALL, OUTGOING = 3, 4
ROOM_FORCED = 33
UDP_OVER_IPV4 = b"\x08\x00", 17

line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
line.setsockopt(socket.SOL_SOCKET, ROOM_FORCED, 64 << 20)
line.bind((sys.argv[1], ALL))
end = time.monotonic() + float(sys.argv[2])
while (left := end - time.monotonic()) > 0:
    line.settimeout(left)
    try:
        frame, (_, _, kind, *_) = line.recvfrom(2048)
    except TimeoutError:
        break
    if kind == OUTGOING or len(frame) < 42 or (frame[12:14], frame[23]) != UDP_OVER_IPV4:
        continue
    # Addresses and ports change places, which no sum notices.
    back = frame[6:12] + frame[:6] + frame[12:26] + frame[30:34] + frame[26:30] + frame[36:38] + frame[34:36] + frame[38:]
    line.send(back)
