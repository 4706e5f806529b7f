#include "base/temporary_folder.h"

#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace autopar {

TemporaryFolder::TemporaryFolder(std::filesystem::path parent) {
  std::error_code error;
  if (parent.empty()) parent = std::filesystem::temp_directory_path(error);
  if (error) fail("there is no folder for temporary files; set TMPDIR to one");
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
