# cmake -DOUT=FILE.cpp -DFILES='NAME=PATH|...' -P embed_files.cmake: writes page_files.h's functions,
# each with the bytes of its file; of a file without a path, none.
set(text "#include \"planner/report/page_files.h\"\n\nnamespace autopar::planner::page_files {\n")
string(REPLACE "|" ";" FILES "${FILES}")
foreach(each IN LISTS FILES)
  string(REGEX MATCH "^([^=]+)=(.*)$" matched "${each}")
  set(name ${CMAKE_MATCH_1})
  set(path "${CMAKE_MATCH_2}")
  if(path)
    file(READ "${path}" bytes HEX)
    file(SIZE "${path}" size)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND text "static const unsigned char ${name}_bytes[] = {${bytes}};\n"
      "std::string_view ${name}() {\n"
      "  return {reinterpret_cast<const char*>(${name}_bytes), ${size}};\n}\n")
  else()
    string(APPEND text "std::string_view ${name}() { return {}; }\n")
  endif()
endforeach()
file(WRITE "${OUT}" "${text}}  // namespace autopar::planner::page_files\n")
