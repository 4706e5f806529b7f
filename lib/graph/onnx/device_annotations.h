#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace autopar::graph {

/// A dimension of a tensor that is cut into equal shards. `axis` may count from the back.
struct ShardedDimension {
  std::int64_t axis = 0;
  std::int64_t shards = 1;
  std::optional<std::int64_t> extent{};  ///< that the file says the dimension has
};

/// How one input or output of a node lies on devices.
struct ShardedTensor {
  std::string name;
  std::vector<ShardedDimension> dims;
  /// By shard, row-major over `dims` in their order: the devices that each have all of it.
  std::vector<std::vector<std::int64_t>> devices;
};

struct AnnotatedNode {
  std::string name;
  std::string op_type;
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::vector<ShardedTensor> tensors{};
  std::optional<int> stage{};
  std::map<std::string, std::string> properties{};  ///< of the node's metadata, "autopar.*"
};

/// One configuration of ONNX's multi-device annotations (IR version 11; onnx/docs/proposals,
/// ONNXMultiDeviceProposal.md and ShardingFormalism.md), as the file has them.
struct DeviceAnnotations {
  std::string configuration;
  int num_devices = 0;
  std::vector<AnnotatedNode> nodes{};               ///< those that say anything
  std::map<std::string, std::string> properties{};  ///< of the model's metadata, "autopar.*"
  /// Of an input's or an initializer's metadata, "autopar.*", by the tensor's name.
  std::map<std::string, std::map<std::string, std::string>> stored{};
};

/// Adds the annotations to a model whose nodes have their names; brings it to IR version 11.
void annotate(onnx::ModelProto& model, const DeviceAnnotations& annotations);

/// Reads the configuration for so many devices. Weights need not be present. Throws Error naming
/// file, node and tensor where there is none, where what is there contradicts itself, and where
/// nodes of bodies or functions are annotated.
DeviceAnnotations read_annotations(const std::filesystem::path& file, int num_devices);

}  // namespace autopar::graph
