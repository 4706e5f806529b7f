// The library that ONNX Runtime loads: RegisterCustomOps is what it looks for. A domain of
// operators for each session's options, since these tell who the rank is among.

#include <onnxruntime_c_api.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "onnx_runtime/collectives.h"
#include "onnx_runtime/session_entries.h"
#include "onnx_runtime/worlds.h"

namespace autopar::onnx_runtime {
namespace {

/// The newest of what is used here is GetMayInplace.
constexpr std::uint32_t needed_api = 18;

const char* message_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) == nullptr ? error.what()
                                                                : "memory is refused";
}

/// What `work` throws, as ONNX Runtime's status; null where it throws nothing.
template <typename Work>
OrtStatus* status_of(const OrtApi& api, const Work& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    return api.CreateStatus(ORT_FAIL, message_of(error));
  }
}

void check(const OrtApi& api, OrtStatus* status) {
  if (status == nullptr) return;
  const std::string message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  throw Error(message);
}

/// A text that `get(out, &size)` tells, with its end.
template <typename Get>
std::string text_of(const OrtApi& api, const Get& get) {
  std::size_t size = 0;
  check(api, get(nullptr, &size));
  std::string text(size, '\0');
  check(api, get(text.data(), &size));
  text.resize(size > 0 ? size - 1 : 0);
  return text;
}

std::optional<std::string> session_entry(const OrtApi& api, const OrtSessionOptions* options,
                                         const std::string& key) {
  int exists = 0;
  check(api, api.HasSessionConfigEntry(options, key.c_str(), &exists));
  if (exists == 0) return std::nullopt;
  return text_of(api, [&](char* out, std::size_t* size) {
    return api.GetSessionConfigEntry(options, key.c_str(), out, size);
  });
}

graph::Attribute read_attribute(const OrtApi& api, const OrtKernelInfo* info, const char* name,
                                std::string_view type) {
  if (type == "i") {
    std::int64_t number = 0;
    check(api, api.KernelInfoGetAttribute_int64(info, name, &number));
    return number;
  }
  if (type == "s")
    return text_of(api, [&](char* out, std::size_t* size) {
      return api.KernelInfoGetAttribute_string(info, name, out, size);
    });
  std::size_t size = 0;
  check(api, api.KernelInfoGetAttributeArray_int64(info, name, nullptr, &size));
  std::vector<std::int64_t> numbers(size);
  if (size > 0)
    check(api, api.KernelInfoGetAttributeArray_int64(info, name, numbers.data(), &size));
  return numbers;
}

graph::Node read_node(const OrtApi& api, const OrtKernelInfo* info,
                      const CollectiveOperator& line) {
  graph::Node node{.name = text_of(api,
                                   [&](char* out, std::size_t* size) {
                                     return api.KernelInfo_GetNodeName(info, out, size);
                                   }),
                   .op_type = line.op_type,
                   .domain = graph::collective_domain,
                   .inputs = {},
                   .outputs = {},
                   .attributes = {}};
  std::istringstream words{std::string(line.attributes)};
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    node.attributes[name] =
        read_attribute(api, info, name.c_str(), std::string_view(word).substr(colon + 1));
  }
  return node;
}

/// What an OrtApi function makes at its last argument.
template <typename Make>
auto type_and_shape(const OrtApi& api, const Make& make) {
  struct Release {
    const OrtApi& api;
    void operator()(OrtTensorTypeAndShapeInfo* info) const {
      api.ReleaseTensorTypeAndShapeInfo(info);
    }
  };
  OrtTensorTypeAndShapeInfo* made = nullptr;
  check(api, make(&made));
  return std::unique_ptr<OrtTensorTypeAndShapeInfo, Release>(made, {api});
}

/// What ONNX Runtime asks of a node before there is a kernel: its output's type and shape.
class Inference {
 public:
  Inference(const OrtApi& api, OrtShapeInferContext* context, std::size_t ranks)
      : api_(api), context_(context), ranks_(ranks) {}

  void infer(const CollectiveOperator& line) {
    if (line.inputs == 0) return infer_received();
    OrtTensorTypeAndShapeInfo* input = nullptr;  // stays the context's
    check(api_, api_.ShapeInferContext_GetInputTypeShape(context_, 0, &input));
    std::size_t rank = 0;
    check(api_, api_.GetDimensionsCount(input, &rank));
    graph::Shape shape(rank);
    check(api_, api_.GetDimensions(input, shape.data(), rank));
    for (const NewExtent& extent : line.new_extents) {
      const auto dim = static_cast<std::size_t>(integer(extent.dim));
      const auto sizes = integers(extent.sizes);
      if (dim < rank)
        shape[dim] = extent.is_sum ? std::reduce(sizes.begin(), sizes.end())
                                   : sizes.at(static_cast<std::size_t>(integer("rank")));
    }
    ONNXTensorElementDataType type{};
    check(api_, api_.GetTensorElementType(input, &type));
    set_output(type, shape);
  }

