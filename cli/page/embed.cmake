# SPDX-License-Identifier: Apache-2.0
# Joins a page into one text and writes it as a C array NAME, of NAME_bytes.
#   cmake -DFOLDER=<here> -DPAGE=plan.html -DSTYLES=a.css,b.css -DSCRIPTS=a.js,b.js -DNAME=page_plan -DOUTPUT=page_plan.c
#     -P embed.cmake
foreach(list STYLES SCRIPTS)
  string(REPLACE "," ";" names "${${list}}")
  set(${list}_text "")
  foreach(name IN LISTS names)
    file(READ ${FOLDER}/${name} part)
    string(APPEND ${list}_text "${part}")
  endforeach()
endforeach()
file(READ ${FOLDER}/${PAGE} page)
string(REPLACE "@STYLE@" "${STYLES_text}" page "${page}")
string(REPLACE "@SCRIPT@" "${SCRIPTS_text}" page "${page}")
string(REGEX MATCHALL "@[A-Z]+@" holes "${page}")
if(NOT holes STREQUAL "@DATA@")
  message(FATAL_ERROR "the page needs one hole, @DATA@; it has: ${holes}")
endif()
file(WRITE ${OUTPUT}.html "${page}")
file(READ ${OUTPUT}.html bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <stddef.h>\n"
  "extern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_bytes;\n"
  "const unsigned char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_bytes = sizeof ${NAME};\n")
