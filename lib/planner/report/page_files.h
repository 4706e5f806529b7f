#pragma once

#include <string_view>

/// Files that are compiled in (embed_files.cmake).
namespace autopar::planner::page_files {

std::string_view page_html();
std::string_view page_css();
std::string_view page_js();
std::string_view charts_js();  ///< empty where the library of charts was not there

}  // namespace autopar::planner::page_files
