//! What can be asked for of the tests of scripts.

use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `valvehouse test`
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
