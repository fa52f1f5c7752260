# SPDX-License-Identifier: Apache-2.0
# Joins the page of a plan into one text and writes it as a C array.
#   cmake -DFOLDER=<here> -DSCRIPTS=a.js,b.js -DOUTPUT=page_text.c -P embed.cmake
file(READ ${FOLDER}/plan.html page)
file(READ ${FOLDER}/plan.css style)
string(REPLACE "," ";" SCRIPTS "${SCRIPTS}")
set(script "")
foreach(name IN LISTS SCRIPTS)
  file(READ ${FOLDER}/${name} part)
  string(APPEND script "${part}")
endforeach()
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(REGEX MATCHALL "@[A-Z]+@" holes "${page}")
if(NOT holes STREQUAL "@DATA@")
  message(FATAL_ERROR "the page needs one hole, @DATA@; it has: ${holes}")
endif()
file(WRITE ${OUTPUT}.html "${page}")
file(READ ${OUTPUT}.html bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <stddef.h>\n"
  "extern const unsigned char page_text[];\nextern const size_t page_text_bytes;\n"
  "const unsigned char page_text[] = {\n${bytes}};\nconst size_t page_text_bytes = sizeof page_text;\n")
