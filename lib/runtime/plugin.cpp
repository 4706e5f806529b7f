#include "runtime/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"

namespace autopar::runtime {

namespace {

std::filesystem::path plugin_folder() {
  const char* chosen = std::getenv("AUTOPAR_PLUGIN_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::filesystem::path file;  // that this code is in: a shared library, or the program
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&plugin_symbol), &info) != 0)
    file = std::filesystem::weakly_canonical(info.dli_fname);
  if (file.filename().string().starts_with("libautopar_runtime."))
    return file.parent_path() / "autopar";
  if (file.filename().string().starts_with("libautopar_")) return file.parent_path();  // a plugin
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / "autopar";
}

}  // namespace

void* plugin_symbol(const std::string& plugin, const char* symbol) {
  const std::filesystem::path library = plugin_folder() / ("libautopar_" + plugin + ".so");
  if (!std::filesystem::exists(library))
    fail("{} is missing: build autopar's part '{}', or set AUTOPAR_PLUGIN_DIR to its folder",
         library.string(), plugin);
  // Loading again what is loaded gives the same library.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    fail(
        "autopar's part '{}' cannot be loaded: {}; install the library that is missing, or add its "
        "folder to LD_LIBRARY_PATH",
        plugin, dlerror());
  }
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(handle, "autopar_plugin_version"));
  const std::string_view found = version != nullptr ? version() : "unknown";
  if (found != AUTOPAR_VERSION) {
    fail(
        "{} belongs to another version of autopar ({}) than this ({}): install both from one "
        "build, "
        "or set AUTOPAR_PLUGIN_DIR to the folder of this one's",
        library.string(), found, AUTOPAR_VERSION);
  }
  void* const address = dlsym(handle, symbol);
  if (address == nullptr)
    fail("{} has no {}: it belongs to another version of autopar", library.string(), symbol);
  return address;
}

}  // namespace autopar::runtime
