"""Runs the kernels of client/bench/pattern.ptx without a GPU: the text itself, instruction by
instruction, over bytes in a dictionary, thread after thread.

usage: ptx.py FILE

What it does not know is an error: instructions, registers, labels, addresses that were not given.
What two threads at once would do is not seen; the kernels share nothing but atomic additions.
"""

import itertools
import operator
import random
import re
import sys
from collections.abc import Callable

MASK = (1 << 64) - 1
WIDTH = {".pred": 1, ".u32": 32, ".u64": 64}
BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "min": min,
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
}


class Kernel:
    def __init__(self, parameters: str, body: str) -> None:
        self.parameters = re.findall(r"\.param \.u64 (\w+)", parameters)
        self.width: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self.code: list[tuple[str | None, list[str], list[str]]] = []
        for label, text in re.findall(r"(\w+):|([^;:]+);", body):
            if label:
                self.labels[label] = len(self.code)
            else:
                self.statement(text.split())

    def statement(self, words: list[str]) -> None:
        guard = words.pop(0)[1:] if words[0].startswith("@") else None
        operands = [operand.strip() for operand in " ".join(words[1:]).split(",") if operand]
        if words[0] == ".reg":
            kind, names = " ".join(words[1:]).split(" ", 1)
            self.width.update({name.strip(): WIDTH[kind] for name in names.split(",")})
        else:
            self.code.append((guard, words[0].split("."), operands))


class Thread:
    def __init__(self, kernel: Kernel, given: dict[str, int], memory: dict[int, int]) -> None:
        self.kernel, self.given, self.memory = kernel, given, memory
        self.registers: dict[str, int] = {}
        self.at = 0

    def value(self, operand: str) -> int:
        if operand in self.given:
            return self.given[operand]
        return self.registers[operand] if operand.startswith("%") else int(operand, 0) & MASK

    def keep(self, register: str, value: int) -> None:
        self.registers[register] = value & ((1 << self.kernel.width[register]) - 1)

    def address(self, operand: str) -> int:
        base, _, plus = operand.strip("[]").partition("+")
        return self.value(base) + int(plus or 0)

    def load(self, address: int, size: int) -> int:
        assert address % size == 0, "misaligned"
        return int.from_bytes(bytes(self.memory[address + i] for i in range(size)), "little")

    def store(self, address: int, size: int, value: int) -> None:
        self.load(address, size)
        for i in range(size):
            self.memory[address + i] = value >> 8 * i & 0xFF

    def execute(self, name: list[str], operands: list[str]) -> None:
        to, size = operands[0], int(name[-1][1:]) // 8 if name[-1][1:].isdigit() else 0
        if name[:2] == ["ld", "param"]:
            self.keep(to, self.given[operands[1].strip("[]")])
        elif name[:2] == ["ld", "global"]:
            self.keep(to, self.load(self.address(operands[1]), size))
        elif name[:2] == ["st", "global"]:
            self.store(self.address(to), size, self.value(operands[1]))
        elif name[:2] == ["red", "global"]:
            address, change = self.address(to), self.value(operands[1])
            old = self.load(address, size)
            self.store(address, size, BINARY[name[2]](old, change))
        else:
            self.keep(to, self.compute(name, [self.value(operand) for operand in operands[1:]]))

    @staticmethod
    def compute(name: list[str], values: list[int]) -> int:
        width = int(name[-1][1:])
        if name[0] in ("mov", "cvta"):
            return values[0]
        if name[0] == "cvt":
            return values[0] & ((1 << width) - 1)
        if name[:2] == ["mul", "wide"]:
            return values[0] * values[1]
        if name[:2] == ["mad", "lo"]:
            return values[0] * values[1] + values[2]
        if name[0] == "setp":
            return int(COMPARE[name[1]](*values))
        if name[0] == "selp":
            return values[0] if values[2] else values[1]
        if name[0] == "brev":
            return int(format(values[0], f"0{width}b")[::-1], 2)
        if name[0] == "clz":
            return width - values[0].bit_length()
        if name[0] == "popc":
            return values[0].bit_count()
        return BINARY[name[0]](*values)

    def run(self) -> None:
        while True:
            guard, name, operands = self.kernel.code[self.at]
            self.at += 1
            if guard and not self.registers[guard]:
                continue
            if name == ["ret"]:
                return
            if name == ["bra"]:
                self.at = self.kernel.labels[operands[0]]
            else:
                self.execute(name, operands)


def launch(
    kernel: Kernel, grid: tuple[int, int], arguments: list[int], memory: dict[int, int]
) -> None:
    assert len(arguments) == len(kernel.parameters)
    for block, thread in itertools.product(range(grid[0]), range(grid[1])):
        given = dict(zip(kernel.parameters, arguments))
        given.update(
            {"%nctaid.x": grid[0], "%ntid.x": grid[1], "%ctaid.x": block, "%tid.x": thread}
        )
        Thread(kernel, given, memory).run()


def fill_check(
    kernel: Kernel, grid: tuple[int, int], block: int, length: int
) -> tuple[list[int], dict[int, int]]:
    """Arguments of the launch, and the block with some bytes around it."""
    start, step = random.getrandbits(64), random.getrandbits(64) | 1
    right = b"".join(
        (start + i * step & MASK).to_bytes(8, "little") for i in range(length // 8 + 1)
    )
    memory = {block + i: 0xA5 for i in range(-8, length + 8)}
    expected = memory | {block + i: right[i] for i in range(length)}
    arguments = [block, length, start, step]
    launch(kernel, grid, arguments, memory)
    assert memory == expected, f"pattern_fill: {grid} {block:x} {length}"
    return arguments, memory


def verdict_check(
    kernel: Kernel,
    grid: tuple[int, int],
    arguments: list[int],
    filled: dict[int, int],
    spoiled: set[int],
) -> None:
    block, length = arguments[:2]
    verdict = 0x1000
    memory = dict(filled)
    for offset in spoiled:
        memory[block + offset] ^= random.choice([1, 16, 128, 255])
    memory.update({verdict + i: byte for i, byte in enumerate(bytes(16) + b"\xff" * 8)})
    launch(kernel, grid, [*arguments, verdict], memory)
    told = [
        int.from_bytes(bytes(memory[verdict + 8 * i + j] for j in range(8)), "little")
        for i in range(3)
    ]
    expected = [length, len(spoiled), min(spoiled, default=MASK)]
    assert told == expected, f"pattern_check: {grid} {block:x} {length} {spoiled}: {told}"


def main() -> None:
    random.seed(1)
    with open(sys.argv[1], encoding="ascii") as file:
        text = re.sub("//.*", "", file.read())
    kernels = {
        name: Kernel(parameters, body)
        for name, parameters, body in re.findall(
            r"\.entry\s+(\w+)\((.*?)\)\s*\{(.*?)\n\}", text, re.DOTALL
        )
    }
    lengths = [1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 4099]
    grids = [(1, 1), (3, 7), (2, 40)]
    checks = 0
    for length, shift, grid in itertools.product(lengths, range(8), grids):
        if length > 1000 and shift not in (0, 3):
            continue
        arguments, filled = fill_check(kernels["pattern_fill"], grid, 0x7000000000 + shift, length)
        some = set(random.sample(range(length), min(length, 3)))
        every: list[set[int]] = [set(), {0}, {length - 1}, some, set(range(length))]
        for spoiled in every:
            verdict_check(kernels["pattern_check"], grid, arguments, filled, spoiled)
            checks += 1
    print(f"{sys.argv[1]}: {checks} checks")


if __name__ == "__main__":
    main()
