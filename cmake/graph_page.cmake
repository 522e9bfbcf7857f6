# Compiles the page of a graph into a target (cli/page/page.h): the document of assets/graph with its style and scripts, and
# their hashes in its Content-Security-Policy. In a script:
#
#     cmake -DFOLDER=assets/graph -DOUT=file.c -P graph_page.cmake
set(graph_page_scripts graph.js fold.js layout.js draw.js panel.js search.js page.js) # in this order

function(rp_embed_graph_page target)
  set(page_c ${PROJECT_BINARY_DIR}/graph_page.c)
  set(folder ${PROJECT_SOURCE_DIR}/assets/graph)
  list(TRANSFORM graph_page_scripts PREPEND ${folder}/ OUTPUT_VARIABLE scripts)
  add_custom_command(OUTPUT ${page_c}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUT=${page_c} -P ${PROJECT_SOURCE_DIR}/cmake/graph_page.cmake
    DEPENDS ${scripts} ${folder}/page.html ${folder}/page.css ${PROJECT_SOURCE_DIR}/cmake/graph_page.cmake VERBATIM)
  target_sources(${target} PRIVATE ${page_c})
endfunction()

# The digits of a number in base 16, two for each byte, as base 64.
function(hex_to_base64 hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text)
  string(LENGTH ${hex} n)
  foreach(at RANGE 0 ${n} 6)
    string(SUBSTRING "${hex}" ${at} 6 piece)
    string(LENGTH "${piece}" digits)
    if(digits EQUAL 0)
      break()
    endif()
    string(SUBSTRING "${piece}00000" 0 6 padded)
    foreach(shift 18 12 6 0)
      math(EXPR six "(0x${padded} >> ${shift}) & 63")
      string(SUBSTRING ${alphabet} ${six} 1 letter)
      string(APPEND text ${letter})
    endforeach()
    if(digits LESS 6) # two characters for one byte, three for two
      math(EXPR unused "3 - ${digits} / 2")
      string(LENGTH ${text} length)
      math(EXPR length "${length} - ${unused}")
      string(SUBSTRING ${text} 0 ${length} text)
      string(REPEAT "=" ${unused} filler)
      string(APPEND text ${filler})
    endif()
  endforeach()
  set(${out} ${text} PARENT_SCOPE)
endfunction()

function(array_of name file out)
  file(READ ${file} bytes HEX)
  file(SIZE ${file} n)
  string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
  set(${out} "const unsigned char ${name}[] = {\n    ${bytes}\n};\nconst size_t ${name}_bytes = ${n};\n\n" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.24)
  # Joined by the shell tools of CMake, since a list of CMake would take semicolons and brackets of a text apart.
  set(part ${OUT}.part)
  foreach(script ${graph_page_scripts})
    list(APPEND script_files ${FOLDER}/${script})
  endforeach()
  execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${script_files} OUTPUT_FILE ${part}.js COMMAND_ERROR_IS_FATAL ANY)
  foreach(kind js css)
    set(file ${part}.js)
    if(kind STREQUAL css)
      set(file ${FOLDER}/page.css)
    endif()
    file(SHA256 ${file} hex)
    hex_to_base64(${hex} hash_of_${kind})
  endforeach()
  file(READ ${FOLDER}/page.html html)
  string(CONCAT policy "default-src 'none'; style-src 'sha256-${hash_of_css}'; script-src 'sha256-${hash_of_js}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'")
  string(REPLACE "@POLICY@" "${policy}" html "${html}")
  foreach(mark STYLE DATA SCRIPT) # the document is cut where these stand
    string(FIND "${html}" "@${mark}@" at)
    if(at LESS 0)
      message(FATAL_ERROR "${FOLDER}/page.html: @${mark}@ is missing")
    endif()
    string(SUBSTRING "${html}" 0 ${at} before)
    string(LENGTH "@${mark}@" skip)
    math(EXPR at "${at} + ${skip}")
    string(SUBSTRING "${html}" ${at} -1 html)
    file(WRITE ${part}.before_${mark} "${before}")
  endforeach()
  file(WRITE ${part}.after "${html}")
  execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${part}.before_STYLE ${FOLDER}/page.css ${part}.before_DATA
    OUTPUT_FILE ${part}.head COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${part}.before_SCRIPT ${part}.js ${part}.after
    OUTPUT_FILE ${part}.tail COMMAND_ERROR_IS_FATAL ANY)
  array_of(page_head ${part}.head head)
  array_of(page_tail ${part}.tail tail)
  file(WRITE ${OUT} "#include \"cli/page/page.h\"\n\nconst char page_policy[] = \"${policy}\";\n\n${head}${tail}")
endif()
