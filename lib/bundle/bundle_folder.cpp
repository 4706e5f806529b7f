#include "bundle/bundle_folder.h"

#include <regex>
#include <system_error>

#include "base/error.h"
#include "bundle/meta_info.h"

namespace autopar::bundle {
namespace {

namespace fs = std::filesystem;

/// Whether bundles of this version or of older ones have files of that name.
bool is_file_of_bundle(const std::string& name) {
  static const std::regex names(
      R"(meta-info\.json|plan\.json|device\.json|secret)"
      R"(|(tail|structure|annotated)\.(onnx|data)|rank\d+(\.\d+)?\.onnx|rank\d+\.data)");
  return std::regex_match(name, names);
}

}  // namespace

void check_only_bundle(const fs::path& folder, const std::string& shown) {
  std::error_code error;
  const auto has = [&](const char* file) { return fs::is_regular_file(folder / file, error); };
  if (!has("meta-info.json") && !(has(annotated_file) && has(plan_file)))
    fail("{} exists and is no bundle; choose another folder", shown);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_file_of_bundle(name) && entry.is_regular_file(error)) continue;
    fail("{} has '{}', which is no file of a bundle; move it away, or choose another folder", shown,
         name);
  }
  if (error) fail("{} cannot be read: {}", shown, error.message());
}

}  // namespace autopar::bundle
