#include "base/free_memory.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/out_of_memory.h"
#include "base/temporary_folder.h"

using namespace autopar;
using Catch::Matchers::Contains;

namespace {

/// A machine with 10,000 kB, 1,000 of them in swap, whose process is in a group.
struct Machine {
  explicit Machine(const std::string& groups) {
    write("proc/meminfo", "MemTotal: 20000 kB\nMemAvailable:  9000 kB\nSwapFree: 1000 kB\n");
    write("proc/self/cgroup", groups);
  }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
  FreeMemory free() const { return free_memory(root.path()); }

  TemporaryFolder root;
};

}  // namespace

TEST_CASE("without groups what the machine can give is free, with swap") {
  const Machine machine("");
  CHECK(machine.free().bytes == 10'000 * 1024);
  CHECK(machine.free().of == std::string("the machine's memory"));
}

TEST_CASE("a group of version 2, and those above it, limit it; cache can be reclaimed") {
  const Machine machine("0::/outer/inner\n");
  const std::string outer = "sys/fs/cgroup/outer/";
  const std::string inner = outer + "inner/";
  machine.write(inner + "memory.max", "max\n");
  machine.write(inner + "memory.current", "1000\n");
  CHECK(machine.free().bytes == 10'000 * 1024);
  machine.write(outer + "memory.max", "500000\n");
  machine.write(outer + "memory.current", "200000\n");
  machine.write(outer + "memory.stat", "anon 7\nactive_file 1000\ninactive_file 2000\n");
  CHECK(machine.free().bytes == 303'000);
  CHECK(machine.free().of == std::string("the control group's memory"));
  machine.write(inner + "memory.max", "900\n");
  CHECK(machine.free().bytes == 0);
}

TEST_CASE("a group of version 1 limits it, in a container that sees it as the root, too") {
  const Machine machine("5:cpu,memory:/of/the/host\n4:pids:/of/the/host\n");
  const std::string root = "sys/fs/cgroup/memory/";
  machine.write(root + "memory.limit_in_bytes", "9223372036854771712\n");
  machine.write(root + "memory.usage_in_bytes", "1000\n");
  CHECK(machine.free().bytes == 10'000 * 1024);
  machine.write(root + "memory.limit_in_bytes", "100000\n");
  machine.write(root + "memory.stat", "total_inactive_file 300\ntotal_active_file 400\n");
  CHECK(machine.free().bytes == 99'700);
}

TEST_CASE("this machine has memory, and what is missing is told with its size") {
  CHECK(free_memory().bytes > 0);
  CHECK(free_address_space().bytes > 0);
  CHECK_THAT(OutOfMemory(3'000'000'000).what(), Contains("3.0 GB more were asked for"));
  CHECK_THAT(OutOfMemory(70'000'000, 123, "the machine's memory").what(),
             Contains("70.0 MB") && Contains("123 bytes are free of the machine's memory"));
}
