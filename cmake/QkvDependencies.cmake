# The libraries that qkv is linked with, all from the distribution. None appears in a public header of qkv. This file
# is installed beside the CMake package too: a program that links the static library needs them on its machine.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(hwy REQUIRED)

# qkv_import(name header library...): the target qkv::name, for what Debian has no usable CMake package of.
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

# Debian's dnnl-config.cmake asks for OpenCL's headers, which nothing here uses; the others ship none.
qkv_import(dnnl dnnl.hpp dnnl)
qkv_import(utf8proc utf8proc.h utf8proc)
qkv_import(pcre2 pcre2.h pcre2-8)
qkv_import(jpeg jpeglib.h jpeg)
qkv_import(spng spng.h spng)
qkv_import(sentencepiece sentencepiece_processor.h sentencepiece_train sentencepiece)
