"""The kernels that a CUDA plugin has, and which of them processes launched.

The runtime appends the name of each kernel that it launches to the file that AUTOPAR_LAUNCHED_KERNELS
names (lib/runtime/devices/cuda/kernel_checks.h). What nvcc compiled stands in the plugin by name, as
text that the runtime is asked with; what tests/emulation compiled is functions like others, told by
what the sources mark as __global__.
"""

import ctypes
import re
import struct
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "lib" / "runtime" / "kernels"
NAME = re.compile(rb"_ZN7autopar7runtime4cuda[\w$.]+(?=\0)")
OF_SOURCE = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s+)?(\w+)\(")
SECTION = struct.Struct("<IIQQQQIIQQ")  # of a 64-bit ELF file
SYMBOL = struct.Struct("<IBBHQQ")
STT_FUNC = 2


def sections(data):
    """An ELF file's sections: name, type, contents, and the place of the section referred to."""
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    texts = headers[names][4]
    return [(data[texts + header[0]:data.index(b"\0", texts + header[0])].decode(), header[1],
             data[header[4]:header[4] + header[5]], header[6]) for header in headers]


def compiled_by_nvcc(parts):
    [constants] = [contents for name, _, contents, _ in parts if name == ".rodata"]
    return {name.decode() for name in NAME.findall(constants)}


def functions(parts):
    """Mangled names in the symbol table."""
    found = set()
    for name, _, contents, linked in parts:
        if name != ".symtab":
            continue
        texts = parts[linked][2]
        for place, info, *_ in SYMBOL.iter_unpack(contents):
            if info & 0xF == STT_FUNC:
                found.add(texts[place:texts.index(b"\0", place)].decode())
    return found


def names_in_sources():
    return {name for file in KERNELS.rglob("*") if file.suffix in (".cu", ".cpp", ".h")
            for name in OF_SOURCE.findall(file.read_text())}


def compiled_for_emulation(parts):
    """Functions whose last name before the parameters is a kernel's. What the compiler made of parts
    of one has a dot in its name."""
    of_sources = names_in_sources()
    found = {name for name in functions(parts)
             if name.startswith("_ZN7autopar7runtime4cuda") and "." not in name}
    texts = demangled(found)
    return {name for name in found if base_name(texts[name]) in of_sources}


def kernels_of(plugin):
    """Mangled names of all kernels of libautopar_cuda.so."""
    parts = sections(plugin.read_bytes())
    return compiled_by_nvcc(parts) or compiled_for_emulation(parts)


def demangled(names):
    """Names by mangled names; the same where this machine has no C++ library to ask."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return {name: name for name in names}
    demangle, free = library.__cxa_demangle, ctypes.CDLL(None).free
    demangle.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    texts = {}
    for name in names:
        text = demangle(name.encode(), None, None, None)
        texts[name] = ctypes.string_at(text).decode() if text else name
        free(text)
    return texts


def without_brackets(text, opening, closing):
    """What is outside of brackets, however they are nested."""
    kept, depth = [], 0
    for letter in text:
        depth += (letter == opening) - (letter == closing)
        if depth == 0 and letter != closing:
            kept.append(letter)
    return "".join(kept)


def base_name(text):
    """`rows` of `void a::(b)::rows<c::d<e> >(f::g)`; nothing for a member or what returns a value."""
    head = without_brackets(text.replace("(anonymous namespace)::", ""), "<", ">").split("(")[0]
    kind, _, path = head.rpartition(" ")
    place, _, name = path.rpartition("::")
    return name if kind in ("", "void") and place == "autopar::runtime::cuda" else None


def short(text):
    """A kernel for a table: its name and what it is made of."""
    end = text.rfind(">(") + 1 if ">(" in text else text.rfind("(")
    for word in ("(anonymous namespace)::", "autopar::runtime::cuda::", "autopar::runtime::",
                 "autopar::graph::", "autopar::"):
        text, end = text.replace(word, ""), end - len(word) * text[:end].count(word)
    return text[:end].removeprefix("void ")


def launched(file):
    """The names that processes have written, each process its own."""
    return set(file.read_text().split()) if file.exists() else set()
