#include "graph/temporary_folder.h"

#include <cstdlib>
#include <system_error>

#include "graph/error.h"

namespace autopar {

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
