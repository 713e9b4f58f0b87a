// Documents to stdout, errors to documents.
#include "tools/json.h"

#include "tools/output.h"

namespace diji::tools {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json number_or_null(std::int64_t number) { return number < 0 ? Json() : Json(number); }

}  // namespace

void print_json(const Json& document) {
  print("{}\n", document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json json_of(const Error& error) {
  return {{"error",
           {{"code", std::string(name_of(error.code))},
            {"message", error.message},
            {"file", text_or_null(error.file)},
            {"offset", number_or_null(error.offset)},
            {"op", text_or_null(error.op)},
            {"dtype", text_or_null(error.dtype)},
            {"shape", text_or_null(error.shape)},
            {"bytes", number_or_null(error.bytes)},
            {"pool", text_or_null(error.pool)},
            {"rank", number_or_null(error.peer.rank)},
            {"host", text_or_null(error.peer.host)},
            {"pid", number_or_null(error.peer.pid)},
            {"seq", number_or_null(error.peer.sequence)},
            {"elapsed_s", error.peer.elapsed_s < 0 ? Json() : Json(error.peer.elapsed_s)},
            {"missing", error.peer.missing.empty() ? Json() : Json(error.peer.missing)},
            {"peer_args", text_or_null(error.peer.peer_args)}}}};
}

}  // namespace diji::tools
