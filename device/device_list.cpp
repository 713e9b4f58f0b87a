// The list of devices: finds plugins, asks each for its devices, opens a device once.
#include "device/plugin.h"

#include "base/log.h"
#include "base/nearest.h"
#include "base/thread_pool.h"
#include "device/device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace diji {
namespace {

void run_parallel_for(void* context, std::int64_t count, std::int64_t grain,
                      void (*body)(void* data, std::int64_t begin, std::int64_t end, std::int32_t worker),
                      void* data) {
  static_cast<ThreadPool*>(context)->parallel_for(
      count, grain,
      [=](std::int64_t begin, std::int64_t end, int worker) { body(data, begin, end, worker); });
}

void write_log(void*, std::int32_t level, const char* text) {
  log_message(static_cast<LogLevel>(std::clamp(level, 0, 3)), text == nullptr ? "" : text);
}

std::uint64_t read_clock(void*) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

bool is_plugin_file(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  return file.starts_with("libdiji_device_") && file.ends_with(".so");
}

/// The plugin files of a folder, sorted, so that the order of devices does not depend on the file system.
Result<std::vector<std::string>> plugin_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (is_plugin_file(entry->path())) files.push_back(entry->path().string());
  }
  if (error) return fail(ErrorCode::no_device, "DIJI_PLUGIN_PATH: folder '{}': {}", folder, error.message());
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> folders;
  while (!path.empty()) {
    const std::size_t colon = std::min(path.find(':'), path.size());
    if (colon > 0) folders.emplace_back(path.substr(0, colon));
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  return folders;
}

}  // namespace

DeviceList::DeviceList(std::span<const diji_device_plugin_table* const> built_in, int threads, Trial trial)
    : threads_(std::make_unique<ThreadPool>(std::max(threads, 1))),
      services_(std::make_unique<diji_host_services>()),
      trial_(std::move(trial)) {
  *services_ = {sizeof(diji_host_services), threads_.get(), run_parallel_for,
                threads_->threads(),        write_log,      read_clock};
  for (const diji_device_plugin_table* table : built_in) {
    auto added = take_in(Plugin::check(table, "built in"));
    if (!added) problems_.push_back(std::move(added).error());
  }
  const char* path = std::getenv("DIJI_PLUGIN_PATH");
  folders_ = split_path(path == nullptr ? "" : path);
}

// Devices go before the plugins, services and threads that they use: the members' order sees to it.
DeviceList::~DeviceList() = default;

Result<void> DeviceList::add_plugin(const std::string& path) {
  if (trial_) {
    const auto tried = trial_([&] {
      const auto plugin = Plugin::load(path);
      const int count = plugin ? plugin->device_count().value_or(0) : 0;
      for (int ordinal = 0; ordinal < count; ++ordinal) (void)plugin->device_info(ordinal);
    });
    if (!tried) return fail(ErrorCode::no_device, "plugin {}: {}", path, tried.error().message);
  }
  return take_in(Plugin::load(path));
}

void DeviceList::load_from_path() {
  while (
      !folders_.empty()) {  // each goes when it is done: memory that runs out is no reason to forget the rest
    auto files = plugin_files(folders_.front());
    if (!files) {
      problems_.push_back(std::move(files).error());
    } else {
      for (const std::string& file : *files) {
        auto added = add_plugin(file);
        if (!added) problems_.push_back(std::move(added).error());
      }
    }
    folders_.erase(folders_.begin());
  }
}

Result<void> DeviceList::take_in(Result<Plugin> plugin) {
  if (!plugin) return std::unexpected(std::move(plugin).error());
  for (const auto& known : plugins_) {
    if (known->name() != plugin->name()) continue;
    return fail(ErrorCode::no_device, "plugin {}: there is a plugin named {} already ({})", plugin->origin(),
                known->name(), known->origin());
  }
  listed_.reserve(plugins_.size() + 1);
  plugins_.push_back(std::make_unique<Plugin>(*std::move(plugin)));
  listed_.push_back(false);
  return {};
}

const std::vector<DeviceEntry>& DeviceList::entries() {
  const std::scoped_lock lock(opening_);
  list_all();
  return entries_;
}

