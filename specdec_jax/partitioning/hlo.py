"""What a compiled program does, read from its text: what it moves, reads and copies."""

import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
)
_BITS = {"pred": 8, "token": 0, "opaque": 0, "bf16": 16, "s4": 4, "u4": 4}

# What has no array of its own: it names others, or runs computations.
_READ_NOTHING = {
    "after-all",
    "bitcast",
    "call",
    "conditional",
    "constant",
    "get-tuple-element",
    "opt-barrier",
    "parameter",
    "tuple",
    "while",
}
_COPYING = {"parameter", "bitcast", "copy", "transpose"}
_READ_A_PART = {"dynamic-slice", "gather", "slice", "slice-start"}

_HEAD = re.compile(r"^(ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
_OPCODE = re.compile(r"^ ([a-z][\w\-]*)\(")
_ARRAY = re.compile(r"([a-z]+\d*\w*)\[([\d,]*)\]")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_SCOPE = re.compile(r'op_name="([^"]*)"')
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|called_computations|branch_computations|"
    r"true_computation|false_computation)=(\{[^}]*\}|%?[\w.\-]+)"
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a program.

    Attributes:
      opcode: such as "dot"; the halves of an asynchronous one end in -start and -done.
      shape: of the result, with its layout, as it is written.
      text: the rest of the line: operands and attributes.
      name: of the result.
      is_root: whether it is what its computation returns.
    """

    name: str
    opcode: str
    shape: str
    text: str
    is_root: bool = False

    @property
    def arrays(self) -> list[tuple[str, tuple[int, ...]]]:
        """Element type and dimensions of each array of the result."""
        return _arrays(self.shape)

    @property
    def num_bytes(self) -> int:
        """Of the result alone, where a start has its operands beside it."""
        if self.opcode.endswith("-start") and self.shape.startswith("(("):
            _, after = _split_type(self.shape[1:])  # ((operands), result, context)
            return array_bytes(*_arrays(after)[0])
        sizes = [array_bytes(*array) for array in self.arrays]
        is_start = self.opcode.endswith("-start")
        return max(sizes, default=0) if is_start else sum(sizes)

    @property
    def called(self) -> list[str]:
        """Names of the computations that it runs."""
        names = " ".join(_CALLED.findall(self.text))
        return re.findall(r"[\w.\-]+", names.replace("%", ""))

    @property
    def cycles(self) -> int:
        """What the compiler thinks that it takes; 0 where it says nothing."""
        found = _CYCLES.search(self.text)
        return int(found[1]) if found else 0

    @property
    def scope(self) -> str:
        """Where in the traced function it came from: names joined by "/"."""
        found = _SCOPE.search(self.text)
        return found[1] if found else ""

    @property
    def operands(self) -> list[str]:
        """Names of what it is applied to."""
        inside, _ = _split_type(self.text[len(self.opcode) :])
        return re.findall(r"%([\w.\-]+)", inside)

    @property
    def in_main_memory(self) -> bool:
        """Whether its result is an array in HBM; a layout names other memories."""
        return not self.shape.startswith("(") and "S(" not in self.shape


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program's computations, by name, from `compiled.as_text()`."""

    computations: Mapping[str, tuple[Instruction, ...]]
    entry: str

    @classmethod
    def parse(cls, text: str) -> "Program":
        computations: dict[str, list[Instruction]] = {}
        entry, current = "", None
        for line in text.splitlines():
            head = _HEAD.match(line)
            if head:
                current = computations.setdefault(head["name"], [])
                entry = head["name"] if head[1] else entry
            elif line.startswith("}"):
                current = None
            elif current is not None and (found := _INSTRUCTION.match(line)):
                shape, rest = _split_type(found["rest"])
                opcode = _OPCODE.match(rest)
                if opcode:
                    instruction = Instruction(
                        found["name"],
                        opcode[1],
                        shape,
                        rest.strip(),
                        found["root"] is not None,
                    )
                    current.append(instruction)
        frozen = {name: tuple(lines) for name, lines in computations.items()}
        return cls(frozen, entry)

    def loops(self, computations: Iterable[str]) -> list[Instruction]:
        """The loops in them that are in no other one."""
        names = self._names(computations)
        loops = [i for i in self.instructions(names) if i.opcode == "while"]
        inner = {name for loop in loops for name in self._names(loop.called)}
        return [i for i in loops if i not in set(self.instructions(inner))]

    @functools.cached_property
    def loop_body(self) -> frozenset[str]:
        """Computations that the outermost loops run in each of their steps."""
        outer = self.loops([self.entry])
        return frozenset(name for loop in outer for name in self._names(loop.called))

    def trips(self, loop: Instruction) -> int | None:
        """How often a `while` runs, if it counts from 0 to a constant; else None."""
        named = {i.name: i for name in loop.called for i in self.computations[name]}
        for i in named.values():
            ends = [named[o] for o in i.operands if o in named]
            constants = [e for e in ends if e.opcode == "constant"]
            if i.opcode == "compare" and i.is_root and constants:
                return int(re.search(r"\((\d+)\)", constants[0].text)[1])
        return None

    def runs(
        self, computations: Iterable[str], unknown_trips: int = 1
    ) -> Iterator[tuple[Instruction, int]]:
        """What runs when they do, and how often: loops by their trips.

        Of a conditional the first branch runs: that of no filter and no lenience.

        Args:
          computations: run one after the other.
          unknown_trips: of loops whose number of trips is not in the program.
        """
        for i in itertools.chain(*(self.computations[name] for name in computations)):
            if i.opcode == "while":
                known = self.trips(i)
                times, called = unknown_trips if known is None else known, i.called
            elif i.opcode in ("conditional", "call"):
                times, called = 1, i.called[:1]
            else:
                yield i, 1
                continue
            for inner, often in self.runs(called, unknown_trips) if times else ():
                yield inner, times * often

    def instructions(self, computations: Iterable[str] | None = None):
        """The instructions of some computations, or of all that are ever run."""
        if computations is None:
            computations = self._names([self.entry])
        return [i for name in computations for i in self.computations[name]]

    def collectives(self, computations: Iterable[str] | None = None):
        """The instructions that move arrays between devices; a start and its end once.

        Args:
          computations: where to look; `loop_body` for what a step of the loop moves.
        """
        kinds = {*COLLECTIVES, *(f"{kind}-start" for kind in COLLECTIVES)}
        return [i for i in self.instructions(computations) if i.opcode in kinds]

    @functools.cached_property
    def scheduled(self) -> frozenset[str]:
        """Computations whose instructions run one by one, and not fused into one."""
        return self.run_one_by_one([self.entry])

    def run_one_by_one(self, computations: Iterable[str]) -> frozenset[str]:
        """Of these and what they call, those that are not fused into one."""
        fused = {
            name
            for i in self.instructions()
            if i.opcode not in ("while", "conditional", "call")
            for name in i.called
        }
        return frozenset(self._names(computations, fused=False)) - fused

    def copies(self, at_least: int) -> list[Instruction]:
        """Copies of that many bytes, in any memory, each counted once."""
        scheduled = itertools.chain(*(self.computations[n] for n in self.scheduled))
        return [i for i in scheduled if i.num_bytes >= at_least and self.is_copy(i)]

    def is_copy(self, i: Instruction) -> bool:
        """Whether it lays an array out anew, or puts it elsewhere in one memory.

        What is fetched into a nearer memory, or put back, as it lies is none.
        """
        if i.opcode == "copy-start":
            to, source, *_ = re.findall(r"\{[^}]*\}", i.shape)
            return to == source
        if i.opcode == "fusion":
            lines = self.computations[i.called[0]]
            return {"parameter"} < {j.opcode for j in lines} <= _COPYING
        return i.opcode in ("copy", "transpose")

    def bytes_read(self, computations: Iterable[str] | None = None) -> int:
        """Bytes that one run reads from main memory, loops and branches counted once.

        Everything that an instruction is applied to is read, unless it was brought into
        a nearer memory before. Of what is sliced or looked up only the result is, and
        what is updated in place is not read.
        """
        names = self.scheduled if computations is None else computations
        return sum(
            self._operand_bytes(i, operand, named)
            for name in names
            for named in [{i.name: i for i in self.computations[name]}]
            for i in self.computations[name]
            if i.opcode not in _READ_NOTHING and not i.opcode.endswith("-done")
            for operand in enumerate(i.operands)
        )

    def _operand_bytes(self, reader, operand, named) -> int:
        index, name = operand
        source = named.get(name)
        if source is None or not source.in_main_memory:
            return 0
        if reader.opcode in _READ_A_PART:
            return reader.num_bytes if index == 0 else 0
        if reader.opcode == "dynamic-update-slice" and index == 0:
            return 0
        if reader.opcode == "fusion":
            return self._fused_bytes(reader.called[0], index, source.num_bytes)
        return source.num_bytes

    def _fused_bytes(self, computation: str, index: int, whole: int) -> int:
        """Bytes that a fusion reads of its operand."""
        lines = self.computations[computation]
        start = f"parameter({index})"
        names = [i.name for i in lines if i.text.startswith(start)]
        read = 0
        while names:
            name = names.pop()
            for i in lines:
                for place in (p for p, o in enumerate(i.operands) if o == name):
                    if i.opcode == "bitcast" and not i.is_root:
                        names.append(i.name)
                    elif i.opcode in _READ_A_PART:
                        read += i.num_bytes if place == 0 else 0
                    elif i.opcode == "fusion":
                        read += self._fused_bytes(i.called[0], place, whole)
                    elif i.opcode != "dynamic-update-slice" or place > 0:
                        return whole
        return min(read, whole)

    def _names(self, roots: Iterable[str], fused: bool = True) -> set[str]:
        """Computations that run when these do."""
        seen, left = set(), list(roots)
        while left:
            name = left.pop()
            if name in self.computations and name not in seen:
                seen.add(name)
                left += [
                    called
                    for i in self.computations[name]
                    for called in i.called
                    if fused or i.opcode in ("while", "conditional", "call")
                ]
        return seen


def count(instructions: Iterable[Instruction]) -> dict[str, int]:
    """How many there are of each kind, the halves of an asynchronous one as one."""
    return dict(Counter(kind_of(i) for i in instructions))


def kind_of(instruction: Instruction) -> str:
    return instruction.opcode.removesuffix("-start")


def array_bytes(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes of an array by HLO's name of its type, without padding."""
    elements = 1
    for size in shape:
        elements *= size
    digits = re.search(r"\d+", kind)
    bits = _BITS[kind] if kind in _BITS else int(digits[0]) if digits else 0
    return -(-elements * bits // 8)


def _split_type(rest: str) -> tuple[str, str]:
    """The result's type, and what follows it."""
    if not rest.startswith("("):
        shape, _, after = rest.partition(" ")
        return shape, " " + after
    depth = 0
    for i, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return rest[: i + 1], rest[i + 1 :]
    return rest, ""


def _arrays(shape: str) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (kind, tuple(int(n) for n in sizes.split(",") if n))
        for kind, sizes in _ARRAY.findall(re.sub(r"\{[^}]*\}", "", shape))
    ]
