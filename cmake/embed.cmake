# rp_kernel_text: a C file with the kernels as text (base/kernel_text.h), made when one of them changes.
set(kernel_text ${PROJECT_BINARY_DIR}/kernel_text.c)
file(GLOB kernel_text_sources CONFIGURE_DEPENDS kernels/*.cu kernels/*/*.cu kernels/*/*.h
  kernels/device/*.cuh kernels/device/*/*.cuh base/*.h base/*/*.h ops/*.h ops/*/*.h include/reprise/*.h)
add_custom_command(OUTPUT ${kernel_text}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${kernel_text} -P ${PROJECT_SOURCE_DIR}/cmake/kernel_text.cmake
  DEPENDS ${kernel_text_sources} cmake/kernel_text.cmake VERBATIM)
add_library(rp_kernel_text OBJECT EXCLUDE_FROM_ALL ${kernel_text})
target_link_libraries(rp_kernel_text PUBLIC rp_internal)
set_target_properties(rp_kernel_text PROPERTIES C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
