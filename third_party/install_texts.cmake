# Run at installation: the manual page and the completions of shells, which `printer` prints, into the
# folders of share that man and the shells look in.
set(share $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share)
foreach(text
    "man/man1/autopar.1 --manual"
    "bash-completion/completions/autopar --completion bash"
    "fish/vendor_completions.d/autopar.fish --completion fish"
    "zsh/site-functions/_autopar --completion zsh")
  separate_arguments(arguments UNIX_COMMAND ${text})
  list(POP_FRONT arguments name)
  get_filename_component(folder ${share}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${printer} ${arguments} OUTPUT_FILE ${share}/${name}
    COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "Installing: ${share}/${name}")
endforeach()
execute_process(COMMAND gzip -9nf ${share}/man/man1/autopar.1 COMMAND_ERROR_IS_FATAL ANY)
