// Broken models by the thousand: every cut and many random changes give an error or a valid graph, never a
// crash.
#include "base/log.h"
#include "formats/onnx/import.h"
#include "graph/verify.h"
#include "tests/unit/expect.h"
#include "tests/unit/formats/onnx_writer.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

namespace diji::test {
namespace {

// An error of the file, or a graph that keeps the rules.
bool is_sound(const Result<ImportedModel>& model) {
  if (model) return verify(model->graph).has_value();
  const ErrorCode code = model.error().code;
  const bool of_the_file =
      code == ErrorCode::malformed || code == ErrorCode::unsupported || code == ErrorCode::mismatch;
  return of_the_file && !model.error().message.empty();
}

TEST_CASE("a model cut off at any byte") {
  set_log_level(LogLevel::error);
  const Bytes whole = rich_model().bytes();
  int accepted = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const auto model =
        read_onnx_bytes({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}, "m.onnx");
    accepted += model ? 1 : 0;
    EXPECT(is_sound(model));
    if (!model) EXPECT(model.error().offset <= static_cast<std::int64_t>(length));
  }
  // Cuts at the seams of the optional fields at the end leave valid models; all others do not.
  EXPECT(accepted <= 4);
  set_log_level(LogLevel::warning);
}

class Mutator {
 public:
  Mutator(std::uint64_t seed, const Bytes& original) : random_(seed), original_(original) {}

  Bytes next() {
    Bytes bytes = original_;
    for (std::size_t changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) change(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  void change(Bytes& bytes) {
    const std::size_t at = below(bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    // Ends of ranges and lengths that wrap are more telling than random bytes.
    constexpr std::byte kTelling[] = {std::byte{0}, std::byte{1}, std::byte{0x7f}, std::byte{0x80},
                                      std::byte{0xff}};
    switch (below(6)) {
      case 0: *place ^= static_cast<std::byte>(1U << below(8)); break;
      case 1: *place = static_cast<std::byte>(random_()); break;
      case 2: *place = kTelling[below(std::size(kTelling))]; break;
      case 3:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(
                                       1 + below(std::min<std::size_t>(8, bytes.size() - at))));
        break;
      case 4: bytes.insert(place, 1 + below(4), static_cast<std::byte>(random_())); break;
      default: {  // a piece from elsewhere, of equal length, so that the lengths around it stay right
        const std::size_t from = below(bytes.size());
        const std::size_t length = below(std::min<std::size_t>(16, bytes.size() - std::max(at, from))) + 1;
        const Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                          bytes.begin() + static_cast<std::ptrdiff_t>(from + length));
        std::ranges::copy(piece, place);
      }
    }
  }

  std::mt19937_64 random_;
  const Bytes& original_;
};

// Of `count` mutants of a model, how many are a model still.
int accepted_mutants(const Message& model, int count) {
  const char* given = std::getenv("DIJI_TEST_SEED");
  const std::uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  MESSAGE("seed ", seed, "; repeat with DIJI_TEST_SEED=", seed);
  set_log_level(LogLevel::error);
  const Bytes original = model.bytes();
  Mutator mutator(seed, original);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const auto mutant = read_onnx_bytes(mutator.next(), "m.onnx");
    accepted += mutant ? 1 : 0;
    if (is_sound(mutant)) continue;
    CAPTURE(i);
    EXPECT(is_sound(mutant));
  }
  set_log_level(LogLevel::warning);
  return accepted;
}

TEST_CASE("20,000 mutants of two models") {
  constexpr int kMutants = 10'000;
  for (const Message& model : {rich_model(), nested_model()}) {
    const int accepted = accepted_mutants(model, kMutants);
    EXPECT(accepted > kMutants / 200);  // or the mutants would never get past the parser
    EXPECT(accepted < kMutants);
  }
}

}  // namespace
}  // namespace diji::test
