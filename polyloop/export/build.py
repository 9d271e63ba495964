"""Files for builds with an exported program: CMake and pkg-config."""

from __future__ import annotations

from typing import Final

from polyloop.export.interface import Interface

__all__ = ["C_OPTIONS", "cmake_text", "pkg_config_text"]

C_OPTIONS: Final = ("-fno-math-errno", "-ffp-contract=off", "-fwrapv", "-fno-tree-slp-vectorize")
"""Options under which GCC and Clang compute what was proven: see ``runtime/ccompile.py``."""

_C = """\
cmake_minimum_required(VERSION 3.18)
project({prefix} LANGUAGES C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# {prefix}.c includes {kernel}
add_library({prefix} {prefix}.c)
target_include_directories({prefix} PUBLIC
  $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}> $<INSTALL_INTERFACE:include>)
set_target_properties({prefix} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({prefix} PRIVATE {options})
endif()
"""
_OPENMP = """\
find_package(OpenMP)
if(OpenMP_C_FOUND)
  target_link_libraries({prefix} PRIVATE OpenMP::OpenMP_C)
endif()
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
_INSTALL = """\

include(GNUInstallDirs)
configure_file({prefix}.pc.in {prefix}.pc @ONLY)
install(TARGETS {prefix} ARCHIVE DESTINATION ${{CMAKE_INSTALL_LIBDIR}} LIBRARY DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
install(FILES {prefix}.h DESTINATION ${{CMAKE_INSTALL_INCLUDEDIR}})
install(FILES ${{CMAKE_CURRENT_BINARY_DIR}}/{prefix}.pc DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/pkgconfig)
"""
_PC = """\
prefix=@CMAKE_INSTALL_PREFIX@
libdir=${{prefix}}/@CMAKE_INSTALL_LIBDIR@
includedir=${{prefix}}/@CMAKE_INSTALL_INCLUDEDIR@

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
    options = " ".join(C_OPTIONS)
    known = {"prefix": interface.prefix, "kernel": kernel_file, "options": options, "architecture": number}
    parallel = _OPENMP if "#pragma omp" in interface.program.device_code else ""
    text = _CUDA if interface.is_cuda else _C + parallel + _MATH
    return (text + _INSTALL).format(**known)


def pkg_config_text(interface: Interface, version: str) -> str:
    """Return ``PREFIX.pc.in``, which CMake completes with the place of installation."""
    libraries = " -lcudart" if interface.is_cuda else " -lm"
    name = interface.program.kernel.replace("\n", " ")
    return _PC.format(prefix=interface.prefix, name=name, version=version, libraries=libraries)
