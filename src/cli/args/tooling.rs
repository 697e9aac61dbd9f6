//! The commands for script authors and editors.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
#[cfg(feature = "workbench")]
use std::num::NonZeroUsize;
use std::path::PathBuf;
#[cfg(feature = "workbench")]
use valvehouse_workbench::{fmt::FmtOptions, repl::ReplOptions, test::TestOptions};

/// `valvehouse completions`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse completions bash > ~/.local/share/bash-completion/completions/valvehouse
  valvehouse completions zsh > ~/.zfunc/_valvehouse
  valvehouse completions fish > ~/.config/fish/completions/valvehouse.fish")]
pub(in crate::cli) struct Completions {
    /// Print the script for this shell
    #[arg(value_name = "SHELL")]
    pub(in crate::cli) shell: clap_complete::Shell,
}

/// `valvehouse definitions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse definitions                      write to .valvehouse/definitions of the project
  valvehouse definitions ~/rhai/definitions
  valvehouse definitions --reference          the reference of all functions, as Markdown
  valvehouse definitions --format json | jq -r '.files[]'

Writes Rhai definition files for editors that support them; other editors use valvehouse lsp.
Existing files of the same names are replaced.")]
pub(in crate::cli) struct Definitions {
    /// Write to this folder
    #[arg(value_name = "DIR", conflicts_with = "reference")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Print the reference of all functions and fields of scripts
    #[arg(long)]
    pub(in crate::cli) reference: bool,
}

/// `valvehouse fmt`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse fmt                              format all scripts of filters/, tools/ and actions/
  valvehouse fmt filters/turn_limit.rhai      one file; folders work too
  valvehouse fmt --check                      change nothing; list the files that are not formatted
  valvehouse fmt - < draft.rhai               format stdin, for editors

Sets indentation, spaces between tokens and blank lines. Lines are neither joined nor split; comments
and texts keep their bytes. A formatted file is not changed by a second run.

Exit codes: 1 --check found a file that is not formatted, 65 a bracket, text or comment is not closed.")]
pub(in crate::cli) struct Fmt {
    /// Format these files and folders; - for stdin [default: filters/, tools/ and actions/]
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// List the files that are not formatted and change nothing
    #[arg(long)]
    pub(in crate::cli) check: bool,
}

#[cfg(feature = "workbench")]
impl From<Fmt> for FmtOptions {
    fn from(fmt: Fmt) -> Self {
        let Fmt { paths, check } = fmt;
        Self { paths, check }
    }
}

/// `valvehouse lsp`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse lsp                              started by an editor; uses stdin and stdout

Provides the problems of valvehouse check, completion, hover, definitions and outlines. See
docs/editors.md for the setup. Scripts are not run, except functions that list a file's tools.")]
pub(in crate::cli) struct Lsp {
    /// Accept this flag of editors, which has no effect
    #[arg(long, hide = true)]
    pub(in crate::cli) stdio: bool,
}

/// `valvehouse repl`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse repl                             evaluate functions of the host
  valvehouse repl --plugin redact             with the functions, valves and state of a script
  valvehouse repl --live --plugin weather     with real requests to hosts and models, and real kv writes
  echo 'text::words(\"a b c\").len()' | valvehouse repl

Each line runs like a script; its declarations stay. `body` is a small conversation. An incomplete line
continues on the next. Changed files are reloaded. Lines that begin with a colon are commands:
  :help                    list these commands
  :load FILE|ID            load the functions, valves and state of a script
  :body FILE|JSON|TEXT     set the body; without an argument, show it
  :hook inlet              run a hook of the script on `body` and show its changes
  :valves                  show the script's valves and their sources
  :variables               list the variables
  :plugins                 list the plugins of the project
  :functions TEXT          list functions with this text in their names
  :doc regex::find         explain a function
  :quit                    quit, like Ctrl-D; Ctrl-C clears the line or stops the running one

Without --live, scripts access no other host, file, program or model, and kv writes are discarded.
Exit code 1: the input is not a terminal, and a line failed.")]
pub(in crate::cli) struct Repl {
    /// Load this script: the id of a plugin, or a file
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) plugin: Option<String>,
    /// Set the id of the user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) user: Option<String>,
    /// Use the script's grants, and store its writes
    #[arg(long)]
    pub(in crate::cli) live: bool,
}

/// `valvehouse test`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse test                             all tests of filters/ and tools/
  valvehouse test filters/turn_limit.rhai     tests of one script; the test file's path works too
  valvehouse test turn_limit weather          by id
  valvehouse test --filter refused            tests with this text in their names
  valvehouse test --coverage                  show the hooks and lines that they reach
  valvehouse test --update                    rewrite the files of assert_golden
  valvehouse test --junit target/tests.xml    write a report for CI

The tests of filters/turn_limit.rhai are in filters/turn_limit.test.rhai: functions `fn test_…()` that call
the script's hooks and check the results. Each runs in isolation, with its own kv and clock. Nothing
outside is accessed: the test defines the answers of models, hosts, people and files. The script has the
project's budgets and the default values of its valves.

Exit codes: 1 a test failed, 65 a file does not compile, 2 no such test.")]
pub(in crate::cli) struct Test {
    /// Run these test files, scripts, folders or ids [default: all]
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// Run only tests with this text in their names
    #[arg(long, short, value_name = "TEXT")]
    pub(in crate::cli) filter: Option<String>,
    /// Rewrite the files of assert_golden with the current values
    #[arg(long)]
    pub(in crate::cli) update: bool,
    /// Show the hooks, tools and lines of the scripts that the tests reach
    #[arg(long)]
    pub(in crate::cli) coverage: bool,
    /// Set the number of parallel test workers [default: number of CPUs]
    #[arg(long, short, value_name = "N")]
    pub(in crate::cli) jobs: Option<NonZeroUsize>,
    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) junit: Option<PathBuf>,
    /// Show the output of passing tests too
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