 private:
  void infer_received() {
    set_output(static_cast<ONNXTensorElementDataType>(integer("dtype")), integers("shape"));
  }

  void set_output(ONNXTensorElementDataType type, const graph::Shape& shape) {
    const auto info =
        type_and_shape(api_, [&](auto** made) { return api_.CreateTensorTypeAndShapeInfo(made); });
    check(api_, api_.SetTensorElementType(info.get(), type));
    check(api_, api_.SetDimensions(info.get(), shape.data(), shape.size()));
    check(api_, api_.ShapeInferContext_SetOutputTypeShape(context_, 0, info.get()));
  }

  std::int64_t integer(const char* name) const { return read(name, ORT_OP_ATTR_INT, 1).at(0); }
  std::vector<std::int64_t> integers(const char* name) const {
    return read(name, ORT_OP_ATTR_INTS, std::max<std::size_t>(ranks_, 64));
  }
  std::vector<std::int64_t> read(const char* name, OrtOpAttrType type, std::size_t most) const {
    const OrtOpAttr* attribute = nullptr;
    check(api_, api_.ShapeInferContext_GetAttribute(context_, name, &attribute));
    std::vector<std::int64_t> numbers(most);
    std::size_t bytes = 0;
    check(api_, api_.ReadOpAttr(attribute, type, numbers.data(),
                                numbers.size() * sizeof(std::int64_t), &bytes));
    numbers.resize(bytes / sizeof(std::int64_t));
    return numbers;
  }

  const OrtApi& api_;
  OrtShapeInferContext* context_;
  std::size_t ranks_;  ///< of the world: attributes have no more shares
};

HostTensor tensor_of(const OrtApi& api, OrtValue* value) {
  const auto info =
      type_and_shape(api, [&](auto** made) { return api.GetTensorTypeAndShape(value, made); });
  ONNXTensorElementDataType type{};
  check(api, api.GetTensorElementType(info.get(), &type));
  std::size_t rank = 0;
  check(api, api.GetDimensionsCount(info.get(), &rank));
  HostTensor tensor{.type = static_cast<graph::DataType>(type), .shape = graph::Shape(rank)};
  check(api, api.GetDimensions(info.get(), tensor.shape.data(), rank));
  void* data = nullptr;
  check(api, api.GetTensorMutableData(value, &data));
  tensor.data = static_cast<std::byte*>(data);
  return tensor;
}

HostTensor input_of(const OrtApi& api, const OrtKernelContext* context) {
  const OrtValue* value = nullptr;
  check(api, api.KernelContext_GetInput(context, 0, &value));
  return tensor_of(api,
                   const_cast<OrtValue*>(value));  // the API reads constant values by no other way
}

HostTensor output_of(const OrtApi& api, OrtKernelContext* context, const graph::Shape& shape) {
  OrtValue* value = nullptr;
  check(api, api.KernelContext_GetOutput(context, 0, shape.data(), shape.size(), &value));
  return tensor_of(api, value);
}

/// A node of a session. It joins the world when it is first run, not when the session is opened:
/// one thread may open the sessions of several ranks.
class Kernel {
 public:
  Kernel(const OrtApi& api, const CollectiveOperator& line, const SessionEntries& entries,
         const OrtKernelInfo* info)
      : api_(api),
        line_(line),
        entries_(entries),
        node_(read_node(api, info, line)),
        rank_(world_rank_of(node_)) {
    if (rank_ < 0 || std::cmp_greater_equal(rank_, entries.info.ranks.size()))
      fail("node '{}' is of rank {}, but {} has {} ranks: give autopar.bundle the shard's bundle",
           node_.name, rank_, entries.bundle.string(), entries.info.ranks.size());
  }

  OrtStatus* run(OrtKernelContext* context) noexcept {
    return status_of(api_, [&] {
      std::call_once(joined_, [&] { member_ = join_world(entries_, rank_); });
      member_->communicate([&] {
        Call call{.node = node_,
                  .member = *member_,
                  .input = line_.inputs > 0 ? input_of(api_, context) : HostTensor{},
                  .output = [&](const auto& shape) { return output_of(api_, context, shape); },
                  .scratch = scratch_};
        line_.run(call);
      });
    });
  }

