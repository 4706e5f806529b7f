#include "runtime/tensor_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/onnx/onnx_tensor_file.h"
#include "runtime/tensor_files.h"

namespace autopar::runtime {

namespace fs = std::filesystem;

std::map<std::string, fs::path> find_tensor_files(const fs::path& folder, const std::string& kind,
                                                  std::span<const std::string> names) {
  std::map<std::string, fs::path> found;
  std::error_code unreadable;
  for (const std::string& name : names)
    for (const char* ending : {".npy", ".pb"})
      if (const fs::path file = folder / (safe_file_name(name) + ending);
          fs::exists(file, unreadable))
        found.emplace(name, file);
  for (std::size_t place = 0;; ++place) {
    const fs::path file = folder / fmt::format("{}_{}.pb", kind, place);
    if (!fs::exists(file, unreadable)) return found;
    std::string name = graph::load_tensor_proto(file).first;
    if (name.empty() && place < names.size()) name = names[place];
    if (std::ranges::find(names, name) != names.end()) found.emplace(name, file);
  }
}

}  // namespace autopar::runtime
