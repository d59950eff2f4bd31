# The libraries that qkv links, all from the distribution. None appears in a public header. This file is also installed
# with the CMake package, because a program that links the static library needs them too.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(hwy REQUIRED)
find_package(OpenSSL REQUIRED)

# qkv_import(name header library...): the target qkv::name, for a library without a usable CMake package in Debian.
function(qkv_import name header)
  if(TARGET qkv::${name})
    return()
  endif()
  add_library(qkv::${name} INTERFACE IMPORTED GLOBAL)
  find_path(QKV_${name}_INCLUDE ${header} REQUIRED)
  target_include_directories(qkv::${name} INTERFACE ${QKV_${name}_INCLUDE})
  foreach(library IN LISTS ARGN)
    find_library(QKV_${library}_LIBRARY ${library} REQUIRED)
    target_link_libraries(qkv::${name} INTERFACE ${QKV_${library}_LIBRARY})
  endforeach()
endfunction()

# Debian's dnnl-config.cmake requires OpenCL's headers, which are not needed; the others have no package.
qkv_import(dnnl dnnl.hpp dnnl)
file(GLOB QKV_dnnl_version ${QKV_dnnl_INCLUDE}/oneapi/dnnl/dnnl_version.h)
if(QKV_dnnl_version)
  file(STRINGS ${QKV_dnnl_version} QKV_dnnl_version REGEX "define DNNL_VERSION_MAJOR ")
  if(NOT QKV_dnnl_version MATCHES "MAJOR +2$")
    message(FATAL_ERROR "qkv needs oneDNN 2.x (Debian 12: libdnnl-dev), whose API 3.x changed; found in "
                        "${QKV_dnnl_INCLUDE}: ${QKV_dnnl_version}")
  endif()
endif()
qkv_import(utf8proc utf8proc.h utf8proc)
qkv_import(pcre2 pcre2.h pcre2-8)
qkv_import(jpeg jpeglib.h jpeg)
qkv_import(spng spng.h spng)
qkv_import(zlib zlib.h z)
qkv_import(sentencepiece sentencepiece_processor.h sentencepiece_train sentencepiece)
