// The module diji._diji: Session for Python, and in communicator.cpp Communicator. What users see of it is
// written in diji/__init__.py.
#include "python/arrays.h"
#include "python/communicator.h"
#include "python/raise.h"
#include "runtime/op_library.h"
#include "runtime/session.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace diji::python {
namespace nb = nanobind;
namespace {

/// A session and what it stands on; shared, so that closing a model waits for the runs that use it.
struct Opened {
  OpLibraries libraries;
  std::unique_ptr<Session> session;
  ::pid_t process = ::getpid();
};

struct Model {
  std::shared_ptr<Opened> opened;  ///< null: closed
};

/// Devices for one number of threads, opened once. The lists live as long as the process: its threads may
/// run while it ends. A fork has the parent's lists but none of their threads, and so gets lists of its own.
DeviceList& devices_for(int threads) {
  static std::mutex mutex;
  static auto& lists = *new std::map<std::pair<::pid_t, int>, std::unique_ptr<DeviceList>>();
  if (threads == 0) threads = usable_cores();
  const std::scoped_lock lock(mutex);
  auto& list = lists[{::getpid(), threads}];
  if (list == nullptr) list = std::make_unique<DeviceList>(built_in_plugins(), threads);
  return *list;
}

nb::object load(const std::string& path, const std::string& device, int threads,
                const std::map<std::string, std::int64_t>& dims, const nb::dict& constants,
                const std::vector<std::string>& op_libraries, std::uint64_t memory_limit_bytes,
                std::uint64_t seed) {
  if (threads < 0)
    return raise(ErrorCode::usage, fmt::format("threads = {} is no number of threads", threads));
  SessionOptions options;
  options.device = device;
  options.memory_limit_bytes = memory_limit_bytes;
  options.seed = seed;
  options.fixed_dims = dims;
  for (const auto& [key, value] : constants) {
    const auto name = nb::cast<std::string>(nb::str(key));
    const auto input = input_of(fmt::format("constant '{}'", name), value);
    if (!input) return raise(input.error());
    // A copy: the model keeps it, and the array may change.
    auto constant = HostTensor::allocate(input->tensor.dtype(), input->tensor.shape());
    if (!constant) return raise(constant.error());
    std::ranges::copy(input->tensor.bytes(), constant->mutable_bytes().begin());
    options.constants.emplace(name, *std::move(constant));
  }
  auto opened = without_gil([&]() -> Result<std::shared_ptr<Opened>> {
    auto made = std::make_shared<Opened>();
    for (const std::string& library : op_libraries) TRY(made->libraries.load(library));
    options.custom_ops = made->libraries.records();
    made->session = TRY(Session::open(devices_for(threads), path, options));
    return made;
  });
  if (!opened) return raise(opened.error());
  return nb::cast(new Model{*std::move(opened)}, nb::rv_policy::take_ownership);
}

nb::object closed() { return raise(ErrorCode::usage, "the model is closed"); }

nb::object run(const Model& model, const nb::dict& inputs, bool dlpack) {
  const std::shared_ptr<Opened> opened = model.opened;
  if (opened == nullptr) return closed();
  if (opened->process != ::getpid()) {
    return raise(ErrorCode::usage,
                 "the model was loaded before this process was forked, and its threads are not here; load it "
                 "again, or start processes by the method \"spawn\"");
  }
  std::vector<Input> kept;
  std::map<std::string, HostTensor> tensors;
  for (const auto& [key, value] : inputs) {
    const auto name = nb::cast<std::string>(nb::str(key));
    auto input = input_of(fmt::format("input '{}'", name), value);
    if (!input) return raise(input.error());
    tensors.emplace(name, input->tensor);
    kept.push_back(*std::move(input));
  }
  auto outputs = without_gil([&] { return opened->session->run(tensors); });
  if (!outputs) return raise(outputs.error());
  nb::dict named;
  const std::vector<Port>& ports = opened->session->outputs();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    auto array = array_of(std::move((*outputs)[i]), dlpack ? OutputForm::dlpack : OutputForm::numpy);
    if (!array) return raise(array.error());
    named[ports[i].name.c_str()] = *array;
  }
  return named;
}

/// (name, dtype, shape); dtype and shape are None for outputs of a staged session, whose types data decide.
nb::object specs_of(const Model& model, bool of_outputs) {
  if (model.opened == nullptr) return closed();
  const Session& session = *model.opened->session;
  nb::list specs;
  for (const Port& port : of_outputs ? std::span<const Port>(session.outputs()) : session.inputs()) {
    if (port.value == ValueId::none) {
      specs.append(nb::make_tuple(port.name, nb::none(), nb::none()));
      continue;
    }
    const Type& type = session.graph().type(port.value);
    nb::list shape;
    for (const Dim& dim : type.shape) {
      const auto size = dim.constant();
      shape.append(size ? nb::object(nb::int_(*size)) : nb::object(nb::str(dim.text().c_str())));
    }
    specs.append(nb::make_tuple(port.name, numpy_name(type.dtype), nb::tuple(shape)));
  }
  return specs;
}

/// (name, model, vendor, memory in bytes, kernel text, driver, plugin) of each.
nb::object devices() {
  DeviceList list(built_in_plugins(), 1);
  nb::list found;
  for (const DeviceEntry& entry : list.entries()) {
    const DeviceInfo& info = entry.info;
    found.append(nb::make_tuple(entry.name, info.name, info.vendor, info.memory_bytes, info.dialect,
                                info.driver_version, entry.plugin->name()));
  }
  return found;
}

nb::object coverage(const Model& model) {
  if (model.opened == nullptr) return closed();
  return nb::str(model.opened->session->coverage().line().c_str());
}

nb::object device(const Model& model) {
  if (model.opened == nullptr) return closed();
  return nb::str(model.opened->session->device().name().c_str());
}

}  // namespace
}  // namespace diji::python

NB_MODULE(_diji, module) {
  namespace py = diji::python;
  module.attr("__version__") = DIJI_VERSION;
  module.def("load", &py::load);
  module.def("devices", &py::devices);
  nanobind::class_<py::Model>(module, "Model")
      .def("run", &py::run)
      .def("specs", &py::specs_of)
      .def("coverage", &py::coverage)
      .def("device", &py::device)
      .def("close", [](py::Model& model) { model.opened.reset(); });
  py::define_communicator(module);
}
