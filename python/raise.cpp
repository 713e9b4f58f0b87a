// Errors of C++ as exceptions: where each field goes.
#include "python/raise.h"

#include "python/arrays.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace diji::python {
namespace nb = nanobind;
namespace {

nb::object or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
}
nb::object or_none(std::int64_t value) { return value < 0 ? nb::none() : nb::object(nb::int_(value)); }
nb::object or_none(double value) { return value < 0 ? nb::none() : nb::object(nb::float_(value)); }
nb::object or_none(const std::vector<int>& ranks) { return ranks.empty() ? nb::none() : nb::cast(ranks); }

}  // namespace

nb::object raise(const Error& error) {
  const auto dtype = parse_dtype(error.dtype);
  const PeerFields& peer = error.peer;
  const nb::object made =
      nb::module_::import_("diji.errors")
          .attr("make")(std::string(name_of(error.code)), error.message, or_none(error.file),
                        or_none(error.offset), or_none(error.op),
                        or_none(dtype ? numpy_name(*dtype) : error.dtype), or_none(error.shape),
                        or_none(error.bytes), or_none(error.pool), or_none(peer.rank), or_none(peer.host),
                        or_none(peer.pid), or_none(peer.sequence), or_none(peer.elapsed_s),
                        or_none(peer.missing), or_none(peer.peer_args));
  PyErr_SetObject(made.type().ptr(), made.ptr());
  return {};
}

nb::object raise(ErrorCode code, std::string_view message) {
  return raise(fail(code, "{}", message).error());
}

}  // namespace diji::python
