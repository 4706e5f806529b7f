#include "serving/request_joiner.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/tensor_files.h"
#include "serving/joined_tensors.h"

namespace autopar::serving {
namespace {

using graph::Tensor;
using runtime::ModelPort;
using runtime::NamedTensors;

/// Shapes that are remembered; a stranger may ask for any number of them.
constexpr std::size_t most_known = 4096;

bool has_same_bytes(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape()) return false;
  const Tensor left = a.is_contiguous() ? a : a.contiguous_copy();
  const Tensor right = b.is_contiguous() ? b : b.contiguous_copy();
  return std::ranges::equal(left.bytes(), right.bytes());
}

/// Other numbers for floats, so that zeros that a client warms up with tell no less than others do.
NamedTensors with_random_floats(NamedTensors inputs, std::uint64_t seed) {
  for (auto& [name, tensor] : inputs)
    if (graph::is_floating_point(tensor.type()))
      tensor = runtime::random_tensor(tensor.type(), tensor.shape(), ++seed);
  return inputs;
}

/// What an input of a row may be. A mask of which nothing may be known hides nothing: where
/// positions are counted by it, one with holes is none.
Tensor random_input(const ModelPort& port, const graph::Shape& shape, std::uint64_t seed) {
  Tensor tensor = runtime::random_tensor(port.type, shape, seed);
  if (port.name != "attention_mask" || graph::is_floating_point(port.type)) return tensor;
  const auto width = static_cast<std::size_t>(graph::bytes_of(port.type, 1));
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  for (std::size_t lowest = 0; lowest < bytes.size(); lowest += width) bytes[lowest] = std::byte{1};
  return tensor;
}

std::vector<const NamedTensors*> pointers_to(const std::vector<NamedTensors>& requests) {
  std::vector<const NamedTensors*> pointers;
  for (const NamedTensors& each : requests) pointers.push_back(&each);
  return pointers;
}

}  // namespace

RequestJoiner::RequestJoiner(LastingSession& session, runtime::RowProof proof,
                             std::int64_t most_rows)
    : session_(session),
      proof_(std::move(proof)),
      most_rows_(most_rows),
      inputs_(session.get().inputs()) {}

void RequestJoiner::check() {
  if (!proof_)
    fail(
        "--max-batch {}: the bundle runs the shapes of its profiles alone, since it has "
        "microbatches or a tail; leave --max-batch out",
        most_rows_);
  runtime::InputShapes shapes;
  for (const ModelPort& port : inputs_) shapes.emplace(port.name, port.shape.value());
  try {
    dims_ = proof_(shapes);
  } catch (const Error& error) {
    fail("--max-batch {}: requests cannot be joined: {}; leave --max-batch out", most_rows_,
         error.what());
  }
  for (std::int64_t rows = 2; rows < most_rows_; rows *= 2) check(rows);
  if (most_rows_ > 1) check(most_rows_);
}

void RequestJoiner::check(std::int64_t rows) {
  std::vector<NamedTensors> requests;
  for (std::int64_t row = 0; row < rows; ++row)
    requests.push_back(random_row(static_cast<std::uint64_t>(row)));
  std::optional<std::string> different;
  try {
    different = first_difference(pointers_to(requests));
  } catch (const Error& error) {
    fail("--max-batch {}: {} random rows cannot be run: {}; give a smaller one, or leave it out",
         most_rows_, rows, error.what());
  }
  if (different)
    fail(
        "--max-batch {}: in a batch of {} output '{}' has other bytes than of each row alone, "
        "since this machine's kernels add up otherwise; leave --max-batch out",
        most_rows_, rows, *different);
  known(*rows_of(requests.front())).are_same[rows] = true;
}

NamedTensors RequestJoiner::random_row(std::uint64_t seed) const {
  NamedTensors row;
  std::uint64_t place = 0;
  for (const ModelPort& port : inputs_) {
    ++place;
    graph::Shape shape = port.shape.value();
    const auto batched = dims_.inputs.find(port.name);
    const bool is_common = batched == dims_.inputs.end();
    if (!is_common) shape[static_cast<std::size_t>(batched->second)] = 1;
    const std::uint64_t of_row = is_common ? 0 : (seed + 1) << 32;
    row.emplace(port.name, random_input(port, shape, of_row + place));
  }
  return row;
}

