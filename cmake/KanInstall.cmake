# find_package(kan) for programs that use the library: target kan::kan.
include(CMakePackageConfigHelpers)
set(KAN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/kan)
install(TARGETS kan kan_driver EXPORT kanTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT kanTargets NAMESPACE kan:: DESTINATION ${KAN_CMAKE_DIR})
configure_package_config_file(cmake/kanConfig.cmake.in ${PROJECT_BINARY_DIR}/kanConfig.cmake
                              INSTALL_DESTINATION ${KAN_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kanConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kanConfig.cmake ${PROJECT_BINARY_DIR}/kanConfigVersion.cmake
        DESTINATION ${KAN_CMAKE_DIR})
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kokkan/inputs)
install(PROGRAMS tools/kan_plot.py tools/kan_history.py DESTINATION ${CMAKE_INSTALL_BINDIR})
