#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// The page that shows report_data.h: report/page/ and the library of charts, as they were when
/// this was built.
namespace autopar::planner {

/// Throws Error where the library of charts was not there when this was built.
void check_has_charts();

/// The whole HTML file. Throws nlohmann::json::type_error where a name is not UTF-8.
std::string report_page(const nlohmann::json& data);

/// JSON that may stand in a script element: nothing in it ends the element or begins a comment.
std::string json_in_script(const nlohmann::json& data);

}  // namespace autopar::planner
