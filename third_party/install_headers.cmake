# Run at installation: `headers` of the folder `source` into include/autopar, where "module/name.h"
# is <autopar/name.h>. error.h goes without fail(), which formats messages by fmt.
set(folder $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/include/autopar)
foreach(header IN LISTS headers)
  file(READ ${source}/${header} text)
  string(REGEX REPLACE "#include \"[a-z_/]*/([a-z_]+[.]h)\"" "#include <autopar/\\1>" text "${text}")
  string(REGEX REPLACE "#include <fmt/[a-z]+[.]h>\n\n|template <typename[^}]*void fail[^}]*}\n\n" ""
    text "${text}")
  get_filename_component(name ${header} NAME)
  file(WRITE ${folder}/${name} "${text}")
  message(STATUS "Installing: ${folder}/${name}")
endforeach()
