#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bindings.h"
#include "device_choice.h"
#include "launch.h"
#include "planner/shape_source.h"
#include "runtime/session.h"

namespace autopar::python {

namespace nb = nanobind;
using graph::DataType;
using graph::Tensor;

namespace {

/// The bytes of an array, which numpy's types are views of: bfloat16 is none of its own.
using GivenBytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MadeBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;
/// Name, type, shape, bytes.
using Given = std::tuple<std::string, std::string, graph::Shape, GivenBytes>;
/// Name, shape, bytes.
using Made = std::tuple<std::string, graph::Shape, MadeBytes>;
/// Name, type, shape.
using Port = std::tuple<std::string, std::string, std::optional<graph::Shape>>;

/// A view of the array, which lives as long as any view, whichever thread has the last.
Tensor borrowed(const std::string& name, DataType type, const graph::Shape& shape,
                const GivenBytes& bytes) {
  if (static_cast<std::int64_t>(bytes.size()) != graph::bytes_of(type, graph::num_elements(shape)))
    fail("input '{}': {} bytes are not {} of {}", name, bytes.size(), graph::to_string(shape),
         name_of(type));
  const std::shared_ptr<const void> owner(new GivenBytes(bytes), [](const void* held) {
    const nb::gil_scoped_acquire locked;
    delete static_cast<const GivenBytes*>(held);
  });
  return {type, shape, reinterpret_cast<const std::byte*>(bytes.data()), owner};
}

/// An array of the tensor's memory.
MadeBytes handed_over(const Tensor& tensor) {
  auto held = std::make_unique<Tensor>(tensor.is_contiguous() ? tensor : tensor.contiguous_copy());
  const std::span<const std::byte> bytes = held->bytes();
  auto* data = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(bytes.data()));
  const nb::capsule owner(held.release(),
                          [](void* made) noexcept { delete static_cast<Tensor*>(made); });
  return {data, {bytes.size()}, owner};
}

std::vector<Port> ports_of(const std::vector<runtime::ModelPort>& ports) {
  std::vector<Port> told;
  for (const runtime::ModelPort& port : ports)
    told.emplace_back(port.name, name_of(port.type), port.shape);
  return told;
}

runtime::SessionOptions options_of(const std::filesystem::path& folder, const DeviceChoice& device,
                                   const LaunchChoice& launch, const std::string& limits,
                                   std::optional<std::int64_t> shape_cache) {
  runtime::SessionOptions options{.device = device.checked(),
                                  .launch = launch.checked(),
                                  .command = "Session of Python",
                                  .shapes = planner::shape_source(folder, limits)};
  if (shape_cache) options.shape_cache_bytes = *shape_cache;
  return options;
}

/// A session that several threads may use: one runs, and the others wait without Python's lock.
class SharedSession {
 public:
  SharedSession(const std::filesystem::path& folder, const DeviceChoice& device,
                const LaunchChoice& launch, const std::string& limits,
                std::optional<std::int64_t> shape_cache) {
    const nb::gil_scoped_release unlocked;
    session_.emplace(folder, options_of(folder, device, launch, limits, shape_cache));
    session_->load();
  }
  /// What is left of borrowed arrays may go in the ranks' threads, which need the lock for it.
  ~SharedSession() {
    const nb::gil_scoped_release unlocked;
    session_.reset();
  }
  SharedSession(const SharedSession&) = delete;
  SharedSession& operator=(const SharedSession&) = delete;

  std::vector<Port> inputs() const { return ports_of(session_->inputs()); }
  std::vector<Port> outputs() const { return ports_of(session_->outputs()); }
  int num_ranks() const { return session_->num_ranks(); }
  bool has_first_rank() const { return session_->has_first_rank(); }

  std::vector<Made> run(const std::vector<Given>& feeds, const std::vector<std::string>& wanted) {
    runtime::NamedTensors inputs;
    for (const auto& [name, type, shape, bytes] : feeds)
      inputs.emplace(name, borrowed(name, graph::parse_data_type(type), shape, bytes));
    runtime::NamedTensors outputs;
    {
      const nb::gil_scoped_release unlocked;
      const std::lock_guard alone(mutex_);
      outputs = session_->run(inputs, {.outputs = wanted}).outputs;
    }
    std::vector<Made> made;
    for (const auto& [name, tensor] : outputs)
      made.emplace_back(name, tensor.shape(), handed_over(tensor));
    return made;
  }

 private:
  std::optional<runtime::Session> session_;
  std::mutex mutex_;
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<DeviceChoice>(module, "DeviceChoice")
      .def(nb::init<>())
      .def_rw("device", &DeviceChoice::device)
      .def_rw("gpu", &DeviceChoice::gpu)
      .def_rw("collectives", &DeviceChoice::collectives)
      .def_rw("allow_tf32", &DeviceChoice::allow_tf32)
      .def_rw("threads", &DeviceChoice::threads);
  nb::class_<LaunchChoice>(module, "LaunchChoice")
      .def(nb::init<>())
      .def_rw("rank", &LaunchChoice::rank)
      .def_rw("rendezvous", &LaunchChoice::rendezvous)
      .def_rw("secret_file", &LaunchChoice::secret_file)
      .def_rw("tls", &LaunchChoice::tls)
      .def_rw("timeout", &LaunchChoice::timeout_seconds);
  nb::class_<SharedSession>(module, "Session")
      .def(nb::init<const std::filesystem::path&, const DeviceChoice&, const LaunchChoice&,
                    const std::string&, std::optional<std::int64_t>>())
      .def("inputs", &SharedSession::inputs)
      .def("outputs", &SharedSession::outputs)
      .def("num_ranks", &SharedSession::num_ranks)
      .def("has_first_rank", &SharedSession::has_first_rank)
      .def("run", &SharedSession::run);
}

}  // namespace autopar::python
