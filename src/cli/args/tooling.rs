//! The commands for who writes scripts and sets up an editor.

use clap::Args;
#[cfg(feature = "workbench")]
use std::num::NonZeroUsize;
use std::path::PathBuf;
#[cfg(feature = "workbench")]
use valvehouse_workbench::{repl::ReplOptions, test::TestOptions};

/// `valvehouse completions`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse completions bash > ~/.local/share/bash-completion/completions/valvehouse
  valvehouse completions zsh > ~/.zfunc/_valvehouse
  valvehouse completions fish > ~/.config/fish/completions/valvehouse.fish")]
pub(in crate::cli) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(in crate::cli) shell: clap_complete::Shell,
}

/// `valvehouse definitions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse definitions                      into .valvehouse/definitions of the project
  valvehouse definitions ~/rhai/definitions
  valvehouse definitions --reference          the page about all of them, as Markdown
  valvehouse definitions --format json | jq -r '.files[]'

The files are Rhai's definition files, for editors that read them; for others there is
valvehouse lsp. Existing files of the same names are written anew.")]
pub(in crate::cli) struct Definitions {
    /// The folder to write to
    #[arg(value_name = "DIR", conflicts_with = "reference")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Print the page about everything that scripts may use
    #[arg(long)]
    pub(in crate::cli) reference: bool,
}

/// `valvehouse explain-code`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse explain-code                     all codes
  valvehouse explain-code V502                what it means, how it is wrong and how it is right
  valvehouse explain-code V502 --format json | jq -r .page

The codes stand in brackets in what valvehouse check tells. Needs no project.")]
pub(in crate::cli) struct ExplainCode {
    /// The code; all of them are listed where none is named
    pub(in crate::cli) code: Option<String>,
}

/// `valvehouse lsp`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse lsp                              an editor starts it, and speaks to it over stdin and stdout

Problems as valvehouse check tells them, completion, hover, definitions, outlines. Set up as
docs/editors.md says. No script is run but what lists a file's tools.")]
pub(in crate::cli) struct Lsp {
    /// Taken and ignored: editors pass it
    #[arg(long, hide = true)]
    pub(in crate::cli) stdio: bool,
}

/// `valvehouse repl`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse repl                             try functions of the host
  valvehouse repl --plugin redact             with the functions, valves and state of a script
  valvehouse repl --live --plugin weather     hosts and models are really asked, kv is really written
  echo 'text::words(\"a b c\").len()' | valvehouse repl

Each line is run as a script would be, and what it declares stays. `body` is a small conversation. What is
open at the end of a line goes on in the next. Files are read again when they change. Lines that begin
with a colon are commands:
  :help                    these
  :load FILE|ID            the functions, valves and state of a script
  :body FILE|JSON|TEXT     another body; without one it is shown
  :hook inlet              a hook of the script on `body`, and what that changes
  :valves                  the script's valves, and where they come from
  :variables               what there is
  :plugins                 the plugins of the project
  :functions TEXT          the functions with this text in their names
  :doc regex::find         what a function does
  :quit                    the end; so is Ctrl-D, while Ctrl-C clears the line or ends what runs

As long as --live is not given, no other host, file or program is reached, no model is asked, and what is
put into kv is forgotten. Exit code 1: lines came from elsewhere than a terminal, and one failed.")]
pub(in crate::cli) struct Repl {
    /// The script to begin with: the id of a plugin, or a file
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) plugin: Option<String>,
    /// The id of the user who asks
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// Let lines reach what the script may reach, and keep what it keeps
    #[arg(long)]
    pub(in crate::cli) live: bool,
}

/// `valvehouse test`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse test                             all tests of filters/ and tools/
  valvehouse test filters/turn_limit.rhai     those of one script; its test file does as well
  valvehouse test turn_limit weather          by id
  valvehouse test --filter refused            those with that in their name
  valvehouse test --coverage                  and which hooks and lines they reach
  valvehouse test --update                    what assert_golden compares with is written anew
  valvehouse test --junit target/tests.xml    for the page of a CI

The tests of filters/turn_limit.rhai are in filters/turn_limit.test.rhai: functions `fn test_…()` that call
the script's hooks and look at what became of the values. Each runs by itself, with a map for kv and a clock
of its own. Nothing outside is reached: models, hosts, people and files answer what the test laid out.
The script's budgets are those of the project; its valves are as the script declares them, whatever is
configured or stored.

Exit code 1: a test failed; 65: a file does not compile; 2: there is no such test.")]
pub(in crate::cli) struct Test {
    /// Test files, scripts, folders or ids; everything where none is named
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// Only tests with this in their name
    #[arg(long, short, value_name = "TEXT")]
    pub(in crate::cli) filter: Option<String>,
    /// Write what assert_golden compares with, as the values are now
    #[arg(long)]
    pub(in crate::cli) update: bool,
    /// Show which hooks, tools and lines of the scripts the tests reach
    #[arg(long)]
    pub(in crate::cli) coverage: bool,
    /// So many at a time; without it as many as there are processors
    #[arg(long, short, value_name = "N")]
    pub(in crate::cli) jobs: Option<NonZeroUsize>,
    /// Write what came of them into this file, as JUnit's XML
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) junit: Option<PathBuf>,
    /// Show what tests print that pass, too
    #[arg(long)]
    pub(in crate::cli) show_output: bool,
}

#[cfg(feature = "workbench")]
impl From<Repl> for ReplOptions {
    fn from(Repl { plugin, user, live }: Repl) -> Self {
        Self { plugin, user, live }
    }
}

#[cfg(feature = "workbench")]
impl From<Test> for TestOptions {
    fn from(test: Test) -> Self {
        let Test { paths, filter, update, coverage, jobs, junit, show_output } = test;
        Self { paths, filter, update, coverage, jobs, junit, show_output }
    }
}
