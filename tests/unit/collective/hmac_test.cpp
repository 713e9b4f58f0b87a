// The standards' own vectors.
#include "collective/hmac.h"

#include "tests/unit/expect.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace diji::collective {
namespace {

std::span<const std::uint8_t> bytes_of_text(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
std::string hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

TEST_CASE("SHA-256 of the examples of FIPS 180-4") {
  EXPECT(hex(sha256(bytes_of_text("abc"))) ==
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT(hex(sha256(bytes_of_text(""))) ==
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT(hex(sha256(bytes_of_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))) ==
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("HMAC of the test cases 1, 2 and 6 of RFC 4231") {
  const std::vector<std::uint8_t> key(20, 0x0b);
  EXPECT(hex(hmac_sha256(key, bytes_of_text("Hi There"))) ==
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT(hex(hmac_sha256(bytes_of_text("Jefe"), bytes_of_text("what do ya want for nothing?"))) ==
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::uint8_t> long_key(131, 0xaa);
  EXPECT(
      hex(hmac_sha256(long_key, bytes_of_text("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace diji::collective
