# Run at installation: `headers` of the folder `source` into include/autopar, where "module/name.h"
# is <autopar/name.h>. base/error_types.h is error.h there, without what formats messages by fmt.
set(folder $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/include/autopar)
foreach(header IN LISTS headers)
  file(READ ${source}/${header} text)
  string(REGEX REPLACE "#include \"[a-z_/]*/([a-z_]+[.]h)\"" "#include <autopar/\\1>" text "${text}")
  get_filename_component(name ${header} NAME)
  string(REPLACE error_types.h error.h name ${name})
  file(WRITE ${folder}/${name} "${text}")
  message(STATUS "Installing: ${folder}/${name}")
endforeach()
