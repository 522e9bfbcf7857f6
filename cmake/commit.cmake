# Writes OUT, a header with the commit of the tree SOURCE: "" without git, with "-dirty" if files differ from it. The file is
# only written where it changes, so that nothing is compiled again without need.
cmake_policy(VERSION 3.24)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=40 --match= OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS "${SOURCE}/.git")
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define RP_COMMIT \"@commit@\"\n" @ONLY)
