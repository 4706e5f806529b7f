#include "graph/onnx/structure_file.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/onnx/external_data_writer.h"
#include "graph/onnx/model_file.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {
namespace {

/// No file of a bundle is called so: an import finds nothing there.
constexpr const char* absent_location = "weights-of-the-ranks";

/// Where a tensor's first byte lies: the file's device and number, and the offset.
using Place = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

Place place_of(const Tensor& tensor) {
  const auto [device, number] = tensor.file()->identity();
  return {device, number,
          static_cast<std::uint64_t>(tensor.data() - tensor.file()->bytes().data())};
}

/// Where a graph's constants begin in files.
std::set<Place> places_of_constants(const Graph& graph) {
  std::set<Place> places;
  for (const Value& value : graph.values)
    if (value.constant && value.constant->is_mapped()) places.insert(place_of(*value.constant));
  return places;
}

/// Whether some constant is a view of the tensor, or of a part of it.
bool is_among(const Tensor& tensor, const std::set<Place>& places) {
  Place begin = place_of(tensor);
  Place end = begin;
  std::get<2>(end) += static_cast<std::uint64_t>(tensor.size_bytes());
  const auto found = places.lower_bound(begin);
  return found != places.end() && *found < end;
}

void leave_out(onnx::TensorProto& proto) {
  proto.clear_external_data();
  auto& location = *proto.add_external_data();
  location.set_key("location");
  location.set_value(absent_location);
}

void set_inputs(const std::map<std::string, Tensor>& values, ExternalDataWriter& data,
                onnx::GraphProto& graph) {
  for (const auto& [name, tensor] : values) {
    onnx::TensorProto& proto = *graph.add_initializer();
    proto = tensor_to_proto(name, tensor);
    if (tensor.size_bytes() < smallest_external_bytes) continue;
    proto.clear_raw_data();
    data.write(tensor, proto);
  }
}

}  // namespace

WrittenModel save_structure(const std::filesystem::path& model,
                            const std::map<std::string, Tensor>& constants,
                            std::span<const Graph* const> graphs,
                            const std::filesystem::path& structure_file,
                            const std::filesystem::path& data_file) {
  ModelFile file(model, /*weights_may_be_absent=*/false);
  std::vector<std::set<Place>> carried;
  for (const Graph* graph : graphs) carried.push_back(places_of_constants(*graph));
  const auto is_carried = [&](const Tensor& tensor) {
    return tensor.is_mapped() && std::ranges::all_of(carried, [&](const std::set<Place>& places) {
             return is_among(tensor, places);
           });
  };
  onnx::ModelProto structure = file.model();
  ExternalDataWriter data(data_file);
  std::vector<std::unique_ptr<Tensor>> kept;  // the writer knows them by their addresses
  for_each_tensor(structure, [&](onnx::TensorProto& proto) {
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Tensor tensor = file.tensor(proto);
    if (is_carried(tensor)) return leave_out(proto);
    data.write(*kept.emplace_back(std::make_unique<Tensor>(tensor)), proto);
  });
  set_inputs(constants, data, *structure.mutable_graph());
  const WrittenFile written = data.close();
  return {.model = save_model(structure, structure_file), .data = written};
}

}  // namespace autopar::graph
