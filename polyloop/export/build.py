"""Files for builds with an exported program: CMake and pkg-config."""

from __future__ import annotations

from polyloop.export.interface import Interface
from polyloop.runtime.ccompile import export_flags

__all__ = ["cmake_text", "pkg_config_text"]

_C = """\
cmake_minimum_required(VERSION 3.18)
project({prefix} LANGUAGES C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# {prefix}.c has {kernel} in it
add_library({prefix} {prefix}.c)
target_include_directories({prefix} PUBLIC
  $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}> $<INSTALL_INTERFACE:include>)
set_target_properties({prefix} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)

# Sums stay in their order, and compilers leave out what they are known to do wrong.
include(CheckCCompilerFlag)
foreach(flag {options})
  string(MAKE_C_IDENTIFIER "HAS${{flag}}" has)
  check_c_compiler_flag("${{flag}}" ${{has}})
  if(${{has}})
    target_compile_options({prefix} PRIVATE "${{flag}}")
  endif()
endforeach()
"""
_OPENMP = """\
find_package(OpenMP REQUIRED COMPONENTS C)
target_link_libraries({prefix} PUBLIC OpenMP::OpenMP_C)
"""
_MATH = """\
if(UNIX)
  target_link_libraries({prefix} PUBLIC m)
endif()
"""
_CUDA = """\
cmake_minimum_required(VERSION 3.18)
project({prefix} LANGUAGES C CUDA)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(CUDAToolkit REQUIRED)

add_library({prefix} {prefix}.c {kernel})
target_include_directories({prefix} PUBLIC
  $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}> $<INSTALL_INTERFACE:include>)
set_target_properties({prefix} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON CUDA_STANDARD 17
  POSITION_INDEPENDENT_CODE ON CUDA_ARCHITECTURES "{architecture}")
target_link_libraries({prefix} PUBLIC CUDA::cudart)
"""
_OPENCL = """\
find_package(OpenCL REQUIRED)
target_link_libraries({prefix} PUBLIC OpenCL::OpenCL)
"""
_INSTALL = """\

include(GNUInstallDirs)
# {prefix}.pc says where it is itself, so that an installation may be moved, or made by cmake --install --prefix.
set(prefix ${{CMAKE_INSTALL_PREFIX}})
set(libdir ${{CMAKE_INSTALL_FULL_LIBDIR}})
set(includedir ${{CMAKE_INSTALL_FULL_INCLUDEDIR}})
if(NOT IS_ABSOLUTE "${{CMAKE_INSTALL_LIBDIR}}")
  file(RELATIVE_PATH up "/${{CMAKE_INSTALL_LIBDIR}}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${{up}}")
  set(prefix "\\${{pcfiledir}}/${{up}}")
  set(libdir "\\${{prefix}}/${{CMAKE_INSTALL_LIBDIR}}")
  if(NOT IS_ABSOLUTE "${{CMAKE_INSTALL_INCLUDEDIR}}")
    set(includedir "\\${{prefix}}/${{CMAKE_INSTALL_INCLUDEDIR}}")
  endif()
endif()
configure_file({prefix}.pc.in {prefix}.pc @ONLY)
install(TARGETS {prefix} ARCHIVE DESTINATION ${{CMAKE_INSTALL_LIBDIR}} LIBRARY DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
install(FILES {prefix}.h DESTINATION ${{CMAKE_INSTALL_INCLUDEDIR}})
install(FILES ${{CMAKE_CURRENT_BINARY_DIR}}/{prefix}.pc DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/pkgconfig)
"""
_PC = """\
prefix=@prefix@
libdir=@libdir@
includedir=@includedir@

Name: {prefix}
Description: kernel {name}
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -l{prefix}{libraries}
"""


def cmake_text(interface: Interface, kernel_file: str, architecture: str) -> str:
    """Return ``CMakeLists.txt``: a library target of the name of the prefix, and its installation.

    Parameters
    ----------
    architecture
        For CUDA, as ``sm_90``; other text for C.
    """
    number = architecture.removeprefix("sm_")
    options = " ".join(export_flags(interface.program.device_code))
    known = {"prefix": interface.prefix, "kernel": kernel_file, "options": options, "architecture": number}
    parallel = _OPENMP if "#pragma omp" in interface.program.device_code else ""
    text = _CUDA if interface.is_cuda else _C + (_OPENCL if interface.is_opencl else parallel + _MATH)
    return (text + _INSTALL).format(**known)


def pkg_config_text(interface: Interface, version: str) -> str:
    """Return ``PREFIX.pc.in``, which CMake completes with the place of installation."""
    libraries = " -lcudart" if interface.is_cuda else " -lOpenCL" if interface.is_opencl else " -lm"
    libraries += " -fopenmp" if "#pragma omp" in interface.program.device_code else ""
    name = interface.program.kernel.replace("\n", " ")
    return _PC.format(prefix=interface.prefix, name=name, version=version, libraries=libraries)
