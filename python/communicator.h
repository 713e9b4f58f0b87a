// Communicator for Python; what users see of it is written in diji/collective.py.
#pragma once

#include <nanobind/nanobind.h>

namespace diji::python {

void define_communicator(nanobind::module_& module);

}  // namespace diji::python
