// Boxes are made from the inside out: lines first, then a frame around them.
#include "tools/draw_topology.h"

#include <algorithm>
#include <vector>

namespace diji::tools {
namespace {

using collective::Core;
using collective::Host;
using Lines = std::vector<std::string>;

// Of UTF-8 without wide or combining letters.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xc0) != 0x80; }));
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

void frame(Lines& out, std::string_view title, const Lines& inside) {
  std::size_t width = columns_of(title) + 2;
  for (const std::string& line : inside) width = std::max(width, columns_of(line) + 2);
  out.push_back(fmt::format("┌ {} {}┐", title, repeated("─", width - columns_of(title) - 2)));
  for (const std::string& line : inside)
    out.push_back(fmt::format("│ {}{} │", line, std::string(width - 2 - columns_of(line), ' ')));
  out.push_back(fmt::format("└{}┘", repeated("─", width)));
}

// "[0,4] [1,5]", in as many lines as it takes.
Lines cells(std::span<const Core> cores, std::size_t columns) {
  Lines lines;
  for (const Core& core : cores) {
    const std::string cell = fmt::format("[{}]", fmt::join(core.pus, ","));
    if (lines.empty() || lines.back().size() + 1 + cell.size() > columns) {
      lines.push_back(cell);
    } else {
      lines.back() += " " + cell;
    }
  }
  return lines;
}

// Cores from `begin` on for which `number` is that of the first.
template <typename Number>
std::size_t end_of_run(std::span<const Core> cores, std::size_t begin, const Number& number) {
  std::size_t end = begin + 1;
  while (end < cores.size() && cores[end].*number == cores[begin].*number) ++end;
  return end;
}

Lines node_lines(std::span<const Core> cores, std::size_t columns) {
  constexpr std::size_t kIndent = 10;  // "cache 12  "
  Lines lines;
  for (std::size_t begin = 0, end = 0; begin < cores.size(); begin = end) {
    end = end_of_run(cores, begin, &Core::cache);
    std::string head = fmt::format("{:<{}}", fmt::format("cache {}", cores[begin].cache), kIndent);
    for (const std::string& line : cells(cores.subspan(begin, end - begin), columns - kIndent)) {
      lines.push_back(head + line);
      head.assign(kIndent, ' ');
    }
  }
  return lines;
}

std::string title_of(const Host& host) {
  std::string title = host.name.empty() ? "a machine" : host.name;
  if (host.count > 1) title = fmt::format("{} and {} like it", title, host.count - 1);
  if (!host.processor.empty()) title += ": " + host.processor;
  return title;
}

}  // namespace

std::string drawing_of(const collective::Topology& topology, std::size_t columns) {
  constexpr std::size_t kFrames = 3 * 4;  // host, package, node
  constexpr std::size_t kLeast = 30;
  const std::size_t inner = std::max(columns, kLeast + kFrames) - kFrames;
  Lines lines;
  for (const Host& host : topology.hosts) {
    const std::span<const Core> cores = host.cores;
    Lines packages;
    for (std::size_t begin = 0, end = 0; begin < cores.size(); begin = end) {
      end = end_of_run(cores, begin, &Core::package);
      const std::span<const Core> package = cores.subspan(begin, end - begin);
      Lines nodes;
      for (std::size_t first = 0, last = 0; first < package.size(); first = last) {
        last = end_of_run(package, first, &Core::numa);
        frame(nodes, fmt::format("NUMA node {}", package[first].numa),
              node_lines(package.subspan(first, last - first), inner));
      }
      frame(packages, fmt::format("package {}", package[0].package), nodes);
    }
    std::string title = title_of(host);
    if (title.size() > inner) title = title.substr(0, inner - 3) + "...";
    frame(lines, title, packages);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace diji::tools
