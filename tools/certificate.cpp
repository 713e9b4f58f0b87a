// A certificate as a document, and its text.
#include "tools/certificate.h"

#include "runtime/compile_cache.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>

namespace diji::tools {
namespace {

std::string hash_of(std::string_view text) { return CompileCache::key_of(text, ""); }

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

Json json_of_plugin(const Plugin& plugin) {
  return {{"name", plugin.name()},
          {"version", plugin.version()},
          {"build_id", plugin.build_id()},
          {"file", std::filesystem::path(plugin.origin()).filename().string()},
          {"tier", plugin.tier()},
          {"abi", fmt::format("{}.{}", plugin.table().abi_major, plugin.table().abi_minor)}};
}

Json json_of_device(const DeviceEntry& entry) {
  const DeviceInfo& info = entry.info;
  return {{"name", entry.name},
          {"model", info.name},
          {"vendor", info.vendor},
          {"driver_version", info.driver_version},
          {"fingerprint_hash", hash_of(info.fingerprint)},
          {"dialect", info.dialect},
          {"memory_bytes", info.memory_bytes},
          {"alignment", info.alignment},
          {"vector_bytes", info.vector_bytes},
          {"lanes_max", info.lanes_max},
          {"without_f64", info.without_f64},
          {"simt", info.simt},
          {"host_visible", info.host_visible}};
}

Json json_of_rules(const std::vector<RuleResult>& rules) {
  Json list = Json::array();
  for (const RuleResult& rule : rules) {
    Json row = {{"rule", rule.rule}, {"verdict", std::string(name_of(rule.verdict))}};
    if (!rule.problem.empty()) row["problem"] = rule.problem;
    list.push_back(std::move(row));
  }
  return list;
}

Json json_of_operators(const std::vector<VerifyRow>& rows) {
  Json list = Json::array();
  for (const VerifyRow& row : rows) {
    Json line = {{"op", row.op},
                 {"dtype", std::string(name_of(row.dtype))},
                 {"cases", row.cases},
                 {"failed", row.failed},
                 {"unsupported", row.unsupported},
                 {"unproved", row.unproved},
                 {"worst_share", row.worst_share}};
    if (!row.problem.empty()) line["problem"] = row.problem;
    list.push_back(std::move(line));
  }
  return list;
}

}  // namespace

bool Certificate::ok() const {
  const bool rules_hold =
      std::ranges::none_of(rules, [](const RuleResult& rule) { return rule.verdict == Verdict::failed; });
  const bool operators_hold =
      std::ranges::none_of(operators, [](const VerifyRow& row) { return row.failed > 0; });
  const bool any =
      std::ranges::any_of(operators, [](const VerifyRow& row) { return row.cases > row.unsupported; });
  return !rules.empty() && rules_hold && operators_hold && (any || entry->plugin->tier() == 0);
}

Json Certificate::document() const {
  std::int64_t cases = 0, failed = 0, unsupported = 0, unproved = 0;
  double worst = 0;
  for (const VerifyRow& row : operators) {
    cases += row.cases;
    failed += row.failed;
    unsupported += row.unsupported;
    unproved += row.unproved;
    worst = std::max(worst, row.worst_share);
  }
  const auto count = [&](Verdict verdict) {
    return std::ranges::count(rules, verdict, &RuleResult::verdict);
  };
  Json document = {
      {"ok", ok()},
      {"diji", DIJI_VERSION},
      {"abi", fmt::format("{}.{}", DIJI_DEVICE_ABI_MAJOR, DIJI_DEVICE_ABI_MINOR)},
      {"date", today()},
      {"plugin", json_of_plugin(*entry->plugin)},
      {"device", json_of_device(*entry)},
      {"selection",
       {{"operators", selection.operators},
        {"dtypes", selection.dtypes},
        {"sample", selection.sample == 0 ? Json() : Json(selection.sample)},
        {"seed", selection.sample == 0 ? Json() : Json(selection.seed)},
        {"run", selection.run},
        {"of", selection.of}}},
      {"totals",
       {{"rules_ok", count(Verdict::ok)},
        {"rules_failed", count(Verdict::failed)},
        {"rules_not_offered", count(Verdict::not_offered)},
        {"cases", cases},
        {"failed", failed},
        {"unsupported", unsupported},
        {"unproved", unproved},
        {"worst_share", worst}}},
      {"rules", json_of_rules(rules)},
      {"operators", json_of_operators(operators)},
  };
  if (entry->plugin->tier() == 0) document["remark"] = "tier 0: no kernels, so only the rules were checked";
  document["hash"] = hash_of(document.dump(-1, ' ', false, Json::error_handler_t::replace));
  return document;
}

std::string text_of_certificate(const Json& document) {
  const auto line = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = "{";
  for (const auto& [key, value] : document.items()) {
    text += fmt::format("{}\n{}: ", text == "{" ? "" : ",", line(key));
    if (!value.is_array()) {
      text += line(value);
      continue;
    }
    text += '[';
    for (std::size_t i = 0; i < value.size(); ++i)
      text += fmt::format("{}\n{}", i == 0 ? "" : ",", line(value[i]));
    text += ']';
  }
  return text + "\n}\n";
}

}  // namespace diji::tools
