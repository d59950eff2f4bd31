# Embeds text files (pages, styles, scripts, descriptions) as constants.
#
# qkv_embed(<layer> <folder>): the .html, .css, .js and .json files of qkv/<layer>/<folder> become std::string_views of the
# namespace qkv::<layer>::<folder>, named for their files: common.css is kCommonCss. A header of the layer declares them;
# a declared constant without a file does not link.
function(qkv_embed layer folder)
  if(NOT TARGET qkv_${layer})
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/qkv/${layer}/${folder}/*.html
       ${PROJECT_SOURCE_DIR}/qkv/${layer}/${folder}/*.css ${PROJECT_SOURCE_DIR}/qkv/${layer}/${folder}/*.js
       ${PROJECT_SOURCE_DIR}/qkv/${layer}/${folder}/*.json)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${layer}_${folder}.cc)
  string(REPLACE ";" "," list "${files}")
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DHEADER=qkv/${layer}/${folder}.h -DNAMESPACE=qkv::${layer}::${folder} -DFILES=${list}
            -DSOURCE=${source} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(qkv_${layer} PRIVATE ${source})
  add_custom_target(qkv_${layer}_${folder} DEPENDS ${source}) # for tools that read sources and do not build
endfunction()
