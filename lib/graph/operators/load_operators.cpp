#include "graph/operators/library_operator.h"

#include <dlfcn.h>
#include <onnx/defs/schema.h>

#include <limits>

#include "base/error.h"
#include "base/problems.h"
#include "graph/contrib/operator_table.h"
#include "graph/onnx/schema_registry.h"

namespace autopar::graph {
namespace {

constexpr const char* entry_name = "autopar_operators";
/// A number of inputs or outputs, where one is given at all.
constexpr std::uint32_t most_tensors = 1024;

bool is_reserved(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "autopar" ||
         domain.starts_with("autopar.");
}

/// What is wrong with a definition by itself; empty where nothing is.
std::string fault_of(const AutoparOperator& op) {
  if (op.shapes == nullptr) return "it has no shape function";
  if (op.cpu == nullptr) return "it has no CPU kernel, which every operator needs";
  if (op.version < 1) return fmt::format("its version is {}, not 1 or more", op.version);
  if ((op.flags & ~std::uint32_t{AUTOPAR_RUNS_WHOLE}) != 0)
    return fmt::format("its flags are {}, which have no meaning", op.flags);
  if (op.min_inputs > op.max_inputs) return "min_inputs is more than max_inputs";
  if (op.min_outputs > op.max_outputs) return "min_outputs is more than max_outputs";
  if (op.max_outputs == 0) return "it has no output";
  for (const std::uint32_t most : {op.max_inputs, op.max_outputs})
    if (most > most_tensors && most != AUTOPAR_ANY)
      return fmt::format("it has up to {} tensors; more than {} are AUTOPAR_ANY", most,
                         most_tensors);
  return {};
}

void check_definition(const AutoparOperator& op, const std::filesystem::path& where) {
  if (op.domain == nullptr || op.name == nullptr || *op.name == 0)
    fail("--operators {}: an operator has no domain or no name", where.string());
  if (is_reserved(op.domain))
    fail(
        "--operators {}: {} is in the domain '{}', which is not for libraries; use one of your own",
        where.string(), op.name, op.domain);
  const std::string name = LibraryOperator{where, &op}.name();
  const std::string fault = fault_of(op);
  if (!fault.empty()) fail("--operators {}: {}: {}", where.string(), name, fault);
  const LibraryOperator* known = find_library_operator(op.domain, op.name);
  if (SchemaRegistry::instance().knows(op.name, op.domain))
    fail("--operators {}: {} is known already, from {}; give it another name or domain",
         where.string(), name, known ? known->library.string() : "autopar itself");
}

/// How many a node may have; without a most, any number from `min` on.
std::unordered_set<int> allowed_counts(std::uint32_t min, std::uint32_t max) {
  std::unordered_set<int> counts;
  for (std::uint32_t count = min; count <= max; ++count) counts.insert(static_cast<int>(count));
  return counts;
}

onnx::OpSchema schema_of(const AutoparOperator& op) {
  using Schema = onnx::OpSchema;
  Schema schema;
  schema.SetName(op.name).SetDomain(op.domain).SinceVersion(op.version).AllowUncheckedAttributes();
  schema.TypeConstraint("T", Schema::all_tensor_types_ir14(), "any tensor");
  const auto arity = [](std::uint32_t min) { return static_cast<int>(min); };
  if (op.max_inputs > 0)
    schema.Input(0, "inputs", "", "T", Schema::Variadic, false, arity(op.min_inputs));
  schema.Output(0, "outputs", "", "T", Schema::Variadic, false, arity(op.min_outputs));
  if (op.max_inputs != AUTOPAR_ANY) schema.NumInputs(allowed_counts(op.min_inputs, op.max_inputs));
  if (op.max_outputs != AUTOPAR_ANY)
    schema.NumOutputs(allowed_counts(op.min_outputs, op.max_outputs));
  return schema;
}

void register_schema(const AutoparOperator& op, const std::filesystem::path& where) {
  auto& versions = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
  try {
    if (!versions.Map().contains(op.domain))
      versions.AddDomainToVersion(op.domain, 1, std::numeric_limits<int>::max());
    SchemaRegistry::instance().add(schema_of(op));
  } catch (const std::exception& error) {
    fail("--operators {}: {} cannot be registered: {}", where.string(),
         LibraryOperator{where, &op}.name(), error.what());
  }
}

}  // namespace

void add_operators(const AutoparLibrary& operators, const std::filesystem::path& where) {
  if (operators.abi != AUTOPAR_OPERATOR_ABI)
    fail(
        "--operators {}: it is for version {} of autopar_operator.h, but this autopar has {}; "
        "compile it again",
        where.string(), operators.abi, AUTOPAR_OPERATOR_ABI);
  if (operators.num_operators == 0 || operators.operators == nullptr)
    fail("--operators {}: it has no operator", where.string());
  register_schemas();
  const std::span definitions(operators.operators, operators.num_operators);
  Problems problems;
  std::unordered_set<std::string> names;
  for (const AutoparOperator& op : definitions) {
    problems.collect([&] {
      check_definition(op, where);
      const std::string name = LibraryOperator{where, &op}.name();
      if (!names.insert(name).second) fail("--operators {}: it has {} twice", where.string(), name);
    });
  }
  problems.throw_if_any();
  for (const AutoparOperator& op : definitions) {
    register_schema(op, where);
    add_library_operator({where, &op});
  }
}

void load_operators(const std::filesystem::path& library) {
  std::error_code error;
  const auto file = std::filesystem::canonical(library, error);
  if (error) fail("--operators {}: {}; give a shared library", library.string(), error.message());
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail("--operators {} cannot be loaded: {}", library.string(), dlerror());
  const auto entry = reinterpret_cast<const AutoparLibrary* (*)()>(dlsym(handle, entry_name));
  if (entry == nullptr)
    fail("--operators {}: it has no function {}; see autopar_operator.h", library.string(),
         entry_name);
  const AutoparLibrary* const operators = entry();
  if (operators == nullptr) fail("--operators {}: {}() gives NULL", library.string(), entry_name);
  add_operators(*operators, library);
}

}  // namespace autopar::graph
