#include "kernel_info.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

namespace autopar::emulation {

namespace {

/// A file in memory, for good.
std::span<const std::byte> map_file(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) return {};
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (memory == MAP_FAILED) return {};
  return {static_cast<const std::byte*>(memory), bytes};
}

/// The program or a library of it: its symbols, by the address that the file gives them.
class Module {
 public:
  Module(const char* path, std::uintptr_t base) : base_(base) {
    const std::span<const std::byte> file = map_file(path);
    if (file.size() < sizeof(Elf64_Ehdr)) return;
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
    const auto text_of = [&](const Elf64_Shdr& strings, std::uint32_t at) {
      return reinterpret_cast<const char*>(file.data() + strings.sh_offset + at);
    };
    for (std::size_t i = 0; i < header->e_shnum; ++i) {
      const Elf64_Shdr& section = sections[i];
      const std::string_view name = text_of(sections[header->e_shstrndx], section.sh_name);
      if (name == "__patchable_function_entries") {
        bounds_ = {reinterpret_cast<const std::uint8_t* const*>(base + section.sh_addr),
                   section.sh_size / sizeof(void*)};
      }
      if (section.sh_type != SHT_SYMTAB) continue;
      const std::span symbols(reinterpret_cast<const Elf64_Sym*>(file.data() + section.sh_offset),
                              section.sh_size / sizeof(Elf64_Sym));
      for (const Elf64_Sym& symbol : symbols)
        add(symbol, text_of(sections[section.sh_link], symbol.st_name));
    }
  }

  KernelInfo info_of(const void* kernel) const {
    const auto found = functions_.find(reinterpret_cast<std::uintptr_t>(kernel) - base_);
    if (found == functions_.end())
      return {fmt::format("at {}", kernel), nullptr, launch_bound_of(kernel), 0};
    const char* const symbol = found->second;
    return {readable(symbol), symbol, launch_bound_of(kernel), shared_bytes_of(symbol)};
  }

 private:
  void add(const Elf64_Sym& symbol, const char* name) {
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) functions_[symbol.st_value] = name;
    if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS) thread_locals_[name] = symbol.st_size;
  }

  /// "_ZN7autopar4copyIfEEvPT_" is "autopar::copy<float>" here: neither what it returns, nor its
  /// parameters, nor that a namespace has no name.
  static std::string readable(const char* mangled) {
    const std::unique_ptr<char, decltype(&std::free)> demangled(
        abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), &std::free);
    std::string name = demangled ? demangled.get() : mangled;
    constexpr std::string_view unnamed = "(anonymous namespace)::";
    for (std::size_t at = 0; (at = name.find(unnamed)) != std::string::npos;)
      name.erase(at, unnamed.size());
    if (name.starts_with("void ")) name.erase(0, 5);
    return name.substr(0, name.find('('));
  }

  /// `int tile[4]` of the kernel `_Z4copyv` is `_ZZ4copyvE4tile`.
  std::size_t shared_bytes_of(std::string_view kernel) const {
    if (!kernel.starts_with("_Z")) return 0;
    const std::string within = fmt::format("_ZZ{}E", kernel.substr(2));
    std::size_t bytes = 0;
    for (auto it = thread_locals_.lower_bound(within);
         it != thread_locals_.end() && it->first.starts_with(within); ++it)
      bytes += it->second;
    return bytes;
  }

  /// __launch_bounds__ (host_defines.h) puts as many instructions that do nothing before the
  /// kernel, and the compiler lists where they begin.
  unsigned launch_bound_of(const void* kernel) const {
    constexpr std::uint8_t nop = 0x90;
    constexpr std::ptrdiff_t most_threads = 1024;
    const auto* entry = static_cast<const std::uint8_t*>(kernel);
    for (const std::uint8_t* begin : bounds_) {
      const std::ptrdiff_t bound = entry - begin;
      if (bound <= 0 || bound > most_threads) continue;
      if (std::all_of(begin, entry, [](std::uint8_t code) { return code == nop; }))
        return static_cast<unsigned>(bound);
    }
    return 0;
  }

  std::uintptr_t base_;
  std::map<std::uintptr_t, const char*> functions_;
  std::map<std::string_view, std::size_t> thread_locals_;
  std::span<const std::uint8_t* const> bounds_;
};

/// Where the loader has put what holds an address.
struct Place {
  std::uintptr_t address;
  std::string path = {};
  std::uintptr_t base = 0;
};

int look_at(dl_phdr_info* module, std::size_t, void* data) {
  Place& place = *static_cast<Place*>(data);
  for (std::size_t i = 0; i < module->dlpi_phnum; ++i) {
    const auto& segment = module->dlpi_phdr[i];
    const std::uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || place.address < begin ||
        place.address >= begin + segment.p_memsz)
      continue;
    const bool is_program = module->dlpi_name == nullptr || *module->dlpi_name == '\0';
    place.path = is_program ? "/proc/self/exe" : module->dlpi_name;
    place.base = module->dlpi_addr;
    return 1;
  }
  return 0;
}

struct Known {
  std::mutex mutex;
  std::map<std::string, Module> modules;
  std::map<const void*, KernelInfo> kernels;
};

Known& known() {
  static Known& instance = *new Known;
  return instance;
}

}  // namespace

const KernelInfo& kernel_info(const void* kernel) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().kernels.find(kernel);
  if (found != known().kernels.end()) return found->second;
  Place place{reinterpret_cast<std::uintptr_t>(kernel)};
  dl_iterate_phdr(look_at, &place);
  const auto [module, is_new] =
      known().modules.try_emplace(place.path, place.path.c_str(), place.base);
  return known().kernels.emplace(kernel, module->second.info_of(kernel)).first->second;
}

}  // namespace autopar::emulation
