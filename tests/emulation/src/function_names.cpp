// Names of kernels: host functions here, some of them local ones, which dladdr does not tell. The
// symbol table of the file that a function comes from does.

#include <dlfcn.h>
#include <elf.h>

#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "cuda_runtime_api.h"
#include "machine.h"

namespace autopar::emulation {

namespace {

using Names = std::unordered_map<std::uintptr_t, std::string>;

template <typename T>
std::span<const T> items(const std::string& file, const Elf64_Shdr& section) {
  return {reinterpret_cast<const T*>(file.data() + section.sh_offset), section.sh_size / sizeof(T)};
}

/// The functions of a file by address, which for a shared object begins where that is loaded.
Names read_names(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file(std::istreambuf_iterator<char>(stream), {});
  if (!file.starts_with(ELFMAG)) return {};
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const std::span sections(reinterpret_cast<const Elf64_Shdr*>(file.data() + header.e_shoff),
                           header.e_shnum);
  Names names;
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB) continue;
    const char* const texts = file.data() + sections[table.sh_link].sh_offset;
    for (const Elf64_Sym& symbol : items<Elf64_Sym>(file, table)) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        names.emplace(symbol.st_value, texts + symbol.st_name);
    }
  }
  return names;
}

/// Null for what is in no file's symbol table.
const char* name_of(const void* function) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names_of_files = *new std::map<std::string, Names>;
  Dl_info place = {};
  if (dladdr(function, &place) == 0) return nullptr;
  const std::lock_guard lock(mutex);
  const auto [of_file, is_new] = names_of_files.try_emplace(place.dli_fname);
  if (is_new) of_file->second = read_names(place.dli_fname);
  const auto offset = reinterpret_cast<std::uintptr_t>(function) -
                      reinterpret_cast<std::uintptr_t>(place.dli_fbase);
  const auto found = of_file->second.find(offset);
  return found == of_file->second.end() ? nullptr : found->second.c_str();
}

}  // namespace

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return call([&] {
    if (name == nullptr) return cudaErrorInvalidValue;
    *name = name_of(function);
    return *name == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
  });
}
