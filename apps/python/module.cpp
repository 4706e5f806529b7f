#include <exception>
#include <string>

#include "base/error_types.h"
#include "base/text.h"
#include "bindings.h"

namespace nb = nanobind;

namespace {

/// The lines that the program would print.
std::string lines_of(const autopar::Error& error) {
  const auto* several = dynamic_cast<const autopar::SeveralErrors*>(&error);
  if (several == nullptr) return autopar::one_line(error.what());
  std::string lines;
  for (const std::string& line : several->lines())
    lines += (lines.empty() ? "" : "\n") + autopar::one_line(line);
  return lines;
}

void raise_errors(nb::module_& module) {
  nb::object type = nb::exception<autopar::Error>(module, "Error");
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* payload) {
        try {
          std::rethrow_exception(thrown);
        } catch (const autopar::Error& error) {
          PyErr_SetString(static_cast<PyObject*>(payload), lines_of(error).c_str());
        }
      },
      type.ptr());
}

}  // namespace

NB_MODULE(_native, module) {
  module.attr("version") = AUTOPAR_VERSION;
  raise_errors(module);
  autopar::python::bind_planning(module);
  autopar::python::bind_session(module);
}
