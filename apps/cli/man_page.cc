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
      case '|':  // a long list of choices may be broken here
        result += "|\\:";
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

// "qkv-train-lm".
std::string page_name(const DeclaredCommand& command) {
  std::string name = command.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string reference(const DeclaredCommand& command) {
  return concat("\\fB", escaped(page_name(command)), "\\fR(1)");
}

void write_synopsis(std::ostream& out, const DeclaredCommand& command, bool has_commands) {
  out << ".SH SYNOPSIS\n.B " << escaped(command.name) << '\n';
  if (has_commands) out << ".I COMMAND\n";
  for (const DeclaredOption& option : command.options) {
    if (!option.is_argument()) continue;
    const std::string name =
        concat("\\fI", escaped(option.names.front()), option.repeated ? " ..." : "", "\\fR");
    out << (option.required ? name : concat("[", name, "]")) << '\n';
  }
  out << "[\\fIOPTIONS\\fR]\n";
}

// Under their headings, each with its page.
void write_commands(std::ostream& out, const std::vector<const DeclaredCommand*>& commands) {
  if (commands.empty()) return;
  out << ".SH COMMANDS\n";
  std::string heading = commands.front()->heading;
  const bool several = heading != commands.back()->heading;
  heading.clear();
  for (const DeclaredCommand* command : commands) {
    if (several && command->heading != heading) out << ".SS \"" << escaped(command->heading) << "\"\n";
    heading = command->heading;
    out << ".TP\n" << reference(*command) << '\n' << escaped(command->summary) << '\n';
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

ManPage man_page(const std::vector<DeclaredCommand>& commands, const DeclaredCommand& command,
                 const std::string& version) {
  const DeclaredCommand& program = commands.front();
  const bool whole = &command == &program;
  const std::vector<const DeclaredCommand*> inner = subcommands_of(commands, command.name);
  std::ostringstream out;
  out << ".TH " << escaped(upper(page_name(command))) << " 1 \"\" \""
      << escaped(concat(program.name, " ", version)) << "\" \"User Commands\"\n"
      << ".SH NAME\n"
      << escaped(page_name(command)) << " \\- " << escaped(command.summary) << '\n';
  write_synopsis(out, command, !inner.empty());
  out << ".SH DESCRIPTION\n";
  write_text(out, whole ? "Results go to standard output, messages to standard error." : command.description);
  write_commands(out, inner);
  out << ".SH OPTIONS\n";
  for (const DeclaredOption& option : command.options) write_option(out, option);
  if (whole) out << kStatus;
  if (!command.examples.empty()) out << ".SH EXAMPLES\n.EX\n" << escaped(command.examples) << ".EE\n";
  if (!command.remarks.empty()) {
    out << ".SH NOTES\n";
    write_text(out, command.remarks);
  }
  if (!whole) out << ".SH SEE ALSO\n" << reference(program) << '\n';
  return {.file = page_name(command) + ".1", .text = out.str()};
}

}  // namespace qkv::apps