std::optional<RequestRows> RequestJoiner::rows_of(const NamedTensors& inputs) const {
  if (inputs.size() != inputs_.size()) return std::nullopt;
  RequestRows found;
  for (const ModelPort& port : inputs_) {
    const auto given = inputs.find(port.name);
    if (given == inputs.end() || given->second.type() != port.type ||
        given->second.shape().size() != port.shape.value().size())
      return std::nullopt;
    graph::Shape& shape = found.rest[port.name] = given->second.shape();
    const auto batched = dims_.inputs.find(port.name);
    if (batched == dims_.inputs.end()) continue;
    const std::int64_t rows = std::exchange(shape[static_cast<std::size_t>(batched->second)], 1);
    if (rows == 0 || (found.rows != 0 && found.rows != rows)) return std::nullopt;
    found.rows = rows;
  }
  if (found.rows == 0) return std::nullopt;
  return found;
}

bool RequestJoiner::are_of_one_run(const NamedTensors& a, const NamedTensors& b) const {
  return std::ranges::all_of(inputs_, [&](const ModelPort& port) {
    return dims_.inputs.contains(port.name) || has_same_bytes(a.at(port.name), b.at(port.name));
  });
}

RequestJoiner::KnownShape& RequestJoiner::known(const RequestRows& of) {
  if (const auto found = known_.find(of.rest); found != known_.end()) return found->second;
  KnownShape shape;
  try {
    shape.is_proven = proof_(of.rest) == dims_;
  } catch (const Error&) {  // what is wrong with it, each request's own run tells
  }
  if (known_.size() == most_known) known_.clear();
  return known_.emplace(of.rest, std::move(shape)).first->second;
}

std::int64_t RequestJoiner::all_rows(Requests requests) const {
  std::int64_t rows = 0;
  for (const NamedTensors* request : requests) rows += rows_of(*request)->rows;
  return rows;
}

NamedTensors RequestJoiner::joined_inputs(Requests requests) const {
  NamedTensors inputs;
  for (const ModelPort& port : inputs_) {
    const auto batched = dims_.inputs.find(port.name);
    if (batched == dims_.inputs.end()) {
      inputs.emplace(port.name, requests.front()->at(port.name));
      continue;
    }
    std::vector<const Tensor*> parts;
    for (const NamedTensors* request : requests) parts.push_back(&request->at(port.name));
    inputs.emplace(port.name, joined(parts, batched->second));
  }
  return inputs;
}

std::optional<RequestJoiner::Outputs> RequestJoiner::parts_of(const NamedTensors& outputs,
                                                              Requests requests) const {
  std::vector<std::int64_t> rows;
  for (const NamedTensors* request : requests) rows.push_back(rows_of(*request)->rows);
  Outputs all(requests.size());
  for (const auto& [name, tensor] : outputs) {
    const auto parts = parted(tensor, dims_.outputs.at(name), rows);
    if (!parts) return std::nullopt;
    for (std::size_t i = 0; i < all.size(); ++i) all[i].emplace(name, (*parts)[i]);
  }
  return all;
}

std::optional<std::string> RequestJoiner::first_difference(Requests requests) {
  const NamedTensors together = session_.lead(joined_inputs(requests)).outputs;
  const auto parts = parts_of(together, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const NamedTensors alone = session_.lead(*requests[i]).outputs;
    for (const auto& [name, tensor] : alone)
      if (!parts || !has_same_bytes(tensor, (*parts)[i].at(name))) return name;
  }
  return std::nullopt;
}

std::optional<RequestJoiner::Outputs> RequestJoiner::lead(Requests requests) {
  KnownShape& shape = known(*rows_of(*requests.front()));
  const auto same = shape.are_same.find(all_rows(requests));
  if (!shape.is_proven || same == shape.are_same.end() || !same->second) return std::nullopt;
  try {
    return parts_of(session_.lead(joined_inputs(requests)).outputs, requests);
  } catch (const Error&) {
    if (session_.is_over()) throw;
    return std::nullopt;  // it is one request's error, or there are too many rows for the memory
  }
}

void RequestJoiner::learn(Requests requests) {
  KnownShape& shape = known(*rows_of(*requests.front()));
  const std::int64_t rows = all_rows(requests);
  if (!shape.is_proven || shape.are_same.contains(rows)) return;
  std::vector<NamedTensors> drawn;
  for (const NamedTensors* request : requests)
    drawn.push_back(with_random_floats(*request, drawn.size() << 32));
  // What is for all rows stays so.
  for (auto& [name, tensor] : drawn.front())
    if (!dims_.inputs.contains(name))
      for (NamedTensors& each : drawn) each.at(name) = tensor;
  try {
    shape.are_same[rows] = !first_difference(pointers_to(drawn));
  } catch (const Error&) {
    if (session_.is_over()) throw;
    if (!session_.has_failed()) shape.are_same[rows] = false;  // there are too many
  }
}

}  // namespace autopar::serving
