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

# SentencePiece ships no CMake package.
if(NOT TARGET qkv::sentencepiece)
  find_path(SENTENCEPIECE_INCLUDE sentencepiece_processor.h REQUIRED)
  find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
  find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
  add_library(qkv::sentencepiece INTERFACE IMPORTED)
  target_include_directories(qkv::sentencepiece INTERFACE ${SENTENCEPIECE_INCLUDE})
  target_link_libraries(qkv::sentencepiece INTERFACE ${SENTENCEPIECE_TRAIN_LIBRARY} ${SENTENCEPIECE_LIBRARY})
endif()
