#include "planner/report/report_page.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "planner/report/page_files.h"

namespace autopar::planner {

void check_has_charts() {
  if (page_files::charts_js().empty())
    fail(
        "--report: this program was built where Chart.js (Debian's libjs-chart.js) was missing; "
        "install it there and build again");
}

std::string json_in_script(const nlohmann::json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', /*ensure_ascii=*/true)) {
    // Only strings of JSON have these.
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string report_page(const nlohmann::json& data) {
  check_has_charts();
  const std::string data_text = json_in_script(data);
  const std::array<std::pair<std::string_view, std::string_view>, 4> parts{{
      {"/*STYLE*/", page_files::page_css()},
      {"/*DATA*/", data_text},
      {"/*CHARTS*/", page_files::charts_js()},
      {"/*SCRIPT*/", page_files::page_js()},
  }};
  std::string page;
  std::string_view rest = page_files::page_html();
  for (const auto& [mark, text] : parts) {
    const std::size_t place = rest.find(mark);
    require(place != std::string_view::npos, "page.html has a place for every part, in order");
    page += rest.substr(0, place);
    page += text;
    rest = rest.substr(place + mark.size());
  }
  return page += rest;
}

}  // namespace autopar::planner
