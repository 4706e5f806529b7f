#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "fuzzer.h"

/// What libFuzzer, which brings main, calls once and for each input.
extern "C" {

int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    autopar::fuzz::accepts(std::as_bytes(std::span(data, size)));
  } catch (const std::exception& finding) {
    std::cerr << "finding: " << finding.what() << std::endl;
    std::abort();
  }
  return 0;
}

}  // extern "C"
