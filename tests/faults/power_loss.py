"""What a loss of power may leave of the files that a command changed, told from a trace of its calls
(preload/trace.h).

The model:
- A file's bytes are on the disk as of its last sync. Of the changes since, the disk may have none,
  all, or the new length with zeros for the bytes; a change may be cut in half.
- A name in a folder is made, replaced, exchanged or removed as a whole. Those changes are on the disk
  once the folder that has the name was synced. Of the others the disk may have any, in any order,
  but that changes of one name come in the order in which they were made.
- A sync of a file says nothing of its name, nor one of a folder of the files in it.

That allows all that journalling file systems do, and more.
"""

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class File:
    """A file's bytes, or a folder's names: as they are, and as they are on the disk."""

    is_folder: bool
    data: bytes = b""
    synced: bytes = b""
    # A folder: its names on the disk, and the changes since, each {name: file, or None}.
    names: dict = field(default_factory=dict)
    changes: list = field(default_factory=list)

    def current_names(self):
        names = dict(self.names)
        for change in self.changes:
            apply(change, names)
        return names

    def sync(self):
        self.synced = self.data
        self.names = self.current_names()
        self.changes = []


def apply(change, names):
    for name, file in change.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def possible_data(file):
    """What the disk may have of a file."""
    if file.data == file.synced:
        return [file.data]
    half = len(file.data) // 2
    return [file.synced, file.data, bytes(len(file.data)), file.data[:half],
            file.data[:half] + bytes(len(file.data) - half)]  # fmt: skip


def possible_changes(changes, most, drawn):
    """Subsets of a folder's changes in which changes of one name are not left out in between."""

    def is_possible(chosen):
        lost = set()
        for i, change in enumerate(changes):
            if i not in chosen:
                lost |= set(change)
            elif lost & set(change):
                return False
        return True

    count = len(changes)
    if 2**count <= most:
        subsets = (
            {i for i, kept in enumerate(kept_of) if kept}
            for kept_of in itertools.product((False, True), repeat=count)
        )
    else:
        subsets = [set(range(n)) for n in range(count + 1)]  # in order
        subsets += [set(range(count)) - {i} for i in range(count)]
        subsets += [{i} for i in range(count)]
        subsets += [{i for i in range(count) if drawn.random() < 0.5} for _ in range(most)]
    return [sorted(chosen) for chosen in subsets if is_possible(chosen)]


class Disk:
    """Replays a trace of changes under a folder, `root`, which is on the disk when it begins."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = {}
        self.next_id = 0
        self.by_number = {}
        self.top = self._load(self.root)

    def _add(self, file, number):
        self.next_id += 1
        self.files[self.next_id] = file
        self.by_number[number] = self.next_id  # a number may have been another file's
        return self.next_id

    def _load(self, path):
        number = path.stat().st_ino
        if path.is_dir():
            folder = File(is_folder=True)
            folder.names = {inner.name: self._load(inner) for inner in path.iterdir()}
            return self._add(folder, number)
        data = path.read_bytes()
        return self._add(File(is_folder=False, data=data, synced=data), number)

    def _folder_of(self, path):
        folder = self.files[self.top]
        for part in Path(path).relative_to(self.root).parts[:-1]:
            folder = self.files[folder.current_names()[part]]
        return folder

    def _file_at(self, path):
        return self._folder_of(path).current_names()[Path(path).name]

    def _change(self, *changes):
        """(path, file or None) of one folder, as one change."""
        folders = [self._folder_of(path) for path, _ in changes]
        assert all(folder is folders[0] for folder in folders), "a rename between folders"
        folders[0].changes.append({Path(path).name: file for path, file in changes})

    def apply(self, call):
        kind = call["op"]
        if kind in ("create", "folder"):
            made = self._add(File(is_folder=kind == "folder"), call["file"])
            self._change((call["path"], made))
        elif kind == "remove":
            self._change((call["path"], None))
        elif kind == "rename":
            self._change((call["to"], self._file_at(call["from"])), (call["from"], None))
        elif kind == "exchange":
            self._change(
                (call["to"], self._file_at(call["from"])), (call["from"], self._file_at(call["to"]))
            )
        elif kind == "link":
            self._change((call["to"], self._file_at(call["from"])))
        else:
            file = self.files[self.by_number[call["file"]]]
            if kind == "write":
                begin, data = call["offset"], bytes.fromhex(call["data"])
                before = file.data[:begin].ljust(begin, b"\0")
                file.data = before + data + file.data[begin + len(data) :]
            elif kind == "length":
                file.data = file.data[: call["bytes"]].ljust(call["bytes"], b"\0")
            elif kind == "sync":
                file.sync()
            else:
                raise AssertionError(f"a call of an unknown kind: {kind}")

    def losses(self, drawn, most):
        """States that the disk may have now: {path: bytes, or None for a folder}, each once."""
        unsure = [id for id, file in self.files.items() if file.changes or file.data != file.synced]
        choices = {
            id: possible_changes(self.files[id].changes, most, drawn)
            if self.files[id].is_folder
            else possible_data(self.files[id])
            for id in unsure
        }
        # Everything lost, everything kept, each of the others alone, and some drawn at random.
        nothing = {id: options[0] for id, options in choices.items()}
        whole = {
            id: self.files[id].data if not self.files[id].is_folder
            else list(range(len(self.files[id].changes)))
            for id in unsure
        }  # fmt: skip
        picked = [nothing, whole]
        for base in (nothing, whole):
            picked += [{**base, id: option} for id in unsure for option in choices[id]]
        picked += [
            {id: drawn.choice(options) for id, options in choices.items()} for _ in range(most)
        ]
        seen = {}
        for pick in picked:
            state = self._state(pick)
            seen[tuple(sorted(state.items()))] = state
        return list(seen.values())

    def _state(self, pick):
        state = {}

        def visit(id, path):
            file = self.files[id]
            if not file.is_folder:
                state[path] = pick.get(id, file.synced)
                return
            state[path] = None
            names = dict(file.names)
            for i in pick.get(id, []):
                apply(file.changes[i], names)
            for name, inner in names.items():
                visit(inner, f"{path}/{name}" if path else name)

        visit(self.top, "")
        return state


def states_after_loss(disk, trace, most, seed=1):
    """Replays the trace and gives the states of the disk that a loss of power before, between and
    after its calls may leave, each once with the call before it. Of a point, about `most` are drawn
    beside the plain ones."""
    drawn = random.Random(seed)
    calls = [json.loads(line) for line in trace]
    seen = set()
    for call in [None, *calls]:
        if call is not None:
            disk.apply(call)
        for state in disk.losses(drawn, most):
            key = hash(tuple(sorted(state.items())))
            if key not in seen:
                seen.add(key)
                yield call, state


def write_state(state, root):
    """Makes the state's files under a folder that is empty."""
    for path in sorted(state):
        place = Path(root) / path
        if state[path] is None:
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(state[path])
