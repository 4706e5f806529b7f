// As model_fuzzer, but inputs stay ONNX models: libFuzzer's own mutations would leave few that are
// more than damaged messages.

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <random>

#include "fuzzer.h"
#include "model_mutator.h"
#include "model_trial.h"

void autopar::fuzz::try_input(Bytes input) { try_model(file_of(input)); }

namespace {

onnx::ModelProto parsed(const std::uint8_t* data, std::size_t size) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(data, static_cast<int>(size))) model.Clear();
  return model;
}

/// The bytes of the message, which stay what they were where it is too long; returns their number.
std::size_t written(const onnx::ModelProto& model, std::uint8_t* data, std::size_t size,
                    std::size_t most) {
  const std::size_t needed = model.ByteSizeLong();
  if (needed == 0 || needed > most) return size;
  model.SerializeToArray(data, static_cast<int>(needed));
  return needed;
}

}  // namespace

/// What libFuzzer asks for, by name.
extern "C" {

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                    unsigned seed) {
  onnx::ModelProto model = parsed(data, size);
  autopar::fuzz::mutate(model, seed);
  return written(model, data, size, most);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                      const std::uint8_t* second, std::size_t second_size,
                                      std::uint8_t* out, std::size_t most, unsigned seed) {
  onnx::ModelProto model = parsed(first, first_size);
  autopar::fuzz::cross_over(model, parsed(second, second_size), seed);
  return written(model, out, 0, most);
}

}  // extern "C"
