//! Commands, which are lines that begin with a colon.

use valvehouse_core::text::nearest;

/// The names of the commands.
pub(super) const NAMES: [&str; 10] =
    ["help", "load", "body", "hook", "valves", "variables", "plugins", "functions", "doc", "quit"];

/// A parsed command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Load(String),
    /// Sets the body, or shows the current one.
    Body(Option<String>),
    Hook(String),
    Valves,
    Variables,
    Plugins,
    Functions(String),
    Doc(String),
    Quit,
}

impl Command {
    /// Parses a line without its colon. The error is the reason why it is invalid.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let needs = |what: &str| match rest.is_empty() {
            true => Err(format!(":{word} needs {what}")),
            false => Ok(rest.to_owned()),
        };
        Ok(match word {
            "help" | "h" | "?" => Self::Help,
            "load" | "l" => Self::Load(needs("a file or the id of a plugin")?),
            "body" | "b" => Self::Body((!rest.is_empty()).then(|| rest.to_owned())),
            "hook" => Self::Hook(needs("the name of a hook: :hook inlet")?),
            "valves" => Self::Valves,
            "variables" | "vars" => Self::Variables,
            "plugins" => Self::Plugins,
            "functions" => Self::Functions(rest.to_owned()),
            "doc" => Self::Doc(needs("the name of a function: :doc regex::find")?),
            "quit" | "q" | "exit" => Self::Quit,
            _ => {
                let hint = match nearest(word, NAMES) {
                    Some(near) => format!("; did you mean :{near}?"),
                    None => "; :help shows them".to_owned(),
                };
                return Err(format!("unknown command :{word}{hint}"));
            }
        })
    }
}

/// The help text of the commands.
pub(super) const HELP: &str = "\
:load FILE|ID            load the functions, valves and state of a script
:body FILE|JSON|TEXT     set `body`; without an argument, show it
:hook inlet              run a hook of the script on `body` and show its changes
:valves                  show the script's valves
:variables               show all variables
:plugins                 list the plugins of the project
:functions TEXT          list the functions with this text in their names
:doc regex::find         show the documentation of a function
:quit                    quit, as Ctrl-D does
Any other input is run as a line of a script; its declarations stay.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repl_commands_are_parsed_with_their_arguments() {
        assert_eq!(Command::read("load filters/a b.rhai "), Ok(Command::Load("filters/a b.rhai".into())));
        assert_eq!(Command::read("body"), Ok(Command::Body(None)));
        assert_eq!(Command::read("q"), Ok(Command::Quit));
        assert!(Command::read("hook").unwrap_err().contains(":hook inlet"));
        assert!(Command::read("valvs").unwrap_err().contains(":valves"));
    }
}
