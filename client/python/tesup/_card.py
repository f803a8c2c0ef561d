"""Asks an engine which memory it has registered, as its peers do before a transfer.

The question and the answer are described in client/compat/mooncake/card.h.
"""

from __future__ import annotations

import socket
import struct

_QUESTION = struct.pack("<8sII", b"tesupask", 1, 0)
_HEADER = struct.Struct("<8sIIII")
_RANGE = struct.Struct("<QQII")
_SECONDS = 3.0
_NAME_MAX = 4096
_RANGES_MAX = 65536


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the answer is too short")
        data += part
    return data


def first_address(engine: str) -> int:
    """The lowest registered address of the engine HOST:PORT; 0 when nobody or nothing is there."""
    host, _, port = engine.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as connection:
            connection.settimeout(_SECONDS)
            connection.sendall(_QUESTION)
            word, version, name, count, _ = _HEADER.unpack(_read(connection, _HEADER.size))
            if word != b"tesupcrd" or version != 1 or name > _NAME_MAX or count > _RANGES_MAX:
                return 0
            _read(connection, name)
            return int(_RANGE.unpack(_read(connection, _RANGE.size))[0]) if count > 0 else 0
    except (OSError, ValueError, OverflowError):
        return 0
