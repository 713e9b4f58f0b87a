// `diji op new NAME` and `diji plugin new NAME`: a folder with a skeleton that builds, loads and passes its
// test as it is.
#include "base/files.h"
#include "runtime/session.h"
#include "tools/context.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/skeletons.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace diji::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameBytesMax = 32;

// Names become C identifiers, file names and names of devices.
Result<std::string> checked_name(const std::string& name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (name.size() <= kNameBytesMax && !name.empty() && is_letter(name[0]) &&
      std::ranges::all_of(name, allowed))
    return name;
  return fail(ErrorCode::usage, "the name '{}' is not 1 to {} of a-z, 0-9 and _, a letter first", name,
              kNameBytesMax);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// A plugin of one's own is always a shared object: the mock's other form, linked into diji's tests, goes.
std::string as_shared_object(std::string text) {
  const auto erase_lines = [&](std::string_view first, std::string_view last) {
    const std::size_t begin = text.find(first), end = text.find(last, begin);
    if (end != std::string::npos) text.erase(begin, text.find('\n', end) + 1 - begin);
  };
  erase_lines("#if defined(DIJI_PLUGIN_SHARED)", "#if defined(DIJI_PLUGIN_SHARED)");
  erase_lines("#else", "#endif");
  return text;
}

// Whatever the user's umask: a library is loaded only from where nobody else may write.
Result<void> set_mode(const fs::path& path, bool executable) {
  std::error_code error;
  fs::permissions(path, fs::perms(executable ? 0755 : 0644), error);
  if (error) return fail(ErrorCode::io, "{}: {}", path.string(), error.message());
  return {};
}

Result<void> make_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    return fail(error ? ErrorCode::io : ErrorCode::usage, "{}: {}", folder.string(),
                error ? error.message() : "is there already; nothing was written");
  }
  return set_mode(folder, true);
}

Result<void> write_skeleton(std::span<const SkeletonFile> files, std::string_view stands_for,
                            const std::string& name) {
  TRY(make_folder(name));
  for (const SkeletonFile& file : files) {
    const fs::path path = fs::path(name) / replaced(std::string(file.path), stands_for, name);
    if (const fs::path folder = path.parent_path(); !fs::exists(folder)) TRY(make_folder(folder));
    std::string text(file.text);
    if (path.extension() == ".cpp") text = as_shared_object(std::move(text));
    // Headers are diji's own words, whatever the new thing is called.
    if (path.extension() != ".h") text = replaced(std::move(text), stands_for, name);
    TRY(write_file_atomically(path, text));
    TRY(set_mode(path, text.starts_with("#!")));
  }
  return {};
}

Result<int> write_new(Context& context, const Arguments& arguments, std::string_view verb,
                      std::span<const SkeletonFile> files, std::string_view stands_for) {
  if (arguments.operands()[0] != "new")
    return fail(ErrorCode::usage, "diji {}: there is no '{}', only new", verb, arguments.operands()[0]);
  const std::string name = TRY(checked_name(arguments.operands()[1]));
  TRY(write_skeleton(files, stands_for, name));
  if (context.json()) {
    print_json({{"folder", name}});
  } else {
    print("{}/ is written; {}/build builds and tests it, {}/README.md says what is next\n", name, name, name);
  }
  return 0;
}

Result<int> new_op(Context& context, const Arguments& arguments) {
  return write_new(context, arguments, "op", op_skeleton(), "example_op");
}

Result<int> new_plugin(Context& context, const Arguments& arguments) {
  const std::string& name = arguments.operands()[1];
  for (const diji_device_plugin_table* table : built_in_plugins()) {
    if (name == table->name)
      return fail(ErrorCode::usage,
                  "the name '{}' is that of a plugin that diji brings; a second one would be refused", name);
  }
  return write_new(context, arguments, "plugin", plugin_skeleton(), "mock");
}

constexpr Operands kNew = {"new NAME", "writes the folder NAME here; nothing that is there is overwritten", 2,
                           2};

}  // namespace

constexpr Verb kOpVerb = {
    .name = "op",
    .summary = "the skeleton of a library with an operator of one's own, which builds and passes its test",
    .example = "op new scale_rows",
    .operands = kNew,
    .run = new_op,
};

constexpr Verb kPluginVerb = {
    .name = "plugin",
    .summary = "the skeleton of a device plugin, which builds and passes its test",
    .example = "plugin new my_chip",
    .operands = kNew,
    .run = new_plugin,
};

}  // namespace diji::tools
