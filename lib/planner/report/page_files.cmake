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
set(scripts "")
foreach(script elements model memory timeline costs plan_page comparison_page sizing_page start)
  list(APPEND scripts ${page}/${script}.js)
endforeach()
list(JOIN scripts "+" joined_scripts)
set(page_files ${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp)
add_custom_command(OUTPUT ${page_files}
  COMMAND ${CMAKE_COMMAND} -DOUT=${page_files}
    "-DFILES=page_html=${page}/page.html|page_css=${page}/page.css|page_js=${joined_scripts}|charts_js=${charts}"
    -P ${embed}
  DEPENDS ${page}/page.html ${page}/page.css ${scripts} ${charts} ${embed}
  VERBATIM)
target_sources(autopar_planner PRIVATE ${page_files})
