// Quantised products on the emulated GPU: what cuBLASLt is asked for. Their results are compared
// with loops where all devices' are.

#include <catch2/catch.hpp>

#include "emulation_cublaslt.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

/// What a run of the node asks cuBLASLt for.
std::vector<emulation::MatmulCall> calls_of(const NodeRun& node) {
  emulation::clear_matmul_calls();
  run_node(node);
  auto calls = emulation::matmul_calls();
  REQUIRE(calls.size() % 2 == 0);  // a run's, and its capture's
  calls.resize(calls.size() / 2);
  return calls;
}

}  // namespace

TEST_CASE("Many rows of bytes are one product of the library, few are not") {
  for (const std::int64_t rows : {31, 40}) {
    const auto calls = calls_of(
        {"MatMulInteger",
         {},
         {Tensor::zeros(DataType::uint8, {rows, 70}), Tensor::zeros(DataType::int8, {70, 33})},
         {{DataType::int32, {rows, 33}}}});
    REQUIRE(calls.size() == (rows == 40 ? 1 : 0));
    if (calls.empty()) continue;
    CHECK(calls[0].a_type == CUDA_R_8I);
    CHECK(calls[0].d_type == CUDA_R_32I);
    // The transposed product, padded to packs of 16.
    CHECK(std::tuple(calls[0].m, calls[0].n, calls[0].k) == std::tuple(48, 48, 80));
  }
}

TEST_CASE("A convolution of bytes is a product of the library for each group") {
  const auto calls = calls_of({"ConvInteger",
                               {{"group", std::int64_t{2}}},
                               {Tensor::zeros(DataType::int8, {3, 16, 9, 9}),
                                Tensor::zeros(DataType::uint8, {40, 8, 3, 3})},
                               {{DataType::int32, {3, 40, 7, 7}}}});
  REQUIRE(calls.size() == 2);
  for (const emulation::MatmulCall& call : calls)
    CHECK(std::tuple(call.m, call.n, call.k) == std::tuple(160, 32, 80));
}

TEST_CASE("Packed weights are unpacked for the library where rows are many") {
  for (const std::int64_t rows : {32, 33}) {
    NodeRun node{
        "MatMulNBits",
        {{"K", std::int64_t{64}},
         {"N", std::int64_t{48}},
         {"bits", std::int64_t{4}},
         {"block_size", std::int64_t{32}}},
        {Tensor::zeros(DataType::float16, {rows, 64}), Tensor::zeros(DataType::uint8, {48, 2, 16}),
         Tensor::zeros(DataType::float16, {48, 2})},
        {{DataType::float16, {rows, 48}}}};
    node.domain = "com.microsoft";
    CHECK(calls_of(node).size() == (rows == 33 ? 1 : 0));
  }
}
