# A library that is installed, shared and static (NAME_static), of one set of objects. The shared one exports what its version
# script lists; the number of its SONAME is that of its ABI (docs/api.md).
#   installed_library(NAME VERSION SOVERSION VERSION_SCRIPT OBJECTS [library...])
function(installed_library name version soversion script objects)
  set(script ${PROJECT_SOURCE_DIR}/cmake/${script})
  add_library(${name} SHARED ${objects})
  add_library(${name}_static STATIC ${objects})
  set_target_properties(${name} PROPERTIES VERSION ${version} SOVERSION ${soversion} LINK_DEPENDS ${script})
  set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name})
  target_link_options(${name} PRIVATE LINKER:--as-needed,--version-script=${script})
  if(NOT RP_SANITIZE) # a program that is not built with a sanitizer has its functions
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:rp_flags>)
  foreach(library ${name} ${name}_static)
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${library} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${library} PRIVATE ${ARGN} Threads::Threads m ${CMAKE_DL_LIBS})
    if(RP_HAVE_CUDA)
      target_link_libraries(${library} PRIVATE CUDA::cudart_static)
    endif()
  endforeach()
endfunction()
