# The components of `cmake --install`, and the package for find_package(qkv).
#   component development: the static library, its public headers, the CMake package
#   component runtime:     the program, its manual pages, completion for bash, zsh and fish
include(CMakePackageConfigHelpers)

# All headers of qkv/ are public but these: kernels check nothing but devices, and some headers are internal to a layer.
# tests/install checks that installed headers include only installed headers.
set(QKV_PRIVATE_HEADERS
  "-inl\\.h$"
  "/kernels/(backend|cpu|reference)/"
  "/kernels/(attention|backend|broadcast|dispatch|embedding|gated|key_value_cache|label_loss|loss|matmul|norm|optimizer|pointwise|product|rotary|segments|weight_rows|weights)\\.h$"
  "/tensor/device_memory\\.h$"
  "/base/(counted|hash|per_thread|processors|string_index|thread)\\.h$"
  "/data/(batches_by_length|exif|image_limits|jpeg|png|shuffle|labels/(json_lines|tables))\\.h$" "/data/images/(binary_file|class_folders|planes)\\.h$"
  "/search/(alternatives|beam|candidates|constraints|engine/sequence|hypotheses|samples|sampling|step_scores)\\.h$"
  "/pipelines/proof/(files|numbers)\\.h$" "/pipelines/(checks|nbest|pieces|row_results|run_engine|sentence_transformer)\\.h$"
  "/train/(svg_axis|table3/reproduction_folder)\\.h$" "/explain/(page_parts|pages|palette|report_file|svg_parts)\\.h$"
  "/io/crc32c\\.h$" "/ops/(attention_rule|general/contiguous|linear_product|require)\\.h$" "/metrics/ngrams\\.h$" "/nn/recompute\\.h$" "/optim/require\\.h$"
  "/models/families/"
  "/models/hub/(adapter_files|config_fields|config_reader|config_writer|family|label_fields|settings|weight_map|tensor_files|weights)\\.h$"
  "/models/(position_grid|rows_at|validate)\\.h$"
  # The public tokenizer headers are tokenizer.h and translation_tokenizer.h.
  "/serve/(page\\.h|http/(connection|connection_reply|core|form|handler_threads|url)\\.h|protocols/(completion|fields|json_text|schema|stop_texts)\\.h|work/(gather|runs)\\.h)"
  "/text/(files|steps|token_models|training)/" "/text/(added_tokens|post_processing|tokenizer_parts)\\.h$")

# qkv_public_headers(<variable>): their paths, relative to the source folder.
function(qkv_public_headers variable)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/qkv/*.h)
  foreach(pattern IN LISTS QKV_PRIVATE_HEADERS)
    list(FILTER headers EXCLUDE REGEX "${pattern}")
  endforeach()
  set(${variable} ${headers} PARENT_SCOPE)
endfunction()

# Users of the static library must link its dependencies. They are listed here instead of taken from the layers, because
# users do not need header-only libraries (nlohmann-json) or this build's warning flags.
set(link "")
foreach(library qkv::sentencepiece qkv::utf8proc qkv::pcre2 qkv::jpeg qkv::spng qkv::zlib qkv::dnnl hwy::hwy OpenMP::OpenMP_CXX OpenSSL::SSL Threads::Threads)
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
if(TARGET qkv_share)
  set(share ${PROJECT_BINARY_DIR}/share)
  install(DIRECTORY ${share}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT runtime)
  install(FILES ${share}/qkv.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME qkv
          COMPONENT runtime)
  install(FILES ${share}/_qkv DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT runtime)
  install(FILES ${share}/qkv.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime)
endif()
