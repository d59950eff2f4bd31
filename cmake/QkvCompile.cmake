# Faster builds without effect on results: the compiler cache, precompiled headers, several files compiled as one, and
# less optimisation of code that computes nothing.

# ccache supports precompiled headers only if told that no source depends on the time or on preceding macros. It finds what
# another clone compiled if paths are hashed relative to the clone.
find_program(CCACHE ccache)
if(CCACHE AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$"))
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE})
endif()

# Commands and tests take longer to compile than to run; the library that they call is optimised. Likewise with sanitizers.
set(QKV_PROGRAM_OPTIONS $<$<CONFIG:Release>:-O1>)
function(qkv_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  set_target_properties(${target} PROPERTIES QKV_TEST ON)
endfunction()

# For Clang, ccache has other rules, which are not worth supporting.
set(default OFF)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(default ON)
endif()
option(QKV_PCH "Precompile the headers from elsewhere that most files include" ${default})

# The precompiled headers of each kind of file. Files must still include what they use: scripts/tidy compiles each by
# itself without them.
set(QKV_PCH_layer <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream>
                  <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
                  <string_view> <unordered_map> <utility> <vector>)
set(QKV_PCH_test ${QKV_PCH_layer} <gtest/gtest.h>)
set(QKV_PCH_command ${QKV_PCH_layer} <iostream> <nlohmann/json.hpp>)

# qkv_precompile(<target> <layer|test|command> <libraries>...): precompiles the headers of that kind, which come from these
# libraries, once for all targets of the kind, which must have equal flags.
function(qkv_precompile target kind)
  if(NOT QKV_PCH)
    return()
  endif()
  set(first qkv_pch_${kind})
  if(NOT TARGET ${first})
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${first}.cc CONTENT "")
    add_library(${first} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${first}.cc)
    target_link_libraries(${first} PRIVATE qkv_flags ${ARGN})
    if(NOT kind STREQUAL layer)
      set_target_properties(${first} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${first} PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
    endif()
    if(kind STREQUAL test)
      qkv_test_options(${first})
    elseif(kind STREQUAL command)
      target_compile_options(${first} PRIVATE ${QKV_PROGRAM_OPTIONS})
    endif()
    target_precompile_headers(${first} PRIVATE ${QKV_PCH_${kind}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${first})
endfunction()

# A build of everything takes half the time if several files are compiled as one, a build after one change takes longer.
option(QKV_UNITY "Compile several files as one: faster from nothing, slower after one change" OFF)

# qkv_unity(<target> [WITHOUT <patterns>...]): compiles the files of the target that match no pattern several at a time.
# Names at namespace scope must then differ between these files, anonymous namespaces included.
function(qkv_unity target)
  cmake_parse_arguments(ARG "" "" "WITHOUT" ${ARGN})
  if(NOT QKV_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    foreach(pattern IN LISTS ARG_WITHOUT)
      if(source MATCHES "${pattern}")
        set_property(SOURCE ${source} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endforeach()
endfunction()
