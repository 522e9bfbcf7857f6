# Tests of the PTX interpreter, and suites of the simulated device run from PTX. Included when their programs exist.
if(RP_PTX)
  file(GLOB ptx_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ptx/test_ptx*.cpp)
  add_executable(test_ptx ${ptx_tests})
  target_link_libraries(test_ptx PRIVATE cudasim Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_options(test_ptx PRIVATE -Wall -Wextra -ffp-contract=off)
  if(RP_SANITIZE)
    target_compile_options(test_ptx PRIVATE -fsanitize=${RP_SANITIZE} -fno-sanitize-recover=all -g1)
    target_link_options(test_ptx PRIVATE -fsanitize=${RP_SANITIZE})
  endif()
  set_target_properties(test_ptx PROPERTIES CXX_STANDARD 17 RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ptx COMMAND test_ptx)
endif()
if(NOT TARGET rp_ptx)
  return()
endif()

# Test NAME: a suite of the simulated device, run from the PTX of one architecture. The entries that it launches are
# written to launched/ARCHITECTURE/NAME. ARGN: further environment.
function(ptx_suite architecture name suite)
  set(folder ${RP_PTX_FOLDER}/${architecture})
  set(log ${RP_PTX_FOLDER}/launched/${architecture}/${name})
  file(MAKE_DIRECTORY ${RP_PTX_FOLDER}/launched/${architecture})
  add_test(NAME ${name} COMMAND sh -c "rm -f '${log}' \"\$SIM_BITS\" && exec '$<TARGET_FILE:${suite}>' -j1 ${ptx_filter_${suite}}")
  set_tests_properties(${name} PROPERTIES LABELS ptx
    ENVIRONMENT "REPRISE_SIM=ptx;SIM_CAPABILITY=${architecture};REPRISE_PTX=${folder};REPRISE_PTX_LOG=${log};${ARGN}")
endfunction()

# Of these, the tests that launch the kernels of the library: a third of the time.
set(ptx_filter_cudasim_blas "--filter 'blas/@(multiplies|scales)*'")
set(ptx_filter_cudasim_watchdog "--filter 'cuda_watchdog/a_limit*'")

# ptx_<suite> for the first architecture, ptx75_<suite> for another.
set(ptx_suites executor session blas mma kv_blocks watchdog)
foreach(kernel ${op_kernels})
  get_filename_component(op ${kernel} NAME_WE)
  list(APPEND ptx_suites ${op})
endforeach()
foreach(architecture ${RP_PTX_ARCHITECTURES})
  set(prefix ptx${architecture})
  if(architecture STREQUAL RP_PTX_FIRST)
    set(prefix ptx)
  endif()
  add_test(NAME ${prefix}_decode COMMAND sh -c "$<TARGET_FILE:test_ptx> ${RP_PTX_FOLDER}/${architecture}/*.ptx")
  set(ran)
  foreach(suite ${ptx_suites})
    if(suite STREQUAL loop AND architecture LESS 90)
      continue() # it counts the waits of PDL
    endif()
    if(TARGET cudasim_${suite})
      set(bits)
      if(architecture STREQUAL RP_PTX_FIRST AND suite IN_LIST tested_ops)
        set(bits SIM_BITS=${bits_folder}/ptx/${suite})
      endif()
      ptx_suite(${architecture} ${prefix}_${suite} cudasim_${suite} ${bits})
      list(APPEND ran ${prefix}_${suite})
    endif()
  endforeach()
  # Every entry was launched. It comes last; alone, it judges the logs of the last run.
  add_test(NAME ${prefix}_launched COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ptx/launched.sh ${RP_PTX_FOLDER} ${architecture})
  set_tests_properties(${prefix}_launched PROPERTIES LABELS ptx DEPENDS "${ran}" SKIP_RETURN_CODE 77)
endforeach()

# The results of the ops against those of the kernels compiled for the host, from the logs of the last runs.
set(both ${tested_ops})
list(TRANSFORM both REPLACE "(.+)" "ptx_\\1;cudasim_\\1")
list(JOIN tested_ops "," ops)
add_test(NAME ptx_bits COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ptx/bits.sh ${bits_folder} ${PROJECT_SOURCE_DIR}/docs/gpu-model.md ${ops})
set_tests_properties(ptx_bits PROPERTIES LABELS ptx DEPENDS "${both}" SKIP_RETURN_CODE 77)

# The longest start first.
foreach(suite blas gate_up qkv attention)
  if(TEST ptx_${suite})
    set_tests_properties(ptx_${suite} PROPERTIES COST 80)
  endif()
endforeach()

# For scripts/test.sh --all: whole plans, whose kernels the suites of the ops launch too.
foreach(suite executor session)
  if(TEST ptx_${suite})
    set_tests_properties(ptx_${suite} PROPERTIES LABELS long)
  endif()
endforeach()

# Tiny models of every family, decoded through the interpreter: two minutes of CPU time.
if(TARGET cudasim_golden)
  # The prefill of deepseek2 adds scores of positions that no product has written. No result depends on them.
  ptx_suite(${RP_PTX_FIRST} ptx_golden cudasim_golden REPRISE_DEVICE=cuda "SIM_UNWRITTEN=allow")
  set_tests_properties(ptx_golden PROPERTIES COST 100 LABELS long)
endif()

# The counters, and the committed counts. Another nvcc emits other PTX: the test is skipped then.
if(TARGET ptx_counts_core)
  add_executable(test_counts ptx/test_counts.cpp)
  target_link_libraries(test_counts PRIVATE ptx_counts_core cudasim Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_options(test_counts PRIVATE -Wall -Wextra)
  set_target_properties(test_counts PROPERTIES CXX_STANDARD 17 RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ptx_counters COMMAND test_counts)
  add_test(NAME ptx_counts COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/ptx/counts.sh $<TARGET_FILE:reprise_sim>
    ${RP_PTX_FOLDER}/${RP_PTX_FIRST})
  set_tests_properties(ptx_counts PROPERTIES SKIP_RETURN_CODE 77 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    ENVIRONMENT "REPRISE_PTX=${RP_PTX_FOLDER}/${RP_PTX_FIRST}")
endif()
