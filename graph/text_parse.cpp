// Text to graph: a recursive-descent parser whose every error has a line and a column.
#include "graph/text.h"

#include "base/checked.h"
#include "graph/builder.h"
#include "graph/primitives.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>

namespace diji {
namespace {

constexpr int kNestingMax = 16;

class Parser {
 public:
  Parser(std::string_view text, const std::function<const OpDef*(std::string_view)>& find,
         const ConstantList& apart)
      : text_(text), find_(find), apart_(apart), first_free_(first_free_number(text)) {
    namer_.number_symbols_from(first_free_ + 1'000'000);
  }

  Result<Graph> file() {
    Graph graph = TRY(this->graph(0));
    skip_space();
    if (at_ != text_.size()) return error("text after the end of the graph");
    return graph;
  }

 private:
  using Names = std::map<std::string, ValueId, std::less<>>;

  std::unexpected<Error> error(std::string_view sentence) const { return error_at(at_, sentence); }
  std::unexpected<Error> error_at(std::size_t where, std::string_view sentence) const {
    const std::string_view before = text_.substr(0, where);
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    auto result =
        fail(ErrorCode::malformed, "line {}, column {}: {}", line, where - line_start + 1, sentence);
    result.error().offset = static_cast<std::int64_t>(where);
    return result;
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  Result<void> expect(std::string_view token) {
    if (!accept(token)) return error(fmt::format("'{}' expected", token));
    return {};
  }
  Result<std::string_view> word() {
    skip_space();
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    if (at_ == start) return error("a name expected");
    return text_.substr(start, at_ - start);
  }
  // Of "\x1f": stands on the x and ends on the last digit.
  Result<char> escaped_byte() {
    const std::string_view digits = text_.substr(at_ + 1, 2);
    unsigned value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || status != std::errc() || end != digits.data() + 2)
      return error("two hexadecimal digits expected");
    at_ += 2;
    return static_cast<char>(value);
  }
  Result<std::string> quoted() {
    TRY(expect("\""));
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        result += text_[at_] == 'x' ? TRY(escaped_byte()) : text_[at_];
      } else {
        result += text_[at_];
      }
      ++at_;
    }
    if (at_ == text_.size()) return error("a string that does not end");
    ++at_;
    return result;
  }
  // Everything up to one of `stops` that is not inside brackets or quotes.
  Result<std::string_view> until(std::string_view stops) {
    skip_space();
    const std::size_t start = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
        continue;
      }
      if (depth == 0 && stops.find(c) != std::string_view::npos) return text_.substr(start, at_ - start);
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (c == '\n' && stops.find('\n') == std::string_view::npos && depth == 0) break;
    }
    at_ = start;
    return error(fmt::format("one of '{}' expected", stops));
  }
  Result<std::uint64_t> bits_of_nan(std::string_view digits, std::size_t where) const {
    std::uint64_t bits = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    const bool read = digits.size() == 16 && status == std::errc() && end == digits.data() + digits.size();
    if (!read || !std::isnan(std::bit_cast<double>(bits)))
      return error_at(where, "nan0x and the 16 digits of a NaN expected");
    return bits;
  }
  template <typename T>
  Result<T> number(std::string_view piece, std::size_t where) {
    while (!piece.empty() && piece.back() == ' ') piece.remove_suffix(1);
    T value{};
    if constexpr (std::is_same_v<T, double>) {
      if (piece.starts_with("nan0x")) return std::bit_cast<double>(TRY(bits_of_nan(piece.substr(5), where)));
    }
    const auto [end, status] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    if (status != std::errc() || end != piece.data() + piece.size()) {
      return error_at(where, fmt::format("'{}' is not a number of this kind", piece));
    }
    return value;
  }
  // The items of "[a, b]" through `item(piece, where)`.
  template <typename Item>
  Result<void> list(std::string_view open, std::string_view close, Item item) {
    TRY(expect(open));
    if (accept(close)) return {};
    do {
      skip_space();
      const std::size_t where = at_;
      const auto piece = TRY(until(std::string(",") + std::string(close)));
      TRY(item(piece, where));
    } while (accept(","));
    return expect(close);
  }

  Result<Dim> dim(std::string_view piece, std::size_t where) const {
    auto parsed = Dim::parse(piece, symbols_);
    if (!parsed) return error_at(where, parsed.error().message);
    return parsed;
  }
  Result<Shape> shape() {
    Shape result;
    TRY(list("[", "]", [&](std::string_view piece, std::size_t where) -> Result<void> {
      result.push_back(TRY(dim(piece, where)));
      return {};
    }));
    return result;
  }
  Result<Type> type() {
    const std::size_t where = at_;
    const auto name = TRY(word());
    const auto dtype = parse_dtype(name);
    if (!dtype) return error_at(where, fmt::format("'{}' is not a dtype", name));
    return Type{*dtype, TRY(shape())};
  }

  Result<void> hex_bytes(HostTensor& tensor) {
    const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
    const auto bytes = tensor.mutable_bytes();
    if (text_.size() - at_ < bytes.size() * 2) return error("hex data is cut off");
    for (std::byte& byte : bytes) {
      for (const char c : text_.substr(at_, 2)) {
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return error("a hexadecimal digit expected");
      }
      byte = static_cast<std::byte>(digit(text_[at_]) * 16 + digit(text_[at_ + 1]));
      if (tensor.dtype() == DType::boolean && byte > std::byte{1})
        return error("a bool that is neither 00 nor 01");
      at_ += 2;
    }
    return expect("\"");
  }
  // A tensor in the text or the number of one apart.
  Result<std::shared_ptr<const HostTensor>> constant() {
    const std::size_t where = at_;
    const Type declared = TRY(type());
    if (!accept("@")) {
      at_ = where;
      return std::make_shared<const HostTensor>(TRY(tensor()));
    }
    const std::size_t at = at_;
    const auto index = TRY(number<std::size_t>(TRY(word()), at));
    if (index >= apart_.size()) return error_at(at, fmt::format("there is no constant @{}", index));
    const HostTensor& tensor = *apart_[index];
    if (declared.dtype != tensor.dtype() || text_of(declared.shape) != text_of(tensor.shape())) {
      return error_at(where, fmt::format("constant @{} is {}{}", index, name_of(tensor.dtype()),
                                         text_of(tensor.shape())));
    }
    return apart_[index];
  }
  Result<HostTensor> tensor() {
    const std::size_t where = at_;
    const Type declared = TRY(type());
    const auto sizes = evaluate(declared.shape, {});
    if (!sizes) return error_at(where, "a constant's sizes are numbers");
    // Every element is at least one character: nothing is allocated for text that is not there.
    const auto count = checked_product(*sizes);
    if (!count || static_cast<std::uint64_t>(*count) > text_.size() - at_) {
      return error_at(where, "the shape has more elements than the text");
    }
    HostTensor result = TRY(HostTensor::allocate(declared.dtype, *sizes));
    if (accept("hex\"")) {
      TRY(hex_bytes(result));
      return result;
    }
    std::int64_t index = 0;
    TRY(list("{", "}", [&](std::string_view piece, std::size_t at) -> Result<void> {
      if (index >= result.count()) return error_at(at, "more elements than the shape has");
      return visit_dtype(declared.dtype, [&](auto tag) -> Result<void> {
        using T = typename decltype(tag)::type;
        T& element = result.mutable_values<T>()[static_cast<std::size_t>(index++)];
        if constexpr (std::is_same_v<T, bool>) {
          element = TRY(number<int>(piece, at)) != 0;
        } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
          element = T(TRY(number<double>(piece, at)));
        } else {
          element = TRY(number<T>(piece, at));
        }
        return {};
      });
    }));
    if (index != result.count())
      return error_at(where, fmt::format("{} elements given, {} wanted", index, result.count()));
    return result;
  }

  Result<Attribute> attribute() {
    skip_space();
    const std::size_t where = at_;
    if (at_ < text_.size() && text_[at_] == '"') return TRY(quoted());
    if (accept("ints[")) {
      --at_;
      Ints result;
      TRY(list("[", "]", [&](std::string_view piece, std::size_t at) -> Result<void> {
        result.push_back(TRY(number<std::int64_t>(piece, at)));
        return {};
      }));
      return result;
    }
    if (accept("reals[")) {
      --at_;
      Floats result;
      TRY(list("[", "]", [&](std::string_view piece, std::size_t at) -> Result<void> {
        result.push_back(TRY(number<double>(piece, at)));
        return {};
      }));
      return result;
    }
    if (accept("dims[")) {
      --at_;
      return TRY(shape());
    }
    if (accept("tensor ")) return TRY(tensor());
    const auto piece = TRY(until(",}"));
    if (const auto dtype = parse_dtype(piece)) return *dtype;
    if (piece.find_first_of(".en") != std::string_view::npos) return TRY(number<double>(piece, where));
    return TRY(number<std::int64_t>(piece, where));
  }

  Result<ValueId> use(const Names& names) {
    if (accept("_")) return ValueId::none;
    TRY(expect("%"));
    const std::size_t where = at_;
    const auto name = TRY(word());
    const auto found = names.find(name);
    if (found == names.end()) return error_at(where, fmt::format("%{} is not defined above", name));
    return found->second;
  }

  Result<void> check_types(const Graph& graph, const Values& results, std::size_t where) {
    if (!accept(":")) return {};
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i > 0) TRY(expect(","));
      const Type written = TRY(type());
      const Type& inferred = graph.type(results[i]);
      if (written != inferred) {
        return error_at(where, fmt::format("the type is {}, not {}", text_of(inferred), text_of(written)));
      }
    }
    return {};
  }

  // "%a, %b = op(%c) {...} "name" : types"
  Result<void> definition(Graph& graph, Names& names, int depth) {
    std::vector<std::string> defined;
    do {
      TRY(expect("%"));
      defined.emplace_back(TRY(word()));
    } while (accept(","));
    TRY(expect("="));
    skip_space();
    const std::size_t where = at_;
    const std::string op_name(TRY(word()));
    Values results;
    if (op_name == "constant") {
      results = {graph.add_constant(TRY(constant()))};
    } else {
      results = TRY(node(graph, names, op_name, where, depth));
    }
    if (results.size() != defined.size()) {
      return error_at(where, fmt::format("{} has {} results", op_name, results.size()));
    }
    for (std::size_t i = 0; i < defined.size(); ++i) {
      if (!names.emplace(defined[i], results[i]).second) {
        return error_at(where, fmt::format("%{} is defined twice", defined[i]));
      }
    }
    return {};
  }

  Result<Values> node(Graph& graph, const Names& names, const std::string& op_name, std::size_t where,
                      int depth) {
    const OpDef* op = find_primitive(op_name);
    if (op == nullptr && find_) op = find_(op_name);
    if (op == nullptr) return error_at(where, fmt::format("'{}' is not an operator", op_name));
    Values inputs;
    TRY(expect("("));
    if (!accept(")")) {
      do {
        inputs.push_back(TRY(use(names)));
      } while (accept(","));
      TRY(expect(")"));
    }
    Attributes attributes;
    if (accept("{") && !accept("}")) {
      do {
        const std::string key(TRY(word()));
        TRY(expect("="));
        attributes.set(key, TRY(attribute()));
      } while (accept(","));
      TRY(expect("}"));
    }
    std::string name;
    skip_space();
    if (at_ < text_.size() && text_[at_] == '"') name = TRY(quoted());
    Builder builder(graph);
    if (primitive_of(op) == Primitive::fusion) return fusion(graph, std::move(inputs), where, depth);
    if (primitive_of(op) == Primitive::conditional || primitive_of(op) == Primitive::loop) {
      Node node{.op = op, .inputs = std::move(inputs), .attributes = std::move(attributes), .name = name};
      return structured(graph, std::move(node), where, depth);
    }
    const Values results = builder.call(*op, std::move(inputs), std::move(attributes), std::move(name));
    if (auto status = builder.status(); !status) return error_at(where, status.error().message);
    TRY(check_types(graph, results, where));
    return results;
  }

  Result<Values> structured(Graph& graph, Node node, std::size_t where, int depth) {
    std::vector<Type> written;
    if (accept(":")) {
      do {
        written.push_back(TRY(type()));
      } while (accept(","));
    }
    const std::size_t bodies = primitive_of(node.op) == Primitive::conditional ? 2 : 1;
    for (std::size_t i = 0; i < bodies; ++i)
      node.bodies.push_back(std::make_shared<const Graph>(TRY(this->graph(depth + 1))));
    Builder builder(graph);
    Values results = builder.structured(std::move(node));
    if (auto status = builder.status(); !status) return error_at(where, status.error().message);
    for (std::size_t i = 0; i < written.size() && i < results.size(); ++i) {
      if (written[i] != graph.type(results[i]))
        return error_at(where, "the types are not those of the bodies");
    }
    return results;
  }

  Result<Values> fusion(Graph& graph, Values inputs, std::size_t where, int depth) {
    std::optional<Type> written;
    if (accept(":")) written = TRY(type());
    Graph body = TRY(this->graph(depth + 1));
    if (body.inputs().size() != inputs.size() || body.outputs().size() != 1) {
      return error_at(where, "a fusion's body takes its inputs and has one output");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == ValueId::none || graph.type(inputs[i]) != body.type(body.inputs()[i].value)) {
        return error_at(where, fmt::format("input {} does not fit the body", i));
      }
    }
    // What the body assumes of sizes is the graph's to check.
    for (Constraint& constraint : body.take_constraints()) graph.require(std::move(constraint));
    const ValueId result = Builder(graph).fusion(std::move(body), std::move(inputs));
    if (written && *written != graph.type(result)) return error_at(where, "the type is not the body's");
    return Values{result};
  }

  Result<void> symbol() {
    skip_space();
    std::string name;
    if (text_.substr(at_).starts_with('"')) {
      name = TRY(quoted());
    } else {
      name = TRY(word());
    }
    TRY(expect("in"));
    Ints range;
    TRY(list("[", "]", [&](std::string_view piece, std::size_t at) -> Result<void> {
      range.push_back(TRY(number<std::int64_t>(piece, at)));
      return {};
    }));
    if (range.size() != 2 || range[0] > range[1]) return error("bounds [min, max] expected");
    const auto [known, first] = symbols_.emplace(name, Bounds{range[0], range[1]});
    if (!first && known->second != Bounds{range[0], range[1]})
      return error("the symbol has other bounds above");
    return {};
  }

  static std::size_t skip_quoted(std::string_view text, std::size_t at) {
    for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    return at;
  }
  // The text up to "==" or "<=" on this line, outside of quotes.
  Result<std::string_view> until_relation() {
    for (std::size_t i = at_; i < text_.size() && text_[i] != '\n'; ++i) {
      if (text_[i] == '"') i = skip_quoted(text_, i);
      const std::string_view next = text_.substr(std::min(i, text_.size()), 2);
      if (next != "==" && next != "<=") continue;
      const std::size_t start = std::exchange(at_, i);
      return text_.substr(start, i - start);
    }
    return error("== or <= expected");
  }
  // Where the last quoted string of a line begins.
  static std::size_t start_of_reason(std::string_view line) {
    std::size_t last = std::string_view::npos;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"') i = skip_quoted(line, last = i);
    }
    return last;
  }

  // "left == right "why"", on one line. Symbols may be quoted too; the reason is the last string.
  Result<void> require(Graph& graph) {
    skip_space();
    const std::size_t where = at_;
    const std::string_view left = TRY(until_relation());
    Constraint constraint;
    constraint.kind = text_[at_] == '=' ? Constraint::Kind::equal : Constraint::Kind::less_equal;
    constraint.left = TRY(dim(left, where));
    at_ += 2;
    skip_space();
    const std::size_t right = at_;
    const std::string_view rest = text_.substr(at_, text_.find('\n', at_) - at_);
    const std::size_t reason = start_of_reason(rest);
    if (reason == std::string_view::npos) return error("a reason in quotes expected at the end of the line");
    constraint.right = TRY(dim(rest.substr(0, reason), right));
    at_ = right + reason;
    constraint.why = TRY(quoted());
    graph.require(std::move(constraint));
    return {};
  }

  Result<void> input(Graph& graph, Names& names) {
    TRY(expect("%"));
    const std::size_t where = at_;
    const std::string name(TRY(word()));
    const std::string port = TRY(quoted());
    TRY(expect(":"));
    const Type declared = TRY(type());
    if (!names.emplace(name, graph.add_input(port, declared)).second) {
      return error_at(where, fmt::format("%{} is defined twice", name));
    }
    return {};
  }

  Result<Graph> graph(int depth) {
    if (depth > kNestingMax) return error("bodies nest too deep");
    TRY(expect("graph"));
    Graph result = depth == 0 ? Graph() : namer_.child();
    result.number_symbols_from(first_free_);
    result.name = TRY(quoted());
    result.stretches = accept("stretches");
    TRY(expect("{"));
    Names names;
    while (!accept("}")) {
      skip_space();
      if (at_ == text_.size()) return error("'}' expected");
      if (text_[at_] == '%') {
        TRY(definition(result, names, depth));
        continue;
      }
      const std::size_t where = at_;
      const auto keyword = TRY(word());
      if (keyword == "symbol") {
        TRY(symbol());
      } else if (keyword == "input") {
        TRY(input(result, names));
      } else if (keyword == "require") {
        TRY(require(result));
      } else if (keyword == "output") {
        const std::string port = TRY(quoted());
        TRY(expect("="));
        const std::size_t value = at_;
        const ValueId id = TRY(use(names));
        if (id == ValueId::none) return error_at(value, "an output needs a value");
        result.add_output(port, id);
      } else {
        return error_at(where, fmt::format("'{}' begins no line of a graph", keyword));
      }
    }
    return result;
  }

  // Fresh symbols (Graph::fresh_symbol) that the text names already: every number in such a name is taken.
  static int first_free_number(std::string_view text) {
    constexpr std::size_t kDigitsMax = 8;  // larger numbers are no names of ours
    int first = 0;
    for (std::size_t at = text.find("\"#"); at != std::string_view::npos; at = text.find("\"#", at)) {
      for (at += 2; at < text.size() && text[at] != '"';) {
        std::size_t end = at;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
        if (end > at && end - at <= kDigitsMax) {
          int number = 0;
          std::from_chars(text.data() + at, text.data() + end, number);
          first = std::max(first, number + 1);
        }
        at = std::max(end, at + 1);
      }
    }
    return first;
  }

  std::string_view text_;
  const std::function<const OpDef*(std::string_view)>& find_;
  const ConstantList& apart_;
  std::size_t at_ = 0;
  std::map<std::string, Bounds, std::less<>> symbols_;
  int first_free_ = 0;
  Graph namer_;  // its children are the bodies
};

}  // namespace

Result<Graph> parse(std::string_view text, const std::function<const OpDef*(std::string_view)>& find,
                    const ConstantList& apart) {
  return Parser(text, find, apart).file();
}

}  // namespace diji