const std::vector<Error>& DeviceList::problems() {
  const std::scoped_lock lock(opening_);
  list_all();
  return problems_;
}

const std::vector<std::string>& DeviceList::absent() {
  const std::scoped_lock lock(opening_);
  list_all();
  return absent_;
}

void DeviceList::list_all() {
  load_from_path();
  for (std::size_t i = 0; i < plugins_.size(); ++i) list_devices(i);
  // In the order of the plugins, whichever was asked first.
  const auto place = [&](const DeviceEntry& entry) {
    const auto plugin = std::ranges::find(plugins_, entry.plugin, &std::unique_ptr<Plugin>::get);
    return std::pair(plugin - plugins_.begin(), entry.ordinal);
  };
  std::ranges::sort(entries_, {}, place);
}

void DeviceList::list_devices(std::size_t index) {
  if (listed_[index]) return;
  const Plugin& plugin = *plugins_[index];
  // All of it or nothing, so that a plugin is asked again where memory ran out in between.
  std::vector<DeviceEntry> entries = entries_;
  std::vector<Error> problems = problems_;
  std::vector<std::string> absent = absent_;
  const auto count = plugin.device_count();
  if (!count) {
    problems.push_back(count.error());
  } else if (*count == 0) {
    const char* why = plugin.table().last_error();
    const bool told = why != nullptr && *why != '\0';
    const std::string origin = plugin.origin() == "built in" ? "" : fmt::format(" ({})", plugin.origin());
    absent.push_back(fmt::format("{}{}: {}", plugin.name(), origin,
                                 told ? why : "it reports 0 devices; its last_error() gives no reason"));
  }
  for (int ordinal = 0; ordinal < count.value_or(0); ++ordinal) {
    auto info = plugin.device_info(ordinal);
    if (!info) {
      problems.push_back(std::move(info).error());
      continue;
    }
    entries.push_back({fmt::format("{}:{}", plugin.name(), ordinal), &plugin, ordinal, *std::move(info)});
  }
  entries_ = std::move(entries);
  problems_ = std::move(problems);
  absent_ = std::move(absent);
  listed_[index] = true;
}

Result<Device*> DeviceList::open(std::string_view name) {
  const std::string full = name.contains(':') ? std::string(name) : fmt::format("{}:0", name);
  const std::scoped_lock lock(opening_);
  for (const auto& device : opened_) {
    if (device->name() == full) return device.get();
  }
  const auto has_it = [&](const auto& plugin) { return full.starts_with(plugin->name() + ":"); };
  if (std::ranges::none_of(plugins_, has_it)) load_from_path();
  for (std::size_t i = 0; i < plugins_.size(); ++i) {
    if (has_it(plugins_[i])) list_devices(i);
  }
  const auto entry = std::ranges::find(entries_, full, &DeviceEntry::name);
  if (entry == entries_.end()) return no_such_device(name);
  opened_.push_back(TRY(Device::open(*entry, services_.get(), *threads_)));
  return opened_.back().get();
}

std::unexpected<Error> DeviceList::no_such_device(std::string_view name) {
  list_all();
  std::vector<std::string> names;
  for (const DeviceEntry& entry : entries_) names.push_back(entry.name);
  std::string sentence = fmt::format("there is no device '{}'", name);
  sentence += names.empty() ? "; there is none at all" : fmt::format("; there is {}", fmt::join(names, ", "));
  const std::string_view plugin = name.substr(0, name.find(':'));
  const auto of_it = [&](const DeviceEntry& entry) { return entry.plugin->name() == plugin; };
  if (!plugin.empty() && std::ranges::none_of(entries_, of_it))
    sentence +=
        fmt::format(", and no plugin '{}' (one is loaded by --plugin LIB, or from DIJI_PLUGIN_PATH)", plugin);
  // "cqu" is nearest to "cpu", which stands for cpu:0: compare with and without the ordinal.
  for (const DeviceEntry& entry : entries_) names.push_back(entry.plugin->name());
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) sentence += fmt::format(" (did you mean {}?)", nearest);
  // The device may be missing because its plugin was refused; then that is the sentence that helps.
  for (const Error& problem : problems_) sentence += fmt::format("; not usable: {}", problem.message);
  return fail(ErrorCode::no_device, "{}", sentence);
}

}  // namespace diji
