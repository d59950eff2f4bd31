# The libraries that qkv is linked with, all from the distribution. None appears in a public header of qkv. This file
# is installed beside the CMake package too: a program that links the static library needs them on its machine.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(hwy REQUIRED)

# Debian's dnnl-config.cmake asks for OpenCL's headers, which nothing here uses.
if(NOT TARGET qkv::dnnl)
  find_path(DNNL_INCLUDE dnnl.hpp REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  add_library(qkv::dnnl INTERFACE IMPORTED)
  target_include_directories(qkv::dnnl INTERFACE ${DNNL_INCLUDE})
  target_link_libraries(qkv::dnnl INTERFACE ${DNNL_LIBRARY})
endif()

# Debian's utf8proc and PCRE2 ship no CMake packages either.
if(NOT TARGET qkv::utf8proc)
  find_path(UTF8PROC_INCLUDE utf8proc.h REQUIRED)
  find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
  add_library(qkv::utf8proc INTERFACE IMPORTED)
  target_include_directories(qkv::utf8proc INTERFACE ${UTF8PROC_INCLUDE})
  target_link_libraries(qkv::utf8proc INTERFACE ${UTF8PROC_LIBRARY})
endif()
if(NOT TARGET qkv::pcre2)
  find_path(PCRE2_INCLUDE pcre2.h REQUIRED)
  find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
  add_library(qkv::pcre2 INTERFACE IMPORTED)
  target_include_directories(qkv::pcre2 INTERFACE ${PCRE2_INCLUDE})
  target_link_libraries(qkv::pcre2 INTERFACE ${PCRE2_LIBRARY})
endif()

# SentencePiece ships no CMake package.
if(NOT TARGET qkv::sentencepiece)
  find_path(SENTENCEPIECE_INCLUDE sentencepiece_processor.h REQUIRED)
  find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
  find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
  add_library(qkv::sentencepiece INTERFACE IMPORTED)
  target_include_directories(qkv::sentencepiece INTERFACE ${SENTENCEPIECE_INCLUDE})
  target_link_libraries(qkv::sentencepiece INTERFACE ${SENTENCEPIECE_TRAIN_LIBRARY} ${SENTENCEPIECE_LIBRARY})
endif()
