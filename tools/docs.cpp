// `diji docs`: the generated pages of docs/reference/, and the list that the ONNX oracle asks for. Hidden.
#include "formats/onnx/import.h"
#include "formats/onnx/schema.h"
#include "ops/catalog.h"
#include "passes/passes.h"
#include "tools/arguments.h"
#include "tools/context.h"
#include "tools/help.h"
#include "tools/output.h"

#include <algorithm>
#include <array>
#include <map>

namespace diji::tools {
namespace {

constexpr std::array<std::string_view, 4> kPages = {"operators", "onnx-ops", "rules", "verbs"};

// "numeric", "floating", else the dtypes' names.
std::string text_of(DTypeSet set) {
  switch (set) {
    case kAny: return "any";
    case kNumeric: return "numeric";
    case kFloating: return "floating";
    case kInteger: return "integer";
    default: break;
  }
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (contains(set, static_cast<DType>(i))) names.push_back(name_of(static_cast<DType>(i)));
  }
  return fmt::format("{}", fmt::join(names, " "));
}

std::string text_of(const Operand& operand) {
  const std::string_view mark = operand.mode == OperandMode::optional   ? "?"
                                : operand.mode == OperandMode::variadic ? "..."
                                                                        : "";
  return fmt::format("`{}{} {}` {}", operand.name, mark, operand.dims, text_of(operand.dtypes));
}

std::string text_of(const AttributeDef& attribute) {
  const std::string value =
      attribute.default_text.empty() ? "" : fmt::format(" = {}", attribute.default_text);
  return fmt::format("`{}{}` {}{}{}", attribute.name, value, name_of(attribute.kind),
                     attribute.doc.empty() ? "" : ": ", attribute.doc);
}

template <typename Items>
std::string joined(const Items& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : "<br>") + text_of(item);
  return text;
}

std::string versions_of(const OpDef& op) {
  const auto [first, last] = std::minmax_element(op.onnx.versions.begin(), op.onnx.versions.end());
  return op.onnx.versions.empty() ? "" : fmt::format("{}..{}", *first, *last);
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

void print_operators() {
  print("# Operators\n\n");
  print(
      "Every operator that diji knows, with the schema versions of ONNX that it reads. Shapes are those of "
      "the\n");
  print("operands; operands without a dtype list take any.\n\n");
  print("| operator | ONNX | meaning | inputs | outputs | attributes |\n|---|---|---|---|---|---|\n");
  for (const OpDef* op : catalog()) {
    print("| `{}` | {} {} | {} | {} | {} | {} |\n", op->name, op->onnx.type, versions_of(*op),
          escaped(std::string(op->doc)), escaped(joined(op->inputs)), escaped(joined(op->outputs)),
          escaped(joined(op->attributes)));
  }
}

// "Add 7..14": the schema versions that the importer understands.
void print_onnx_ops() {
  std::map<std::string, std::string> lines;
  for (const OpDef* op : catalog()) {
    if (!op->onnx.type.empty()) lines.emplace(op->onnx.type, versions_of(*op));
  }
  for (const auto& [type, since] : importer_operators())
    lines.emplace(type, fmt::format("{}..{}", since, onnx::kOpsetKnownMax));
  for (const auto& [type, versions] : lines) print("{} {}\n", type, versions);
}

void print_rules() {
  print("# Rules of the compiler\n\n");
  print("Each may be left out with `--disable-rule NAME`. The result stays right, only slower.\n\n");
  print("| rule | what it does |\n|---|---|\n");
  for (const PassRule& rule : rules()) print("| `{}` | {} |\n", rule.name, escaped(std::string(rule.doc)));
  print("\nThe passes, in order, for `--dump-after PASS`: ");
  for (std::size_t i = 0; i < pipeline().size(); ++i) print("{}`{}`", i == 0 ? "" : ", ", pipeline()[i].name);
  print(".\n");
}

Result<int> run(Context& context, const Arguments& arguments) {
  if (context.json()) return fail(ErrorCode::usage, "diji docs prints pages; it has no --json");
  switch (TRY(find_choice("diji docs", arguments.operands()[0], kPages))) {
    case 0: print_operators(); break;
    case 1: print_onnx_ops(); break;
    case 2: print_rules(); break;
    default: print("{}", verbs_page()); break;
  }
  return 0;
}

}  // namespace

constexpr Verb kDocsVerb = {
    .name = "docs",
    .summary = "print a generated page",
    .example = "docs operators",
    .operands = {"operators|onnx-ops|rules|verbs", "the page", 1, 1},
    .run = run,
    .hidden = true,
};

}  // namespace diji::tools
