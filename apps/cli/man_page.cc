#include "apps/cli/man_page.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

// Escapes text for troff: backslashes, accents and hyphens to be copied, and control characters at the
// beginning of a line.
std::string escaped(std::string_view text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    begins = c == '\n';
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      case '"':
        result += "\\(dq";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Lines of text; indented ones are kept verbatim.
void write_text(std::ostream& out, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) {
      out << ".PP\n";
    } else if (indent > 0) {
      out << ".br\n\\ \\ " << escaped(line.substr(indent)) << "\n.br\n";
    } else {
      out << escaped(line) << '\n';
    }
  }
}

void write_option(std::ostream& out, const DeclaredOption& option) {
  out << ".TP\n";
  for (const std::string& name : option.names)
    out << (&name == &option.names.front() ? "" : ", ") << "\\fB" << escaped(name) << "\\fR";
  if (!option.type.empty() && !option.is_argument()) out << " \\fI" << escaped(option.type) << "\\fR";
  if (option.repeated) out << " ...";
  out << '\n';
  write_text(out, option.help);
  if (option.required) out << "(required)\n";
  if (!option.default_text.empty()) out << "(default: " << escaped(option.default_text) << ")\n";
}

void write_command(std::ostream& out, const DeclaredCommand& command, const char* heading) {
  out << heading << " \"" << escaped(command.name) << "\"\n";
  write_text(out, command.description);
  for (const DeclaredOption& option : command.options) write_option(out, option);
  if (!command.examples.empty())
    out << ".PP\nExample:\n.PP\n.in +4n\n.EX\n" << escaped(command.examples) << ".EE\n.in\n";
  if (!command.remarks.empty()) {
    out << ".PP\n";
    write_text(out, command.remarks);
  }
}

constexpr const char* kStatus = R"(.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
A failure, named on standard error. Of commands that read lines: some lines failed.
.TP
.B 2
A wrong command line.
.TP
.BR 129 ", " 130 ", " 143
Stopped by SIGHUP, SIGINT or SIGTERM, after saving.
)";

}  // namespace

std::string man_page(const std::vector<DeclaredCommand>& commands, const std::string& version) {
  const DeclaredCommand& program = commands.front();
  std::ostringstream out;
  out << ".TH " << upper(program.name) << " 1 \"\" \"" << escaped(concat(program.name, " ", version))
      << "\" \"User Commands\"\n"
      << ".SH NAME\n"
      << escaped(program.name) << " \\- train, run and look into Transformers\n"
      << ".SH SYNOPSIS\n.B " << escaped(program.name) << "\n.I COMMAND\n[\\fIOPTIONS\\fR]\n"
      << ".SH DESCRIPTION\n"
      << "Results go to standard output, messages to standard error.\n"
      << ".SH OPTIONS\n";
  for (const DeclaredOption& option : program.options) write_option(out, option);
  out << ".SH COMMANDS\n";
  for (const DeclaredCommand& command : commands) {
    if (&command != &program) write_command(out, command, ".SS");
  }
  out << kStatus << ".SH EXAMPLES\n.EX\n" << escaped(program.examples) << ".EE\n";
  return out.str();
}

}  // namespace qkv::apps
