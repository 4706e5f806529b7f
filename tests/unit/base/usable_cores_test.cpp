#include "base/usable_cores.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/temporary_folder.h"

using namespace autopar;
using Catch::Matchers::Contains;

namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("cores as the kernel and taskset write them") {
  CHECK(parse_cores("--cpus", "3") == CoreSet{3});
  CHECK(parse_cores("--cpus", "0-3,8") == CoreSet{0, 1, 2, 3, 8});
  CHECK(parse_cores("--cpus", "8,2-3,3") == CoreSet{2, 3, 8});
  for (const char* text : {"", ",", "1,", "-1", "3-1", "1-", "a", "0 1", "0-1-2", "99999"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_cores("--cpus", text), Contains("give numbers of cores"));
  }
}

TEST_CASE("threads are bound to cores, and what they start is, too") {
  const CoreSet all = cores_of_process();
  REQUIRE_FALSE(all.empty());
  CoreSet bound;
  CoreSet started;
  std::thread([&] {
    bind_thread({all.back()});
    bound = cores_of_process();
    std::thread([&] { started = cores_of_process(); }).join();
  }).join();
  CHECK(bound == CoreSet{all.back()});
  CHECK(started == bound);
  CHECK(cores_of_process() == all);
  CHECK_THROWS_WITH(bind_thread({1023}), Contains("none of the cores"));
}

TEST_CASE("cores that several may use are shared by them") {
  const CoreSet four = {0, 1, 2, 3};
  CHECK(share_of_cores({four}, 0) == 4);
  CHECK(share_of_cores({four, four}, 1) == 2);
  CHECK(share_of_cores({four, four, four}, 2) == 1);
  CHECK(share_of_cores({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}, 1) == 1);
  CHECK(share_of_cores({{0}, {1}, {2}, {3}}, 2) == 1);
  const std::vector<CoreSet> by_socket = {{0, 1}, {0, 1}, {2, 3, 4, 5}, {2, 3, 4, 5}};
  CHECK(share_of_cores(by_socket, 0) == 1);
  CHECK(share_of_cores(by_socket, 3) == 2);
}

TEST_CASE("quotas of control groups limit cores") {
  const TemporaryFolder root;
  CHECK(cores_of_quota(8, root.path()) == 8);
  write(root / "proc/self/cgroup", "0::/outer/inner\n");
  const std::filesystem::path outer = root / "sys/fs/cgroup/outer";
  write(outer / "inner/cpu.max", "max 100000\n");
  CHECK(cores_of_quota(8, root.path()) == 8);
  write(outer / "cpu.max", "350000 100000\n");
  CHECK(cores_of_quota(8, root.path()) == 3);
  CHECK(cores_of_quota(2, root.path()) == 2);
  write(outer / "inner/cpu.max", "50000 100000\n");
  CHECK(cores_of_quota(8, root.path()) == 1);
  write(root / "proc/self/cgroup", "4:cpu,cpuacct:/of/the/host\n");
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(cores_of_quota(8, root.path()) == 8);
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  CHECK(cores_of_quota(8, root.path()) == 4);
}
