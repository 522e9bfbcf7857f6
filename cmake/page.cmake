# Compiles the files of the chat page into a target, which needs no files then (server/page/page.h).
function(rp_embed_page target)
  set(page_c ${PROJECT_BINARY_DIR}/page_files.c)
  set(folder ${PROJECT_SOURCE_DIR}/server/page)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  add_custom_command(OUTPUT ${page_c}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${page_c} -P ${PROJECT_SOURCE_DIR}/cmake/page_files.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/page_files.cmake VERBATIM)
  target_sources(${target} PRIVATE ${page_c})
endfunction()
