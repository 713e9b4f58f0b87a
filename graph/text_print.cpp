// Graph to text.
#include "graph/text.h"

#include "graph/primitives.h"

#include <bit>
#include <cmath>
#include <map>

namespace diji {
namespace {

constexpr std::int64_t kListedElementsMax = 16;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += '\\';
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);  // as in the text of a Dim
    } else {
      result += c;
    }
  }
  return result + '"';
}

// The shortest decimal that reads back to the same bits; always recognisable as a real number. NaN by its
// bits.
template <typename T>
std::string real(T value) {
  if (std::isnan(value))
    return fmt::format("nan0x{:016x}", std::bit_cast<std::uint64_t>(static_cast<double>(value)));
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

bool has_nan(const HostTensor& tensor) {
  if (!is_floating(tensor.dtype())) return false;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (std::isnan(tensor.as_double(i))) return true;  // its payload has no decimal form
  }
  return false;
}

std::string elements(const HostTensor& tensor) {
  std::string result;
  visit_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const T& value : tensor.values<T>()) {
      if (!result.empty()) result += ", ";
      if constexpr (std::is_same_v<T, float>) {
        result += real(value);
      } else if constexpr (std::is_integral_v<T>) {
        result += fmt::format("{}", +value);
      } else {
        result += real(static_cast<double>(value));
      }
    }
  });
  return result;
}

std::string tensor_text(const HostTensor& tensor) {
  const std::string type = fmt::format("{}{}", name_of(tensor.dtype()), text_of(tensor.shape()));
  if (tensor.count() <= kListedElementsMax && !has_nan(tensor))
    return fmt::format("{} {{{}}}", type, elements(tensor));
  std::string hex;
  hex.reserve(tensor.bytes().size() * 2);
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::byte byte : tensor.bytes()) {
    hex += kDigits[static_cast<std::size_t>(byte) >> 4];
    hex += kDigits[static_cast<std::size_t>(byte) & 15];
  }
  return fmt::format("{} hex\"{}\"", type, hex);
}

std::string attribute_text(const Attribute& attribute) {
  struct Visitor {
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return real(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(const Ints& v) const { return fmt::format("ints[{}]", fmt::join(v, ", ")); }
    std::string operator()(const Floats& v) const {
      std::vector<std::string> items;
      for (const double x : v) items.push_back(real(x));
      return fmt::format("reals[{}]", fmt::join(items, ", "));
    }
    std::string operator()(const Shape& v) const { return "dims" + text_of(v); }
    std::string operator()(DType v) const { return std::string(name_of(v)); }
    std::string operator()(const HostTensor& v) const { return "tensor " + tensor_text(v); }
  };
  return std::visit(Visitor{}, attribute);
}

struct Printer {
  ConstantList* apart = nullptr;  ///< null: every constant is printed whole
  std::map<const HostTensor*, std::size_t> numbers;
  std::string out;

  std::string constant(const std::shared_ptr<const HostTensor>& tensor) {
    if (apart == nullptr || tensor->count() <= kListedElementsMax) return tensor_text(*tensor);
    const auto [known, first] = numbers.emplace(tensor.get(), apart->size());
    if (first) apart->push_back(tensor);
    return fmt::format("{}{} @{}", name_of(tensor->dtype()), text_of(tensor->shape()), known->second);
  }

  static std::string name(ValueId id) {
    return id == ValueId::none ? "_" : fmt::format("%{}", static_cast<std::uint32_t>(id));
  }

  static std::string names(const Values& ids) {
    std::vector<std::string> result;
    for (const ValueId id : ids) result.push_back(name(id));
    return fmt::format("{}", fmt::join(result, ", "));
  }

  void node(const Graph& graph, const Node& node, int indent) {
    out +=
        fmt::format("{:{}}{} = {}({})", "", indent, names(node.outputs), node.op->name, names(node.inputs));
    if (!node.attributes.empty()) {
      std::vector<std::string> items;
      for (const auto& [key, value] : node.attributes.items())
        items.push_back(key + " = " + attribute_text(value));
      out += fmt::format(" {{{}}}", fmt::join(items, ", "));
    }
    if (!node.name.empty()) out += " " + quoted(node.name);
    std::vector<std::string> types;
    for (const ValueId id : node.outputs) types.push_back(text_of(graph.type(id)));
    out += fmt::format(" : {}", fmt::join(types, ", "));
    for (const auto& body : node.bodies) {
      out += ' ';
      this->graph(*body, indent);
      if (body != node.bodies.back()) out.pop_back();  // the next body goes on behind the brace
    }
    if (node.bodies.empty()) out += '\n';
  }

  void graph(const Graph& graph, int indent) {
    const std::string pad(static_cast<std::size_t>(indent) + 2, ' ');
    out += fmt::format("graph {} {}{{\n", quoted(graph.name), graph.stretches ? "stretches " : "");
    for (const auto& [symbol, bounds] : graph.symbols()) {
      out += fmt::format("{}symbol {} in [{}, {}]\n", pad, Dim::symbol(symbol, bounds).text(), bounds.min,
                         bounds.max);
    }
    for (const Constraint& c : graph.constraints()) {
      out += fmt::format("{}require {} {} {} {}\n", pad, c.left.text(),
                         c.kind == Constraint::Kind::equal ? "==" : "<=", c.right.text(), quoted(c.why));
    }
    std::size_t input = 0;
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      const Value& value = graph.value(id);
      if (value.constant != nullptr) {
        out += fmt::format("{}{} = constant {}\n", pad, name(id), constant(value.constant));
      } else if (value.producer == NodeId::none) {
        const Port& port = graph.inputs()[input++];
        out += fmt::format("{}input {} {} : {}\n", pad, name(id), quoted(port.name), text_of(value.type));
      } else if (value.output == 0) {
        node(graph, graph.node(value.producer), indent + 2);
      }
    }
    for (const Port& port : graph.outputs()) {
      out += fmt::format("{}output {} = {}\n", pad, quoted(port.name), name(port.value));
    }
    out += fmt::format("{:{}}}}\n", "", indent);
  }
};

}  // namespace

std::string print(const Graph& graph) {
  Printer printer;
  printer.graph(graph, 0);
  return std::move(printer.out);
}

std::string print(const Graph& graph, ConstantList& apart) {
  Printer printer{.apart = &apart, .numbers = {}, .out = {}};
  for (std::size_t i = 0; i < apart.size(); ++i) printer.numbers.emplace(apart[i].get(), i);
  printer.graph(graph, 0);
  return std::move(printer.out);
}

}  // namespace diji
