# The page of --report and Chart.js, compiled in. Without Chart.js, --report says that it was missing.
find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH
  DOC "Chart.js, minified, for the pages of --report")
if(NOT CHART_JS)
  message(STATUS "Chart.js (libjs-chart.js) was not found: --report is left out")
  set(charts "")
else()
  set(charts ${CHART_JS})
endif()
set(page ${CMAKE_CURRENT_LIST_DIR}/page)
set(embed ${CMAKE_CURRENT_LIST_DIR}/embed_files.cmake)
set(page_files ${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp)
add_custom_command(OUTPUT ${page_files}
  COMMAND ${CMAKE_COMMAND} -DOUT=${page_files}
    "-DFILES=page_html=${page}/page.html|page_css=${page}/page.css|page_js=${page}/page.js|charts_js=${charts}"
    -P ${embed}
  DEPENDS ${page}/page.html ${page}/page.css ${page}/page.js ${charts} ${embed}
  VERBATIM)
target_sources(autopar_planner PRIVATE ${page_files})
