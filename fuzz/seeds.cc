// fuzz_seeds FOLDER: writes the seeds of each reader to FOLDER/<reader>, as the initial corpus of libFuzzer.

#include <filesystem>
#include <iostream>

#include "fuzz/input.h"
#include "fuzz/readers.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  for (const qkv::fuzz::Reader* reader : qkv::fuzz::readers()) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / reader->name;
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const std::string& seed : reader->seeds())
      qkv::fuzz::write(folder / ("seed-" + std::to_string(number++)), seed);
    std::cout << reader->name << ' ' << number << '\n';
  }
}