 private:
  const OrtApi& api_;
  const CollectiveOperator& line_;
  const SessionEntries& entries_;
  graph::Node node_;
  int rank_;
  std::once_flag joined_;
  std::shared_ptr<Member> member_;
  std::vector<std::byte> scratch_;
};

/// An operator as ONNX Runtime has it.
struct Operator : OrtCustomOp {
  const OrtApi* api = nullptr;
  const CollectiveOperator* line = nullptr;
  std::shared_ptr<const SessionEntries> entries;
};

const Operator& own(const OrtCustomOp* op) { return *static_cast<const Operator*>(op); }

/// With `after`, the output of the collective before, which nothing but the order of nodes reads.
std::size_t declared_inputs(const Operator& op) {
  const bool has_after = op.line->inputs == 1 && op.line->outputs == 1;
  return op.line->inputs + (has_after ? 1 : 0);
}

Operator make_operator(const OrtApi& api, const CollectiveOperator& line,
                       std::shared_ptr<const SessionEntries> entries) {
  using Op = const OrtCustomOp*;
  Operator op{};
  op.api = &api;
  op.line = &line;
  op.entries = std::move(entries);
  op.version = needed_api;
  op.GetName = [](Op o) { return own(o).line->op_type; };
  op.GetExecutionProviderType = [](Op) -> const char* { return nullptr; };  // the CPU's
  op.GetInputTypeCount = [](Op o) { return declared_inputs(own(o)); };
  op.GetOutputTypeCount = [](Op o) { return own(o).line->outputs; };
  op.GetInputType = [](Op, std::size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; };
  op.GetOutputType = op.GetInputType;  // any
  op.GetInputCharacteristic = [](Op o, std::size_t i) {
    return i < own(o).line->inputs ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  };
  op.GetOutputCharacteristic = [](Op, std::size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetInputMemoryType = [](Op, std::size_t) { return OrtMemTypeDefault; };
  op.GetVariadicInputMinArity = [](Op) { return 0; };
  op.GetVariadicInputHomogeneity = [](Op) { return 0; };
  op.GetVariadicOutputMinArity = [](Op) { return 0; };
  op.GetVariadicOutputHomogeneity = [](Op) { return 0; };
  op.GetStartVersion = [](Op) { return 1; };
  op.GetEndVersion = [](Op) { return 1; };
  op.CreateKernelV2 = [](Op o, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
    const Operator& mine = own(o);
    return status_of(*mine.api,
                     [&] { *kernel = new Kernel(*mine.api, *mine.line, *mine.entries, info); });
  };
  op.KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
    return static_cast<Kernel*>(kernel)->run(context);
  };
  op.KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  if (line.outputs > 0)
    op.InferOutputShapeFn = [](Op o, OrtShapeInferContext* context) {
      return status_of(*own(o).api, [&] {
        const Operator& mine = own(o);
        Inference(*mine.api, context, mine.entries->info.ranks.size()).infer(*mine.line);
      });
    };
  if (line.is_in_place) {
    op.GetMayInplace = [](int** input, int** output) -> std::size_t {
      *input = new int{0};
      *output = new int{0};
      return 1;
    };
    op.ReleaseMayInplace = [](int* input, int* output) {
      delete input;
      delete output;
    };
  }
  return op;
}

/// Sessions hold what is registered without telling how long: it stays until the process ends, as
/// the library does.
void register_operators(const OrtApi& api, OrtSessionOptions* options) {
  const auto entries = std::make_shared<const SessionEntries>(
      read_entries([&](const std::string& key) { return session_entry(api, options, key); }));
  auto operators = std::make_unique<std::vector<Operator>>();
  for (const CollectiveOperator& line : collective_operators())
    operators->push_back(make_operator(api, line, entries));
  OrtCustomOpDomain* domain = nullptr;
  check(api, api.CreateCustomOpDomain(graph::collective_domain, &domain));
  for (const Operator& op : *operators.release()) check(api, api.CustomOpDomain_Add(domain, &op));
  check(api, api.AddCustomOpDomain(options, domain));
}

}  // namespace
}  // namespace autopar::onnx_runtime

// NOLINTNEXTLINE(readability-identifier-naming): the name that ONNX Runtime looks for
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) {
  using namespace autopar::onnx_runtime;
  const OrtApi* const api = base->GetApi(needed_api);
  if (api == nullptr) {
    const std::string why =
        std::string("autopar's library needs ONNX Runtime 1.18 or newer, not ") +
        base->GetVersionString();
    return base->GetApi(1)->CreateStatus(ORT_FAIL, why.c_str());
  }
  return status_of(*api, [&] { register_operators(*api, options); });
}
