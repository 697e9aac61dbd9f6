//! The options of `valvehouse new`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use valvehouse_core::filter::Hook;
use valvehouse_script::Kind;

/// The options of `valvehouse new`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse new filter house_style           filters/house_style.rhai and its test
  valvehouse new filter mask --hook stream    a filter for streamed answers
  valvehouse new tool temperature             tools/temperature.rhai and its test
  valvehouse new action word_count            actions/word_count.rhai and its test
  valvehouse new pipe council                 filters/council.rhai, a model, and its test
  valvehouse new module words                 filters/lib/words.rhai, for scripts to import
  valvehouse new module words --in tools      the same for tools
  valvehouse new project gateway              a folder with settings, a filter and a tool
  valvehouse new --list                       list the shipped scripts
  valvehouse new filter mask --from redact    a copy of a shipped script and its test

Existing files are not changed; --force replaces them.")]
pub struct NewOptions {
    /// Create this kind of file
    #[arg(value_name = "WHAT", required_unless_present = "list")]
    pub what: Option<NewKind>,
    /// Set its name (a-z, 0-9, _ and -), or the folder of a project
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Create a filter with this hook
    #[arg(long, value_name = "HOOK", conflicts_with = "from", value_parser = hook())]
    pub hook: Option<Hook>,
    /// Copy this shipped script; without a name, list them
    #[arg(long, value_name = "EXAMPLE", num_args = 0..=1, default_missing_value = "")]
    pub from: Option<String>,
    /// List the shipped scripts
    #[arg(long, conflicts_with_all = ["from", "hook", "name", "force"])]
    pub list: bool,
    /// Print the list as a Markdown page
    #[arg(long, requires = "list")]
    pub markdown: bool,
    /// Create the module for the scripts of this folder
    #[arg(long = "in", value_name = "FOLDER", value_parser = folder())]
    pub place: Option<Kind>,
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
}

/// The kind of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    /// A script that reads and changes requests and answers
    Filter,
    /// A script that models can call
    Tool,
    /// A script behind a button under messages
    Action,
    /// A script that clients can choose as a model
    Pipe,
    /// Functions that scripts import
    Module,
    /// A folder with settings, a filter and a tool
    Project,
}

fn hook() -> impl TypedValueParser<Value = Hook> {
    PossibleValuesParser::new(Hook::ALL.map(Hook::name))
        .try_map(|name| Hook::from_name(&name).ok_or("unknown hook"))
}

fn folder() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::folder))
        .try_map(|name| Kind::ALL.into_iter().find(|kind| kind.folder() == name).ok_or("unknown folder"))
}

impl NewOptions {
    /// Returns `true` if the shipped scripts are only listed.
    pub(super) fn only_lists(&self) -> bool {
        self.list || self.from.as_deref() == Some("")
    }
}
