# Layers. Each folder under qkv/ is a layer with a level; it may include only itself and folders of lower levels. Each is
# an object library, so that a layer's tests build without the layers above it. The public library contains all layers.

add_library(qkv_flags INTERFACE)
target_include_directories(qkv_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_compile_features(qkv_flags INTERFACE cxx_std_20)
target_compile_options(qkv_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
# Math functions need not set errno; nothing else about arithmetic is relaxed.
target_compile_options(qkv_flags INTERFACE -fno-math-errno)
# To clang, a local name in one of several files compiled as one shadows a constant of another.
if(QKV_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  target_compile_options(qkv_flags INTERFACE -Wno-shadow)
endif()
if(QKV_WERROR)
  target_compile_options(qkv_flags INTERFACE -Werror)
endif()
if(QKV_SANITIZE)
  # The tests themselves, targets with QKV_TEST set, are half of what is compiled; UndefinedBehaviorSanitizer is for what they
  # call. Its checks of null pointers, object sizes and dynamic types are slow to compile. AddressSanitizer finds reads and
  # writes through such pointers, but not references that are bound and never read.
  string(REPLACE "," ";" sanitizers ${QKV_SANITIZE})
  foreach(sanitizer IN LISTS sanitizers)
    if(sanitizer STREQUAL undefined)
      target_compile_options(qkv_flags INTERFACE
        "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:QKV_TEST>>>:-fsanitize=undefined;-fno-sanitize=null,object-size,vptr>")
    else()
      target_compile_options(qkv_flags INTERFACE -fsanitize=${sanitizer})
    endif()
  endforeach()
  target_compile_options(qkv_flags INTERFACE -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # Asio's memory fences are beside its locks and atomics, which the sanitizer understands.
  if(QKV_SANITIZE STREQUAL thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(qkv_flags INTERFACE -Wno-tsan)
  endif()
  target_link_options(qkv_flags INTERFACE -fsanitize=${QKV_SANITIZE})
endif()

set_property(GLOBAL PROPERTY QKV_LAYERS "")

# qkv_layer(<folder> LEVEL <n> [USES <layers>...] [LIBRARIES <third-party targets>...] [WITHOUT <patterns>...])
# USES lists every lower layer needed at link time, directly or indirectly. Sources whose path matches a pattern of WITHOUT
# are excluded.
function(qkv_layer name)
  cmake_parse_arguments(ARG "" "LEVEL" "USES;LIBRARIES;WITHOUT" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY QKV_LAYERS ${name}:${ARG_LEVEL})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  foreach(pattern IN LISTS ARG_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(qkv_${name} OBJECT ${sources})
  target_link_libraries(qkv_${name} PRIVATE qkv_flags ${ARG_LIBRARIES})
  qkv_precompile(qkv_${name} layer)
  # Highway includes each file of kernels/cpu once for each instruction set. Each family has its own parse(), serialize()
  # and weight_map(), each kind of step in text its own Sequence. GCC warns of members in anonymous namespaces outside a
  # main file (json, tokenizer). proof.cc has its own definition. Boost's headers are large.
  qkv_unity(qkv_${name} WITHOUT "/kernels/cpu/" "/families/.*/" "/text/steps/" "/base/json\\.cc$"
    "/text/tokenizer\\.cc$" "/proof\\.cc$" "/serve/http/server\\.cc$" "/hub/http\\.cc$")
  set_target_properties(qkv_${name} PROPERTIES QKV_USES "${ARG_USES}" QKV_LIBRARIES "${ARG_LIBRARIES}")
endfunction()

# qkv_link(<executable> <layers>...): links the objects of the layers and of the layers that they use, and their libraries.
# A library's compile flags apply only to layers that include its headers.
function(qkv_link target)
  set(todo ${ARGN})
  set(all "")
  while(todo)
    list(POP_FRONT todo layer)
    if(layer IN_LIST all OR NOT TARGET qkv_${layer})
      continue()
    endif()
    list(APPEND all ${layer})
    get_target_property(uses qkv_${layer} QKV_USES)
    list(APPEND todo ${uses})
  endwhile()
  target_link_libraries(${target} PRIVATE qkv_flags)
  foreach(layer IN LISTS all)
    get_target_property(libraries qkv_${layer} QKV_LIBRARIES)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:qkv_${layer}>)
    foreach(library IN LISTS libraries)
      target_link_libraries(${target} PRIVATE $<LINK_ONLY:${library}>)
    endforeach()
  endforeach()
endfunction()
