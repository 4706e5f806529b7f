#include "cost/device_file.h"
#include "fuzzer.h"

/// What is read is written again, and read from that.
void autopar::fuzz::try_input(Bytes input) {
  const std::string text = cost::device_json(cost::load_device_file(file_of(input)));
  cost::load_device_file(file_of(std::as_bytes(std::span(text))));
}
