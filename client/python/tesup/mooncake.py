"""The Python class of the Mooncake transfer engine, over tesup's libtransfer_engine.so.

Clients import it as ``mooncake.engine`` from the package tesup-mooncake. Addresses are ints, and
what goes wrong is a negative number, as there; standard error has the sentence. Arguments of a
wrong type raise, and so do addresses at which this process has no memory.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import operator
import os
import threading
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Optional, Union

from . import _card, _engine

_FAILED = -1
_WILDCARD = "*"
_TIMEOUT_S = 30  # and at least 5: MC_TRANSFER_TIMEOUT


class TransferOpcode(IntEnum):
    """What a transfer does."""

    Read = 0
    Write = 1
    READ = 0
    WRITE = 1


class TransferNotify:
    """A notification: two strings."""

    __slots__ = ("name", "msg")

    def __init__(self, name: str = "", msg: str = "") -> None:
        self.name = name
        self.msg = msg

    def __repr__(self) -> str:
        return f"TransferNotify({self.name!r}, {self.msg!r})"


class TransferEngine:
    """An engine. Any method may be called from any thread; waiting releases the GIL.

    Where a call takes ``transport_hint``, it is accepted and means nothing: the supervisor decides
    which way bytes take.
    """

    def __init__(self) -> None:
        self._engine: Optional[_engine.Engine] = None
        self._lock = threading.Lock()
        self._segments: dict[str, int] = {}
        self._batches: dict[int, int] = {}
        self._managed: dict[int, mmap.mmap] = {}
        self._timeout_ms = 1000 * _timeout()

    # ---- the engine itself ----

    def initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str
    ) -> int:
        """Make the engine; 0, or negative. metadata_server: "P2PHANDSHAKE" alone is served."""
        return self.initialize_ext(local_hostname, metadata_server, protocol, device_name, "")

    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str,
        device_name: str,
        metadata_type: str,
    ) -> int:
        """The same; metadata_type is for servers that are not served."""
        if device_name:
            _say(
                f"device_name '{device_name}' is not read: which NIC serves whom is the "
                "supervisor's plan (`tesup topology`); TESUP_PAIR asks for another worker"
            )
        if metadata_server != "P2PHANDSHAKE" and metadata_type:
            metadata_server = f"{metadata_type}://{metadata_server}"
        try:
            engine = _engine.Engine(metadata_server, local_hostname)
        except RuntimeError:
            return _FAILED
        if protocol and not engine.install(protocol):
            engine.close()
            return _FAILED
        with self._lock:
            former, self._engine = self._engine, engine
            self._segments.clear()
            self._batches.clear()
        if former is not None:
            former.close()
        return 0

    def get_rpc_port(self) -> int:
        """The port of this engine's name; peers open HOST:PORT. Negative without an engine."""
        engine = self._engine
        return int(engine.name().rpartition(":")[2]) if engine is not None else _FAILED

    def get_local_topology(self, device_name: str = "") -> str:
        """This host's RDMA devices by NUMA node, as JSON: {"cpu:0": [[near], [others]]}.

        device_name: names with commas between them; the others are left out.
        """
        wanted = [name for name in device_name.split(",") if name]
        devices = {name: node for name, node in _rdma_devices() if not wanted or name in wanted}
        nodes = {node for node in _numa_nodes()} | {max(node, 0) for node in devices.values()}
        matrix = {}
        for node in sorted(nodes):
            near = sorted(name for name, at in devices.items() if max(at, 0) == node)
            matrix[f"cpu:{node}"] = [near, sorted(set(devices) - set(near))]
        return json.dumps(matrix)

    # ---- memory ----

    def register_memory(self, buffer_addr: int, capacity: int, location: str = _WILDCARD) -> int:
        """Let peers and transfers use this memory; 0, or negative."""
        return self.batch_register_memory([buffer_addr], [capacity], location)

    def unregister_memory(self, buffer_addr: int) -> int:
        """Take it back: waits until no byte can be read or land any more; 0, or negative."""
        return self.batch_unregister_memory([buffer_addr])

    def batch_register_memory(
        self,
        buffer_addresses: Iterable[int],
        capacities: Iterable[int],
        location: str = _WILDCARD,
    ) -> int:
        """register_memory() for many."""
        engine = self._engine
        addresses, lengths = _ints(buffer_addresses), _ints(capacities)
        if engine is None:
            return _FAILED
        return engine.register(addresses, lengths, location)

    def batch_unregister_memory(self, buffer_addresses: Iterable[int]) -> int:
        """unregister_memory() for many."""
        addresses = _ints(buffer_addresses)
        engine = self._engine
        return engine.unregister(addresses) if engine is not None else _FAILED

    def allocate_managed_buffer(self, length: int) -> int:
        """The address of zeroed, registered memory; 0 on failure."""
        engine = self._engine
        length = operator.index(length)
        if engine is None or length <= 0:
            return 0
        try:
            memory = mmap.mmap(-1, length)
        except (OSError, OverflowError, ValueError):
            return 0
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if engine.register((address,), (length,), _WILDCARD) != 0:
            return 0
        with self._lock:
            self._managed[address] = memory
        return address

    def free_managed_buffer(self, buffer_addr: int, length: int) -> int:
        """Free memory of allocate_managed_buffer(); 0, or negative."""
        with self._lock:
            memory = self._managed.pop(operator.index(buffer_addr), None)
        if memory is None or len(memory) != operator.index(length):
            if memory is not None:
                self._managed[buffer_addr] = memory
            return _FAILED
        code = self.unregister_memory(buffer_addr)
        if code != 0:
            self._managed[buffer_addr] = memory
        return code

    def write_bytes_to_buffer(
        self, dest_address: int, src_ptr: Union[bytes, bytearray, memoryview, str], length: int
    ) -> int:
        """Copy the first bytes of src_ptr to an address of this process; 0."""
        data = memoryview(src_ptr.encode() if isinstance(src_ptr, str) else src_ptr).cast("B")
        if not 0 <= length <= len(data):
            raise ValueError(f"{length} bytes of the {len(data)} that there are")
        _engine.memory_write(dest_address, data[:length])
        return 0

    def read_bytes_from_buffer(self, source_address: int, length: int) -> bytes:
        """The bytes at an address of this process."""
        return _engine.memory_read(source_address, length)

    def get_first_buffer_address(self, segment_name: str) -> int:
        """The lowest address that the other engine has registered; 0 when there is none."""
        return _card.first_address(segment_name)

    # ---- transfers, waited for ----

    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Write to the peer's memory; 0, or negative."""
        return self.transfer_sync(
            target_hostname, buffer, peer_buffer_address, length, TransferOpcode.Write
        )

    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Read the peer's memory; 0, or negative."""
        return self.transfer_sync(
            target_hostname, buffer, peer_buffer_address, length, TransferOpcode.Read
        )

    def transfer_sync(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        opcode: TransferOpcode,
        notify: Optional[TransferNotify] = None,
        transport_hint: str = "",
    ) -> int:
        """Either of both. The peer gets ``notify`` when the bytes are in place; 0, or negative."""
        return self.batch_transfer_sync(
            target_hostname, [buffer], [peer_buffer_address], [length], opcode, notify
        )

    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """transfer_sync_write() for many."""
        return self.batch_transfer_sync(
            target_hostname, buffers, peer_buffer_addresses, lengths, TransferOpcode.Write
        )

    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """transfer_sync_read() for many."""
        return self.batch_transfer_sync(
            target_hostname, buffers, peer_buffer_addresses, lengths, TransferOpcode.Read
        )

    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        opcode: TransferOpcode,
        notify: Optional[TransferNotify] = None,
        transport_hint: str = "",
    ) -> int:
        """Many at once; the peer gets ``notify`` when all bytes are in place; 0, or negative."""
        batch = self._submit(
            target_hostname, buffers, peer_buffer_addresses, lengths, opcode, notify
        )
        return self._wait(batch) if batch is not None else _FAILED

    # ---- transfers, asked about later ----

    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """A batch for transfer_check_status(), or negative."""
        batch = self._submit(
            target_hostname, [buffer], [peer_buffer_address], [length], TransferOpcode.Write, None
        )
        return batch if batch is not None else _FAILED

    def transfer_check_status(self, batch_id: int) -> int:
        """1: done; 0: under way; -1: failed, or no such batch; -2: timed out."""
        engine = self._engine
        count = self._batches.get(batch_id)
        if engine is None or count is None:
            return _FAILED
        status = engine.status(batch_id, count)
        if status != 0:
            self._batches.pop(batch_id, None)
        return status

    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """A batch for get_batch_transfer_status(), or 0."""
        return self.batch_transfer_async(
            target_hostname, buffers, peer_buffer_addresses, lengths, TransferOpcode.Write
        )

    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """A batch for get_batch_transfer_status(), or 0."""
        return self.batch_transfer_async(
            target_hostname, buffers, peer_buffer_addresses, lengths, TransferOpcode.Read
        )

    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        opcode: TransferOpcode,
        transport_hint: str = "",
    ) -> int:
        """Either of both."""
        batch = self._submit(target_hostname, buffers, peer_buffer_addresses, lengths, opcode, None)
        return batch if batch is not None else 0

    def get_batch_transfer_status(self, batch_ids: Sequence[int]) -> int:
        """Wait for the batches; 0 when all are done well, -1 when one is not."""
        return min([0, *[self._wait(batch) for batch in batch_ids]])

    # ---- peers ----

    def get_notifies(self) -> list[TransferNotify]:
        """All that arrived since the last call."""
        engine = self._engine
        if engine is None:
            return []
        return [
            TransferNotify(name.decode(errors="replace"), msg.decode(errors="replace"))
            for name, msg in engine.notifications()
        ]

    def send_probe(self, peer_server_name: str) -> int:
        """Ask the peer who it is, and its worker for the segment; 0, or negative."""
        engine = self._engine
        if engine is None:
            return _FAILED
        return 0 if engine.open(peer_server_name, True) >= 0 else _FAILED

    # ---- inside ----

    def _segment(self, engine: _engine.Engine, name: str) -> int:
        """Known, or opened now; negative when it cannot be. Two threads get the same number."""
        segment = self._segments.get(name)
        if segment is None:
            segment = engine.open(name, False)
            if segment >= 0:
                self._segments[name] = segment
        return segment

    def _submit(
        self,
        target: str,
        buffers: Iterable[int],
        peers: Iterable[int],
        lengths: Iterable[int],
        opcode: int,
        notify: Optional[TransferNotify],
    ) -> Optional[int]:
        engine = self._engine
        columns = _ints(buffers), _ints(peers), _ints(lengths)
        words = () if notify is None else (notify.name.encode(), notify.msg.encode())
        if engine is None:
            return None
        segment = self._segment(engine, target)
        if segment < 0:
            return None
        batch = engine.submit(segment, int(opcode), *columns, *words)
        if batch is not None:
            self._batches[batch] = len(columns[0])
        return batch

    def _wait(self, batch: int) -> int:
        engine = self._engine
        count = self._batches.get(batch)
        if engine is None or count is None:
            return _FAILED
        status = engine.wait(batch, count, self._timeout_ms)
        self._batches.pop(batch, None)
        return 0 if status == 1 else _FAILED


def _ints(numbers: Iterable[Any]) -> tuple[int, ...]:
    return tuple(operator.index(number) for number in numbers)


def _timeout() -> int:
    try:
        return max(5, int(os.environ.get("MC_TRANSFER_TIMEOUT", _TIMEOUT_S)))
    except ValueError:
        return _TIMEOUT_S


def _say(sentence: str) -> None:
    os.write(2, f"tesup: {sentence}\n".encode())


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return -1


def _numa_nodes() -> list[int]:
    found = Path("/sys/devices/system/node").glob("node[0-9]*")
    return [int(path.name[4:]) for path in found] or [0]


def _rdma_devices() -> list[tuple[str, int]]:
    """(name, NUMA node or -1)"""
    found = Path("/sys/class/infiniband").glob("*")
    return [(path.name, _number(path / "device/numa_node")) for path in found]


__all__ = ["TransferEngine", "TransferNotify", "TransferOpcode"]
