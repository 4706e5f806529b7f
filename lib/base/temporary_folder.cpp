#include "base/temporary_folder.h"

#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace autopar {

namespace {

std::filesystem::path system_folder() {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  if (error) fail("there is no folder for temporary files; set TMPDIR to one");
  return folder;
}

}  // namespace

TemporaryFolder::TemporaryFolder() : TemporaryFolder(system_folder()) {}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string pattern = (parent / "autopar-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    fail("no folder can be made in {}; set TMPDIR to one that can be written", parent.string());
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace autopar
