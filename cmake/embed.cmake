# Writes SOURCE with each of FILES (comma-separated) as a string_view in NAMESPACE, declared in HEADER. Run by qkv_embed().
string(REPLACE "," ";" files "${FILES}")
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  # attention_drawing.js -> kAttentionDrawingJs
  string(REGEX REPLACE "[._]" ";" words ${name})
  set(constant k)
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND constant ${first}${rest})
  endforeach()
  file(READ ${file} hex HEX)
  # Written as bytes, because a file may contain anything, including the end of a raw string.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND text "static constexpr char ${constant}Bytes[] = {\n    ${bytes}'\\0'};\n"
                     "const std::string_view ${constant}{${constant}Bytes, sizeof ${constant}Bytes - 1};\n\n")
endforeach()
file(WRITE ${SOURCE} "${text}}  // namespace ${NAMESPACE}\n")
