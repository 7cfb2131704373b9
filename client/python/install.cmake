# Installs SOURCE/fdclient.py into PYTHON_DIR or, without one, where PYTHON looks.
if(PYTHON AND NOT PYTHON_DIR)
  execute_process(COMMAND "${PYTHON}" "${SOURCE}/where.py" "${CMAKE_INSTALL_PREFIX}"
                  OUTPUT_VARIABLE PYTHON_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT PYTHON_DIR)
  set(PYTHON_DIR lib/python3/dist-packages)
endif()
cmake_path(ABSOLUTE_PATH PYTHON_DIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
file(INSTALL "${SOURCE}/fdclient.py" DESTINATION "${PYTHON_DIR}")
