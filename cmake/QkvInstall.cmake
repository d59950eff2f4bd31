# The components of `cmake --install`, and the package for find_package(qkv).
#   component development: the static library, its public headers, the CMake package
#   component runtime:     the program, its manual pages, completion for bash, zsh and fish
include(CMakePackageConfigHelpers)

# qkv_public_headers(<variable>): qkv/qkv.h, the headers that it includes, which are chosen, and all that these include.
# Paths are relative to the source folder.
function(qkv_public_headers variable)
  set(headers qkv/qkv.h)
  set(pending ${headers})
  while(pending)
    list(POP_FRONT pending header)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"qkv/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" included "${line}")
      if(NOT included IN_LIST headers)
        list(APPEND headers ${included})
        list(APPEND pending ${included})
      endif()
    endforeach()
  endwhile()
  set(${variable} ${headers} PARENT_SCOPE)
endfunction()

# Users of the static library must link its dependencies. They are listed here instead of taken from the layers, because
# users do not need header-only libraries (nlohmann-json) or this build's warning flags.
set(link "")
foreach(library qkv::sentencepiece qkv::utf8proc qkv::pcre2 qkv::jpeg qkv::spng qkv::sndfile qkv::mpg123 qkv::samplerate qkv::zlib qkv::dnnl hwy::hwy OpenMP::OpenMP_CXX OpenSSL::SSL Threads::Threads)
  list(APPEND link $<LINK_ONLY:${library}>)
endforeach()
set_target_properties(qkv PROPERTIES INTERFACE_LINK_LIBRARIES "$<BUILD_INTERFACE:$<LINK_ONLY:qkv_flags>>;${link}")

option(QKV_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
if(NOT QKV_INSTALL)
  return()
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)
install(TARGETS qkv EXPORT qkvTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
qkv_public_headers(headers)
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
endforeach()

install(EXPORT qkvTargets NAMESPACE qkv:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/qkvConfig.cmake.in ${PROJECT_BINARY_DIR}/qkvConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
# Before 1.0, minor versions may be incompatible.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qkvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qkvConfig.cmake ${PROJECT_BINARY_DIR}/qkvConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/QkvDependencies.cmake
        DESTINATION ${package_folder} COMPONENT development)

if(TARGET qkv_cli)
  install(TARGETS qkv_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
if(TARGET qkv_mpi)
  install(TARGETS qkv_mpi LIBRARY DESTINATION lib/qkv COMPONENT runtime)
endif()
if(TARGET qkv_share)
  set(share ${PROJECT_BINARY_DIR}/share)
  install(DIRECTORY ${share}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT runtime)
  install(FILES ${share}/qkv.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME qkv
          COMPONENT runtime)
  install(FILES ${share}/_qkv DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT runtime)
  install(FILES ${share}/qkv.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime)
endif()
